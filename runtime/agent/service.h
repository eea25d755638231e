// The agent as a gRPC service: checks callers, leases and fields, stores files, and lets the runner measure
// batches.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/server.h>

#include "runtime/agent/leases.h"
#include "runtime/agent/runner.h"
#include "runtime/agent/store.h"
#include "runtime/rpc/keyring.h"
#include "runtime/rpc/listener.h"

namespace tc::agent {

struct ServerOptions {
  std::string listen;                           // HOST:PORT (port 0: any) or unix:/PATH
  int64_t store_bytes = default_store_bytes();  // of all files; also the size of the largest file
  // The most memory that a request may allow a candidate, and that the inputs and outputs of a batch may
  // take.
  int64_t memory_bytes = int64_t{8} << 30;
};

// An agent's server, which serves from its construction to its destruction.
class Server {
 public:
  // Throws a std::runtime_error where it cannot listen at the address. The keyring has to outlive the server,
  // and to be insecure for unix:.
  Server(Runner& runner, rpc::Keyring& keyring, const ServerOptions& options);
  ~Server();

  // The address at which it listens: a host with the port that was bound, or the path.
  const std::string& address() const { return address_; }
  int port() const { return port_; }
  // From now on calls are answered; before, they are refused as too early. `leases` has to outlive the
  // server.
  void open(const rpc::DeviceInfo& device, Leases& leases);

 private:
  class Service;
  std::string address_;
  int port_ = 0;
  std::unique_ptr<Service> service_;
  std::unique_ptr<rpc::Listener> listener_;  // for a port; at a path, gRPC listens itself
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tc::agent
