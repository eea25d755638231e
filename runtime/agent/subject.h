// A candidate's process with the memory of its outputs, run by command.
//
// Between commands it is stopped: it sees no input before its time counts, has no thread that works
// ahead or takes time from others, and changes no output while it is looked at.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/agent/effort.h"
#include "runtime/agent/inputs.h"
#include "runtime/agent/measure.h"

namespace tc::agent {

class Subject {
 public:
  Subject(Bench& bench, const Batch& batch, int index, Inputs& inputs,
          const std::function<bool()>& cancelled);

  // Starts it and waits until it is ready. It has the processor time of so many candidates.
  void start(double candidates = 1);
  void poison_outputs(uint8_t value);

  // Has it run that often, from now on.
  void begin(uint32_t runs, const std::string& doing);
  // Waits until that clock at most; whether it is done.
  bool is_done_by(double clock);
  // Waits until it is done and stops it; the seconds that it took.
  double finish();
  // Both of the above, and a time that no machine needs so little of is no time.
  double run(uint32_t runs, const std::string& doing);

  // One run on one processor, which the agent's thread shares. `show` puts its inputs in place. Where `warm`,
  // a run on what is shown before goes ahead of it, so that the system's own code and the candidate's are in
  // the caches.
  SingleRun run_alone(bool warm, const std::function<void()>& show, const std::string& doing);

  // One run on all of its processors, where no other one is under way. `show` puts its inputs in place; a run
  // on what is shown before goes ahead of it.
  LoneRun run_lone(const std::function<void()>& show, const std::string& doing);

  // Clocks of the command under way: of the wall, and of its processors where the system has one.
  struct Clocks {
    double wall = 0, processor = 0;
  };
  Clocks since_begin() const;

  uint8_t* output(size_t i) { return outputs_[i].data(); }
  // Empty, or that it wrote where nothing is its own.
  std::string beyond_outputs(uint8_t value) const;
  int64_t peak_bytes() const { return process_->peak_bytes(); }
  double seconds_left() const { return left_; }
  // From now on it has as many seconds as at the start.
  void renew_time() { left_ = batch_.timeout_seconds; }
  void end() { process_.reset(); }

 private:
  double processor_seconds() const;

  Bench& bench_;
  const Batch& batch_;
  const int index_;
  Inputs& inputs_;
  const std::function<bool()>& cancelled_;
  std::vector<SharedMemory> outputs_;
  std::shared_ptr<const File> copy_;
  std::optional<Process> process_;
  std::vector<int> processors_;  // where it runs
  double left_;                  // of its time, in seconds
  std::string doing_;
  uint32_t runs_ = 0;
  double begin_ = 0, begin_processor_ = 0, begin_agent_ = 0, agent_seconds_ = 0;
  int64_t begin_requests_ = 0;
  std::optional<double> done_;
};

}  // namespace tc::agent
