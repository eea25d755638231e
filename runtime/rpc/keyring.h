// A program's credentials while it runs. They are read again when their files change, as is the list of
// revoked certificates; callers are checked against both.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include "runtime/rpc/credentials.h"

namespace tc::rpc {

// Serial numbers of revoked certificates: the first word of each line of FOLDER/revoked.txt that does not
// begin with '#'. Where there is no such file, nothing is revoked. Throws a std::runtime_error where the file
// cannot be parsed.
std::set<std::string> load_revoked(const std::string& folder);

// When one of these functions is called, the files are checked for changes, at most once a second. Where a
// changed file cannot be used, log_line says so and the old contents stay in use. Several threads may use a
// keyring.
class Keyring {
 public:
  // `credentials` come from load_credentials or insecure_credentials.
  explicit Keyring(Credentials credentials);

  Credentials now();
  // A number that grows with each change of the credentials.
  int64_t generation();
  bool is_revoked(const Certificate& certificate);
  bool insecure() const { return insecure_; }

  // Credentials with which gRPC's server asks for the present certificate before each handshake.
  std::shared_ptr<grpc::ServerCredentials> server_credentials();

 private:
  static grpc_ssl_certificate_config_reload_status fetch(void* keyring,
                                                         grpc_ssl_server_certificate_config** config);
  void look();
  void look_at_credentials();
  void look_at_revoked();

  const bool insecure_;
  std::mutex mutex_;
  Credentials credentials_;
  int64_t generation_ = 1, fetched_ = 0;
  std::string seen_;  // stamp of the files that were last tried
  std::string revoked_stamp_;
  std::set<std::string> revoked_;
  double looked_ = 0;   // seconds
  int64_t warned_ = 0;  // seconds since 1970
};

// Who calls, according to its certificate. The name is empty where the server is insecure.
struct Caller {
  std::string name;
  int64_t certificate_ends = 0;
  std::string peer;  // address and port
};

// OK where the caller's certificate has that role and a name, is valid now and is not revoked; else a status
// with a sentence that says why.
grpc::Status check_caller(const grpc::ServerContextBase& context, Keyring& keyring, Role role,
                          Caller* caller);

// The same check of the server that a client has called: empty, or why it is not the expected server.
std::string server_problem(const grpc::AuthContext& context, const Credentials& credentials, Role role,
                           const std::string& name);

// Writes to the log, for the server's administrator, that a call was refused. Returns the status.
grpc::Status log_refusal(const char* call, const Caller& caller, const grpc::Status& status);

}  // namespace tc::rpc
