// Devices, credentials and calls for tests of the tracker.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "runtime/rpc/address.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/credentials.h"
#include "runtime/rpc/tc_rpc.grpc.pb.h"

namespace tc::rpc {

// An announcement as an agent makes it.
AnnounceRequest announcement(const std::string& name, const std::string& session,
                             const std::string& architecture = "riscv64",
                             const std::string& features = "v zvl128b");

// A request for a riscv64 device with V.
AcquireRequest wish(int wait_ms = 0, const std::string& client = "ann@desk");

// What a certificate of a test's own says.
struct Issue {
  Role role = Role::Agent;
  std::string name;                                   // empty: none, as earlier versions made them
  std::string begins = "-1 days", ends = "100 days";  // from now
  std::string hosts = "DNS:localhost,IP:127.0.0.1";
};

// A folder of credentials of an authority of its own, made by openssl and removed at the end. In it are
// the tracker 'tracker', the agent 'a' and the client 'ann'.
class Authority {
 public:
  Authority();
  ~Authority();
  const std::string& folder() const { return folder_; }
  Credentials credentials(Role role) const { return load_credentials(folder_, role); }
  // Issues one more, in a new folder within this one; returns the folder.
  std::string issue(const Issue& issue) const;
  Credentials agent(const std::string& name) const {
    return load_credentials(this->issue({Role::Agent, name}), Role::Agent);
  }
  Credentials client(const std::string& name) const {
    return load_credentials(this->issue({Role::Client, name}), Role::Client);
  }

 private:
  void make(const std::string& folder, const Issue& issue) const;
  std::string folder_;
  mutable int issued_ = 0;
};

// The files of a folder as they are, where load_credentials would refuse them.
Credentials unchecked_credentials(const std::string& folder, Role role);

// Puts the serial number of the folder's certificate into a list of revoked ones.
void revoke(const std::string& list_folder, const std::string& folder, Role role);

// The one that the tests of a program share, made when it is first asked for.
const Authority& authority();

std::unique_ptr<Tracker::Stub> stub_for(const Address& tracker, const Credentials& credentials);

// One call of a stub with a deadline of 10 s.
template <class Method, class Request, class Reply>
grpc::Status call(Tracker::Stub& stub, const Method& method, const Request& request, Reply* reply) {
  grpc::ClientContext context;
  set_deadline(context, 10);
  return (stub.*method)(&context, request, reply);
}

// Text of the error that `call` throws; empty where it throws none.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tc::rpc
