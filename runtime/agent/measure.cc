#include "runtime/agent/measure.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "runtime/agent/effort.h"
#include "runtime/agent/trial.h"

namespace tc::agent {
namespace {

constexpr uint32_t kMaxRuns = 1000000;
// Where a sample has fewer runs than this, they are commanded one by one, each with its own inputs.
constexpr uint32_t kFewRuns = 3;
constexpr int kSampleAttempts = 10;
// A candidate is rejected after this many probes in which its outputs did not follow the changed inputs,
// although by the clocks there was time. To a candidate that skips runs this happens at every change, to an
// honest one once in thousands.
constexpr int kSuspicions = 3;
constexpr double kShortRun = 1e-3;      // shorter runs get a warm-up run: waking would take too large a part
constexpr double kLongestSamples = 20;  // largest length of an attempt, in samples

double bytes_of(const Batch& batch) {
  double bytes = 0;
  for (const Port& port : batch.inputs) bytes += static_cast<double>(port.bytes);
  for (const Port& port : batch.outputs) bytes += static_cast<double>(port.bytes);
  return bytes;
}

// One candidate of the batch, which is verified and then sampled.
class Candidate {
 public:
  Candidate(Bench& bench, const Batch& batch, int index, Inputs& inputs,
            const std::function<bool()>& cancelled)
      : bench_(bench),
        batch_(batch),
        inputs_(inputs),
        subject_(bench, batch, index, inputs, cancelled),
        effort_(batch.threads, bytes_of(batch)) {
    result_.candidate = index;
  }

  // Starts the candidate, checks its outputs on all data sets, and finds out how many runs fill a sample.
  // Returns whether it has to be sampled; false where it already has its only sample, because the device is a
  // simulator or a call takes longer than `too_slow` seconds.
  bool verify(Trial& trial, double too_slow) {
    if (bench_.is_deterministic()) {
      verify_exactly();
      return false;
    }
    subject_.start();
    for (int set = 0; set < sets(); ++set) {
      const double seconds = run_set(set);
      seconds_per_run_ = set == 0 ? seconds : std::min(seconds, seconds_per_run_);
    }
    if (!trial.has_witness()) trial.take_witness(result_.candidate);
    if (is_slow(too_slow)) return false;
    // The first runs are slower than later ones (caches, clocks, page tables), so the number is found in
    // several steps.
    for (int attempt = 0; attempt < 8; ++attempt) {
      const double seconds = run_own(trial, attempt % 2 == 1, runs_) / runs_;
      seconds_per_run_ = std::min(seconds_per_run_, seconds);
      if (is_slow(too_slow)) return false;
      const uint32_t before = runs_;
      runs_ = runs_to_fill();
      if (runs_ < before + before / 2 + 1) break;
    }
    return true;
  }

  double seconds_per_call() const { return seconds_per_run_ / calls(); }

  void sample(const Trial& trial) {
    if (runs_ < kFewRuns) {
      double seconds = 0;
      const uint32_t runs = inputs_.change_all() ? runs_ : 1;
      for (uint32_t run = 0; run < runs; ++run) seconds += run_new(trial, run == 0);
      result_.samples.push_back(seconds / runs);
      return;
    }
    const bool has_spare = needs_spare();  // before the probe, as are the round's inputs
    for (int attempt = 0; attempt < kSampleAttempts; ++attempt) {
      const Probe found = probe(subject_, inputs_, trial, runs_, seconds_per_run_);
      seconds_per_run_ = std::min(seconds_per_run_, found.seconds);
      if (!found.suspicion.empty() && ++suspicions_ == kSuspicions)
        throw Misbehaviour{
            Outcome::WrongResult,
            "does not run as often as it is told: its inputs changed under way, and its outputs are "
            "not those of the new ones, " +
                std::to_string(kSuspicions) + " times; it " + found.suspicion};
      if (!found.conclusive) {
        // On a busy machine, a short command is done before the agent gets to change its inputs. Once may be
        // bad luck, and longer commands take longer in all rounds that are left.
        if (attempt > 0 && found.processor_seconds * runs_ < kLongestSamples * batch_.sample_seconds)
          runs_ = std::min(4 * runs_, kMaxRuns);
        continue;
      }
      result_.samples.push_back(found.seconds);
      effort_.add_sample(found.seconds, found.processor_seconds);
      if (needs_one_processor()) run_one_processor(trial);
      else if (has_spare && needs_all_processors()) run_on_all_processors(trial);
      return;
    }
    throw Misbehaviour{
        Outcome::WrongResult,
        "ends its runs before its inputs change, or whenever they do, so that its outputs never follow"};
  }

