#include "runtime/agent/one_processor.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace tc::agent {
namespace {

// The kernel's sched_attr in its first version, which the C library's headers lack.
struct Attributes {
  uint32_t size = sizeof(Attributes), policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;  // nanoseconds
};

// From Linux 6.12 on, any thread may ask for short time slices, and then mostly runs before others when it
// wakes. Returns whether they are granted; 0 asks for the default slice.
bool take_turns_of(uint64_t nanoseconds) {
  Attributes attributes, found;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return false;
  attributes.size = sizeof attributes;
  attributes.runtime = nanoseconds;
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0 &&
         syscall(SYS_sched_getattr, 0, &found, sizeof found, 0) == 0 && found.runtime == nanoseconds;
}

constexpr uint64_t kShortTurn = 100000;

}  // namespace

OneProcessor::OneProcessor(Process& process, const std::vector<int>& processors)
    : process_(process), processors_(processors), own_(own_processors()) {
  if (processors_.empty() || own_.empty()) return;
  const std::vector<int> one = {processors_.back()};
  is_shared_ = run_on(one) && (processors_.size() == 1 || process_.stay_on(one));
  const sched_param first = {1};
  if (sched_setscheduler(0, SCHED_FIFO, &first) == 0) turn_ = Turn::RealTime;
  else if (take_turns_of(kShortTurn)) turn_ = Turn::Slice;
}

OneProcessor::~OneProcessor() {
  const sched_param like_others = {0};
  if (turn_ == Turn::Slice) take_turns_of(0);
  if (turn_ == Turn::RealTime) sched_setscheduler(0, SCHED_OTHER, &like_others);
  if (processors_.empty() || own_.empty()) return;
  if (processors_.size() > 1) process_.stay_on(processors_);
  run_on(own_);
}

}  // namespace tc::agent
