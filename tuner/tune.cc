// Tuning a model: the budget goes to the kernels that take most of its time, and every result goes to the
// log.
#include "tuner/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <numeric>

#include "ir/error.h"
#include "ir/hash.h"
#include "ir/interrupt.h"
#include "scheduler/scheduler.h"
#include "tuner/least_time.h"
#include "tuner/transfer.h"
#include "tuner/tuned_kernel.h"
#include "tuner/whole_model.h"

namespace tc {
namespace {

constexpr int kBatch = 8;
constexpr size_t kSimilar = 4;  // schedules of other kernels that are tried first
// Samples of each candidate in the three rounds of a batch (successive halving): the first measures all, the
// second the faster half, the third the fastest two.
constexpr int kRounds[] = {3, 7, 15};
// Shares of what is left of a time limit when a session begins: the most that is reserved for comparing whole
// models, what is reserved where nobody knows better, and the most of it; and of the rest, what measuring
// untuned schedules may take.
constexpr double kMaxModelShare = 0.6, kModelShare = 0.2, kMaxModelSeconds = 60, kUntunedShare = 0.5;
// The most where the device is exact: the kernels' own times decide well there if the model is not measured.
constexpr double kMaxExactModelShare = 0.35;
// What comparing whole models is estimated to take is multiplied by this.
constexpr double kCaution = 1.25;
constexpr double kPriorGain = 0.25;  // expected of a kernel's first batch, as a share of its time
constexpr double kMinGain = 0.002;

// What a measurement throws that the time limit has ended.
class TimeIsOver {};

std::string training_note(size_t records) {
  if (records > 0) return text("the cost model is trained on ", records, " records of the log");
  return "the log has no records of other kernels like these that could train the cost model: the search "
         "learns from its own measurements alone";
}

void tell_of_roof(TunedKernels& kernels, std::vector<std::string>& notes) {
  const auto count = std::count_if(kernels.begin(), kernels.end(),
                                   [](const TunedKernel& kernel) { return kernel.at_roof(); });
  if (count > 0)
    notes.push_back(text(count, " of ", kernels.size(), " kernels take no more than ",
                         std::lround(100 * (TunedKernel::kNearRoof - 1)),
                         " % longer than the core's peak rate allows: no more schedules of them were tried"));
}

class Session {
 public:
  Session(const std::vector<KernelTask>& tasks, const std::vector<SessionModel>& models, Measurer& measurer,
          RecordStore& log, const TuneOptions& options,
          const std::function<bool(const TuneProgress&)>& progress)
      : models_(models),
        kernels_(models.size()),
        measurer_(measurer),
        log_(log),
        options_(options),
        progress_(progress),
        transfer_(tasks, log, {measurer.device_key(), options.build}) {
    result_.last.unit = measurer.unit();
    if (options.model) trained_on_ = transfer_.train(*options.model);
    for (const KernelTask& task : tasks) add(task);
    kernels_.weigh([](const TunedKernel& kernel) { return kernel.task->predicted_seconds; });
    if (seeds_ > 0)
      result_.notes.push_back(
          text(seeds_,
               " schedules that the log has of other targets, devices or compilers are tried "
               "first; their times are not used"));
    if (similar_ > 0)
      result_.notes.push_back(
          text(similar_, " schedules that the log has of kernels of other sizes are tried first"));
    if (options.model) result_.notes.push_back(training_note(trained_on_));
    name_ = session_name(tasks);
    spent_before_ = log_.seconds_spent(name_);
    settled_ = started_ - options_.seconds_before;
    time_for_session_ = std::max(0.0, seconds_left());
  }