  // Whether it needs spare inputs in a round, in addition to those before and after the change.
  bool needs_spare() const { return runs_ < kFewRuns || needs_one_processor() || needs_all_processors(); }
  // Whether its single runs contradict its samples, which may be bad luck; then it makes another run.
  bool is_doubtful() const { return effort_.needs_more() || needs_all_processors(); }
  void doubt(const Trial& trial) {
    if (effort_.needs_more()) run_one_processor(trial);
    else if (needs_all_processors()) run_on_all_processors(trial);
  }

  // The result of a candidate that has all its samples. Throws Misbehaviour where they cannot be right.
  Result finish() {
    const std::string problem = effort_.problem(runs_);
    if (!problem.empty()) throw Misbehaviour{Outcome::WrongResult, problem};
    for (double& sample : result_.samples) sample = std::max(sample, effort_.least_seconds());
    result_.peak_bytes = subject_.peak_bytes();
    result_.runs_per_sample = runs_;
    subject_.end();
    return result_;
  }

  Result fail(const Misbehaviour& what) {
    result_.outcome = what.outcome;
    result_.detail = "it " + what.detail;
    result_.samples.clear();
    subject_.end();
    return result_;
  }

 private:
  bool needs_one_processor() const { return batch_.judges_effort && effort_.needs_one_processor(); }
  bool needs_all_processors() const {
    return batch_.judges_effort && !inputs_.empty() && effort_.needs_all_processors();
  }

  int sets() const { return static_cast<int>(batch_.data_sets.size()); }
  int calls() const {
    return batch_.calls.empty() ? 1 : batch_.calls[static_cast<size_t>(result_.candidate)];
  }

  // The same on a simulator: the measurement is that of the last data set. Where a run on it alone is enough
  // for that, the others are left out for a candidate that is no faster than another one, so that nobody
  // chooses it.
  void verify_exactly() {
    subject_.start();
    if (bench_.runs_once()) subject_.run(0, "answering a command of no run");
    for (int set = bench_.runs_once() ? sets() - 1 : 0; set < sets(); ++set) run_set(set);
    if (bench_.has_to_run_again()) run_set(sets() - 1);
    result_.samples = {bench_.last_measurement()};
    if (!bench_.runs_once()) return;
    const bool is_never_chosen = batch_.known_call > 0 && result_.samples[0] / calls() >= batch_.known_call;
    for (int set = 0; set < sets() - 1 && !is_never_chosen; ++set) run_set(set);
  }

  double run_set(int set) {
    inputs_.show_set(set);
    subject_.poison_outputs(poison(set));
    const double seconds = subject_.run(1, "running data set " + std::to_string(set + 1));
    const std::string problem = compare_outputs(set);
    if (!problem.empty()) throw Misbehaviour{Outcome::WrongResult, problem};
    return seconds;
  }

  // Seconds of one run on new inputs: the spare ones, or those after the change.
  double run_new(const Trial& trial, bool on_spare) {
    on_spare ? inputs_.show_spare() : inputs_.show_changed();
    return run_shown(trial, on_spare ? trial.spare() : trial.after(), 1);
  }

