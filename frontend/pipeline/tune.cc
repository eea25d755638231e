// Tuning a model on devices.
#include "frontend/pipeline/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>
#include <set>

#include "codegen/backend/table.h"
#include "frontend/pipeline/model_program.h"
#include "frontend/pipeline/tune_devices.h"
#include "ir/error.h"
#include "ir/interrupt.h"
#include "runtime/new_file.h"
#include "runtime/rpc/sample_data.h"
#include "scheduler/scheduler.h"
#include "tuner/remote_measurer.h"
#include "tuner/run_library.h"

namespace tc {
namespace {

// The limit for one run of a whole model, whose kernels were verified before. It is long because simulators
// are slow.
constexpr double kModelTimeoutSeconds = 300;
constexpr double kPrepareShare = 0.6;  // of the time that is left: the most for building a whole model once
constexpr size_t kModelsAtOnce = 4;    // whole models that a builder gets before the time is looked at

// Counts how often one run of the model runs each kernel: a call in a loop counts once per iteration.
void count_calls(const PlanSteps& steps, int64_t trips, std::map<int, int64_t>& calls) {
  for (const PlanStep& step : steps) {
    switch (step.kind) {
      case PlanStep::Kind::Call: calls[step.kernel] += trips; break;
      case PlanStep::Kind::Copy:
      case PlanStep::Kind::Bind:
      case PlanStep::Kind::Grow:
      case PlanStep::Kind::Check: break;
      case PlanStep::Kind::Loop:
        count_calls(step.body, trips * (step.trip && step.trip->is_constant() ? step.trip->constant() : 1),
                    calls);
        break;
      case PlanStep::Kind::If:
        count_calls(step.body, trips, calls);
        count_calls(step.otherwise, trips, calls);
        break;
    }
  }
}

}  // namespace

std::vector<KernelTask> kernel_tasks(const CompiledModel& model, int threads, double tolerance,
                                     std::vector<std::string>* notes) {
  std::map<int, int64_t> calls;
  count_calls(model.plan.steps, 1, calls);
  std::map<int, int64_t> between = constant_bytes_between_calls(model.plan);
  std::vector<KernelTask> tasks;
  std::set<std::string> seen;
  std::vector<std::string> symbolic;
  for (const KernelReport& report : model.reports) {
    if (!seen.insert(report.workload).second) continue;
    interruption_point();
    KernelTask task;
    task.label = report.label;
    task.workload = report.workload;
    task.kernel = parse_kernel(report.statements);
    if (!task.kernel.parameters.empty()) {
      symbolic.push_back(report.label);
      continue;
    }
    task.layout_lines = report.layout_lines;
    task.target = model.target;
    task.threads = threads;
    task.tolerance = std::min(tolerance, report.tolerance);
    task.single_thread = report.single_thread;
    task.calls = static_cast<int>(std::min<int64_t>(calls[report.kernel], 1 << 30));
    task.predicted_seconds = report.predicted_seconds;
    task.bytes_between_calls = between[report.kernel];
    task.untuned = report.trace;
    Schedule start(task.kernel, task.target);
    if (!start.replay(task.layout_lines)) task.algorithms = algorithm_traces(start, threads, task.tolerance);
    tasks.push_back(std::move(task));
  }
  if (!symbolic.empty() && notes)
    notes->push_back(text(symbolic.size(), " kernels with symbolic sizes are not tuned (", symbolic[0],
                          symbolic.size() > 1 ? ", …" : "", "); bind the sizes with shapes="));
  return tasks;
}

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool has_symbols(const std::vector<PortInfo>& ports) {
  return std::any_of(ports.begin(), ports.end(), [](const PortInfo& port) {
    return std::any_of(port.shape.begin(), port.shape.end(),
                       [](const Dim& dim) { return !dim.is_constant(); });
  });
}

// Builds the whole model under several sets of choices, and measures it.
class WholeModel {
 public:
  WholeModel(const TunedSource& tuned, const TuneRequest& request, const CompiledModel& model, size_t number)
      : source_(*tuned.source), request_(request), untuned_(tuned.options), number_(number) {
    programs_.inputs = model.plan.inputs;
    programs_.outputs = model.plan.outputs;
    programs_.threads = worker_count(untuned_.threads);
    program_ = model_program(source_, untuned_);
  }

  // Whether it can be measured at all.
  bool has_sizes() const { return !has_symbols(programs_.inputs) && !has_symbols(programs_.outputs); }

  // Compiles the model for this machine and computes the outputs that are due, unless that is done.
  void prepare() {
    if (!programs_.data_sets.empty()) return;
    CompileOptions here = untuned_;
    here.target = "native";
    const TemporaryFile library;
    export_model(compile_model(source_, here), "shared", library.path(), request_.libraries);
    for (const uint64_t seed :
         {runtime::mix_bits(request_.tune.seed + 101), runtime::mix_bits(request_.tune.seed + 102)}) {
      auto& files = programs_.data_sets.emplace_back(seed, std::vector<RemoteFile>()).second;
      for (const Bytes& bytes : run_on_samples(library.path(), programs_.inputs, programs_.outputs, seed))
        files.push_back(remote_bytes(bytes.data(), bytes.size()));
    }
  }

