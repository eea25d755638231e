// A program's credentials while it runs: read again when the files change, with the list of what has
// been revoked, and the check of callers against both.
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

// Serial numbers of revoked certificates: the first word of each line of FOLDER/revoked.txt that does
// not begin with '#'. Where there is no such file, nothing is. Throws std::runtime_error where it
// cannot be understood.
std::set<std::string> load_revoked(const std::string& folder);

// Files are looked at once a second at most, whenever one of these functions is called. What cannot
// be used is said (log_line) and what was there before stays. May be used by several threads.
class Keyring {
 public:
  // `credentials` as load_credentials or insecure_credentials gave them.
  explicit Keyring(Credentials credentials);

  Credentials now();
  // Grows with each change of the credentials.
  int64_t generation();
  bool is_revoked(const Certificate& certificate);
  bool insecure() const { return insecure_; }

  // Makes gRPC's server ask for the present certificate before each handshake.
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
  std::string seen_;  // stamp of the files that were tried last
  std::string revoked_stamp_;
  std::set<std::string> revoked_;
  double looked_ = 0;   // seconds
  int64_t warned_ = 0;  // seconds since 1970
};

// Who calls: from its certificate. Without a name where the server is insecure.
struct Caller {
  std::string name;
  int64_t certificate_ends = 0;
  std::string peer;  // address and port
};

// OK where the caller's certificate has that role and a name, is valid now and not revoked; else a
// status with a sentence.
grpc::Status check_caller(const grpc::ServerContextBase& context, Keyring& keyring, Role role,
                          Caller* caller);

// The same for the server that a client has called: empty, or why it is not the one meant.
std::string server_problem(const grpc::AuthContext& context, const Credentials& credentials, Role role,
                           const std::string& name);

// Tells whoever looks after the server that a call was refused. Returns the status.
grpc::Status log_refusal(const char* call, const Caller& caller, const grpc::Status& status);

}  // namespace tc::rpc
