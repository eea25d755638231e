// Accepts a server's connections and hands them to gRPC a few at a time, so that those that come and go, or
// come and say nothing, cost next to nothing.
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

// How many connections of each kind there may be. Beyond the memory, the connection that sent most in the
// last second is closed: a stranger may begin calls and take them back faster than they are answered.
struct ListenerLimits {
  int open = 5000;  // connections that gRPC has, or what the process may open where that is less
  int fresh = 256;  // of these, those younger than `fresh_ms`: they shake hands
  int fresh_ms = 1000;
  int silent = 256;                  // that have not sent a byte yet: the oldest has to go
  int silent_ms = 5000;              // then it has to go anyhow
  int queued = 512;                  // that have sent one and wait for a place: no more are taken
  size_t memory = size_t{48} << 20;  // of the process, beside 64 KiB for each that is open
  // What the kernel keeps of a connection's bytes, 0: what it thinks fit, for files. gRPC reads all that
  // there is before it answers any call, and each call is memory: a few kilobytes at a time leave it to
  // answer as fast as it is asked.
  int receive_bytes = 4096;
};

class Listener {
 public:
  // Binds to the address, port 0: any. Throws std::runtime_error where it cannot.
  explicit Listener(const Address& address, const ListenerLimits& limits = {});
  // Ends the connections that gRPC does not have yet.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }
  // Hands what comes from here on to the acceptor of a server that has started.
  void start(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor);
  // No connection is handed over any more once this returns.
  void stop();

 private:
  // A connection that gRPC does not have yet.
  struct Pending {
    int descriptor;
    int64_t since;  // milliseconds of a clock that only goes forward
  };

  // One that it has.
  struct Open {
    int64_t since;       // it was handed over
    uint64_t noted = 0;  // bytes that had come within the last second or so
  };

  void bind_to(const Address& address);
  int listen_at(const sockaddr* where, socklen_t size) const;
  void serve();
  void accept_some(int listening, int64_t now);
  void on_event(int descriptor, uint32_t events, int64_t now);
  void hand_over(int64_t now);
  // Forgets those of gRPC's connections that it has closed, and notes what the others have sent.
  void sweep(int64_t now);
  // Closes a connection that fills the memory.
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
