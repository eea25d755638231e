// Tuning a model on devices.
#include "frontend/pipeline/tune.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <iomanip>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "codegen/backend/table.h"
#include "frontend/pipeline/model_program.h"
#include "ir/error.h"
#include "ir/interrupt.h"
#include "runtime/new_file.h"
#include "runtime/rpc/fields.h"
#include "runtime/rpc/sample_data.h"
#include "scheduler/scheduler.h"
#include "tuner/child_process.h"
#include "tuner/remote_measurer.h"
#include "tuner/run_library.h"

extern char** environ;

namespace tc {
namespace {

constexpr double kAgentStartSeconds = 10, kAgentStopSeconds = 1;
constexpr double kFirstDeviceSeconds = 30;
constexpr int kMaxAcquires = 5;
// The limit for one run of a whole model, whose kernels were verified before. It is long because simulators
// are slow.
constexpr double kModelTimeoutSeconds = 300;
constexpr size_t kModelsAtOnce = 4;  // whole models that a builder gets before the time is looked at

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

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

const char* architecture_of(const Target& target) {
  switch (target.arch) {
    case Arch::X86_64: return "x86-64";
    case Arch::RiscV64: return "riscv64";
    case Arch::RiscV32: return "riscv32";
    case Arch::AArch64: return "aarch64";
    case Arch::ArmM: return "arm";
  }
  return "";
}

// A path for the socket of an agent. It lies in the given folder, or, where the folder's own path is so long
// that the address of a Unix socket (107 characters) cannot hold it, in a private folder below /tmp that is
// removed at the end.
class SocketPath {
 public:
  explicit SocketPath(const std::string& folder) : path_(folder + "/agent.sock") {
    if (path_.size() < sizeof(sockaddr_un::sun_path)) return;
    char made[] = "/tmp/tc-agent-XXXXXX";
    if (!mkdtemp(made))
      fail(ErrorKind::Device, "the path of a socket has up to ", sizeof(sockaddr_un::sun_path) - 1,
           " characters, ", path_, " is longer, and no folder can be made in /tmp: ", strerror(errno),
           "; set TMPDIR to a folder with a shorter path");
    own_folder_ = made;
    path_ = own_folder_ + "/agent.sock";
  }
  ~SocketPath() {
    if (own_folder_.empty()) return;
    unlink(path_.c_str());
    rmdir(own_folder_.c_str());
  }
  SocketPath(const SocketPath&) = delete;
  SocketPath& operator=(const SocketPath&) = delete;
  std::string address() const { return "unix:" + path_; }

