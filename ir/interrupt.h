// Interrupts long work when the user asks for it (Ctrl-C): the work calls interruption_point() wherever it
// can be interrupted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace tc {

// What interruption_point() throws when the user wants the work to end or a TimeLimit is over. It is not
// derived from std::exception, so handlers of errors do not catch it.
class Interrupted {};

// Returns whether the user wants the work to end. It is called at most every 20 ms, on the working thread.
// Null (the default): the user never does.
using InterruptionCheck = bool (*)();
void set_interruption_check(InterruptionCheck check);

// How far a thread's long work has come, for an InterruptionCheck to read: the phase, and how many of its
// parts are done.
struct WorkProgress {
  const char* phase = "";
  int64_t done = 0, total = 0;
};
WorkProgress& work_progress();  // of this thread

// A time limit on this thread's work during the object's lifetime; once it is over, interruption_point()
// throws.
class TimeLimit {
 public:
  // At most `seconds` seconds; 0: no limit.
  explicit TimeLimit(double seconds);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  bool is_over() const;

 private:
  const int64_t before_;  // the limit around this one
};

// For the object's lifetime this thread calls `look` at its interruption points, at most every 20 ms. A
// further object takes the place of the one around it.
class LookingAround {
 public:
  explicit LookingAround(const std::function<void()>& look);
  ~LookingAround();
  LookingAround(const LookingAround&) = delete;
  LookingAround& operator=(const LookingAround&) = delete;

 private:
  const std::function<void()>* const before_;
};

// Throws Interrupted if the work is to end. A call costs a few nanoseconds.
void interruption_point();

// For the object's lifetime this thread works for another one: its interruption points throw once `stop` is
// set, which the other thread does when it is interrupted itself.
class Helping {
 public:
  explicit Helping(const std::atomic<bool>& stop);
  ~Helping();
  Helping(const Helping&) = delete;
  Helping& operator=(const Helping&) = delete;
};

}  // namespace tc
