// Tuning a model: the budget goes to the kernels that take most of its time, and every result goes to the
// log.
#include "tuner/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <set>

#include "ir/error.h"
#include "ir/hash.h"
#include "scheduler/scheduler.h"
#include "tuner/least_time.h"
#include "tuner/search.h"

namespace tc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatch = 8;
// Samples of each candidate in the three rounds of a batch (successive halving): the first measures all, the
// second the faster half, the third the fastest two.
constexpr int kRounds[] = {3, 7, 15};
constexpr size_t kHotKernels = 6;            // that are judged one by one inside the whole model
constexpr size_t kDeterministicKernels = 3;  // the same, where the device is a slow simulator
constexpr int kRankDraws = 5, kRankRounds = 4;
// How often the winning model is measured again, and by how many standard errors it has to be faster.
constexpr int kModelDraws = 12, kDrawRounds = 4;
constexpr double kSureErrors = 2.2;
constexpr double kModelShare = 0.2, kMaxModelSeconds = 60;  // of a time limit
constexpr double kPriorGain = 0.25;  // expected of a kernel's first batch, as a share of its time
constexpr double kMinGain = 0.002;

// One kernel of the session.
struct Tuned {
  const KernelTask* task = nullptr;
  std::unique_ptr<KernelSearch> search;
  std::map<Trace, Measurement> known;  // results of the log and of this session, by trace
  KernelProgress progress;
  double untuned_time = 0;
  double expected_gain = kPriorGain;
  bool exhausted = false;
  double least_time = 0;  // lower bound for any schedule
  bool broken = false;    // the untuned schedule cannot be measured

  double time() const { return untuned_time * (search ? search->best_ratio() : 1) * task->calls; }
};

class Session {
 public:
  Session(const std::vector<KernelTask>& tasks, Measurer& measurer, RecordStore& log,
          const TuneOptions& options, const std::function<bool(const TuneProgress&)>& progress)
      : measurer_(measurer), log_(log), options_(options), progress_(progress) {
    result_.last.unit = measurer.unit();
    for (const KernelTask& task : tasks) add(task);
    if (seeds_ > 0)
      result_.notes.push_back(
          text(seeds_,
               " schedules that the log has of other targets, devices or compilers are tried "
               "first; their times are not used"));
    name_ = session_name(tasks);
    spent_before_ = log_.seconds_spent(name_);
    settled_ = Clock::now();
  }

  TuneResult run(const MeasureModel& measure_model) {
    measure_untuned();
    while (Tuned* next = pick()) spend(*next);
    if (result_.stopped.empty()) result_.stopped = budget_left() ? "exhausted" : "budget";
    settle_time();
    if (result_.stopped != "interrupted" && result_.last.measured > 0) {
      rank_in_model(measure_model);
      settle_time();
    }
    for (const Tuned& kernel : kernels_) {
      if (result_.choices.count(kernel.task->workload) || kernel.broken) continue;
      // Where no whole models were compared, each kernel's own ranking decides.
      if (result_.model_ratio == 0 && kernel.search->best() != kernel.task->untuned)
        result_.choices[kernel.task->workload] = kernel.search->best();
    }
    report("done");
    return result_;
  }

 private:
  void add(const KernelTask& task) {
    Tuned kernel;
    kernel.task = &task;
    kernel.progress.label = task.label;
    kernel.progress.calls = task.calls;
    const double lanes = std::max(1, task.target.lanes(DType::F32));
    const double peak = 2 * lanes * task.target.multiply_adds * measurer_.clock_hz();
    kernel.least_time = least_time(task, measurer_.unit());
    kernel.progress.roof_seconds = flop_count(task.kernel, {}) / peak / std::max(1, task.threads);
    SearchOptions search;
    search.seed = options_.seed;
    search.from_random = options_.from_random;
    RecordFilter filter;
    filter.workload = task.workload;
    for (const Record& record : log_.records(filter, &result_.notes)) {
      const bool same = record.target == task.target.name && record.device == measurer_.device_key() &&
                        record.threads == task.threads && record.build == options_.build;
      if (same) kernel.known[record.trace] = believed(record.measurement, kernel.least_time, record.unit);
      // Measured for another target, device or thread count, or with another build: the trace is worth
      // trying, but its time is not used.
      else if (record.measurement.outcome == Outcome::Ok && search.seeds.size() < 4)
        search.seeds.push_back(record.trace);
    }
    seeds_ += search.seeds.size();
    if (!options_.from_random)
      search.seeds.insert(search.seeds.begin(), task.algorithms.begin(), task.algorithms.end());
    kernel.search = std::make_unique<KernelSearch>(task, search);
    kernels_.push_back(std::move(kernel));
    result_.last.kernels.emplace_back();
  }

