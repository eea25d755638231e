// Accepts a server's connections and hands them to gRPC a few at a time, so that connections which are closed
// soon, or stay silent, cost almost nothing.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/server_builder.h>

#include "runtime/rpc/address.h"

namespace tc::rpc {

// How many connections of each kind there may be. Where the process exceeds `memory`, the connection that
// sent most in the last second is closed: a stranger may start and cancel calls faster than they are
// answered.
struct ListenerLimits {
  int open = 5000;  // connections that gRPC has; less where the process may open fewer
  int fresh = 256;  // of these, those younger than `fresh_ms`, which do the TLS handshake
  int fresh_ms = 1000;
  int silent = 256;                  // that have not sent a byte yet: beyond that, the oldest is closed
  int silent_ms = 5000;              // after this time it is closed in any case
  int queued = 512;                  // that have sent data and wait for gRPC: beyond that, more are closed
  size_t memory = size_t{48} << 20;  // of the process, in addition to 64 KiB for each open connection
  // Size of the kernel's receive buffer for a connection; 0 takes the kernel's default, for servers that
  // receive files. gRPC reads all available data before it answers any call, and each call takes memory: with
  // a buffer of a few kilobytes it answers calls as fast as they arrive.
  int receive_bytes = 4096;
};

class Listener {
 public:
  // Binds to the address; port 0 means any free port. Throws a std::runtime_error where it cannot.
  explicit Listener(const Address& address, const ListenerLimits& limits = {});
  // Closes the connections that gRPC does not have yet.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }
  // From now on, hands connections to the acceptor of a server that has started.
  void start(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor);
  // Once this returns, no more connections are handed over.
  void stop();

 private:
  // A connection that gRPC does not have yet.
  struct Pending {
    int descriptor;
    int64_t since;  // milliseconds of the monotonic clock
  };

  // A connection that gRPC has.
  struct Open {
    int64_t since;       // when it was handed over
    uint64_t noted = 0;  // bytes received until the last sweep()
  };

  void bind_to(const Address& address);
  int listen_at(const sockaddr* where, socklen_t size) const;
  void serve();
  void accept_some(int listening, int64_t now);
  void on_event(int descriptor, uint32_t events, int64_t now);
  void hand_over(int64_t now);
  // Forgets the connections that gRPC has closed, and notes how much each of the others has sent.
  void sweep(int64_t now);
  // Where too much memory is in use, closes the connection that sent most.
  void shed();
  void drop(int descriptor);
  void refuse(int descriptor, const std::string& why);

  const ListenerLimits limits_;
  int port_ = 0;
  int poll_ = -1, wake_ = -1;
  std::vector<int> listening_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::deque<Pending> silent_, queued_;
  std::map<int, Open> open_;  // by descriptor
  int64_t swept_ = 0;
  std::thread thread_;
};

}  // namespace tc::rpc
