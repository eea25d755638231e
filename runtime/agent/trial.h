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
  // The inputs after the change become those before it; another change is drawn, and other inputs again where
  // `with_spare` says so.
  void next(bool with_spare);

  using Outputs = std::vector<std::vector<uint8_t>>;
  const Outputs& before() const { return before_; }
  const Outputs& after() const { return after_; }
  const Outputs& spare() const { return spare_; }
  // Empty, or how the outputs of `subject` differ from those.
  std::string problem(Subject& subject, const Outputs& due, uint8_t poison) const;

 private:
  Outputs answer();

  Bench& bench_;
  const Batch& batch_;
  Inputs& inputs_;
  const std::function<bool()>& cancelled_;
  std::optional<Subject> witness_;
  Outputs before_, after_, spare_;
};

// One command of many runs with the inputs changed under way, at a moment that no one knows.
struct Probe {
  double seconds = 0;            // of a run
  double processor_seconds = 0;  // of a run, of all its threads
  bool conclusive = true;  // else there was no time for the outputs to follow, or the change came too late
  // Of an inconclusive one whose clocks say that there was time: how the outputs are not those of the new
  // inputs. The system brings the clock of another process's processors up to date every few milliseconds
  // only, so that an honest candidate that lost its processor at the end of its runs comes to this once in a
  // few thousand probes.
  std::string suspicion;
};

// Runs `subject` that often, a run taking so long by all that is known. Throws Misbehaviour where the outputs
// are wrong although the inputs did not change.
Probe probe(Subject& subject, Inputs& inputs, const Trial& trial, uint32_t runs, double seconds_per_run);

}  // namespace tc::agent
