#include "runtime/agent/trial.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tc::agent {
namespace {

// Elements that may differ from those of another program on inputs that no reference is known for:
// rounding falls the other way at a step of a function. Who leaves them out gains as little.
constexpr int64_t kFloatsPerDifference = 256, kIntegersPerDifference = 16;
// Of the tolerance to a reference: both programs have one.
constexpr double kTolerances = 2;
constexpr size_t kPlaces = 4;            // that are watched
constexpr int kAttempts = 64;            // at finding a place that tells old from new
// After the change a command goes on for two whole runs at least, the first of which may have begun before.
constexpr double kRunsAfter = 2.2;
constexpr double kShortRun = 50e-6;      // shorter ones are watched without sleep
constexpr double kWatchTime = 3e-6;      // that watching itself may take

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

void Trial::next() {
  inputs_.draw_change();
  inputs_.show_changed();
  before_.swap(after_);
  after_ = answer();
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

void Prober::choose_places() {
  places_.clear();
  for (size_t i = 0; i < batch_.outputs.size(); ++i) {
    const Port& port = batch_.outputs[i];
    for (int attempt = 0; attempt < kAttempts && port.elements > 0 && places_.size() < kPlaces; ++attempt) {
      const auto element = static_cast<int64_t>(secret_bits() % static_cast<uint64_t>(port.elements));
      const uint8_t* before = trial_.before()[i].data();
      const uint8_t* after = trial_.after()[i].data();
      const double old_value = value_at(port, before, element), new_value = value_at(port, after, element);
      if (!std::isfinite(old_value) || !std::isfinite(new_value)) continue;
      // Late attempts take places that the change does not reach: writing them is work, too.
      const bool tells = std::fabs(new_value - old_value) > 1e-3 * std::fabs(new_value);
      if (!tells && attempt < kAttempts / 2) continue;
      if (is_filled(port, after, element, poison_) || is_filled(port, after, element, 0xff)) continue;
      places_.push_back({i, element});
    }
  }
}

void Prober::poison_places(Subject& subject) {
  for (const Place& place : places_) {
    const Port& port = batch_.outputs[place.output];
    const int64_t size = port.bytes / port.elements;
    std::memset(subject.output(place.output) + place.element * size, poison_, static_cast<size_t>(size));
  }
}

// Nearer to the new value than to the old one.
bool Prober::has_followed(Subject& subject) const {
  for (const Place& place : places_) {
    const Port& port = batch_.outputs[place.output];
    const uint8_t* now = subject.output(place.output);
    if (is_filled(port, now, place.element, poison_)) return false;
    const double value = value_at(port, now, place.element);
    const double old_value = value_at(port, trial_.before()[place.output].data(), place.element);
    const double new_value = value_at(port, trial_.after()[place.output].data(), place.element);
    if (old_value != new_value && !(std::fabs(value - new_value) < std::fabs(value - old_value))) return false;
  }
  return true;
}

// Until the outputs follow or the command ends. The clocks when they last had not: read before the look, so
// that neither counts what this process waited for a processor.
Subject::Clocks Prober::watch(Subject& subject, double seconds_per_run) {
  const double step = std::clamp(seconds_per_run / 16, 2e-6, 1e-3);
  Subject::Clocks unfollowed = subject.since_begin();
  for (;;) {
    const double until = now_seconds() + (seconds_per_run < kShortRun ? 3 * seconds_per_run + kWatchTime : 0);
    do {
      const Subject::Clocks now = subject.since_begin();
      if (has_followed(subject)) return unfollowed;
      unfollowed = now;
    } while (now_seconds() < until);
    if (subject.is_done_by(now_seconds() + step)) return unfollowed;
  }
}

void Prober::judge(Subject& subject, const Subject::Clocks& left, uint32_t runs, Probe& probe) {
  const std::string problem = trial_.problem(subject, trial_.after(), poison_);
  if (problem.empty()) return;
  // By its own pace there was time for two runs, and by its processors' too.
  const Subject::Clocks all = subject.since_begin();
  const double needed = kRunsAfter / runs;
  if (left.wall > needed * probe.seconds + kWatchTime && left.processor >= needed * all.processor)
    throw Misbehaviour{Outcome::WrongResult,
                       "does not run as often as it is told: its inputs changed under way, and its "
                       "outputs are not those of the new ones; it " + problem};
  probe.conclusive = false;
}

Probe Prober::run(Subject& subject, uint32_t runs, double seconds_per_run) {
  poison_ = poison(static_cast<int>(secret_bits() % 2));
  inputs_.show_own();
  subject.poison_outputs(poison_);
  choose_places();
  const double expected = seconds_per_run * runs;
  const double moment = random_share() * (1 - kRunsAfter / runs) * expected;
  Probe probe;
  subject.begin(runs, "running on inputs of the agent's own");
  if (subject.is_done_by(now_seconds() + moment)) {
    probe.seconds = subject.finish();
    const std::string problem = trial_.problem(subject, trial_.before(), poison_);
    if (!problem.empty()) throw Misbehaviour{Outcome::WrongResult, problem};
    return probe;
  }
  inputs_.change();
  poison_places(subject);
  const Subject::Clocks changed = subject.since_begin();
  const Subject::Clocks unfollowed = watch(subject, seconds_per_run);
  probe.seconds = subject.finish();
  const Subject::Clocks end = subject.since_begin();
  judge(subject, {probe.seconds - changed.wall, end.processor - changed.processor}, runs, probe);
  if (!probe.conclusive) return probe;
  const double wall = (unfollowed.wall - changed.wall - kWatchTime) / (probe.seconds / runs);
  const double processor = end.processor > 0
      ? (unfollowed.processor - changed.processor - kWatchTime) / (end.processor / runs) : wall;
  probe.delay = std::max(0.0, std::min(wall, processor));
  return probe;
}

}  // namespace tc::agent
