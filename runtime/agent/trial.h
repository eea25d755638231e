// Work that cannot be skipped: inputs that only the agent knows, what a second process of a program
// that was found right makes of them, and the change of inputs under way at a moment that no one knows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/agent/subject.h"

namespace tc::agent {

// The agent's own inputs before and after a change, and the outputs due for both.
class Trial {
 public:
  Trial(Bench& bench, const Batch& batch, Inputs& inputs, const std::function<bool()>& cancelled);

  bool has_witness() const { return witness_.has_value(); }
  // Has that executable, which was found right, run in a process of its own and answers by it.
  // Throws Misbehaviour, as the next does.
  void take_witness(int index);
  // The inputs after the change become those before it; another change is drawn.
  void next();

  using Outputs = std::vector<std::vector<uint8_t>>;
  const Outputs& before() const { return before_; }
  const Outputs& after() const { return after_; }
  // Empty, or how the outputs of `subject` differ from those.
  std::string problem(Subject& subject, const Outputs& due, uint8_t poison) const;

 private:
  Outputs answer();

  Bench& bench_;
  const Batch& batch_;
  Inputs& inputs_;
  const std::function<bool()>& cancelled_;
  std::optional<Subject> witness_;
  Outputs before_, after_;
};

// One command of many runs with the inputs changed under way.
struct Probe {
  double seconds = 0;            // of the command
  bool conclusive = true;        // else there was no time for the outputs to follow, or the change came too late
  // How long the outputs took to follow at least, as multiples of a run's time: at most two where each run
  // does its work. Nothing where the command ended before the change.
  std::optional<double> delay;
};

class Prober {
 public:
  Prober(const Batch& batch, Inputs& inputs, const Trial& trial)
      : batch_(batch), inputs_(inputs), trial_(trial) {}
  // Runs that often, a run taking so long by all that is known. Throws Misbehaviour where the
  // outputs did not follow although there was time.
  Probe run(Subject& subject, uint32_t runs, double seconds_per_run);

 private:
  struct Place {
    size_t output;
    int64_t element;
  };
  void choose_places();
  void poison_places(Subject& subject);
  bool has_followed(Subject& subject) const;
  Subject::Clocks watch(Subject& subject, double seconds_per_run);
  void judge(Subject& subject, const Subject::Clocks& left, uint32_t runs, Probe& probe);

  const Batch& batch_;
  Inputs& inputs_;
  const Trial& trial_;
  std::vector<Place> places_;
  uint8_t poison_ = 0xff;
};

}  // namespace tc::agent