  // Seconds of `runs` runs on the agent's own inputs, before or after their change.
  double run_own(const Trial& trial, bool changed, uint32_t runs) {
    changed ? inputs_.show_changed() : inputs_.show_own();
    return run_shown(trial, changed ? trial.after() : trial.before(), runs);
  }

  double run_shown(const Trial& trial, const Trial::Outputs& due, uint32_t runs) {
    const uint8_t filling = poison(static_cast<int>(secret_bits() % 2));
    subject_.poison_outputs(filling);
    const double seconds = subject_.run(runs, "running on inputs of the agent's own");
    const std::string problem = trial.problem(subject_, due, filling);
    if (!problem.empty()) throw Misbehaviour{Outcome::WrongResult, problem};
    return seconds;
  }

  // One more run, on new inputs; apart from these, its conditions are by now those of the runs of a sample.
  void run_one_processor(const Trial& trial) {
    run_spare(trial, [&](const std::function<void()>& show, const std::string& doing) {
      effort_.add_one_processor(subject_.run_on_one_processor(seconds_per_run_ < kShortRun, show, doing));
    });
  }

  // The same on all of its processors.
  void run_on_all_processors(const Trial& trial) {
    run_spare(trial, [&](const std::function<void()>& show, const std::string& doing) {
      effort_.add_all_processors(subject_.run_on_all_processors(show, doing));
    });
  }

  using Run = std::function<void(const std::function<void()>& show, const std::string& doing)>;
  void run_spare(const Trial& trial, const Run& run) {
    if (inputs_.empty()) return;
    const uint8_t filling = poison(static_cast<int>(secret_bits() % 2));
    inputs_.show_own();
    const auto show = [&] {
      inputs_.show_spare();
      subject_.poison_outputs(filling);
    };
    run(show, "running on inputs of the agent's own");
    const std::string problem = trial.problem(subject_, trial.spare(), filling);
    if (!problem.empty()) throw Misbehaviour{Outcome::WrongResult, problem};
  }

  // Empty, or how the outputs differ from those expected for the data set.
  std::string compare_outputs(int set) {
    const Batch::DataSet& data = batch_.data_sets[static_cast<size_t>(set)];
    for (size_t i = 0; i < batch_.outputs.size(); ++i) {
      const Comparison found = compare(batch_.outputs[i], subject_.output(i), data.expected[i]->data(),
                                       batch_.tolerance, poison(set));
      result_.worst_error = std::max(result_.worst_error, found.worst);
      if (!found.good)
        return "gave a wrong result on data set " + std::to_string(set + 1) + " of " +
               std::to_string(batch_.data_sets.size()) + ": " + found.text;
    }
    return subject_.beyond_outputs(poison(set));
  }

  // Where a call takes longer than `too_slow`, takes the fastest run so far as the only sample. Decides only
  // once the runs are long enough, since the first ones wait for their pages.
  bool is_slow(double too_slow) {
    if (seconds_per_call() <= too_slow || seconds_per_run_ * runs_ < 0.5 * batch_.sample_seconds)
      return false;
    result_.samples.push_back(seconds_per_run_);
    return true;
  }

  uint32_t runs_to_fill() const {
    // All samples have to fit into the candidate's remaining time.
    const double seconds =
        std::min(batch_.sample_seconds, 0.5 * std::max(subject_.seconds_left(), 0.0) / (batch_.rounds + 2));
    const double runs = std::ceil(seconds / std::max(seconds_per_run_, 1e-9));
    return static_cast<uint32_t>(std::clamp(runs, 1.0, static_cast<double>(kMaxRuns)));
  }

  Bench& bench_;
  const Batch& batch_;
  Inputs& inputs_;
  Subject subject_;
  Result result_;
  double seconds_per_run_ = 0;  // the smallest so far
  uint32_t runs_ = 1;
  Effort effort_;
  int suspicions_ = 0;  // probes whose outputs did not follow the inputs
};

// Sets the thread's timer slack low, so that it wakes exactly when it asks to.
class ExactSleep {
 public:
  ExactSleep() : before_(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)) { prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0); }
  ~ExactSleep() {
    if (before_ > 0) prctl(PR_SET_TIMERSLACK, before_, 0, 0, 0);
  }

