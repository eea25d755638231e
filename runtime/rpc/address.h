// Addresses of trackers and agents: host and port.
#pragma once

#include <string>

namespace tc::rpc {

constexpr int kTrackerPort = 9190;

struct Address {
  std::string host;  // or unix:/PATH, a socket of this machine, with port 0
  int port = 0;

  // "host:port" as gRPC takes it, IPv6 in brackets.
  std::string text() const;
  // Whether only this machine can be meant: 127.0.0.0/8, ::1, localhost or a socket.
  bool is_loopback() const;
  bool is_socket() const;
};

// Reads `host:port`, `[::1]:port`, or a host alone, which gets `default_port` (0: a port is needed).
// Throws std::runtime_error that says what is wrong with the text and how an address looks.
Address parse_address(const std::string& text, int default_port = 0);

}  // namespace tc::rpc