  // Runs with the same kernels, kind of device and options belong to one session.
  std::string session_name(const std::vector<KernelTask>& tasks) const {
    std::vector<std::string> workloads;
    for (const KernelTask& task : tasks) workloads.push_back(task.workload);
    std::sort(workloads.begin(), workloads.end());
    std::string all;
    for (const std::string& workload : workloads) all += workload + '\0';
    const KernelTask* first = tasks.empty() ? nullptr : &tasks[0];
    return text(first ? first->target.name : "", "|", measurer_.device_key(), "|", first ? first->threads : 0,
                "|", options_.build, "|", options_.seed, options_.from_random ? "r" : "", "|", fnv1a(all));
  }

  double seconds() const {
    return spent_before_ + std::chrono::duration<double>(Clock::now() - started_).count();
  }
  // The last part of a time limit is reserved for measuring the whole model.
  bool budget_left() const {
    const double kept = std::min(kMaxModelSeconds, kModelShare * options_.time_limit);
    return (options_.trials == 0 || result_.last.trials < options_.trials) &&
           (options_.time_limit == 0 || seconds() < options_.time_limit - kept);
  }

  // Adds the time since the last call to the session's account in the log.
  void settle_time() {
    const auto now = Clock::now();
    if (result_.last.measured > 0)
      log_.add_seconds_spent(name_, std::chrono::duration<double>(now - settled_).count());
    settled_ = now;
  }

