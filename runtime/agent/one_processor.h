// A process and the agent's own thread on one processor, so that the process's time can be told to a
// microsecond.
#pragma once

#include <vector>

#include "runtime/agent/process.h"

namespace tc::agent {

// While there is one, a stopped process and the thread that made it share the last of the processors that the
// process runs on. No other processor is interrupted then to wake and stop it, which takes a virtual machine
// 20 to 450 us of the process's time. The agent's thread goes first there, where the system lets it: threads
// of the process that wait for more work are stopped before they do so for long.
class OneProcessor {
 public:
  OneProcessor(Process& process, const std::vector<int>& processors);
  ~OneProcessor();
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

  bool is_shared() const { return is_shared_; }
  // Always; short turns alone let it go first as a rule.
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
