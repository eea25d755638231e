// Makes it impossible for a candidate to skip work. The agent uses inputs that only it knows, compares with
// the outputs of a second process of a program that was found correct (the witness), and changes the inputs
// during a command at a random moment.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/agent/subject.h"

namespace tc::agent {

// The agent's own inputs before and after a change, and the outputs expected for both.
class Trial {
 public:
  Trial(Bench& bench, const Batch& batch, Inputs& inputs, const std::function<bool()>& cancelled);

  bool has_witness() const { return witness_.has_value(); }
  // Starts that executable, which was found correct, in a process of its own, whose outputs are then the
  // expected ones. Throws Misbehaviour where the witness fails, as next() does.
  void take_witness(int index);
  // The inputs after the change become those before it, and another change is drawn; with `with_spare`, spare
  // inputs are drawn as well.
  void next(bool with_spare);

  using Outputs = std::vector<std::vector<uint8_t>>;
  const Outputs& before() const { return before_; }
  const Outputs& after() const { return after_; }
  const Outputs& spare() const { return spare_; }
  // Empty, or how the outputs of `subject` differ from `due`.
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

// The result of one command of many runs during which the inputs changed, at a random moment.
struct Probe {
  double seconds = 0;            // of a run
  double processor_seconds = 0;  // of a run, by all threads
  bool conclusive = true;        // false: the change came too late for the outputs to follow
  // For an inconclusive probe in which there was time by the clocks: how the outputs differ from those for
  // the new inputs. The system updates the processor time of another process only every few milliseconds, so
  // this happens once in a few thousand probes to an honest candidate that lost its processor at the end of
  // its runs.
  std::string suspicion;
};

// Lets `subject` do `runs` runs, each of which is expected to take `seconds_per_run`. Throws Misbehaviour
// where the outputs are wrong although the inputs did not change.
Probe probe(Subject& subject, Inputs& inputs, const Trial& trial, uint32_t runs, double seconds_per_run);

}  // namespace tc::agent