  // As MeasureModel says.
  std::vector<Measurement> measure(RemoteMeasurer& measurer, CandidateBuilder& builder,
                                   const std::vector<Choices>& variants, int rounds, double seconds) {
    std::vector<Measurement> late(variants.size());
    for (Measurement& result : late) {
      result.outcome = Outcome::Timeout;
      result.detail = "the time of the session did not last";
    }
    const TimeLimit limit(seconds);
    try {
      return seconds > 0 ? measure_in_time(measurer, builder, variants, rounds, seconds, late) : late;
    } catch (const Interrupted&) {
      if (limit.is_over()) return late;
      throw;
    }
  }

 private:
  // `results` has what holds for variants that are not measured.
  std::vector<Measurement> measure_in_time(RemoteMeasurer& measurer, CandidateBuilder& builder,
                                           const std::vector<Choices>& variants, int rounds, double seconds,
                                           std::vector<Measurement> results) {
    const double begin = now();
    prepare();
    std::vector<size_t> which;
    programs_.executables.clear();
    const auto is_late = [&] { return now() - begin > seconds; };
    build_elsewhere(builder, variants, is_late);
    for (size_t i = 0; i < variants.size(); ++i) {
      if (const auto failed = failed_.find(variants[i]); failed != failed_.end()) {
        results[i] = failed->second;
        if (i > 0) continue;
        return std::vector<Measurement>(variants.size(), failed->second);  // there is nothing to compare with
      }
      if (!built_.count(variants[i]) && is_late()) break;
      programs_.executables.push_back(executable(variants[i]));
      which.push_back(i);
    }
    const double left = seconds - (now() - begin);
    if (which.empty() || left <= 0) return results;
    programs_.timeout_seconds = std::clamp(left, 1.0, kModelTimeoutSeconds);
    const std::vector<Measurement> measured = measurer.measure_programs(programs_, rounds);
    for (size_t i = 0; i < which.size(); ++i) results[which[i]] = measured[i];
    return results;
  }

  // Builds variants by the builder, until `is_late()`, unless it does not build this model.
  void build_elsewhere(CandidateBuilder& builder, const std::vector<Choices>& variants,
                       const std::function<bool()>& is_late) {
    std::vector<Choices> missing;
    for (const Choices& choices : variants) {
      if (!built_.count(choices) && !failed_.count(choices)) missing.push_back(choices);
    }
    while (program_ && !missing.empty() && !is_late()) {
      const auto end = missing.begin() + static_cast<ptrdiff_t>(std::min(missing.size(), kModelsAtOnce));
      const std::vector<Choices> next(missing.begin(), end);
      missing.erase(missing.begin(), end);
      bool does_not = false;
      const bool takes = builder.build_models(*program_, next, [&](size_t i, const BuiltCandidate& built) {
        if (built.outcome == Outcome::Ok) {
          keep(next[i], built.executable);
        } else if (built.outcome == Outcome::Illegal) {
          does_not = true;  // for instance because its weights are in other files; built here, it may do
        } else {
          failed_[next[i]].outcome = built.outcome;
          failed_[next[i]].detail = built.detail;
        }
      });
      if (!takes || does_not) program_.reset();
    }
  }

  void keep(const Choices& choices, const std::string& executable) {
    const std::string path = next_path();
    runtime::NewFile file;
    if (!file.open(path.c_str()) || !file.write(executable.data(), executable.size()) || !file.finish())
      fail(ErrorKind::Device, "a model cannot be kept at '", path, "': ", file.why(),
           "; free some disk space");
    built_.emplace(choices, remote_file(path));
  }

  std::string next_path() const { return text(request_.work_folder, "/model", number_, "_", built_.size()); }

  // A model that is measured several times is built once.
  RemoteFile executable(const Choices& choices) {
    const auto found = built_.find(choices);
    if (found != built_.end()) return found->second;
    CompileOptions options = untuned_;
    options.traces = [&choices](const std::string& workload) {
      const auto chosen = choices.find(workload);
      return chosen == choices.end() ? std::vector<Trace>{} : std::vector<Trace>{chosen->second};
    };
    const std::string path = next_path();
    export_model(compile_model(source_, options), candidate_kind(), path, request_.libraries);
    return built_.emplace(choices, remote_file(path)).first->second;
  }

  const Source& source_;
  const TuneRequest& request_;
  const CompileOptions untuned_;
  const size_t number_;  // of the model in its session
  ProgramSet programs_;
  std::map<Choices, RemoteFile> built_;
  std::map<Choices, Measurement> failed_;  // which no builder could build
  std::optional<ModelProgram> program_;    // nothing where the tuner builds the model itself
};

// The models of a session, each with its kernels in the session's tasks.
struct Session {
  std::vector<KernelTask> tasks;  // each workload once
  std::vector<SessionModel> models;
  std::vector<std::unique_ptr<WholeModel>> whole;
  std::vector<std::vector<std::string>> notes;  // on each model