 private:
  const int before_;
};

// The candidates of one batch.
class Candidates {
 public:
  Candidates(Bench& bench, const Batch& batch, const std::function<void(const Result&)>& done,
             const std::function<bool()>& cancelled)
      : bench_(bench),
        batch_(batch),
        done_(done),
        cancelled_(cancelled),
        inputs_(batch),
        trial_(bench, batch, inputs_, cancelled_) {}

  void measure() {
    verify();
    for (int round = 0; round < batch_.rounds; ++round) {
      const bool with_spare = any_alive(&Candidate::needs_spare);
      for_each_alive(with_spare ? New::InputsAndSpare : New::Inputs,
                     [&](Candidate& it) { it.sample(trial_); });
    }
    while (any_alive(&Candidate::is_doubtful))
      for_each_alive(New::InputsAndSpare, [&](Candidate& it) { it.doubt(trial_); });
    for_each_alive(New::Nothing, [&](Candidate& it) { done_(it.finish()); });
  }

 private:
  // Runs one step of a candidate; returns whether the candidate goes on.
  bool step(Candidate& candidate, const std::function<void(Candidate&)>& action) {
    try {
      action(candidate);
      return true;
    } catch (const Misbehaviour& what) {
      done_(candidate.fail(what));
      return false;
    }
  }

  void verify() {
    double too_slow = INFINITY;
    for (size_t i = 0; i < batch_.executables.size(); ++i) {
      auto candidate = std::make_unique<Candidate>(bench_, batch_, static_cast<int>(i), inputs_, cancelled_);
      bool sampled = false;
      if (!step(*candidate, [&](Candidate& it) { sampled = it.verify(trial_, too_slow); })) continue;
      if (i == 0 && batch_.slow_ratio > 0) too_slow = batch_.slow_ratio * candidate->seconds_per_call();
      if (sampled) alive_.push_back(std::move(candidate));
      else step(*candidate, [&](Candidate& it) { done_(it.finish()); });
    }
  }

  bool any_alive(bool (Candidate::*is_so)() const) const {
    const auto is_one = [&](const auto& candidate) { return ((*candidate).*is_so)(); };
    return std::any_of(alive_.begin(), alive_.end(), is_one);
  }

  enum class New { Nothing, Inputs, InputsAndSpare };
  void for_each_alive(New what_is_new, const std::function<void(Candidate&)>& action) {
    if (alive_.empty()) return;
    try {
      if (what_is_new != New::Nothing) trial_.next(what_is_new == New::InputsAndSpare);
    } catch (const Misbehaviour& what) {
      const Misbehaviour unsure = {what.outcome,
                                   "could not be checked: the program that all are compared "
                                   "with " +
                                       what.detail};
      for (const std::unique_ptr<Candidate>& candidate : alive_) done_(candidate->fail(unsure));
      alive_.clear();
    }
    std::erase_if(alive_, [&](std::unique_ptr<Candidate>& candidate) { return !step(*candidate, action); });
  }

  Bench& bench_;
  const Batch& batch_;
  const std::function<void(const Result&)>& done_;
  const std::function<bool()>& cancelled_;
  Inputs inputs_;
  Trial trial_;
  std::vector<std::unique_ptr<Candidate>> alive_;
};

}  // namespace

void measure_batch(Bench& bench, const Batch& batch, const std::function<void(const Result&)>& done,
                   const std::function<bool()>& cancelled) {
  const ExactSleep exact;
  try {
    Candidates(bench, batch, done, cancelled).measure();
  } catch (const Cancelled&) {
    // The client that asked for the batch is gone.
  }
}

}  // namespace tc::agent
