// The agent as a gRPC service: checks callers, leases and fields, keeps files, has batches measured.
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
  std::string listen;                      // HOST:PORT (port 0: any) or unix:/PATH
  int64_t store_bytes = int64_t{1} << 30;  // of files, and the largest file
  // Most that a candidate may ask for, and most that the inputs and outputs of a batch may take.
  int64_t memory_bytes = int64_t{8} << 30;
};

// An agent that serves from its construction to its end.
class Server {
 public:
  // Throws std::runtime_error where it cannot listen there. The keyring outlives this, and is insecure
  // for unix:.
  Server(Runner& runner, rpc::Keyring& keyring, const ServerOptions& options);
  ~Server();

  // Where it listens: a host and the port bound, or the path.
  const std::string& address() const { return address_; }
  int port() const { return port_; }
  // From now on calls are answered; before, they are refused as too early. `leases` outlives this.
  void open(const rpc::DeviceInfo& device, Leases& leases);

 private:
  class Service;
  std::string address_;
  int port_ = 0;
  std::unique_ptr<Service> service_;
  std::unique_ptr<rpc::Listener> listener_;  // of a port; gRPC's own listens at a path
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tc::agent
