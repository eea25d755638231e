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

constexpr uint32_t kMostRuns = 1000000;
// Fewer runs than these are told one by one, each with inputs of its own.
constexpr uint32_t kFewRuns = 3;
constexpr int kSampleAttempts = 10;
// Probes of one candidate whose outputs did not follow the inputs although the clocks say that there was time, until
// it is a verdict: a candidate that skips runs comes to this at every change, an honest one once in thousands.
constexpr int kSuspicions = 3;
constexpr double kLongestSamples = 20;   // what an attempt may take, in samples

double bytes_of(const Batch& batch) {
  double bytes = 0;
  for (const Port& port : batch.inputs) bytes += static_cast<double>(port.bytes);
  for (const Port& port : batch.outputs) bytes += static_cast<double>(port.bytes);
  return bytes;
}

// One candidate of the batch on its way through verification and sampling.
class Candidate {
 public:
  Candidate(Bench& bench, const Batch& batch, int index, Inputs& inputs,
            const std::function<bool()>& cancelled)
      : bench_(bench), batch_(batch), inputs_(inputs), subject_(bench, batch, index, inputs, cancelled),
        effort_(batch.threads, bytes_of(batch)) {
    result_.candidate = index;
  }

  // Starts it and checks its outputs on all data sets, then finds out how many runs fill a sample. Whether it is
  // to be sampled: not where that is done, as a call takes longer than `too_slow`, in seconds.
  bool verify(Trial& trial, double too_slow) {
    subject_.start();
    const int sets = static_cast<int>(batch_.data_sets.size());
    for (int set = 0; set < sets; ++set) {
      const double seconds = run_set(set);
      seconds_per_run_ = set == 0 ? seconds : std::min(seconds, seconds_per_run_);
      if (bench_.is_exact() && set == sets - 1) result_.samples.push_back(bench_.last_measurement());
    }
    if (bench_.is_exact()) return false;
    if (!trial.has_witness()) trial.take_witness(result_.candidate);
    if (is_slow(too_slow)) return false;
    // The first runs are not like later ones: caches, clocks, page tables.
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

  double seconds_per_call() const {
    return seconds_per_run_ / (batch_.calls.empty() ? 1 : batch_.calls[static_cast<size_t>(result_.candidate)]);
  }

  void sample(const Trial& trial) {
    if (runs_ < kFewRuns) {
      double seconds = 0;
      for (uint32_t run = 0; run < runs_; ++run) seconds += run_own(trial, run + 1 == runs_, 1);
      result_.samples.push_back(seconds / runs_);
      return;
    }
    for (int attempt = 0; attempt < kSampleAttempts; ++attempt) {
      const Probe found = probe(subject_, inputs_, trial, runs_, seconds_per_run_);
      seconds_per_run_ = std::min(seconds_per_run_, found.seconds);
      if (!found.suspicion.empty() && ++suspicions_ == kSuspicions)
        throw Misbehaviour{Outcome::WrongResult,
                           "does not run as often as it is told: its inputs changed under way, and its outputs are "
                           "not those of the new ones, " + std::to_string(kSuspicions) + " times; it " +
                               found.suspicion};
      if (!found.conclusive) {
        // On a busy machine a short command is done before anyone comes to change its inputs.
        if (found.processor_seconds * runs_ < kLongestSamples * batch_.sample_seconds) runs_ = std::min(4 * runs_, kMostRuns);
        continue;
      }
      result_.samples.push_back(found.seconds);
      effort_.add_sample(found.processor_seconds);
      run_single(trial);
      return;
    }
    throw Misbehaviour{Outcome::WrongResult,
                       "ends its runs before its inputs change, or whenever they do, so that its outputs never follow"};
  }

  // The result, with what there is to say of one that ran to the end.
  Result finish() {
    const std::string problem = effort_.problem(runs_);
    if (!problem.empty()) throw Misbehaviour{Outcome::WrongResult, problem};
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
  double run_set(int set) {
    inputs_.show_set(set);
    subject_.poison_outputs(poison(set));
    const double seconds = subject_.run(1, "running data set " + std::to_string(set + 1));
    const std::string problem = compare_outputs(set);
    if (!problem.empty()) throw Misbehaviour{Outcome::WrongResult, problem};
    return seconds;
  }

  // Seconds of so many runs on the agent's own inputs, before or after their change.
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

  // One more run on inputs never seen before: by now it has all else at hand that the runs of a sample have.
  void run_single(const Trial& trial) {
    if (inputs_.empty() || !effort_.needs_single()) return;
    inputs_.show_spare();
    run_shown(trial, trial.spare(), 1);
    effort_.add_single(subject_.since_begin().processor, subject_.agent_seconds());
  }

  // Empty, or what is wrong with the outputs as those of that data set.
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

  // Takes the fastest run so far for its only sample where a call takes longer than that, and the runs long
  // enough to tell: the first ones wait for their pages.
  bool is_slow(double too_slow) {
    if (seconds_per_call() <= too_slow || seconds_per_run_ * runs_ < 0.5 * batch_.sample_seconds) return false;
    result_.samples.push_back(seconds_per_run_);
    return true;
  }

  uint32_t runs_to_fill() const {
    // All samples have to fit into the time that is left.
    const double seconds = std::min(batch_.sample_seconds,
                                    0.5 * std::max(subject_.seconds_left(), 0.0) / (batch_.rounds + 2));
    const double runs = std::ceil(seconds / std::max(seconds_per_run_, 1e-9));
    return static_cast<uint32_t>(std::clamp(runs, 1.0, static_cast<double>(kMostRuns)));
  }

  Bench& bench_;
  const Batch& batch_;
  Inputs& inputs_;
  Subject subject_;
  Result result_;
  double seconds_per_run_ = 0;              // the least so far
  uint32_t runs_ = 1;
  Effort effort_;
  int suspicions_ = 0;                      // probes whose outputs did not follow
};

// Wakes this thread when it asks to be, not when it suits the system.
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
      : bench_(bench), batch_(batch), done_(done), cancelled_(cancelled), inputs_(batch),
        trial_(bench, batch, inputs_, cancelled_) {}

  void measure() {
    verify();
    for (int round = 0; round < batch_.rounds; ++round)
      for_each_alive(round, [&](Candidate& it) { it.sample(trial_); });
    for_each_alive(-1, [&](Candidate& it) { done_(it.finish()); });
  }

 private:
  // Does a step of a candidate; whether it goes on.
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

  // In a round of samples (-1: none) on new inputs.
  void for_each_alive(int round, const std::function<void(Candidate&)>& action) {
    if (alive_.empty()) return;
    try {
      if (round >= 0) trial_.next(round < static_cast<int>(Effort::kSingleRuns));
    } catch (const Misbehaviour& what) {
      const Misbehaviour unsure = {what.outcome, "could not be checked: the program that all are compared "
                                                 "with " + what.detail};
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

void measure_batch(Bench& bench, const Batch& batch,
                   const std::function<void(const Result&)>& done,
                   const std::function<bool()>& cancelled) {
  const ExactSleep exact;
  try {
    Candidates(bench, batch, done, cancelled).measure();
  } catch (const Cancelled&) {
    // Whoever asked is gone.
  }
}

}  // namespace tc::agent
