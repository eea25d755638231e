// Making channels and servers alike everywhere: limits on messages, deadlines, clear sentences.
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

constexpr int kMostMessageBytes = 4 << 20;
constexpr int kMostChunkBytes = 1 << 20;
constexpr int kMostCallsPerConnection = 100;

// A channel to a tracker or an agent. A tracker's certificate has to name the address's host; an
// agent's its device, called `name`, since boards change their addresses.
std::shared_ptr<grpc::Channel> make_channel(const Address& address, const Credentials& credentials, Role peer,
                                            const std::string& name = "");

// Sets the limits that all servers have.
void limit_server(grpc::ServerBuilder& builder);

// Where a server listens that is asked to listen at the address: in plain text, `localhost` is loopback
// alone.
Address bound_address(const Address& address, const Keyring& keyring);

// Sets limits and the port to listen at: `*port` is the one bound once the server is built, 0 where
// that failed. The keyring outlives the server.
void configure_server(grpc::ServerBuilder& builder, const Address& address, Keyring& keyring, int* port);

// Starts the server, held to the quota. `where` is for the text of the std::runtime_error where it
// cannot listen; `port` as configure_server sets it.
std::unique_ptr<grpc::Server> start_server(grpc::ServerBuilder& builder, grpc::Service& service,
                                           const grpc::ResourceQuota& quota, const std::string& where,
                                           const int& port);

// Every call gets one of these before it starts.
void set_deadline(grpc::ClientContext& context, double seconds);

// What a failed call means and what to do, as one sentence without a full stop. `peer_name` is for
// people ("the tracker"); it may look at the address for a moment (2 s at most) to find out more.
std::string explain(const grpc::Status& status, const std::string& peer_name, const Address& address,
                    const Credentials& credentials);

}  // namespace tc::rpc
