// Puts a process and the agent's own thread on one processor, so that the process's time can be measured to a
// microsecond.
#pragma once

#include <vector>

#include "runtime/agent/process.h"

namespace tc::agent {

// While this object exists, a stopped process and the thread that made the object share the last of the
// process's processors. No other processor then has to be interrupted to wake and stop the process, which in
// a virtual machine takes 20 to 450 us of the process's time. Where the system permits it, the agent's thread
// has priority there, so that threads of the process that wait for more work are stopped before they wait
// long.
class OneProcessor {
 public:
  OneProcessor(Process& process, const std::vector<int>& processors);
  ~OneProcessor();
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

  bool is_shared() const { return is_shared_; }
  // Whether the agent's thread always has priority (real-time); with short time slices it only has it as a
  // rule.
  bool goes_first() const { return turn_ == Turn::RealTime; }

 private:
  enum class Turn { Like, Slice, RealTime };

  Process& process_;
  const std::vector<int>& processors_;
  const std::vector<int> own_;
  bool is_shared_ = false;
  Turn turn_ = Turn::Like;
};

}  // namespace tc::agent
