#include "runtime/rpc/listener.h"

#include <linux/tcp.h>
#include <malloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "runtime/rpc/log.h"

namespace tc::rpc {
namespace {

constexpr int kBacklog = 512;
constexpr int kAcceptedAtOnce = 64;
constexpr int kSweepMilliseconds = 1000;
constexpr int kDescriptorsOfOurOwn = 64;
constexpr size_t kBytesOfAConnection = 64 << 10;
// In bytes per second. An honest connection sends some hundred bytes per second.
constexpr uint64_t kMuch = 64 << 10, kLittle = 4 << 10;

int64_t milliseconds_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// How many of the wanted connections this process can have. Raises its limit of descriptors as far as the
// system permits.
int connections_allowed(int wanted) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  const auto need = static_cast<rlim_t>(wanted + kDescriptorsOfOurOwn);
  if (limit.rlim_cur < need) {
    limit.rlim_cur = std::min(need, limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  return static_cast<int>(
      std::min<rlim_t>(static_cast<rlim_t>(wanted),
                       std::max<rlim_t>(limit.rlim_cur, 2 * kDescriptorsOfOurOwn) - kDescriptorsOfOurOwn));
}

ListenerLimits allowed(ListenerLimits limits) {
  // Connections that are pending have descriptors too.
  limits.open = connections_allowed(limits.open + limits.silent + limits.queued);
  limits.open = std::max(16, limits.open - limits.silent - limits.queued);
  return limits;
}

int port_of(int descriptor) {
  sockaddr_storage where = {};
  socklen_t size = sizeof where;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&where), &size) != 0) return 0;
  return ntohs(where.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(where).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(where).sin_port);
}

void set_port(sockaddr* where, int port) {
  if (where->sa_family == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(where)->sin6_port = htons(static_cast<uint16_t>(port));
  else reinterpret_cast<sockaddr_in*>(where)->sin_port = htons(static_cast<uint16_t>(port));
}

// Bytes received over the connection since it was made.
uint64_t bytes_received(int descriptor) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  return getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

size_t memory_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void watch(int poll, int operation, int descriptor, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = descriptor;
  epoll_ctl(poll, operation, descriptor, &event);
}

}  // namespace

Listener::Listener(const Address& address, const ListenerLimits& limits) : limits_(allowed(limits)) {
  poll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  try {
    if (poll_ < 0 || wake_ < 0)
      throw std::runtime_error("the system gives no more descriptors; end other programs");
    bind_to(address);
  } catch (...) {
    for (const int descriptor : listening_) close(descriptor);
    close(poll_);
    close(wake_);
    throw;
  }
  watch(poll_, EPOLL_CTL_ADD, wake_, EPOLLIN);
}

Listener::~Listener() {
  stop();
  for (const std::deque<Pending>* all : {&silent_, &queued_})
    for (const Pending& one : *all) close(one.descriptor);
  for (const int descriptor : listening_) close(descriptor);
  close(poll_);
  close(wake_);
}

// A socket that listens at the address; -1 with errno on failure.
int Listener::listen_at(const sockaddr* where, socklen_t size) const {
  const int descriptor = socket(where->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  const int yes = 1, no = 0;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (limits_.receive_bytes > 0)  // accepted connections inherit it
    setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &limits_.receive_bytes, sizeof limits_.receive_bytes);
  if (where->sa_family == AF_INET6) setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (bind(descriptor, where, size) == 0 && listen(descriptor, kBacklog) == 0) return descriptor;
  const int error = errno;
  close(descriptor);
  errno = error;
  return -1;
}

void Listener::bind_to(const Address& address) {
  const auto fail = [&] {
    throw std::runtime_error(
        "cannot listen at " + address.text() +
        ": another program has the port, or the address is not this machine's; choose another "
        "with --listen");
  };
  // 0.0.0.0 means all addresses, including those of IPv6 where the system has it.
  if (address.host == "0.0.0.0") {
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<uint16_t>(address.port));
    if (const int descriptor = listen_at(reinterpret_cast<const sockaddr*>(&any), sizeof any);
        descriptor >= 0) {
      listening_.push_back(descriptor);
      port_ = port_of(descriptor);
      return;
    }
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list) != 0) fail();
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, freeaddrinfo);
  for (const addrinfo* where = list; where; where = where->ai_next) {
    if (port_ != 0) set_port(where->ai_addr, port_);
    const int descriptor = listen_at(where->ai_addr, where->ai_addrlen);
    if (descriptor < 0) continue;
    listening_.push_back(descriptor);
    port_ = port_of(descriptor);
  }
  if (listening_.empty()) fail();
}

void Listener::start(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor) {
  acceptor_ = std::move(acceptor);
  for (const int descriptor : listening_) watch(poll_, EPOLL_CTL_ADD, descriptor, EPOLLIN);
  thread_ = std::thread([this] { serve(); });
}

void Listener::stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  if (write(wake_, &one, sizeof one) < 0) return;
  thread_.join();
}

