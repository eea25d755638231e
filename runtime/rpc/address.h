// Addresses of trackers and agents: host and port.
#pragma once

#include <string>

namespace tc::rpc {

constexpr int kTrackerPort = 9190;

struct Address {
  std::string host;  // or unix:/PATH for a socket of this machine, with port 0
  int port = 0;

  // "host:port" as gRPC expects it, with IPv6 addresses in brackets.
  std::string text() const;
  // Whether the address can only mean this machine: 127.0.0.0/8, ::1, localhost or a socket.
  bool is_loopback() const;
  bool is_socket() const;
};

// Reads `host:port`, `[::1]:port`, or a host without a port, which gets `default_port` (0: a port is needed).
// Throws a std::runtime_error that says what is wrong with the text and what an address looks like.
Address parse_address(const std::string& text, int default_port = 0);

}  // namespace tc::rpc
