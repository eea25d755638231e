// Decides who may talk to whom, by certificates of one small authority, which `python -m tc certs init`
// makes.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>

#include "runtime/rpc/address.h"
#include "runtime/rpc/certificate.h"

namespace tc::rpc {

// A program's own certificate and the authority that it trusts, as PEM texts; all of them empty where
// insecure.
struct Credentials {
  bool insecure = false;
  Role role = Role::Client;
  std::string folder;
  std::string authority, certificate, key;
  Certificate own;    // the contents of `certificate`
  std::string stamp;  // of the files when they were read (credentials_stamp)
};

// $TC_CREDENTIALS, else $XDG_CONFIG_HOME/tc, else ~/.config/tc.
std::string default_credentials_folder();

// Reads ca.pem, ROLE.pem and ROLE.key of the folder (empty: the default one). The certificate has to be valid
// now, have that role and a name, be signed by the authority, and match its key. Otherwise throws a
// std::runtime_error that names the file, what is wrong with it and what to do.
Credentials load_credentials(const std::string& folder, Role role);

// A text that changes whenever one of the files changes that load_credentials reads.
std::string credentials_stamp(const std::string& folder, Role role);

// Credentials for plain text. `address` is the one to listen at or to connect to; throws a std::runtime_error
// where it is not a loopback address.
Credentials insecure_credentials(const Address& address);

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Credentials& credentials);

// "the certificate FILE ends on DAY, in N days; ...", empty where that is more than 30 days away.
std::string expiry_warning(const Credentials& credentials);
constexpr int64_t kWarnSeconds = int64_t{30} * 24 * 3600;

// The certificate that the other side of a connection presented; without a name where it presented none that
// can be parsed.
Certificate peer_certificate(const grpc::AuthContext& context);

}  // namespace tc::rpc
