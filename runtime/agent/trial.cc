#include "runtime/agent/trial.h"

#include <algorithm>

namespace tc::agent {
namespace {

// One of this many elements may differ from another program's result on inputs without a reference, since
// rounding may fall to the other side of a step of a function. A candidate that skips so few elements gains
// little.
constexpr int64_t kFloatsPerDifference = 256, kIntegersPerDifference = 16;
// Factor on the tolerance, since each of the two programs may deviate from the reference by the tolerance.
constexpr double kTolerances = 2;
// After the change, a command has to go on for at least this many runs: the first may have begun before the
// change, so that one whole run comes after it.
constexpr double kRunsAfter = 2.2;
constexpr double kBlurTime = 10e-6;  // uncertainty of the clocks
// Before the change, a command has to run for at least this long, by the wall clock and in processor time.
// This way the time to wake up, up to 450 us on a slow system, is seldom mistaken for a run.
constexpr double kMinMoment = 300e-6, kMinProcessor = 150e-6;

double random_share() { return static_cast<double>(secret_bits() >> 11) * 0x1p-53; }

}  // namespace

Trial::Trial(Bench& bench, const Batch& batch, Inputs& inputs, const std::function<bool()>& cancelled)
    : bench_(bench), batch_(batch), inputs_(inputs), cancelled_(cancelled) {}

void Trial::take_witness(int index) {
  witness_.emplace(bench_, batch_, index, inputs_, cancelled_);
  try {
    witness_->start(1e4);
    inputs_.draw_change();
    inputs_.show_own();
    before_ = answer();
    inputs_.change();
    after_ = answer();
  } catch (const Misbehaviour&) {
    witness_.reset();
    throw;
  }
}

void Trial::next(bool with_spare) {
  inputs_.draw_change();
  inputs_.show_changed();
  before_.swap(after_);
  after_ = answer();
  if (!with_spare) return;
  inputs_.draw_spare();
  inputs_.show_spare();
  spare_ = answer();
}

Trial::Outputs Trial::answer() {
  const uint8_t filling = poison(0);
  witness_->poison_outputs(filling);
  witness_->renew_time();
  witness_->run(1, "running once more for others");
  Outputs outputs;
  for (size_t i = 0; i < batch_.outputs.size(); ++i) {
    const Port& port = batch_.outputs[i];
    const uint8_t* data = witness_->output(i);
    outputs.emplace_back(data, data + port.bytes);
    copy_undefined(port, batch_.data_sets[0].expected[i]->data(), outputs.back().data());
  }
  return outputs;
}

std::string Trial::problem(Subject& subject, const Outputs& due, uint8_t poison) const {
  for (size_t i = 0; i < due.size(); ++i) {
    const Port& port = batch_.outputs[i];
    const bool floats = is_float(port.dtype);
    const int64_t differing =
        count_differences(port, subject.output(i), due[i].data(), kTolerances * batch_.tolerance, poison);
    if (differing > port.elements / (floats ? kFloatsPerDifference : kIntegersPerDifference))
      return "gave a wrong result on inputs of the agent's own: " + std::to_string(differing) + " of " +
             std::to_string(port.elements) + " elements of output '" + port.name + "'";
  }
  return subject.beyond_outputs(poison);
}

Probe probe(Subject& subject, Inputs& inputs, const Trial& trial, uint32_t runs, double seconds_per_run) {
  const uint8_t filling = poison(static_cast<int>(secret_bits() % 2));
  inputs.show_own();
  subject.poison_outputs(filling);
  const double last = (1 - kRunsAfter / runs) * seconds_per_run * runs, first = std::min(kMinMoment, last);
  const double moment = first + random_share() * (last - first);
  subject.begin(runs, "running on inputs of the agent's own");
  // On a busy machine, a command that no processor has started yet would do all its runs on the new inputs.
  const double least_processor = std::min(0.5 * moment, kMinProcessor);
  bool is_changed = false;
  for (double clock = now_seconds() + moment; !is_changed && !subject.is_done_by(clock);) {
    const double lacking = least_processor - subject.since_begin().processor;
    is_changed = lacking <= 0;
    clock = now_seconds() + std::max(lacking, kBlurTime);
  }
  if (is_changed) inputs.change();
  const Subject::Clocks changed = subject.since_begin();
  const double seconds = subject.finish();
  const double processor = subject.since_begin().processor;
  // A command that was done before the change is not conclusive.
  Probe result = {seconds / runs, processor / runs, is_changed, ""};
  const std::string problem = trial.problem(subject, is_changed ? trial.after() : trial.before(), filling);
  if (problem.empty()) return result;
  if (!is_changed) throw Misbehaviour{Outcome::WrongResult, problem};
  // Both by the wall clock and by processor time, there was time for two runs at the command's own pace.
  const double needed = kRunsAfter / runs;
  if (seconds - changed.wall > needed * seconds + kBlurTime &&
      processor - changed.processor >= needed * processor)
    result.suspicion = problem;
  result.conclusive = false;
  return result;
}

}  // namespace tc::agent
