// Leaving long work where the user asks for that (Ctrl-C): the work calls interruption_point() at places
// where it may be left.
#pragma once

#include <atomic>
#include <cstdint>

namespace tc {

// What interruption_point() throws, there and where a TimeLimit is over. It is no error, so nothing that
// catches errors catches it.
class Interrupted {};

// Asked at most every 20 ms, on the thread that works: whether the user wants the work to end. Null (the
// default): never.
using InterruptionCheck = bool (*)();
void set_interruption_check(InterruptionCheck check);

// What a thread's long work is at, for those who ask at interruption points: a phase, and of its parts how
// many are done.
struct WorkProgress {
  const char* phase = "";
  int64_t done = 0, total = 0;
};
WorkProgress& work_progress();  // of this thread

// A limit on what this thread does in the object's lifetime: beyond it interruption_point() throws.
class TimeLimit {
 public:
  // At most so many seconds; 0: any.
  explicit TimeLimit(double seconds);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  bool is_over() const;

 private:
  const int64_t before_;  // the limit around this one
};

// Throws Interrupted where the work is to end. Costs some nanoseconds.
void interruption_point();

// Makes this thread, for the object's lifetime, one that helps another: it is left where `stop` is set, which
// the other one does when it is left itself.
class Helping {
 public:
  explicit Helping(const std::atomic<bool>& stop);
  ~Helping();
  Helping(const Helping&) = delete;
  Helping& operator=(const Helping&) = delete;
};

}  // namespace tc