  SessionResult run() {
    decides_ =
        std::any_of(models_.begin(), models_.end(), [](const SessionModel& m) { return bool(m.measure); });
    measure_untuned();
    kernels_.weigh([](const TunedKernel& kernel) { return kernel.untuned_time; });
    while (TunedKernel* next = pick()) spend(*next);
    tell_of_roof(kernels_, result_.notes);
    if (result_.stopped.empty()) result_.stopped = budget_left() && !too_slow_ ? "exhausted" : "budget";
    settle_time();
    SessionResult session;
    session.models.resize(models_.size());
    for (size_t m = 0; m < models_.size(); ++m) {
      if (result_.stopped == "interrupted" || result_.last.measured == 0) break;
      rank_in_model(m, session.models[m]);
      settle_time();
    }
    for (size_t m = 0; m < models_.size(); ++m) choose_by_kernels(m, session.models[m]);
    report("done");
    for (size_t m = 0; m < models_.size(); ++m) complete(m, session.models[m]);
    session.all = result_;
    return session;
  }

 private:
  void add(const KernelTask& task) {
    TunedKernel kernel;
    kernel.task = &task;
    kernel.expected_gain = kPriorGain;
    kernel.progress.label = task.label;
    for (const SessionModel& model : models_) {
      const auto use = model.uses.find(task.workload);
      kernel.calls.push_back(use == model.uses.end() ? 0 : use->second.calls);
    }
    kernel.progress.calls = std::accumulate(kernel.calls.begin(), kernel.calls.end(), 0);
    kernel.least_time = least_time(task, measurer_.unit());
    kernel.progress.roof_seconds = peak_cycles(task) / measurer_.clock_hz();
    // The clock of a device that measures seconds is not known well enough for a limit.
    if (is_deterministic()) kernel.roof = roof_cycles(task, measurer_.device_key());
    SearchOptions search;
    search.seed = options_.seed;
    search.from_random = options_.from_random;
    if (trained_on_ > 0) search.model = options_.model.get();
    search.seeds = recall(kernel, log_, {measurer_.device_key(), options_.build}, result_.notes);
    seeds_ += search.seeds.size();
    for (Trace& trace : transfer_.seeds(task, kSimilar)) {
      ++similar_;
      search.seeds.push_back(std::move(trace));
    }
    if (!options_.from_random)
      search.seeds.insert(search.seeds.begin(), task.algorithms.begin(), task.algorithms.end());
    kernel.search = std::make_unique<KernelSearch>(task, search);
    kernels_.add(std::move(kernel));
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

  double now() const {
    return options_.clock
               ? options_.clock()
               : std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  double seconds() const { return spent_before_ + options_.seconds_before + now() - started_; }
  bool is_limited() const { return options_.time_limit > 0; }
  // Until the time limit; infinite where there is none.
  double seconds_left() const { return is_limited() ? options_.time_limit - seconds() : INFINITY; }
  // The last part of a time limit is reserved for comparing whole models.
  double reserve() const {
    if (!decides_) return 0;
    double pace = INFINITY;  // seconds per unit of the device's time
    for (const TunedKernel& kernel : kernels_) {
      if (kernel.untuned_time > 0 && kernel.pace > 0)
        pace = std::min(pace, kernel.pace / kernel.untuned_time);
    }
    double known = 0;
    bool all_known = true;
    for (size_t m = 0; m < models_.size(); ++m) {
      const double total = kernels_.untuned_time(m);
      const double run = is_deterministic() ? (std::isfinite(pace) ? total * pace : 0) : total;
      known += kCaution * seconds_to_decide(models_[m].build_seconds, run, is_deterministic());
      all_known = all_known && models_[m].build_seconds > 0;
    }
    if (!all_known) known = std::min(kMaxModelSeconds, kModelShare * time_for_session_);
    const double share = is_deterministic() ? kMaxExactModelShare : kMaxModelShare;
    return std::min(known, share * time_for_session_);
  }
  // Until the time that is reserved for comparing whole models.
  double kernel_seconds_left() const { return is_limited() ? seconds_left() - reserve() : INFINITY; }
  bool budget_left() const {
    return (options_.trials == 0 || result_.last.trials < options_.trials) && kernel_seconds_left() > 0;
  }

  // Adds the time since the last call to the session's account in the log.
  void settle_time() {
    const double end = now();
    if (result_.last.measured > 0) log_.add_seconds_spent(name_, end - settled_);
    settled_ = end;
  }

  void report(const std::string& doing) {
    TuneProgress& progress = result_.last;
    progress.doing = doing;
    progress.seconds = seconds();
    progress.seconds_left = is_limited() ? std::max(0.0, options_.time_limit - progress.seconds) : -1;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      TunedKernel& kernel = kernels_[i];
      kernel.progress.untuned = kernel.untuned_time;
      kernel.progress.best = kernel.untuned_time * kernel.search->best_ratio();
      progress.kernels[i] = kernel.progress;
    }
    if (progress_ && !progress_(progress)) result_.stopped = "interrupted";
  }

  // The measurements of the traces, from the log where it has them and unless `again` is set. The others are
  // measured now, and logged before they are used.
  std::vector<Measurement> measure(TunedKernel& kernel, const std::vector<Trace>& traces, int rounds,
                                   bool again) {
    std::vector<Trace> unknown;
    for (const Trace& trace : traces) {
      if (again || !kernel.known.count(trace)) unknown.push_back(trace);
    }
    if (!unknown.empty()) {
      const double begin = now();
      std::vector<Measurement> fresh = measure_within_limit(kernel, unknown, rounds);
      if (!again) kernel.pace = (now() - begin) / static_cast<double>(unknown.size());
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
      if (!again) {
        result_.last.measured += static_cast<int>(unknown.size());
        kernel.measured += static_cast<int>(unknown.size());
      }
    }
    std::vector<Measurement> results;
    for (const Trace& trace : traces) results.push_back(kernel.known.at(trace));
    return results;
  }

  // Ends where the time limit does, however slow the device is. What a device measured until then is lost.
  std::vector<Measurement> measure_within_limit(const TunedKernel& kernel, const std::vector<Trace>& traces,
                                                int rounds) {
    if (seconds_left() <= 0) throw TimeIsOver();
    const TimeLimit limit(is_limited() ? seconds_left() : 0);
    try {
      return measurer_.measure(*kernel.task, kernel.task->untuned, traces, rounds);
    } catch (const Interrupted&) {
      if (limit.is_over()) throw TimeIsOver();
      throw;
    }
  }

  Record record_of(const TunedKernel& kernel, const Trace& trace, const Measurement& measurement) const {
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

  void count(TunedKernel& kernel, const std::vector<Measurement>& results) {
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
    const double begin = seconds(), share = kUntunedShare * (options_.time_limit - begin);
    double all = 0, skipped = 0;  // predicted seconds
    int number = 0;
    const std::vector<TunedKernel*> order = kernels_.by_prediction();
    for (size_t i = 0; i < order.size(); ++i) {
      TunedKernel* const kernel = order[i];
      if (stopped()) return;
      const double predicted = kernel->task->predicted_seconds * kernels_.weight(*kernel);
      all += predicted;
      // The log may know it, which takes no time.
      const bool is_late =
          is_limited() && kernel != order.front() && !kernel->known.count(kernel->task->untuned) &&
          (seconds() - begin > share || kernel_seconds_left() <= seconds_for_untuned(*kernel));
      if (!is_late) report("measuring " + kernel->task->label);
      const TunedKernel* next = i + 1 < order.size() ? order[i + 1] : nullptr;
      if (next && !next->known.count(next->task->untuned)) measurer_.expect(next->task);
      if (is_late || !measure_untuned(*kernel)) {
        kernel->skipped = true;
        skipped += predicted;
        ++number;
      }
    }
    measurer_.expect(nullptr);
    if (number > 0)
      result_.notes.push_back(text("the time did not last to measure ", number, " of ", kernels_.size(),
                                   " kernels, which are predicted to take ",
                                   std::lround(100 * skipped / std::max(all, 1e-30)), " % of the ",
                                   models_.size() > 1 ? "models'" : "model's", " time: they stay untuned"));
  }

  // What measuring the kernel's untuned schedule takes at least, by what those before took on an exact
  // device, where it grows with the kernel.
  double seconds_for_untuned(const TunedKernel& kernel) const {
    if (!is_deterministic()) return 0;
    double least = INFINITY;  // seconds per predicted second
    for (const TunedKernel& other : kernels_)
      if (other.pace > 0 && other.task->predicted_seconds > 0)
        least = std::min(least, other.pace / other.task->predicted_seconds);
    return std::isfinite(least) ? least * kernel.task->predicted_seconds : 0;
  }

  // Returns false where the time did not last.
  bool measure_untuned(TunedKernel& kernel) {
    const std::vector<Trace> first = options_.from_random ? std::vector<Trace>{} : kernel.search->propose(1);
    TC_CHECK(first.empty() || first[0] == kernel.task->untuned);
    Measurement untuned;
    try {
      untuned = measure(kernel, {kernel.task->untuned}, kRounds[1], false)[0];
    } catch (const TimeIsOver&) {
      return false;
    }
    if (!first.empty()) kernel.search->learn(first, {untuned});
    count(kernel, {untuned});
    kernel.untuned_time = untuned.time.median;
    kernel.broken = untuned.outcome != Outcome::Ok;
    if (kernel.broken)
      result_.notes.push_back(text("kernel ", kernel.task->label, " is not tuned: its untuned schedule is '",
                                   name_of(untuned.outcome), "': ", untuned.detail));
    return true;
  }

  bool stopped() const { return !result_.stopped.empty(); }

  // The kernel where one more batch is expected to save most of the model's time; null where tuning is to
  // end.
  TunedKernel* pick() {
    if (stopped() || !budget_left()) return nullptr;
    TunedKernel* best = nullptr;
    double most = 0;
    for (TunedKernel& kernel : kernels_) {
      if (kernel.out() || kernel.exhausted || kernel.at_roof()) continue;
      if (most_candidates(kernel) == 0) {
        too_slow_ = true;
        continue;
      }
      const double saved = kernel.time() * kernels_.weight(kernel) * kernel.likely_gain();
      if (saved > most) {
        most = saved;
        best = &kernel;
      }
    }
    return best;
  }

  // How many candidates of the kernel there is time for, by the time that its last ones took.
  int most_candidates(const TunedKernel& kernel) const {
    if (!is_limited() || kernel.pace == 0) return kBatch;
    // The further rounds of a batch measure for longer, what is built by then.
    const double each = kernel.pace * (is_deterministic() ? 1 : 1.5);
    return static_cast<int>(std::clamp(kernel_seconds_left() / each, 0.0, double{kBatch}));
  }

  // Measures one batch of candidates of the kernel, by successive halving.
  void spend(TunedKernel& kernel) {
    report("measuring " + kernel.task->label);
    if (stopped()) return;
    int wanted = std::max(1, most_candidates(kernel));
    if (options_.trials > 0) wanted = std::min(wanted, options_.trials - result_.last.trials);
    std::vector<Trace> traces = kernel.search->propose(wanted);
    if (traces.empty()) {
      kernel.exhausted = true;
      return;
    }
    const double before = kernel.search->best_ratio();
    const int measured_before = result_.last.measured;
    std::vector<Measurement> results = measure_batch(kernel, traces);
    if (results.empty()) return;
    count(kernel, results);
    searched_ = true;
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
      try {
        const std::vector<Measurement> sharper = measure(kernel, survivors, kRounds[round], true);
        for (size_t i = 0; i < order.size(); ++i) results[order[i]] = sharper[i];
      } catch (const TimeIsOver&) {
        break;
      }
    }
    kernel.search->learn(traces, results);
    const double gain = 1 - kernel.search->best_ratio() / before;
    // The average of the old expectation and of what this batch gained; never 0.
    kernel.expected_gain = std::max(kMinGain, 0.5 * kernel.expected_gain + 0.5 * std::max(0.0, gain));
    settle_time();
  }

  // The first measurements of a batch, of which only those are returned, and left in `traces`, that the time
  // lasted for. On an exact device, where slow candidates may take longer than the pace of their kernel says,
  // up to kSlowRatio times as long, the batch is measured in parts that surely fit the time that is left, and
  // ends where not one candidate fits.
  std::vector<Measurement> measure_batch(TunedKernel& kernel, std::vector<Trace>& traces) {
    const bool in_parts = is_limited() && is_deterministic();
    std::vector<Measurement> results;
    try {
      while (results.size() < traces.size()) {
        if (in_parts && !results.empty() && most_candidates(kernel) == 0) break;
        const size_t left = traces.size() - results.size();
        const double sure = kernel.pace > 0 ? kernel_seconds_left() / (kSlowRatio * kernel.pace) : kBatch;
        const auto fit = static_cast<size_t>(std::clamp(sure, 1.0, double{kBatch}));
        const auto begin = traces.begin() + static_cast<std::ptrdiff_t>(results.size());
        const auto count = static_cast<std::ptrdiff_t>(in_parts ? std::min(left, fit) : left);
        for (Measurement& result : measure(kernel, {begin, begin + count}, kRounds[0], false))
          results.push_back(std::move(result));
      }
    } catch (const TimeIsOver&) {
      // What was measured before stays.
    }
    traces.resize(results.size());
    return results;
  }

  // A simulator, which does not count seconds, gives the same result every time: one measurement is enough.
  bool is_deterministic() const { return measurer_.unit() != "seconds"; }

  void rank_in_model(size_t model, TuneResult& result) {
    const std::vector<const TunedKernel*> changed = kernels_.changed(model);
    if (changed.empty()) {
      result.notes.push_back(
          searched_
              ? "no schedule was faster than the untuned one: the untuned ones are kept"
              : "only untuned schedules were measured, none was searched for: give more trials or time");
      return;
    }
    const SessionModel& measured = models_[model];
    if (!measured.measure) return;
    report(models_.size() > 1 ? "whole model " + measured.name : "whole model");
    if (result_.stopped == "interrupted") return;
    const double untuned = kernels_.untuned_time(model);
    std::vector<FasterKernel> faster;
    for (const TunedKernel* kernel : changed) {
      faster.push_back(
          {kernel->task->workload, {kernel->search->best()}, TunedKernels::saved(*kernel, model) / untuned});
      for (const Trace& other : kernel->search->fastest(2)) {
        if (other != kernel->search->best() && other != kernel->task->untuned)
          faster.back().fastest.push_back(other);
      }
    }
    // The models that are still to be compared share the time.
    const double after = seconds_left() * (1 - 1 / static_cast<double>(models_.size() - model));
    const auto left = [this, after] { return is_limited() ? seconds_left() - after : INFINITY; };
    const ModelDecision decision =
        decide_in_model(faster, is_deterministic(), measured.measure, left, result.notes);
    switch (decision.kind) {
      case ModelDecision::Kind::Faster: break;
      case ModelDecision::Kind::NotSurely:
        result.notes.push_back(
            "the whole model is not surely faster with any tuned schedule: "
            "the untuned ones are kept");
        break;
      case ModelDecision::Kind::Unmeasurable:
        result.notes.push_back("the whole model could not be measured: the untuned schedules are kept");
        break;
      case ModelDecision::Kind::NoTime:
        result.notes.push_back(
            "the time did not last to measure the whole model: each kernel takes the "
            "schedule that was fastest when it was measured by itself; another call with "
            "the same log and more time goes on from here");
        return;
    }
    result.model_ratio = decision.ratio;
    result.choices = decision.choices;
    remember_choices(model, result);
  }

  // What the model chose goes to the log, unless an earlier model chose another schedule for a kernel of
  // both.
  void remember_choices(size_t model, TuneResult& result) {
    int others = 0;
    for (const TunedKernel& kernel : kernels_) {
      if (kernel.out() || kernel.calls[model] == 0) continue;
      const auto found = result.choices.find(kernel.task->workload);
      const Trace& untuned = kernel.task->untuned;
      const Trace& trace = found == result.choices.end() ? untuned : found->second;
      const auto earlier = std::find_if(choices_.begin(), choices_.end(), [&](const Record& record) {
        return record.workload == kernel.task->workload;
      });
      if (earlier == choices_.end()) {
        choices_.push_back(record_of(kernel, trace, {}));
      } else if (earlier->trace == untuned) {
        earlier->trace = trace;
      } else {
        others += earlier->trace != trace;
      }
    }
    log_.choose(choices_);
    if (others > 0)
      result.notes.push_back(
          text(others, " kernels, which it shares with models before it, take the schedules chosen there"));
  }

  // Where no whole models were compared, each kernel's own ranking decides.
  void choose_by_kernels(size_t model, TuneResult& result) const {
    if (result.model_ratio != 0) return;
    for (const TunedKernel& kernel : kernels_) {
      if (kernel.calls[model] > 0 && !kernel.out() && kernel.search->best() != kernel.task->untuned)
        result.choices.emplace(kernel.task->workload, kernel.search->best());
    }
  }

  // Fills in what the session knows of the model's kernels.
  void complete(size_t model, TuneResult& result) const {
    result.stopped = result_.stopped;
    TuneProgress& last = result.last = result_.last;
    last.kernels.clear();
    last.trials = last.measured = 0;
    for (const TunedKernel& kernel : kernels_) {
      if (kernel.calls[model] == 0) continue;
      const SessionModel::Use& use = models_[model].uses.at(kernel.task->workload);
      last.kernels.push_back(kernel.progress);
      last.kernels.back().label = use.label;
      last.kernels.back().calls = use.calls;
      last.trials += kernel.progress.trials;
      last.measured += kernel.measured;
    }
  }

  const std::vector<SessionModel>& models_;
  TunedKernels kernels_;
  Measurer& measurer_;
  RecordStore& log_;
  const TuneOptions options_;
  const std::function<bool(const TuneProgress&)>& progress_;
  const double started_ = now();  // before the log is read
  const Transfer transfer_;
  size_t trained_on_ = 0, similar_ = 0;  // records of the log; schedules of other kernels
  std::vector<Record> choices_;          // that the log is to mark as chosen
  TuneResult result_;
  std::string name_;
  size_t seeds_ = 0;
  bool searched_ = false;  // other schedules than the untuned ones were tried
  bool decides_ = false;   // whole models are compared at the end
  bool too_slow_ = false;  // there was no time for one more candidate of some kernel
  double spent_before_ = 0;
  double time_for_session_ = 0;  // what was left of the limit when the session began
  double settled_ = 0;
};

}  // namespace

SessionResult tune_models(const std::vector<KernelTask>& tasks, const std::vector<SessionModel>& models,
                          Measurer& measurer, RecordStore& log, const TuneOptions& options,
                          const std::function<bool(const TuneProgress&)>& progress) {
  return Session(tasks, models, measurer, log, options, progress).run();
}

TuneResult tune(const std::vector<KernelTask>& tasks, Measurer& measurer, RecordStore& log,
                const TuneOptions& options, const MeasureModel& measure_model,
                const std::function<bool(const TuneProgress&)>& progress) {
  SessionModel model;
  for (const KernelTask& task : tasks) model.uses[task.workload] = {task.label, task.calls};
  model.measure = measure_model;
  SessionResult session = tune_models(tasks, {model}, measurer, log, options, progress);
  TuneResult& result = session.models.front();
  const std::vector<std::string>& notes = session.all.notes;
  result.notes.insert(result.notes.begin(), notes.begin(), notes.end());
  return result;
}

}  // namespace tc
