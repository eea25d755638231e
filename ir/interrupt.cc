// Interrupts long work when the user asks for it.
#include "ir/interrupt.h"

#include <time.h>

#include <algorithm>
#include <utility>

namespace tc {
namespace {

constexpr int64_t kBetweenChecks = 20'000'000;  // nanoseconds

std::atomic<InterruptionCheck> interruption_check{nullptr};
thread_local int64_t next_check = 0;
thread_local int64_t deadline = INT64_MAX;  // time of coarse_nanoseconds()
thread_local const std::atomic<bool>* helper_stop = nullptr;
thread_local const std::function<void()>* looking = nullptr;

// Time of a clock that takes a few nanoseconds to read and advances in steps of a few milliseconds.
int64_t coarse_nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

void set_interruption_check(InterruptionCheck check) { interruption_check.store(check); }

WorkProgress& work_progress() {
  thread_local WorkProgress progress;
  return progress;
}

void interruption_point() {
  if (helper_stop != nullptr && helper_stop->load(std::memory_order_relaxed)) throw Interrupted();
  const InterruptionCheck check = interruption_check.load(std::memory_order_relaxed);
  if (check == nullptr && deadline == INT64_MAX && looking == nullptr) return;
  const int64_t now = coarse_nanoseconds();
  if (now < next_check) return;
  next_check = now + kBetweenChecks;
  if (now > deadline || (check != nullptr && check())) throw Interrupted();
  if (looking == nullptr) return;
  // What it does may come to interruption points itself.
  const std::function<void()>* const look = std::exchange(looking, nullptr);
  try {
    (*look)();
  } catch (...) {
    looking = look;
    throw;
  }
  looking = look;
}

TimeLimit::TimeLimit(double seconds) : before_(deadline) {
  constexpr double kLongest = 1e9;  // seconds, longer than anyone waits
  if (seconds > 0)
    deadline =
        std::min(deadline, coarse_nanoseconds() + static_cast<int64_t>(std::min(seconds, kLongest) * 1e9));
}

TimeLimit::~TimeLimit() { deadline = before_; }

bool TimeLimit::is_over() const { return deadline < before_ && coarse_nanoseconds() > deadline; }

LookingAround::LookingAround(const std::function<void()>& look) : before_(looking) { looking = &look; }
LookingAround::~LookingAround() { looking = before_; }

Helping::Helping(const std::atomic<bool>& stop) { helper_stop = &stop; }
Helping::~Helping() { helper_stop = nullptr; }

}  // namespace tc