void Listener::serve() {
  epoll_event events[64];
  while (true) {
    const bool busy = !silent_.empty() || !queued_.empty();
    const int count = epoll_wait(poll_, events, std::size(events), busy ? 20 : -1);
    const int64_t now = milliseconds_now();
    for (int i = 0; i < count; ++i) {
      const int descriptor = events[i].data.fd;
      if (descriptor == wake_) return;
      if (std::find(listening_.begin(), listening_.end(), descriptor) != listening_.end())
        accept_some(descriptor, now);
      else on_event(descriptor, events[i].events, now);
    }
    while (!silent_.empty() && now - silent_.front().since > limits_.silent_ms)
      drop(silent_.front().descriptor);
    if (count > 0) {
      if (now - swept_ >= kSweepMilliseconds) sweep(now);
      shed();
    }
    hand_over(now);
  }
}

void Listener::accept_some(int listening, int64_t now) {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    const int descriptor = accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) {
      // Where no descriptor is free, the connection stays in the kernel's queue, and the next poll would
      // report it again immediately.
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return;
    }
    // The descriptor was closed by gRPC if its number is assigned again.
    open_.erase(descriptor);
    const int yes = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    silent_.push_back({descriptor, now});
    watch(poll_, EPOLL_CTL_ADD, descriptor, EPOLLIN | EPOLLRDHUP);
    if (static_cast<int>(silent_.size()) > limits_.silent) drop(silent_.front().descriptor);
  }
}

void Listener::on_event(int descriptor, uint32_t events, int64_t now) {
  const auto is_it = [&](const Pending& one) { return one.descriptor == descriptor; };
  const auto place = std::find_if(silent_.begin(), silent_.end(), is_it);
  if (place == silent_.end() && std::none_of(queued_.begin(), queued_.end(), is_it)) return;  // gRPC has it
  // A client that has closed the connection, or its sending side, does not wait for an answer.
  if (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) return drop(descriptor);
  if (place == silent_.end()) return;
  if (static_cast<int>(queued_.size()) >= limits_.queued)
    return refuse(descriptor, "too many connections are being made");
  silent_.erase(place);
  queued_.push_back({descriptor, now});
  watch(poll_, EPOLL_CTL_MOD, descriptor, EPOLLRDHUP);
}

void Listener::hand_over(int64_t now) {
  if (queued_.empty()) return;
  if (static_cast<int>(open_.size()) >= limits_.open) sweep(now);
  auto fresh = std::count_if(open_.begin(), open_.end(),
                             [&](const auto& one) { return now - one.second.since < limits_.fresh_ms; });
  while (!queued_.empty() && fresh < limits_.fresh) {
    const int descriptor = queued_.front().descriptor;
    if (static_cast<int>(open_.size()) >= limits_.open)
      return refuse(descriptor, "as many connections are open as it takes");
    queued_.pop_front();
    // The connection stays in the poll set: this shows sweep() whether gRPC still has it open, and calls
    // shed() when it sends data.
    watch(poll_, EPOLL_CTL_MOD, descriptor, EPOLLIN | EPOLLET);
    open_[descriptor] = {now};
    ++fresh;
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = descriptor;
    acceptor_->HandleNewConnection(&connection);
  }
}

void Listener::sweep(int64_t now) {
  swept_ = now;
  for (auto one = open_.begin(); one != open_.end();) {
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLET;
    event.data.fd = one->first;
    // The kernel removes a closed connection from the poll set; its number may belong to another file by
    // then.
    if (epoll_ctl(poll_, EPOLL_CTL_MOD, one->first, &event) != 0) {
      one = open_.erase(one);
      continue;
    }
    one->second.noted = bytes_received(one->first);
    ++one;
  }
}

void Listener::shed() {
  const size_t used = memory_in_use(), most = limits_.memory + open_.size() * kBytesOfAConnection;
  if (used <= most) return;
  int worst = -1;
  uint64_t sent = used > 2 * most ? kLittle : kMuch;
  for (const auto& [descriptor, one] : open_) {
    const uint64_t bytes = bytes_received(descriptor);
    if (bytes < one.noted + sent) continue;
    sent = bytes - one.noted;
    worst = descriptor;
  }
  if (worst < 0) return;
  static LineLimit limit;
  log_line("a connection was closed: it sent " + std::to_string(sent >> 10) +
               " KiB of calls in a second, while those under way take " + std::to_string(used >> 20) + " MiB",
           limit);
  // gRPC sees the end of the connection and drops its calls. The number still belongs to this connection,
  // since only this thread accepts new ones.
  shutdown(worst, SHUT_RDWR);
  open_.erase(worst);
}

void Listener::drop(int descriptor) {
  const auto is_it = [&](const Pending& one) { return one.descriptor == descriptor; };
  for (std::deque<Pending>* all : {&silent_, &queued_})
    all->erase(std::remove_if(all->begin(), all->end(), is_it), all->end());
  close(descriptor);
}

void Listener::refuse(int descriptor, const std::string& why) {
  static LineLimit limit;
  log_line("a connection was closed: " + why, limit);
  drop(descriptor);
}

}  // namespace tc::rpc
