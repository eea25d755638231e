// Who may talk to whom: certificates of one small authority, made by `python -m tc certs init`.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include "runtime/rpc/address.h"

namespace tc::rpc {

// What a program is to the others; its certificate's common name is "tc-" and the role's name.
enum class Role { Tracker, Agent, Client };
const char* name_of(Role role);

// A program's own certificate and the authority it trusts, as PEM; all empty where insecure.
struct Credentials {
  bool insecure = false;
  std::string folder;
  std::string authority, certificate, key;
};

// $TC_CREDENTIALS, else $XDG_CONFIG_HOME/tc, else ~/.config/tc.
std::string default_credentials_folder();

// Reads ca.pem, ROLE.pem and ROLE.key of the folder (empty: the default one). Throws
// std::runtime_error that names the file, what is wrong with it and what to do.
Credentials load_credentials(const std::string& folder, Role role);

// For plain text on loopback. `address` is the one to listen at or to connect to; throws
// std::runtime_error where it is not a loopback address.
Credentials insecure_credentials(const Address& address);

// Credentials of a server: callers need a certificate of the same authority.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const Credentials& credentials);

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Credentials& credentials);

// Whether the caller's certificate has that role; every caller has where the server, whose
// credentials these are, is insecure.
bool caller_is(const grpc::ServerContextBase& context, const Credentials& server, Role role);

}  // namespace tc::rpc
