#include "runtime/agent/calls.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/agent/process.h"

namespace tc::agent {
namespace {

using grpc::Status;
using grpc::StatusCode;

// Calls without a token yet, and calls of each kind per lease: together far fewer than the server's threads.
constexpr int kMaxNewcomers = 16, kMaxOfLease = 4;
constexpr double kFirstSeconds = 5;  // in which a call has to show its token
constexpr double kCutSeconds = 2;    // in which a call that is over may end by itself
constexpr auto kTick = std::chrono::milliseconds(100);
constexpr int kTicksPerCheck = 10;

const char* name_of(Calls::Kind kind) { return kind == Calls::Kind::Upload ? "upload" : "measurement"; }

}  // namespace

Calls::Calls(Check check) : check_(std::move(check)), thread_([this] { watch(); }) {}

Calls::~Calls() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

std::unique_ptr<Calls::Call> Calls::begin(Kind kind, const std::string& client,
                                          grpc::ServerContext& context) {
  const std::lock_guard lock(mutex_);
  int newcomers = 0;
  Call* oldest = nullptr;
  for (Call* call : calls_) {
    if (!call->token_.empty() || call->over_) continue;
    ++newcomers;
    if (oldest == nullptr) oldest = call;
  }
  if (newcomers >= kMaxNewcomers)
    end(*oldest, Status(StatusCode::RESOURCE_EXHAUSTED, "others came while it sent nothing"));
  std::unique_ptr<Call> call(new Call(*this, kind, client, context));
  call->end_ = now_seconds() + kFirstSeconds;
  calls_.push_back(call.get());
  return call;
}

Calls::Call::~Call() {
  const std::lock_guard lock(calls_.mutex_);
  calls_.calls_.remove(this);
}

Status Calls::Call::hold(const std::string& token) {
  const std::lock_guard lock(calls_.mutex_);
  int under_way = 0;
  for (Call* other : calls_.calls_) {
    if (other->token_.empty() || other->over_) continue;
    if (other->token_ != token)
      calls_.end(*other, Status(StatusCode::PERMISSION_DENIED, "its lease is over"));
    else if (other->kind_ == kind_) ++under_way;
  }
  if (under_way >= kMaxOfLease)
    return Status(StatusCode::RESOURCE_EXHAUSTED,
                  "this lease has " + std::to_string(under_way) + " " + name_of(kind_) +
                      "s under way already, which is all it may have; wait for one to end");
  token_ = token;
  end_ = 0;
  return Status::OK;
}

void Calls::Call::expect_within(double seconds) {
  const std::lock_guard lock(calls_.mutex_);
  end_ = now_seconds() + seconds;
}

bool Calls::Call::is_over() const {
  const std::lock_guard lock(calls_.mutex_);
  return over_;
}

Status Calls::Call::why() const {
  const std::lock_guard lock(calls_.mutex_);
  return why_;
}

// An upload waits inside gRPC for its client's next chunk, so it can only be ended by cancelling the call. A
// measurement checks is_over() itself, and can still tell its client why.
void Calls::end(Call& call, const Status& why) {
  if (call.over_) return;
  call.over_ = true;
  call.over_since_ = now_seconds();
  call.why_ = Status(why.error_code(),
                     std::string("the ") + name_of(call.kind_) + " was ended: " + why.error_message());
  if (call.kind_ != Kind::Upload) return;
  call.cut_ = true;
  call.context_.TryCancel();
}

void Calls::watch() {
  std::unique_lock lock(mutex_);
  for (int tick = 1;; ++tick) {
    if (stopping_.wait_for(lock, kTick, [this] { return stop_; })) return;
    end_late(now_seconds());
    if (tick % kTicksPerCheck != 0) continue;
    lock.unlock();
    end_without_lease();
    lock.lock();
  }
}

void Calls::end_late(double now) {
  for (Call* call : calls_) {
    if (call->end_ > 0 && now > call->end_)
      end(*call, Status(StatusCode::DEADLINE_EXCEEDED,
                        call->token_.empty() ? "it sent nothing" : "its client sent nothing for too long"));
    if (!call->over_ || call->cut_ || now < call->over_since_ + kCutSeconds) continue;
    // It is blocked in a write, since its client does not read.
    call->cut_ = true;
    call->context_.TryCancel();
  }
}

// Checking a lease may take long, so it is done without holding the lock.
void Calls::end_without_lease() {
  std::set<std::pair<std::string, std::string>> holders;
  {
    const std::lock_guard lock(mutex_);
    for (const Call* call : calls_)
      if (!call->token_.empty() && !call->over_) holders.emplace(call->token_, call->client_);
  }
  for (const auto& [token, client] : holders) {
    const Status status = check_(token, client);
    if (status.ok()) continue;
    const std::lock_guard lock(mutex_);
    for (Call* call : calls_)
      if (call->token_ == token && call->client_ == client)
        end(*call, Status(StatusCode::PERMISSION_DENIED, "its lease is over"));
  }
}

}  // namespace tc::agent