  void report(const std::string& doing) {
    TuneProgress& progress = result_.last;
    progress.doing = doing;
    progress.seconds = seconds();
    progress.seconds_left =
        options_.time_limit > 0 ? std::max(0.0, options_.time_limit - progress.seconds) : -1;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      Tuned& kernel = kernels_[i];
      kernel.progress.untuned = kernel.untuned_time;
      kernel.progress.best = kernel.untuned_time * kernel.search->best_ratio();
      progress.kernels[i] = kernel.progress;
    }
    if (progress_ && !progress_(progress)) result_.stopped = "interrupted";
  }

  // The measurements of the traces, from the log where it has them and unless `again` is set. The others are
  // measured now, and logged before they are used.
  std::vector<Measurement> measure(Tuned& kernel, const std::vector<Trace>& traces, int rounds, bool again) {
    std::vector<Trace> unknown;
    for (const Trace& trace : traces) {
      if (again || !kernel.known.count(trace)) unknown.push_back(trace);
    }
    if (!unknown.empty()) {
      std::vector<Measurement> fresh = measurer_.measure(*kernel.task, kernel.task->untuned, unknown, rounds);
      for (Measurement& result : fresh) result = believed(result, kernel.least_time, measurer_.unit());
      std::vector<Record> records;
      for (size_t i = 0; i < unknown.size(); ++i) {
        // A lost device says nothing about the candidate, so it is not logged.
        if (fresh[i].outcome != Outcome::DeviceLost) {
          records.push_back(record_of(kernel, unknown[i], fresh[i]));
        } else if (kernel.known.count(unknown[i])) {
          continue;  // its earlier result is still valid
        }
        kernel.known[unknown[i]] = fresh[i];
      }
      log_.add(records);
      if (!again) result_.last.measured += static_cast<int>(unknown.size());
    }
    std::vector<Measurement> results;
    for (const Trace& trace : traces) results.push_back(kernel.known.at(trace));
    return results;
  }

  Record record_of(const Tuned& kernel, const Trace& trace, const Measurement& measurement) const {
    Record record;
    record.workload = kernel.task->workload;
    record.target = kernel.task->target.name;
    record.device = measurer_.device_key();
    record.unit = measurer_.unit();
    record.threads = kernel.task->threads;
    record.trace = trace;
    record.measurement = measurement;
    record.build = options_.build;
    record.seed = options_.seed;
    record.created = static_cast<int64_t>(std::time(nullptr));
    return record;
  }

  void count(Tuned& kernel, const std::vector<Measurement>& results) {
    for (const Measurement& result : results) {
      ++kernel.progress.trials;
      ++result_.last.trials;
      if (result.outcome == Outcome::Ok) continue;
      ++kernel.progress.failures[result.outcome];
      if (kernel.progress.example.empty())
        kernel.progress.example = text(name_of(result.outcome), ": ", result.detail);
    }
  }

  void measure_untuned() {
    for (Tuned& kernel : kernels_) {
      if (stopped()) return;
      report("measuring " + kernel.task->label);
      const std::vector<Trace> first =
          options_.from_random ? std::vector<Trace>{} : kernel.search->propose(1);
      TC_CHECK(first.empty() || first[0] == kernel.task->untuned);
      const Measurement untuned = measure(kernel, {kernel.task->untuned}, kRounds[1], false)[0];
      if (!first.empty()) kernel.search->learn(first, {untuned});
      count(kernel, {untuned});
      kernel.untuned_time = untuned.time.median;
      kernel.broken = untuned.outcome != Outcome::Ok;
      if (kernel.broken)
        result_.notes.push_back(text("kernel ", kernel.task->label,
                                     " is not tuned: its untuned schedule is '", name_of(untuned.outcome),
                                     "': ", untuned.detail));
    }
  }

  bool stopped() const { return !result_.stopped.empty(); }

  // The kernel where one more batch is expected to save most of the model's time; null where tuning is to
  // end.
  Tuned* pick() {
    if (stopped() || !budget_left()) return nullptr;
    Tuned* best = nullptr;
    double most = 0;
    for (Tuned& kernel : kernels_) {
      if (kernel.broken || kernel.exhausted) continue;
      const double saved = kernel.time() * kernel.expected_gain;
      if (saved > most) {
        most = saved;
        best = &kernel;
      }
    }
    return best;
  }

  // Measures one batch of candidates of the kernel, by successive halving.
  void spend(Tuned& kernel) {
    report("measuring " + kernel.task->label);
    if (stopped()) return;
    int wanted = kBatch;
    if (options_.trials > 0) wanted = std::min(wanted, options_.trials - result_.last.trials);
    std::vector<Trace> traces = kernel.search->propose(wanted);
    if (traces.empty()) {
      kernel.exhausted = true;
      return;
    }
    const double before = kernel.search->best_ratio();
    const int measured_before = result_.last.measured;
    std::vector<Measurement> results = measure(kernel, traces, kRounds[0], false);
    count(kernel, results);
    // Where the log had the whole batch, it also had the results of the further rounds.
    const bool fresh = result_.last.measured > measured_before;
    size_t keep = (traces.size() + 1) / 2;
    for (int round = 1; round < 3 && fresh && !is_deterministic();
         ++round, keep = std::min<size_t>(keep, 2)) {
      std::vector<size_t> order;
      for (size_t i = 0; i < results.size(); ++i) {
        // A candidate that is clearly slower than the untuned schedule or the best so far will not be chosen,
        // so that its exact time does not matter.
        const bool in_question = results[i].ratio < 1.1 * std::min(before, 1.0);
        if (results[i].outcome == Outcome::Ok && in_question) order.push_back(i);
      }
      std::sort(order.begin(), order.end(),
                [&](size_t a, size_t b) { return results[a].ratio < results[b].ratio; });
      if (order.size() > keep) order.resize(keep);
      if (order.empty()) break;
      std::vector<Trace> survivors;
      for (const size_t i : order) survivors.push_back(traces[i]);
      const std::vector<Measurement> sharper = measure(kernel, survivors, kRounds[round], true);
      for (size_t i = 0; i < order.size(); ++i) results[order[i]] = sharper[i];
    }
    kernel.search->learn(traces, results);
    const double gain = 1 - kernel.search->best_ratio() / before;
    // The average of the old expectation and of what this batch gained; never 0.
    kernel.expected_gain = std::max(kMinGain, 0.5 * kernel.expected_gain + 0.5 * std::max(0.0, gain));
    settle_time();
  }

  // What the kernel's best schedule saves in one run of the whole model, by measurements of the kernel alone.
  static double saved(const Tuned& kernel) {
    return kernel.untuned_time * kernel.task->calls - kernel.time();
  }

  // Kernels that have a schedule faster than the untuned one; those that save most come first.
  std::vector<Tuned*> changed_kernels() {
    std::vector<Tuned*> changed;
    for (Tuned& kernel : kernels_) {
      // A search that started from random schedules may not have reached the speed of the untuned one.
      const bool faster = kernel.search->best() != kernel.task->untuned && kernel.search->best_ratio() < 1;
      if (!kernel.broken && faster) changed.push_back(&kernel);
    }
    std::stable_sort(changed.begin(), changed.end(),
                     [](const Tuned* a, const Tuned* b) { return saved(*a) > saved(*b); });
    return changed;
  }

  // A simulator, which does not count seconds, gives the same result every time: one measurement is enough.
  bool is_deterministic() const { return measurer_.unit() != "seconds"; }

  // Logarithms of (time of a whole model / time of the untuned one), one per draw; none for a model that
  // failed.
  struct Ranked {
    std::vector<std::vector<double>> draws;  // by variant
    bool good(size_t variant) const {
      return !draws[variant].empty() && draws[variant].size() == draws[0].size();
    }
    double mean(size_t variant) const { return average(draws[variant]); }
    // Standard error of the mean difference between two variants in the same draws.
    double error(size_t one, size_t other) const {
      std::vector<double> differences;
      for (size_t i = 0; i < draws[one].size(); ++i) differences.push_back(draws[one][i] - draws[other][i]);
      return error_of(differences);
    }
    static double average(const std::vector<double>& values) {
      double sum = 0;
      for (const double value : values) sum += value;
      return sum / static_cast<double>(values.size());
    }
    static double error_of(const std::vector<double>& values) {
      if (values.size() < 2) return 0;
      const double mean = average(values);
      double squares = 0;
      for (const double value : values) squares += (value - mean) * (value - mean);
      const auto count = static_cast<double>(values.size());
      return std::sqrt(squares / (count - 1) / count);
    }
  };

  // Measures all variants `draws` times. Each draw gets other memory pages: where constants just fit into a
  // cache, their addresses change the time by some percent.
  Ranked rank(const MeasureModel& measure_model, const std::vector<Choices>& variants, int draws,
              int rounds) {
    Ranked ranked;
    ranked.draws.resize(variants.size());
    std::set<size_t> failed;
    const bool known = is_deterministic() &&
                       std::all_of(variants.begin(), variants.end(),
                                   [this](const Choices& choices) { return exact_.count(choices) > 0; });
    for (size_t i = 0; known && i < variants.size(); ++i) ranked.draws[i] = {exact_.at(variants[i])};
    for (int draw = 0; draw < (known ? 0 : is_deterministic() ? 1 : draws); ++draw) {
      const std::vector<Measurement> measured = measure_model(variants, rounds);
      for (size_t i = 0; i < variants.size(); ++i) {
        if (measured[i].outcome == Outcome::Ok) {
          ranked.draws[i].push_back(std::log(measured[i].ratio));
          exact_[variants[i]] = ranked.draws[i].back();
        } else if (measured[i].outcome != Outcome::Noisy && failed.insert(i).second) {
          result_.notes.push_back(
              text("a whole model is '", name_of(measured[i].outcome), "': ", measured[i].detail));
        }
      }
    }
    return ranked;
  }

  // The choices of the kernels that gain inside the model. One variant of the model has the best schedule of
  // every kernel. For each of the first few kernels there are two more, in which that kernel alone is
  // untuned, or has its second best schedule. What the model loses without a kernel's best schedule is what
  // this one gains.
  Choices choose_by_kernel(const MeasureModel& measure_model, const std::vector<Tuned*>& changed,
                           bool& failed) {
    Choices all;
    double untuned_time = 0;
    for (const Tuned* kernel : changed) all[kernel->task->workload] = kernel->search->best();
    for (const Tuned& kernel : kernels_) untuned_time += kernel.untuned_time * kernel.task->calls;
    struct Option {
      Tuned* kernel;
      size_t without, second;  // variants; second: 0 where there is none
    };
    std::vector<Choices> variants = {{}, all};
    std::vector<Option> options;
    for (Tuned* kernel : changed) {
      if (options.size() == (is_deterministic() ? kDeterministicKernels : kHotKernels)) break;
      Option option{kernel, variants.size(), 0};
      variants.push_back(all);
      variants.back().erase(kernel->task->workload);
      for (const Trace& other : kernel->search->fastest(2)) {
        if (is_deterministic() || other == kernel->search->best() || other == kernel->task->untuned) continue;
        option.second = variants.size();
        variants.push_back(all);
        variants.back()[kernel->task->workload] = other;
      }
      options.push_back(option);
    }
    const Ranked ranked = rank(measure_model, variants, kRankDraws, kRankRounds);
    failed = !ranked.good(0);
    if (failed) return {};
    Choices chosen = all;
    for (const Option& option : options) {
      const std::string& workload = option.kernel->task->workload;
      if (!ranked.good(option.without)) continue;
      // The measurements of the kernel alone count too, and the less so the more certain those of the model
      // are.
      const double expected = saved(*option.kernel) / untuned_time;
      const double doubt = expected * expected + 1e-12;
      const auto gain = [&](size_t with) -> double {
        if (!ranked.good(with)) return -INFINITY;
        const double measured = ranked.mean(option.without) - ranked.mean(with);
        const double error = ranked.error(option.without, with);
        return (measured * doubt + expected * error * error) / (doubt + error * error);
      };
      const double best = gain(1), second = option.second > 0 ? gain(option.second) : -INFINITY;
      if (std::max(best, second) <= 0) chosen.erase(workload);
      else if (second > best) chosen[workload] = variants[option.second].at(workload);
    }
    return chosen;
  }

  void rank_in_model(const MeasureModel& measure_model) {
    const std::vector<Tuned*> changed = changed_kernels();
    if (!measure_model || changed.empty()) return;
    report("whole model");
    if (result_.stopped == "interrupted") return;
    bool failed = false;
    const Choices chosen = choose_by_kernel(measure_model, changed, failed);
    result_.model_ratio = 1;
    // The winner among several may have been lucky: it has to win a second time, by a significant difference.
    if (!failed && !chosen.empty()) {
      const Ranked ranked = rank(measure_model, {{}, chosen}, kModelDraws, kDrawRounds);
      failed = !ranked.good(0);
      const bool sure =
          ranked.good(1) && ranked.mean(1) + kSureErrors * Ranked::error_of(ranked.draws[1]) < 0;
      if (sure) {
        result_.model_ratio = std::exp(ranked.mean(1));
        result_.choices = chosen;
      }
    }
    if (result_.model_ratio == 1) {
      result_.notes.push_back(failed ? "the whole model could not be measured: the untuned schedules are kept"
                                     : "the whole model is not surely faster with any tuned schedule: "
                                       "the untuned ones are kept");
    }
    remember_choices();
  }

  void remember_choices() {
    std::vector<Record> records;
    for (const Tuned& kernel : kernels_) {
      if (kernel.broken) continue;
      const auto found = result_.choices.find(kernel.task->workload);
      const Trace& trace = found == result_.choices.end() ? kernel.task->untuned : found->second;
      records.push_back(record_of(kernel, trace, {}));
    }
    log_.choose(records);
  }

  Measurer& measurer_;
  RecordStore& log_;
  const TuneOptions options_;
  const std::function<bool(const TuneProgress&)>& progress_;
  std::vector<Tuned> kernels_;
  TuneResult result_;
  std::string name_;
  std::map<Choices, double> exact_;  // results of whole models, reused where is_deterministic()
  size_t seeds_ = 0;
  double spent_before_ = 0;
  const Clock::time_point started_ = Clock::now();
  Clock::time_point settled_;
};

}  // namespace

TuneResult tune(const std::vector<KernelTask>& tasks, Measurer& measurer, RecordStore& log,
                const TuneOptions& options, const MeasureModel& measure_model,
                const std::function<bool(const TuneProgress&)>& progress) {
  return Session(tasks, measurer, log, options, progress).run(measure_model);
}

}  // namespace tc
