#include "runtime/agent/measure.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>

namespace tc::agent {
namespace {

constexpr uint32_t kMostRuns = 1000000;
// No run is shorter: setting the float mode alone takes longer.
constexpr double kLeastSeconds = 5e-9;
// What an address space holds besides the candidate's own: stacks, the C library, page rounding.
constexpr int64_t kBaseBytes = int64_t{16} << 20, kThreadBytes = int64_t{9} << 20;

// Threads that a candidate may have beyond those that it is told to use.
constexpr int kMoreThreads = 16;

std::string microseconds(double seconds) {
  return std::to_string(std::lround(seconds * 1e6)) + " us";
}

// Inputs of all data sets, and those that the candidates see now.
class Inputs {
 public:
  explicit Inputs(const Batch& batch) : batch_(batch) {
    for (const Port& port : batch.inputs) {
      memory_.emplace_back("tc-input", port.bytes);
      reading_.push_back(memory_.back().open_for_reading());
    }
    for (const Batch::DataSet& set : batch.data_sets) {
      auto& tensors = values_.emplace_back();
      for (size_t i = 0; i < batch.inputs.size(); ++i) {
        tensors.emplace_back(static_cast<size_t>(batch.inputs[i].bytes));
        fill_sample(batch.inputs[i], set.seed, i, tensors.back().data());
      }
    }
  }

  void show(int data_set) {
    for (size_t i = 0; i < memory_.size(); ++i) {
      const auto& value = values_[static_cast<size_t>(data_set)][i];
      if (!value.empty()) std::memcpy(memory_[i].data(), value.data(), value.size());
    }
  }
  const std::vector<Descriptor>& descriptors() const { return reading_; }
  bool empty() const {
    return std::all_of(batch_.inputs.begin(), batch_.inputs.end(),
                       [](const Port& port) { return port.bytes == 0; });
  }

 private:
  const Batch& batch_;
  std::vector<SharedMemory> memory_;
  std::vector<Descriptor> reading_;
  std::vector<std::vector<std::vector<uint8_t>>> values_;  // by data set, by input
};

// One candidate of the batch on its way through verification and sampling.
class Candidate {
 public:
  Candidate(Bench& bench, const Batch& batch, int index, Inputs& inputs,
            const std::function<bool()>& cancelled)
      : bench_(bench), batch_(batch), inputs_(inputs), cancelled_(cancelled),
        left_(batch.timeout_seconds) {
    result_.candidate = index;
    for (const Port& port : batch.outputs) outputs_.emplace_back("tc-output", port.bytes);
  }

