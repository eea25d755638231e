// A candidate's process and the memory of its outputs; the process runs on command.
//
// Between commands it is stopped: it sees no input before its time is measured, has no thread that works
// ahead or takes time from others, and cannot change an output while that is compared.
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

  // Starts the process and waits until it is ready. It may use the processor time of that many candidates.
  void start(double candidates = 1);
  void poison_outputs(uint8_t value);

  // Makes it start `runs` runs.
  void begin(uint32_t runs, const std::string& doing);
  // Waits until that time at most; returns whether the runs are done.
  bool is_done_by(double clock);
  // Waits until the runs are done and stops the process; returns the seconds that they took. Throws
  // Misbehaviour where no machine could make them in that time.
  double finish();
  // begin() and finish() together.
  double run(uint32_t runs, const std::string& doing);

  // One run on one processor, which the agent's thread shares. `show` puts its inputs in place. With `warm`,
  // a run on the previous inputs comes first, so that the code of the system and of the candidate is in the
  // caches.
  OneProcessorRun run_on_one_processor(bool warm, const std::function<void()>& show,
                                       const std::string& doing);

  // One run on all of its processors, while no other run is under way. `show` puts its inputs in place; a run
  // on the previous inputs comes first.
  AllProcessorsRun run_on_all_processors(const std::function<void()>& show, const std::string& doing);

  // Seconds since the last command began: by the wall clock, and in processor time where the system tells it.
  struct Clocks {
    double wall = 0, processor = 0;
  };
  Clocks since_begin() const;

  uint8_t* output(size_t i) { return outputs_[i].data(); }
  // Empty, or a text which says that it wrote past the end of an output.
  std::string beyond_outputs(uint8_t value) const;
  int64_t peak_bytes() const { return process_->peak_bytes(); }
  double seconds_left() const { return left_; }
  // Gives it again as many seconds as it had at the start.
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
  std::vector<int> processors_;  // on which it runs
  double left_;                  // its remaining time, in seconds
  std::string doing_;
  uint32_t runs_ = 0;
  double begin_ = 0, begin_processor_ = 0, begin_agent_ = 0, agent_seconds_ = 0;
  int64_t begin_requests_ = 0;
  std::optional<double> done_;
};

}  // namespace tc::agent
