// The tracker as a gRPC service: checks callers and fields, then calls the fleet.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include <grpcpp/server.h>

#include "runtime/rpc/address.h"
#include "runtime/rpc/keyring.h"
#include "runtime/rpc/listener.h"
#include "runtime/rpc/tc_rpc.grpc.pb.h"
#include "runtime/tracker/fleet.h"

namespace tc::tracker {

// A tracker's server, which serves from its construction to its destruction.
class Server {
 public:
  // Throws a std::runtime_error where it cannot listen at the address (port 0: any free port). `audit` may be
  // null, and has to outlive the server.
  Server(const rpc::Address& address, const rpc::Credentials& credentials, FleetOptions options,
         AuditLog* audit = nullptr);
  ~Server();

  const rpc::Address& address() const { return address_; }
  Fleet& fleet() { return fleet_; }

 private:
  void serve_queue();

  rpc::Address address_;
  rpc::Keyring keyring_;
  Fleet fleet_;
  std::unique_ptr<rpc::Tracker::CallbackService> service_;
  rpc::Listener listener_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> ending_{false};
  std::thread queue_;
};

}  // namespace tc::tracker
