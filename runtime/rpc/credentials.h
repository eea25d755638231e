// Who may talk to whom: certificates of one small authority, made by `python -m tc certs init`.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>

#include "runtime/rpc/address.h"
#include "runtime/rpc/certificate.h"

namespace tc::rpc {

// A program's own certificate and the authority it trusts, as PEM; all empty where insecure.
struct Credentials {
  bool insecure = false;
  Role role = Role::Client;
  std::string folder;
  std::string authority, certificate, key;
  Certificate own;    // what `certificate` says
  std::string stamp;  // of the files when they were read (credentials_stamp)
};

// $TC_CREDENTIALS, else $XDG_CONFIG_HOME/tc, else ~/.config/tc.
std::string default_credentials_folder();

// Reads ca.pem, ROLE.pem and ROLE.key of the folder (empty: the default one). Throws
// std::runtime_error that names the file, what is wrong with it and what to do: the certificate has
// to be valid now, of that role, with a name in it, signed by the authority, and fit its key.
Credentials load_credentials(const std::string& folder, Role role);

// Changes whenever one of the files does that load_credentials reads.
std::string credentials_stamp(const std::string& folder, Role role);

// For plain text on loopback. `address` is the one to listen at or to connect to; throws
// std::runtime_error where it is not a loopback address.
Credentials insecure_credentials(const Address& address);

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Credentials& credentials);

// "the certificate FILE ends on DAY, in N days; ...", empty where that is more than 30 days away.
std::string expiry_warning(const Credentials& credentials);
constexpr int64_t kWarnSeconds = int64_t{30} * 24 * 3600;

// The certificate that the other side of a connection showed; unnamed where it showed none that can
// be read.
Certificate peer_certificate(const grpc::AuthContext& context);

}  // namespace tc::rpc
