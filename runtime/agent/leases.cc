#include "runtime/agent/leases.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "runtime/agent/condition.h"
#include "runtime/agent/process.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/fields.h"
#include "runtime/rpc/version.h"

namespace tc::agent {
namespace {

using grpc::Status;
using grpc::StatusCode;

constexpr double kAskAgain = 1;  // seconds for which an answer of the tracker is reused
constexpr double kCallSeconds = 5;
constexpr int kRetryMs = 250, kMaxRetryMs = 2000;
// A pause is shorter by up to this share: agents that a new tracker met at the same moment spread out.
constexpr double kJitter = 0.2;

const Status& refused() {
  static const Status status(StatusCode::PERMISSION_DENIED,
                             "this device is not leased under that token; acquire it from the tracker");
  return status;
}

// Compares in a time that does not depend on where the texts differ.
bool equal(const std::string& left, const std::string& right) {
  if (left.size() != right.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < left.size(); ++i) difference |= static_cast<unsigned char>(left[i] ^ right[i]);
  return difference == 0;
}

std::string random_name() {
  std::random_device source;
  std::string text;
  for (int i = 0; i < 4; ++i) {
    char part[9];
    std::snprintf(part, sizeof part, "%08x", source());
    text += part;
  }
  return text;
}

}  // namespace

Status FixedToken::check(const std::string& token, const std::string&) {
  return equal(token, token_)
             ? Status::OK
             : Status(StatusCode::PERMISSION_DENIED,
                      "the token is not the one that this agent was started with (--token-file)");
}

Membership::Membership(rpc::DeviceInfo device, const rpc::Address& tracker, rpc::Keyring& keyring)
    : device_(std::move(device)),
      address_(tracker),
      keyring_(keyring),
      session_(random_name()),
      thread_([this] { announce_for_ever(); }) {}

Membership::~Membership() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
  announce(true, nullptr);
}

std::shared_ptr<rpc::Tracker::Stub> Membership::tracker() {
  const int64_t generation = keyring_.generation();
  const std::lock_guard lock(mutex_);
  if (!tracker_ || generation != generation_) {
    tracker_ = rpc::Tracker::NewStub(rpc::make_channel(address_, keyring_.now(), rpc::Role::Tracker));
    generation_ = generation;
  }
  return tracker_;
}

Status Membership::announce(bool leaving, int* heartbeat_ms) {
  rpc::AnnounceRequest request;
  *request.mutable_device() = device_;
  request.set_session(session_);
  request.set_leaving(leaving);
  request.set_measured(measured_);
  *request.mutable_condition() = condition_of_machine();
  rpc::AnnounceReply reply;
  grpc::ClientContext context;
  rpc::set_deadline(context, leaving ? 1 : kCallSeconds);
  const Status status = tracker()->Announce(&context, request, &reply);
  if (!status.ok()) return status;
  std::string problem =
      rpc::version_problem(reply.version(), "this agent", "the tracker at " + address_.text());
  if (problem.empty() && !keyring_.insecure())
    problem = rpc::server_problem(*context.auth_context(), keyring_.now(), rpc::Role::Tracker, "");
  if (!problem.empty()) return Status(StatusCode::FAILED_PRECONDITION, problem);
  if (heartbeat_ms != nullptr) *heartbeat_ms = std::clamp(reply.heartbeat_ms(), 10, 60000);
  return status;
}

void Membership::announce_for_ever() {
  bool known = false;  // whether the last message on the terminal was that the tracker knows us
  std::string last_problem;
  int retry_ms = kRetryMs;
  std::mt19937 random(std::random_device{}());
  for (;;) {
    int pause_ms = 0;
    const Status status = announce(false, &pause_ms);
    if (status.ok()) {
      if (!known) std::printf("tc-agent: announced to the tracker at %s\n", address_.text().c_str());
      known = true;
      last_problem.clear();
      retry_ms = kRetryMs;
    } else {
      // explain() may connect to the address, which takes time, so it is not called for every failed attempt.
      const std::string kind = std::to_string(status.error_code()) + status.error_message();
      if (known || last_problem.empty())
        std::printf("tc-agent: %s; trying on\n",
                    rpc::explain(status, "the tracker", address_, keyring_.now()).c_str());
      known = false;
      last_problem = kind;
      pause_ms = retry_ms;
      retry_ms = std::min(2 * retry_ms, kMaxRetryMs);
    }
    std::fflush(stdout);
    const double share = std::uniform_real_distribution<double>(1 - kJitter, 1)(random);
    const std::chrono::duration<double, std::milli> pause(pause_ms * share);
    std::unique_lock lock(mutex_);
    if (stopping_.wait_for(lock, pause, [this] { return stop_; })) return;
  }
}

Status Membership::check(const std::string& token, const std::string& client) {
  if (!rpc::is_token(token)) return refused();
  const auto is_last = [&] { return equal(token, token_) && client == client_; };
  {
    const std::lock_guard lock(mutex_);
    if (is_last() && now_seconds() < std::min(checked_ + kAskAgain, valid_until_)) return Status::OK;
  }
  rpc::CheckLeaseRequest request;
  request.set_device(device_.name());
  request.set_token(token);
  request.set_client(client);
  rpc::CheckLeaseReply reply;
  grpc::ClientContext context;
  rpc::set_deadline(context, kCallSeconds);
  const Status status = tracker()->CheckLease(&context, request, &reply);
  const std::lock_guard lock(mutex_);
  if (!status.ok()) {
    if (is_last() && now_seconds() < valid_until_) return Status::OK;
    return Status(StatusCode::UNAVAILABLE, "the agent cannot ask the tracker about the lease: " +
                                               rpc::printable(status.error_message(), 200));
  }
  if (!reply.valid()) {
    if (is_last()) valid_until_ = 0;
    return refused();
  }
  token_ = token;
  client_ = client;
  checked_ = now_seconds();
  valid_until_ = checked_ + reply.ttl_ms() * 1e-3;
  return Status::OK;
}

}  // namespace tc::agent
