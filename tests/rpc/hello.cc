// A server, a client and a refusal in one program: shows that gRPC works when linked statically.
#include <cstdio>
#include <stdexcept>

#include <grpcpp/server.h>

#include "runtime/rpc/channel.h"
#include "runtime/rpc/tc_rpc.grpc.pb.h"
#include "runtime/rpc/version.h"

namespace tc::rpc {
namespace {

class Registry : public Tracker::Service {
  grpc::Status Devices(grpc::ServerContext*, const DevicesRequest*, DevicesReply* reply) override {
    *reply->mutable_version() = own_version();
    return grpc::Status::OK;
  }
};

int talk() {
  Address address = parse_address("127.0.0.1:0");
  const Credentials credentials = insecure_credentials(address);
  Registry service;
  grpc::ServerBuilder builder;
  Keyring keyring(credentials);
  configure_server(builder, address, keyring, &address.port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = Tracker::NewStub(make_channel(address, credentials, Role::Tracker));
  grpc::ClientContext context;
  set_deadline(context, 60);
  DevicesReply reply;
  const grpc::Status status = stub->Devices(&context, {}, &reply);
  std::printf("code %d protocol %d\n", status.error_code(), reply.version().major());
  server->Shutdown();
  try {
    parse_address("nowhere");
  } catch (const std::runtime_error& error) {
    std::printf("%s\n", error.what());
  }
  return status.ok() && reply.version().major() == kWireMajor ? 0 : 1;
}

}  // namespace
}  // namespace tc::rpc

int main() { return tc::rpc::talk(); }
