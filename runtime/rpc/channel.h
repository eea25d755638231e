// Makes channels and servers in one way everywhere: with limits on messages, deadlines and clear error texts.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "runtime/rpc/address.h"
#include "runtime/rpc/credentials.h"
#include "runtime/rpc/keyring.h"

namespace tc::rpc {

constexpr int kMaxMessageBytes = 4 << 20;
constexpr int kMaxChunkBytes = 1 << 20;
constexpr int kMaxCallsPerConnection = 100;

// A channel to a tracker or an agent. A tracker's certificate has to name the address's host. An agent's
// certificate has to name its device, `name`, since boards change their addresses.
std::shared_ptr<grpc::Channel> make_channel(const Address& address, const Credentials& credentials, Role peer,
                                            const std::string& name = "");

// Sets the limits that all servers have.
void limit_server(grpc::ServerBuilder& builder);

// The address at which a server really listens when it is asked to listen at `address`: in plain text,
// `localhost` becomes the loopback address.
Address bound_address(const Address& address, const Keyring& keyring);

// Sets the limits, and the address to listen at. Once the server is built, `*port` is the port that was
// bound, or 0 where binding failed. The keyring has to outlive the server.
void configure_server(grpc::ServerBuilder& builder, const Address& address, Keyring& keyring, int* port);

// Starts the server, limited by the quota. Throws a std::runtime_error that mentions `where` if it cannot
// listen; `port` is the one that configure_server sets.
std::unique_ptr<grpc::Server> start_server(grpc::ServerBuilder& builder, grpc::Service& service,
                                           const grpc::ResourceQuota& quota, const std::string& where,
                                           const int& port);

// To be called for every call before it starts.
void set_deadline(grpc::ClientContext& context, double seconds);

// What a failed call means and what to do, as one sentence without a full stop. `peer_name` is what messages
// call the peer ("the tracker"). May connect to the address (for at most 2 s) to find out more.
std::string explain(const grpc::Status& status, const std::string& peer_name, const Address& address,
                    const Credentials& credentials);

}  // namespace tc::rpc