  // Starts it and checks its outputs on all data sets, then finds out how many runs fill a sample. Whether it is
  // to be sampled: not where that is done, as a call takes longer than `too_slow`, in seconds.
  bool verify(double too_slow) {
    start();
    const int sets = static_cast<int>(batch_.data_sets.size());
    for (int set = 0; set < sets; ++set) {
      const double seconds = run_and_check(set, 1);
      seconds_per_run_ = set == 0 ? seconds : std::min(seconds, seconds_per_run_);
      if (bench_.is_exact() && set == sets - 1) result_.samples.push_back(bench_.last_measurement());
    }
    runs_ = 1;
    if (bench_.is_exact() || is_slow(too_slow)) return false;
    // The first runs are not like later ones: caches, clocks, page tables.
    for (int attempt = 0; attempt < 8; ++attempt) {
      seconds_per_run_ = std::min(seconds_per_run_, run_and_check(attempt % sets, runs_) / runs_);
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

  void sample(int round) {
    const int set = (round + 1) % static_cast<int>(batch_.data_sets.size());
    result_.samples.push_back(run_and_check(set, runs_) / runs_);
  }

  // Has it run while its inputs change: the last run's outputs must be those of the new ones. One
  // that does less work than it is told would give those of the old. On a busy machine the change
  // may come too late for that to mean anything; then it is tried again with more runs.
  void check_work() {
    if (bench_.is_exact() || inputs_.empty()) return;
    double fastest = *std::min_element(result_.samples.begin(), result_.samples.end());
    uint32_t runs = std::max<uint32_t>(runs_, 4);
    int caught = 0;
    for (int attempt = 0; attempt < 6; ++attempt) {
      const double expected = fastest * runs;
      if (left_ < 4 * expected) return;
      inputs_.show(0);
      poison_outputs(1);
      const double begin = now_seconds();
      tell(runs);
      const auto pause = static_cast<int64_t>(0.2 * expected * 1e9);
      const struct timespec time = {pause / 1000000000, pause % 1000000000};
      nanosleep(&time, nullptr);
      inputs_.show(1);
      const double changed = now_seconds() - begin;
      const double seconds = wait('D', "running data set 1, then 2") - begin;
      left_ -= seconds;
      const double worst = result_.worst_error;
      const std::string problem = compare_outputs(1);
      // Quicker than it ever was: it left out runs, or the machine was busy while it was sampled.
      // Then a few runs are quicker now, too.
      if (seconds < 0.35 * expected) {
        const uint32_t fewer = runs / 4;
        for (int i = 0; i < 2; ++i) fastest = std::min(fastest, run_and_check(i, fewer) / fewer);
        if (seconds < 0.35 * fastest * runs && ++caught == 3)
          throw Misbehaviour{Outcome::WrongResult,
                             "does not run as often as it is told: " + std::to_string(runs) +
                                 " runs took " + microseconds(seconds) + ", fewer took longer"};
      }
      if (problem.empty()) return;
      if (changed > 0.5 * std::min(expected, seconds)) {
        result_.worst_error = worst;
        runs = std::min(4 * runs, kMostRuns);
        continue;
      }
      if (++caught >= 2)
        throw Misbehaviour{Outcome::WrongResult,
                           "does not run as often as it is told: its inputs changed under way, and "
                           "its outputs are not those of the new ones; it " + problem};
    }
  }

  // The result, with what there is to say of one that ran to the end.
  Result finish() {
    result_.peak_bytes = process_->peak_bytes();
    result_.runs_per_sample = runs_;
    process_.reset();
    return result_;
  }

  Result fail(const Misbehaviour& what) {
    result_.outcome = what.outcome;
    result_.detail = "it " + what.detail;
    result_.samples.clear();
    process_.reset();
    return result_;
  }

 private:
  void start() {
    const File& executable = *batch_.executables[static_cast<size_t>(result_.candidate)];
    // Where its pages lie decides, for what just fits into a cache, as much as a schedule does: each time
    // it is measured it gets others.
    constexpr int64_t kMostCopied = int64_t{64} << 20;
    if (!bench_.is_exact() && executable.bytes() <= kMostCopied) {
      copy_ = make_file(executable.data(), executable.bytes());
    }
    Launch launch;
    launch.executable = (copy_ ? *copy_ : executable).descriptor();
    launch.executable_bytes = executable.bytes();
    launch.threads = batch_.threads + kMoreThreads;
    launch.arguments = {"candidate", "--serve", std::to_string(batch_.threads)};
    launch.memory_bytes = batch_.memory_bytes + executable.bytes() + kBaseBytes +
                          kThreadBytes * batch_.threads;
    for (const Descriptor& input : inputs_.descriptors()) launch.descriptors.push_back(input.get());
    for (const SharedMemory& output : outputs_) launch.descriptors.push_back(output.descriptor());
    for (const Port& port : batch_.inputs) launch.memory_bytes += port.bytes;
    for (const Port& port : batch_.outputs) launch.memory_bytes += port.bytes;
    launch.cpu_seconds = batch_.timeout_seconds * batch_.threads;
    bench_.prepare(launch, batch_, executable);
    const double begin = now_seconds();
    process_.emplace(launch);
    left_ -= wait('R', "starting") - begin;
  }

  double wait(char letter, const std::string& doing) {
    return process_->expect(letter, std::max(left_, 0.001), doing, cancelled_);
  }

  void tell(uint32_t runs) {
    process_->expect_silence("between two commands");
    uint8_t command[5] = {'N'};
    for (int i = 0; i < 4; ++i) command[1 + i] = static_cast<uint8_t>(runs >> 8 * i);
    process_->send(command, sizeof command);
  }

  // Seconds that the command took.
  double run_and_check(int set, uint32_t runs) {
    inputs_.show(set);
    poison_outputs(set);
    const double begin = now_seconds();
    tell(runs);
    const double seconds =
        wait('D', "running data set " + std::to_string(set + 1)) - begin;
    left_ -= seconds;
    const std::string problem = compare_outputs(set);
    if (!problem.empty()) throw Misbehaviour{Outcome::WrongResult, problem};
    if (seconds < kLeastSeconds * runs)
      throw Misbehaviour{Outcome::WrongResult,
                         "does not run as often as it is told: " + std::to_string(runs) +
                             " runs took " + microseconds(seconds)};
    return seconds;
  }

  void poison_outputs(int set) {
    for (const SharedMemory& output : outputs_)
      if (output.bytes() > 0)
        std::memset(output.data(), poison(set), static_cast<size_t>(output.mapped_bytes()));
  }

  // Empty, or what is wrong with the outputs as those of that data set.
  std::string compare_outputs(int set) {
    const Batch::DataSet& data = batch_.data_sets[static_cast<size_t>(set)];
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Port& port = batch_.outputs[i];
      const SharedMemory& output = outputs_[i];
      const Comparison found = compare(port, output.data(), data.expected[i]->data(),
                                       batch_.tolerance, poison(set));
      result_.worst_error = std::max(result_.worst_error, found.worst);
      if (!found.good)
        return "gave a wrong result on data set " + std::to_string(set + 1) + " of " +
               std::to_string(batch_.data_sets.size()) + ": " + found.text;
      for (int64_t at = port.bytes; at < output.mapped_bytes(); ++at)
        if (output.data()[at] != poison(set))
          return "wrote behind the end of output '" + port.name + "' (byte " + std::to_string(at) +
                 " of " + std::to_string(port.bytes) + ")";
    }
    return "";
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
    const double seconds =
        std::min(batch_.sample_seconds, 0.5 * std::max(left_, 0.0) / (batch_.rounds + 2));
    const double runs = std::ceil(seconds / std::max(seconds_per_run_, 1e-9));
    return static_cast<uint32_t>(std::clamp(runs, 1.0, static_cast<double>(kMostRuns)));
  }

  Bench& bench_;
  const Batch& batch_;
  Inputs& inputs_;
  const std::function<bool()>& cancelled_;
  std::vector<SharedMemory> outputs_;
  std::shared_ptr<const File> copy_;
  std::optional<Process> process_;
  Result result_;
  double left_;                 // of its time, in seconds
  double seconds_per_run_ = 0;
  uint32_t runs_ = 1;
};

}  // namespace

void measure_batch(Bench& bench, const Batch& batch,
                   const std::function<void(const Result&)>& done,
                   const std::function<bool()>& cancelled) {
  try {
    Inputs inputs(batch);
    std::vector<std::unique_ptr<Candidate>> alive;
    double too_slow = INFINITY;
    // Does a step of a candidate; whether it goes on.
    const auto step = [&](Candidate& candidate, auto&& action) {
      try {
        action(candidate);
        return true;
      } catch (const Misbehaviour& what) {
        done(candidate.fail(what));
        return false;
      }
    };
    for (size_t i = 0; i < batch.executables.size(); ++i) {
      auto candidate =
          std::make_unique<Candidate>(bench, batch, static_cast<int>(i), inputs, cancelled);
      bool sampled = false;
      if (!step(*candidate, [&](Candidate& it) { sampled = it.verify(too_slow); })) continue;
      if (i == 0 && batch.slow_ratio > 0) too_slow = batch.slow_ratio * candidate->seconds_per_call();
      if (!sampled) done(candidate->finish());
      else alive.push_back(std::move(candidate));
    }
    for (int round = 0; round < batch.rounds; ++round)
      std::erase_if(alive, [&](std::unique_ptr<Candidate>& candidate) {
        return !step(*candidate, [&](Candidate& it) { it.sample(round); });
      });
    for (std::unique_ptr<Candidate>& candidate : alive) {
      if (step(*candidate, [](Candidate& it) { it.check_work(); })) done(candidate->finish());
      candidate.reset();
    }
  } catch (const Cancelled&) {
    // Whoever asked is gone.
  }
}

}  // namespace tc::agent