  void add(TunedSource tuned, const TuneRequest& request) {
    CompileOptions& untuned = tuned.options;
    untuned.log.reset();
    untuned.traces = nullptr;
    std::vector<KernelTask> own;
    within_time(untuned, tuned.source->name, [&] {
      const CompiledModel model = plan_model(*tuned.source, untuned);
      own = kernel_tasks(model, worker_count(untuned.threads), untuned.tolerance, &notes.emplace_back());
      whole.push_back(std::make_unique<WholeModel>(tuned, request, model, whole.size()));
    });
    SessionModel& model = models.emplace_back();
    model.name = tuned.source->name;
    for (KernelTask& task : own) {
      model.uses[task.workload] = {task.label, task.calls};
      const auto same = std::find_if(tasks.begin(), tasks.end(), [&](const KernelTask& other) {
        return other.workload == task.workload;
      });
      if (same == tasks.end()) tasks.push_back(std::move(task));
      else same->bytes_between_calls = std::max(same->bytes_between_calls, task.bytes_between_calls);
    }
  }
};

// Hands progress on, and remembers it for notices, which come between and tell of the work so far as well.
class Follower {
 public:
  explicit Follower(const std::function<bool(const TuneProgress&)>& progress) : progress_(progress) {
    latest_.unit = "seconds";
  }

  bool follow(const TuneProgress& present) {
    {
      const std::lock_guard lock(mutex_);
      latest_ = present;
    }
    return !progress_ || progress_(present);
  }

  // As Tell says; may be called by other threads.
  void tell(const char* kind, const std::string& notice) {
    TuneProgress told;
    {
      const std::lock_guard lock(mutex_);
      told = latest_;
    }
    told.doing = notice;
    told.notice = kind;
    if (progress_ && !progress_(told)) throw Interrupted();
  }

 private:
  const std::function<bool(const TuneProgress&)>& progress_;
  std::mutex mutex_;
  TuneProgress latest_;
};

}  // namespace

SessionResult tune_sources(const std::vector<TunedSource>& sources, const TuneRequest& request,
                           RecordStore& log, CandidateBuilder& builder,
                           const std::function<bool(const TuneProgress&)>& progress) {
  const double begin = now() - request.tune.seconds_before;
  const CompileOptions& common = sources.at(0).options;
  const Target target = parse_target(common.target);
  const double most = request.tune.time_limit;
  const auto seconds_left = [&] { return most > 0 ? std::max(most - (now() - begin), 1e-9) : 0; };
  Session session;
  {
    const TimeLimit limit(seconds_left());
    try {
      for (const TunedSource& source : sources) session.add(source, request);
    } catch (const Interrupted&) {
      if (!limit.is_over()) throw;
      fail(ErrorKind::Unsupported, "the time limit of ", most,
           " s was over before the kernels of the model were known: give more time");
    }
  }

  MeasureOptions measure;
  measure.work_folder = request.work_folder;
  measure.tolerance = std::max(common.tolerance, 1e-5);
  measure.sample_seconds = request.sample_seconds;
  measure.seed = request.tune.seed;
  Follower follower(progress);
  const Tell tell = [&](const char* kind, const std::string& notice) { follower.tell(kind, notice); };
  const std::shared_ptr<TrackerClient> tracker = tracker_of(request, target);
  const double most_wait = most > 0 ? seconds_left() : INFINITY;
  RemoteMeasurer measurer(device_opener(request, tracker, target, most_wait, tell), builder, measure);
  TrackerWatch watch(tracker, tell);
  const std::function<void()> look = [&] { watch.look(); };
  const LookingAround looking(look);

  TuneOptions options = request.tune;
  for (size_t i = 0; i < sources.size(); ++i) {
    WholeModel& whole = *session.whole[i];
    if (!whole.has_sizes()) {
      session.notes[i].push_back(
          "the model's shapes are symbolic: kernels were not ranked again in the whole model");
      continue;
    }
    SessionModel& model = session.models[i];
    model.measure = [&](const std::vector<Choices>& variants, int rounds, double seconds) {
      return whole.measure(measurer, builder, variants, rounds, seconds);
    };
    if (options.time_limit > 0 && !model.uses.empty()) {
      // What this takes tells how much of the limit has to be set aside for further builds. Where it takes
      // most of what is left, there is no time to compare whole models.
      const double started = now();
      const TimeLimit limit(kPrepareShare * seconds_left());
      try {
        whole.prepare();
        model.build_seconds = now() - started;
      } catch (const Interrupted&) {
        if (!limit.is_over()) throw;
        model.measure = nullptr;
        session.notes[i].push_back(
            "the time did not last to build the whole model: each kernel takes the schedule that is fastest "
            "by itself");
      }
    }
  }
  options.seconds_before = now() - begin;
  SessionResult result = tune_models(session.tasks, session.models, measurer, log, options,
                                     [&](const TuneProgress& present) { return follower.follow(present); });
  for (size_t i = 0; i < sources.size(); ++i) {
    std::vector<std::string>& notes = result.models[i].notes;
    notes.insert(notes.begin(), session.notes[i].begin(), session.notes[i].end());
  }
  return result;
}

}  // namespace tc
