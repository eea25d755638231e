#include "runtime/rpc/address.h"

#include <cctype>
#include <stdexcept>

#include "runtime/rpc/fields.h"

namespace tc::rpc {
namespace {

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw std::runtime_error("the address '" + printable(text, 200) + "' " + why +
                           "; write HOST:PORT, as in board7.local:9190, 127.0.0.1:9190 or "
                           "[::1]:9190");
}

bool is_host(const std::string& host) {
  if (host.empty() || host.size() > 253) return false;
  for (const char c : host)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') return false;
  return true;
}

bool is_ipv6(const std::string& host) {
  if (host.find(':') == std::string::npos || host.size() > 64) return false;
  for (const char c : host)
    if (!std::isxdigit(static_cast<unsigned char>(c)) && c != ':' && c != '.') return false;
  return true;
}

}  // namespace

bool Address::is_socket() const { return host.compare(0, 6, "unix:/") == 0; }

std::string Address::text() const {
  if (is_socket()) return host;
  const std::string written = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return written + ":" + std::to_string(port);
}

bool Address::is_loopback() const {
  if (is_socket() || host == "localhost" || host == "::1") return true;
  if (host.compare(0, 4, "127.") != 0) return false;
  // A host name may start with "127." too.
  return host.find_first_not_of("0123456789.") == std::string::npos;
}

Address parse_address(const std::string& text, int default_port) {
  Address address;
  std::string port;
  bool has_port = true;
  if (!text.empty() && text[0] == '[') {
    const size_t end = text.find(']');
    if (end == std::string::npos) refuse(text, "has no closing bracket");
    address.host = text.substr(1, end - 1);
    if (!is_ipv6(address.host)) refuse(text, "has no IPv6 address in its brackets");
    has_port = end + 1 < text.size();
    if (has_port && text[end + 1] != ':') refuse(text, "has no colon before its port");
    if (has_port) port = text.substr(end + 2);
  } else {
    const size_t colon = text.find(':');
    if (colon != text.rfind(':')) refuse(text, "has several colons (IPv6 goes in brackets)");
    has_port = colon != std::string::npos;
    address.host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
    if (!is_host(address.host))
      refuse(text, address.host.empty() ? "has no host" : "has a host with odd characters");
  }
  if (!has_port) {
    if (default_port == 0) refuse(text, "has no port");
    address.port = default_port;
    return address;
  }
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos)
    refuse(text, "has a port that is no number");
  address.port = std::stoi(port);
  if (address.port > 65535) refuse(text, "has a port above 65535");
  return address;
}

}  // namespace tc::rpc
