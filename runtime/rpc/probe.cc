#include "runtime/rpc/probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>

namespace tc::rpc {
namespace {

using Clock = std::chrono::steady_clock;

// HTTP/2's preface and empty settings: a plain-text gRPC server answers with settings of its own.
const std::string kPreface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 33);
// The header of a TLS record of 256 bytes with an invalid ClientHello: a TLS server answers with an alert or
// closes the connection; a plain-text server sends settings or closes it.
const std::string kHello("\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03", 11);

struct Socket {
  int descriptor = -1;
  ~Socket() {
    if (descriptor >= 0) close(descriptor);
  }
};

bool ready(int descriptor, short what, Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  pollfd entry{descriptor, what, 0};
  return left.count() > 0 && poll(&entry, 1, static_cast<int>(left.count())) > 0;
}

// Sends `bytes` over a new connection. Gives the first bytes of the answer, or what became of the connection.
Answer ask(const addrinfo& where, const std::string& bytes, Clock::time_point end, std::string& answer) {
  Socket socket{::socket(where.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (socket.descriptor < 0) return Answer::Silent;
  if (connect(socket.descriptor, where.ai_addr, where.ai_addrlen) != 0) {
    if (errno == ECONNREFUSED) return Answer::Refused;
    if (errno != EINPROGRESS || !ready(socket.descriptor, POLLOUT, end)) return Answer::Silent;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket.descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == ECONNREFUSED) return Answer::Refused;
    if (error != 0) return Answer::Silent;
  }
  if (send(socket.descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return Answer::Other;
  char buffer[64];
  while (answer.size() < 9 && ready(socket.descriptor, POLLIN, end)) {
    const ssize_t count = read(socket.descriptor, buffer, sizeof buffer);
    if (count <= 0) return Answer::Other;
    answer.append(buffer, static_cast<size_t>(count));
  }
  return answer.empty() ? Answer::Silent : Answer::Other;
}

// Whether someone listens at a socket of this machine.
Answer probe_socket(const std::string& path) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  if (path.size() >= sizeof where.sun_path) return Answer::NoHost;
  path.copy(where.sun_path, path.size());
  const Socket socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  return connect(socket.descriptor, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0
             ? Answer::PlainText
             : Answer::Refused;
}

}  // namespace

Answer probe(const Address& address, double seconds) {
  if (address.is_socket()) return probe_socket(address.host.substr(5));
  const Clock::time_point end =
      Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list) != 0)
    return Answer::NoHost;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, freeaddrinfo);
  Answer result = Answer::Silent;
  for (const addrinfo* where = list; where; where = where->ai_next) {
    std::string answer;
    result = ask(*where, kPreface, end, answer);
    if (result != Answer::Other) continue;
    if (answer.size() >= 9 && answer[3] == 4) return Answer::PlainText;
    if (!answer.empty()) return answer[0] == 0x15 ? Answer::Tls : Answer::Other;
    // The connection was closed without an answer: some TLS servers do that when the client does not speak
    // TLS.
    answer.clear();
    const Answer hello = ask(*where, kHello + std::string(250, '\0'), end, answer);
    if (!answer.empty()) return answer[0] == 0x15 || answer[0] == 0x16 ? Answer::Tls : Answer::Other;
    return hello == Answer::Other ? Answer::Tls : hello;
  }
  return result;
}

}  // namespace tc::rpc