 private:
  std::string path_, own_folder_;
};

// An agent of our own on this machine, reached by a socket.
class OwnAgent {
 public:
  OwnAgent(const std::string& program, const std::string& folder)
      : socket_(folder), address_(socket_.address()), token_(random_token()) {
    const std::string token_file = folder + "/agent.token";
    const int descriptor = open(token_file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0 ||
        write(descriptor, token_.data(), token_.size()) != static_cast<ssize_t>(token_.size()))
      fail(ErrorKind::Device, "cannot write ", token_file, ": ", strerror(errno));
    close(descriptor);
    const std::vector<std::string> words = {program,        "--standalone", address_,
                                            "--token-file", token_file,     "--while-input"};
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    int input[2];  // closed when this process ends, which ends the agent
    if (pipe2(input, O_CLOEXEC) != 0)
      fail(ErrorKind::Device, "cannot make a pipe for ", program, ": ", strerror(errno));
    input_ = input[1];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // Ctrl-C is the tuner's to handle
    pid_t child = -1;
    const int code = posix_spawn(&child, program.c_str(), &actions, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(input[0]);
    if (code != 0) {
      close(input_);
      fail(ErrorKind::Device, "cannot start ", program, ": ", strerror(code), "; reinstall tc");
    }
    child_ = ChildProcess(child);
  }
  ~OwnAgent() {
    child_.stop(kAgentStopSeconds);
    close(input_);
  }
  OwnAgent(const OwnAgent&) = delete;
  OwnAgent& operator=(const OwnAgent&) = delete;

  std::unique_ptr<LeasedDevice> connect() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kAgentStartSeconds);
    for (;;) {
      try {
        return connect_agent(address_, token_);
      } catch (const Error&) {
        if (child_.has_ended())
          fail(ErrorKind::Device,
               "the agent of this machine ended at once; run it by hand to see why: python -m tc agent");
        if (std::chrono::steady_clock::now() > end) throw;
        interruption_point();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
  }

 private:
  // A password between two processes of one user; no result depends on this random number.
  static std::string random_token() {
    std::random_device device;
    std::ostringstream out;
    // 64 digits, as the tracker makes them
    for (int i = 0; i < 8; ++i) out << std::hex << std::setw(8) << std::setfill('0') << device();
    return out.str();
  }
  SocketPath socket_;
  std::string address_, token_;
  ChildProcess child_;
  int input_ = -1;
};

// Told what a client that waits for a device waits for.
using SayWaiting = std::function<void(const std::string&)>;

// Which devices of the architecture there are, and who has them, as text for people.
std::string waiting_text(const rpc::DevicesReply& state, const std::string& architecture) {
  constexpr int kMostNamed = 3;
  std::string taken;
  int count = 0;
  for (const rpc::DeviceState& device : state.devices()) {
    if (device.device().architecture() != architecture || ++count > kMostNamed) continue;
    taken += text(taken.empty() ? "" : ", ", "'", rpc::printable(device.device().name(), 64), "' is ",
                  device.state());
    if (device.state() != "leased") continue;
    const std::string client = rpc::printable(device.client(), 100);
    taken += text(" by ", client.empty() ? "someone" : client, " since ", std::lround(device.lease_seconds()),
                  " s");
  }
  if (count > kMostNamed) taken += text(" and ", count - kMostNamed, " more");
  if (count == 0) taken = "the tracker has none of " + architecture;
  return text("waiting for a device: ", taken, "; clients that wait: ", state.counters().waiting());
}

// Acquires a device, and says every two seconds what is waited for.
std::unique_ptr<LeasedDevice> acquire_saying(TrackerClient& tracker, const DeviceRequest& wanted,
                                             const SayWaiting& say) {
  constexpr std::chrono::milliseconds kStep(100), kBetween(2000);
  std::atomic<bool> stop = false;
  std::future<std::unique_ptr<LeasedDevice>> acquired = std::async(std::launch::async, [&] {
    const Helping helping(stop);
    return tracker.acquire(wanted);
  });
  try {
    for (std::chrono::milliseconds waited{0}; acquired.wait_for(kStep) != std::future_status::ready;) {
      interruption_point();
      waited += kStep;
      if (waited < kBetween) continue;
      waited = std::chrono::milliseconds(0);
      try {
        say(waiting_text(tracker.state(), wanted.architecture));
      } catch (const Error& error) {
        say(text("waiting for a device: ", error.what()));
      }
    }
  } catch (...) {
    stop = true;
    acquired.wait();
    throw;
  }
  return acquired.get();
}

OpenDevice device_opener(const TuneRequest& request, const Target& target, const SayWaiting& say) {
  if (!target.has_runtime)
    fail(ErrorKind::Target, "cannot tune for target ", target.name,
         ": an agent, which measures schedules, needs an operating system with addresses of "
         "64 bits; compile without tuning");
  if (request.tracker.empty()) {
    std::string why;
    if (!runs_here(target, &why))
      fail(
          ErrorKind::Target, "code for ", target.name, " does not run on this machine (", why,
          "): to tune for it, start a tracker and an agent on a board and give tracker=\"host:port\" (docs/tuning.md)");
    auto agent = std::make_shared<OwnAgent>(request.programs + "/tc-agent", request.work_folder);
    // There is one device: this machine measures one batch at a time.
    return [agent](bool first) { return first ? agent->connect() : std::unique_ptr<LeasedDevice>(); };
  }
  DeviceRequest wanted;
  wanted.target = target.name;
  wanted.architecture = architecture_of(target);
  wanted.priority = request.priority;
  wanted.features = split_words(default_backend().features(target));
  auto tracker = std::make_shared<TrackerClient>(request.tracker, request.credentials);
  auto key = std::make_shared<std::string>();
  return [tracker, wanted, key, say](bool first) -> std::unique_ptr<LeasedDevice> {
    DeviceRequest like_first = wanted;
    like_first.device_key = *key;  // only times of the same kind of device as the first are compared
    like_first.wait_seconds = first ? kFirstDeviceSeconds : 0;
    for (int attempt = 0;; ++attempt) {
      try {
        auto device = first ? acquire_saying(*tracker, like_first, say) : tracker->acquire(like_first);
        if (key->empty()) *key = device->info().key();
        return device;
      } catch (const DeviceLost&) {
        if (attempt == kMaxAcquires) throw;
      }
    }
  };
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
    const double begin = now();
    prepare();
    std::vector<Measurement> results(variants.size());
    for (Measurement& result : results) {
      result.outcome = Outcome::Timeout;
      result.detail = "the time of the session did not last";
    }
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

 private:
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

}  // namespace

SessionResult tune_sources(const std::vector<TunedSource>& sources, const TuneRequest& request,
                           RecordStore& log, CandidateBuilder& builder,
                           const std::function<bool(const TuneProgress&)>& progress) {
  const double begin = now();
  const CompileOptions& common = sources.at(0).options;
  const Target target = parse_target(common.target);
  Session session;
  for (const TunedSource& source : sources) session.add(source, request);

  MeasureOptions measure;
  measure.work_folder = request.work_folder;
  measure.tolerance = std::max(common.tolerance, 1e-5);
  measure.sample_seconds = request.sample_seconds;
  measure.seed = request.tune.seed;
  const SayWaiting say = [&](const std::string& text) {
    TuneProgress waiting;
    waiting.unit = "seconds";
    waiting.doing = text;
    if (progress) progress(waiting);
  };
  RemoteMeasurer measurer(device_opener(request, target, say), builder, measure);

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
      // What this takes tells how much of the limit has to be set aside for further builds.
      const double started = now();
      whole.prepare();
      model.build_seconds = now() - started;
    }
  }
  options.seconds_before = now() - begin;
  SessionResult result = tune_models(session.tasks, session.models, measurer, log, options, progress);
  for (size_t i = 0; i < sources.size(); ++i) {
    std::vector<std::string>& notes = result.models[i].notes;
    notes.insert(notes.begin(), session.notes[i].begin(), session.notes[i].end());
  }
  return result;
}

}  // namespace tc
