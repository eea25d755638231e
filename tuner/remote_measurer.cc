// Measuring on devices: a builder builds the candidates, agents run them.
#include "tuner/remote_measurer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <mutex>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "runtime/rpc/sample_data.h"
#include "tuner/device_health.h"
#include "tuner/device_pool.h"
#include "tuner/median.h"
#include "tuner/prepared_kernels.h"

namespace tc {
namespace {

constexpr int kDataSets = 2;
constexpr int kMaxAttempts = 3;  // at one chunk: the first and two more, on other devices where possible
constexpr size_t kChunk = 8;     // candidates that run interleaved on one device
constexpr double kNoisySpread = 0.25;
constexpr double kLeastCall = 1;  // cycles; no call takes less

Timing timing_of(std::vector<double> samples) {
  Timing timing;
  timing.count = static_cast<int>(samples.size());
  timing.minimum = *std::min_element(samples.begin(), samples.end());
  timing.median = median(samples);
  std::vector<double> deviations;
  for (const double sample : samples) deviations.push_back(std::fabs(sample - timing.median));
  timing.spread = timing.median > 0 ? median(deviations) / timing.median : 0;
  return timing;
}

rpc::Port port_message(const PortInfo& info) {
  rpc::Port port;
  port.set_name(info.name);
  port.set_dtype(name_of(info.dtype));
  for (const Dim& dim : info.shape) port.add_shape(dim.constant());
  return port;
}

// A device's answer about one candidate.
struct Answer {
  bool here = false;
  std::string device;  // its name
  Measurement measurement;
  std::vector<double> samples;
};

Answer answer_of(const rpc::MeasureResult& result) {
  Answer answer;
  answer.here = true;
  Measurement& measurement = answer.measurement;
  const int outcome = static_cast<int>(result.outcome());
  measurement.outcome = outcome >= 0 && outcome <= 8 ? static_cast<Outcome>(outcome) : Outcome::DeviceLost;
  measurement.detail = result.detail().substr(0, 1000);
  measurement.worst_error = result.worst_error();
  answer.samples.assign(result.samples().begin(), result.samples().end());
  if (measurement.outcome != Outcome::Ok) return answer;
  const bool sane =
      !answer.samples.empty() && std::all_of(answer.samples.begin(), answer.samples.end(),
                                             [](double s) { return std::isfinite(s) && s > 0; });
  if (!sane) {
    measurement.outcome = Outcome::DeviceLost;
    measurement.detail = "the agent answered with times that are no times";
    return answer;
  }
  measurement.time = timing_of(answer.samples);
  return answer;
}

// Each sample of the candidate divided by the incumbent's sample of the same round, since a slow moment of
// the machine affects both.
Timing paired_ratio(const Answer& candidate, const Answer& incumbent) {
  std::vector<double> ratios;
  const size_t rounds = std::min(candidate.samples.size(), incumbent.samples.size());
  for (size_t i = 0; i < rounds; ++i) ratios.push_back(candidate.samples[i] / incumbent.samples[i]);
  return timing_of(ratios);
}

// A candidate that was measured beside an incumbent that failed.
Measurement without_incumbent(const Measurement& incumbent) {
  Measurement result;
  result.outcome = Outcome::DeviceLost;
  result.detail =
      text("the untuned schedule beside it was '", name_of(incumbent.outcome), "': ", incumbent.detail);
  return result;
}

// The results of a device whose times differ from one moment to the next: ratios of times of the same chunk.
std::vector<Measurement> ratios(const std::vector<std::vector<Answer>>& answers,
                                const std::vector<std::vector<size_t>>& chunks) {
  std::vector<Measurement> results(answers[0].size());
  for (size_t c = 0; c < chunks.size(); ++c) {
    const Answer& incumbent = answers[c][0];
    if (c == 0 || (results[0].outcome != Outcome::Ok && incumbent.measurement.outcome == Outcome::Ok)) {
      results[0] = incumbent.measurement;
      results[0].ratio = 1;
    }
    for (const size_t i : chunks[c]) {
      if (i == 0) continue;
      Measurement& result = results[i] = answers[c][i].measurement;
      if (result.outcome != Outcome::Ok) continue;
      if (incumbent.measurement.outcome != Outcome::Ok) {
        result = without_incumbent(incumbent.measurement);
        continue;
      }
      const Timing ratio = paired_ratio(answers[c][i], incumbent);
      result.ratio = ratio.median;
      if (ratio.count >= 7 && ratio.spread > kNoisySpread) {
        result.detail = text("its time relative to the untuned schedule's in the same round spreads by ",
                             std::lround(100 * ratio.spread), " %");
        result.outcome = Outcome::Noisy;
        result.time = {};
      }
    }
  }
  return results;
}

// Waits for the threads; where this one is interrupted meanwhile, they are told to stop.
void wait_for_all(std::vector<std::future<void>>& helpers, std::atomic<bool>& stop) {
  try {
    for (std::future<void>& helper : helpers) {
      while (helper.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready)
        interruption_point();
    }
  } catch (...) {
    stop = true;
    for (std::future<void>& helper : helpers) helper.wait();
    throw;
  }
}

}  // namespace

struct RemoteMeasurer::State {
  MeasureOptions options;
  PreparedKernels prepared;
  const KernelTask* expected = nullptr;  // its untuned schedule is measured next
  DevicePool devices;
  std::mutex mutex;  // of `health`
  DeviceHealth health;
  // Of a device that gives the same time each time: what it answered about an executable, by its hash. It is
  // not asked again.
  std::map<std::string, Answer> exact;

  State(OpenDevice open_device, CandidateBuilder& candidate_builder, const MeasureOptions& measure_options)
      : options(measure_options),
        prepared(candidate_builder, measure_options.work_folder, seeds_of(measure_options)),
        devices(std::move(open_device), measure_options.most_devices) {}

  // Takes a device back that has measured the programs `which`. One that does worse than others of its kind
  // is put in quarantine, and not used any more.
  void give_back(std::unique_ptr<LeasedDevice> device, const ProgramSet& programs,
                 const std::vector<size_t>& which, const std::vector<Answer>& answers) {
    std::string problem;
    {
      // One after the other, so that the last device stays.
      const std::lock_guard lock(mutex);
      if (!is_exact()) problem = problem_of(device->info().name(), programs, which, answers);
      if (!problem.empty()) devices.lose(device.get());
    }
    if (problem.empty()) devices.give_back(std::move(device));
    else device->report_failure(problem, true);
  }

  std::string problem_of(const std::string& device, const ProgramSet& programs,
                         const std::vector<size_t>& which, const std::vector<Answer>& answers) {
    for (const size_t i : which) {
      const Answer& answer = answers[i];
      const std::string& program = programs.executables[i].sha256;
      if (!answer.here || answer.device != device) continue;
      if (answer.measurement.outcome == Outcome::Ok)
        health.add_run(device, program, answer.measurement.time.minimum);
      else if (is_of_program(answer)) health.add_failure(device, program);
    }
    return devices.count() > 1 ? health.problem(device) : "";
  }

  // Whether the answer says that the program fails, unless the device does.
  static bool is_of_program(const Answer& answer) {
    const Outcome outcome = answer.measurement.outcome;
    return outcome == Outcome::Crash || outcome == Outcome::WrongResult;
  }

  // Has programs that failed run once more on another device, where there is one: a device may be at fault.
  void run_failures_elsewhere(const ProgramSet& programs, int rounds,
                              std::vector<std::vector<Answer>>& answers,
                              std::vector<std::vector<size_t>>& chunks) {
    std::map<std::string, std::vector<size_t>> failed;  // by device
    for (size_t c = 0; c < chunks.size(); ++c) {
      // Where the incumbent failed, none of its chunk has a ratio.
      const Answer& incumbent = answers[c][0];
      const bool all = incumbent.here && is_of_program(incumbent);
      for (const size_t i : chunks[c]) {
        const Answer& answer = answers[c][i];
        if (i > 0 && answer.here && (all || is_of_program(answer))) failed[answer.device].push_back(i);
      }
    }
    for (const auto& [device, which] : failed) {
      if (!devices.prefer_another_than(device)) continue;
      std::vector<size_t> chunk = {0};
      chunk.insert(chunk.end(), which.begin(), which.end());
      std::vector<Answer> again(programs.executables.size());
      ask(programs, chunk, rounds, again);
      // Answers of the last chunk of a program count.
      answers.push_back(std::move(again));
      chunks.push_back(std::move(chunk));
    }
  }
  bool is_exact() const { return devices.unit() != "seconds"; }

  static std::vector<uint64_t> seeds_of(const MeasureOptions& options) {
    std::vector<uint64_t> seeds;
    for (int i = 0; i < kDataSets; ++i)
      seeds.push_back(runtime::mix_bits(options.seed + 1 + static_cast<uint64_t>(i)));
    return seeds;
  }

  KernelRequest request_for(const KernelTask& task) const {
    KernelRequest request = {&task, {}};
    request.program.kernel = task.kernel;
    request.program.layout_lines = task.layout_lines;
    request.program.threads = task.single_thread ? 1 : task.threads;
    // On a simulator constants stay warm: it is too slow for many calls, and its caches are small.
    request.program.bytes_between_calls = is_exact() ? 0 : task.bytes_between_calls;
    request.program.constants_seed = runtime::mix_bits(options.seed);
    return request;
  }

  // The schedules of a kernel that could be built, as programs to measure; `place` gets each one's place
  // among them.
  ProgramSet programs_of(const KernelTask& task, const PreparedKernel& kernel,
                         const std::vector<Trace>& traces, std::map<Trace, size_t>& place) const {
    const BuiltFile& incumbent = kernel.built.at(traces[0]);
    ProgramSet programs;
    programs.inputs = kernel.ports.inputs;
    programs.outputs = kernel.ports.outputs;
    programs.data_sets = kernel.reference;
    programs.threads = task.single_thread ? 1 : task.threads;
    programs.slow_ratio = kSlowRatio;
    if (const auto known = exact.find(incumbent.file.sha256);
        known != exact.end() && known->second.measurement.outcome == Outcome::Ok)
      programs.longest_call = kSlowRatio * known->second.measurement.time.median / incumbent.candidate.calls;
    // Nobody chooses the incumbent: it is what remains where no other schedule is chosen.
    programs.known_call = traces.size() == 1 ? kLeastCall : kernel.fastest_call;
    for (const Trace& trace : traces) {
      const BuiltFile& built = kernel.built.at(trace);
      if (built.file.path.empty()) continue;
      place[trace] = programs.executables.size();
      programs.executables.push_back(built.file);
      programs.calls.push_back(built.candidate.calls);
    }
    return programs;
  }

  rpc::MeasureRequest request_of(const ProgramSet& programs, const std::vector<size_t>& which, int rounds,
                                 std::vector<RemoteFile>& files) const {
    rpc::MeasureRequest request;
    for (const size_t i : which) {
      files.push_back(programs.executables[i]);
      request.add_executables(files.back().sha256);
      if (!programs.calls.empty()) request.add_calls(programs.calls[i]);
    }
    request.set_slow_ratio(programs.slow_ratio);
    request.set_longest_call(programs.longest_call);
    request.set_known_call(programs.known_call);
    for (const PortInfo& port : programs.inputs) *request.add_inputs() = port_message(port);
    for (const PortInfo& port : programs.outputs) *request.add_outputs() = port_message(port);
    for (const auto& [seed, outputs] : programs.data_sets) {
      auto* set = request.add_data_sets();
      set->set_seed(seed);
      for (const RemoteFile& file : outputs) {
        set->add_expected(file.sha256);
        files.push_back(file);
      }
    }
    request.set_tolerance(options.tolerance);
    request.set_threads(programs.threads);
    request.set_rounds(rounds);
    request.set_sample_seconds(options.sample_seconds);
    request.set_timeout_seconds(programs.timeout_seconds > 0 ? programs.timeout_seconds
                                                             : options.timeout_seconds);
    request.set_memory_bytes(options.memory_bytes);
    return request;
  }

  // Fills in the answers for the programs `which`, of which the first is the incumbent, unless the device is
  // exact: its times need no incumbent beside them. Where no device gave an answer, the outcome is
  // DeviceLost, with the reason.
  void ask(const ProgramSet& programs, const std::vector<size_t>& which, int rounds,
           std::vector<Answer>& answers) {
    std::string why;
    const size_t incumbents = is_exact() ? 0 : 1;
    std::vector<size_t> open_ones = which;
    for (int attempt = 0; attempt < kMaxAttempts && open_ones.size() > incumbents; ++attempt) {
      std::vector<RemoteFile> files;
      const rpc::MeasureRequest request = request_of(programs, open_ones, rounds, files);
      std::unique_ptr<LeasedDevice> device = devices.take(files);
      try {
        if (const std::string problem = room_problem(device->info(), files); !problem.empty()) {
          refuse(problem, device->info().name(), open_ones, answers);
          give_back(std::move(device), programs, {}, answers);
          return;
        }
        device->upload(files);
        device->measure(request, [&](const rpc::MeasureResult& result) {
          const int index = result.candidate();
          if (index < 0 || index >= static_cast<int>(open_ones.size())) return;
          Answer& answer = answers[open_ones[static_cast<size_t>(index)]];
          answer = answer_of(result);
          answer.device = device->info().name();
        });
        give_back(std::move(device), programs, open_ones, answers);
      } catch (const Interrupted&) {
        devices.lose(device.get());
        throw;
      } catch (const Error& error) {
        why = error.what();
        device->report_failure(why);
        devices.lose(device.get());
      }
      // The next attempt measures the incumbent again, since a ratio compares times of one interleaved run.
      std::vector<size_t> left(which.begin(), which.begin() + static_cast<ptrdiff_t>(incumbents));
      for (size_t i = incumbents; i < which.size(); ++i) {
        if (!answers[which[i]].here) left.push_back(which[i]);
      }
      open_ones = left;
    }
    for (const size_t i : open_ones) {
      if (answers[i].here) continue;
      answers[i].measurement.outcome = Outcome::DeviceLost;
      answers[i].measurement.detail = why.empty() ? "the agent did not answer" : why;
    }
  }

  // The answers about programs that the device cannot have.
  static void refuse(const std::string& why, const std::string& device, const std::vector<size_t>& which,
                     std::vector<Answer>& answers) {
    for (const size_t i : which) {
      answers[i].here = true;
      answers[i].device = device;
      answers[i].measurement.outcome = Outcome::OutOfMemory;
      answers[i].measurement.detail = why;
    }
  }

  // How many bytes the programs of a chunk may have beside what all chunks have.
  int64_t bytes_for_candidates(const ProgramSet& programs) const {
    int64_t all = is_exact() ? 0 : size_of(programs.executables[0]);
    for (const auto& [seed, outputs] : programs.data_sets)
      for (const RemoteFile& file : outputs) all += size_of(file);
    return devices.least_store_bytes() - all;
  }

  // The programs that are to be measured, in chunks that run interleaved on one device, which keeps all files
  // of one. Each has the incumbent as its first element, unless the device is exact.
  std::vector<std::vector<size_t>> chunks_of(const ProgramSet& programs) {
    std::vector<size_t> candidates;
    for (size_t i = is_exact() ? 0 : 1; i < programs.executables.size(); ++i) {
      if (!exact.count(programs.executables[i].sha256)) candidates.push_back(i);
    }
    devices.grow((candidates.size() + kChunk - 1) / kChunk + (candidates.size() > kChunk / 2 ? 1 : 0));
    const size_t shares = std::max<size_t>(1, devices.count());
    const size_t chunk = std::clamp<size_t>((candidates.size() + shares - 1) / shares, 1, kChunk);
    const int64_t most_bytes = bytes_for_candidates(programs);
    int64_t bytes = 0;  // of the last chunk
    std::vector<std::vector<size_t>> chunks;
    for (const size_t candidate : candidates) {
      const int64_t own = size_of(programs.executables[candidate]);
      const size_t incumbents = is_exact() ? 0 : 1;
      if (chunks.empty() || chunks.back().size() == chunk + incumbents || own > most_bytes - bytes) {
        chunks.emplace_back(incumbents, size_t{0});
        bytes = 0;
      }
      chunks.back().push_back(candidate);
      bytes += own;
    }
    if (chunks.empty() && !is_exact()) chunks.push_back({0, 0});  // the incumbent against itself
    return chunks;
  }

  // The results of an exact device: of this time or an earlier one, relative to the incumbent's.
  std::vector<Measurement> exact_results(const ProgramSet& programs,
                                         std::vector<std::vector<Answer>>& answers,
                                         const std::vector<std::vector<size_t>>& chunks) {
    std::map<size_t, Answer> failed;
    for (size_t c = 0; c < chunks.size(); ++c)
      for (const size_t i : chunks[c]) {
        Answer& answer = answers[c][i];
        // What a limit of time or memory stopped may be asked for with another one.
        const bool lasts = answer.measurement.outcome == Outcome::Ok ||
                           answer.measurement.outcome == Outcome::WrongResult ||
                           answer.measurement.outcome == Outcome::Crash;
        if (lasts) exact[programs.executables[i].sha256] = std::move(answer);
        else failed[i] = std::move(answer);
      }
    const auto answer_for = [&](size_t i) {
      const auto found = failed.find(i);
      return found != failed.end() ? found->second : exact.at(programs.executables[i].sha256);
    };
    const Measurement incumbent = answer_for(0).measurement;
    std::vector<Measurement> results;
    for (size_t i = 0; i < programs.executables.size(); ++i) {
      results.push_back(answer_for(i).measurement);
      Measurement& result = results.back();
      if (i == 0) result.ratio = 1;
      else if (result.outcome == Outcome::Ok && incumbent.outcome == Outcome::Ok)
        result.ratio = result.time.median / incumbent.time.median;
      else if (result.outcome == Outcome::Ok) result = without_incumbent(incumbent);
    }
    return results;
  }
};

RemoteMeasurer::RemoteMeasurer(OpenDevice open, CandidateBuilder& builder, const MeasureOptions& options)
    : state_(std::make_unique<State>(std::move(open), builder, options)) {}
RemoteMeasurer::~RemoteMeasurer() = default;

std::string RemoteMeasurer::device_key() const { return state_->devices.key(); }
std::string RemoteMeasurer::unit() const { return state_->devices.unit(); }
double RemoteMeasurer::clock_hz() const { return state_->devices.clock_hz(); }

std::vector<Measurement> RemoteMeasurer::measure_programs(const ProgramSet& programs, int rounds) {
  State& state = *state_;
  TC_CHECK(!programs.executables.empty());
  std::vector<std::vector<size_t>> chunks = state.chunks_of(programs);
  std::vector<std::vector<Answer>> answers(std::max<size_t>(1, chunks.size()),
                                           std::vector<Answer>(programs.executables.size()));
  std::mutex error_mutex;
  std::exception_ptr error;
  std::vector<std::future<void>> helpers;
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  const auto work = [&] {
    for (size_t i = next++; i < chunks.size(); i = next++) {
      try {
        state.ask(programs, chunks[i], rounds, answers[i]);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        stop = true;
        return;
      }
    }
  };
  const size_t devices = std::max<size_t>(1, state.devices.count());
  for (size_t i = 1; i < std::min(devices, chunks.size()); ++i) {
    helpers.push_back(std::async(std::launch::async, [&] {
      const Helping helping(stop);
      work();
    }));
  }
  work();
  wait_for_all(helpers, stop);
  if (error) std::rethrow_exception(error);
  if (!state.is_exact()) state.run_failures_elsewhere(programs, rounds, answers, chunks);
  return state.is_exact() ? state.exact_results(programs, answers, chunks) : ratios(answers, chunks);
}

// Only while an exact device measures: what is built on the same machine would disturb the times of others.
void RemoteMeasurer::expect(const KernelTask* next) {
  if (next == nullptr) state_->prepared.stop();
  state_->expected = state_->is_exact() ? next : nullptr;
}

std::vector<Measurement> RemoteMeasurer::measure(const KernelTask& task, const Trace& incumbent,
                                                 const std::vector<Trace>& traces, int rounds) {
  State& state = *state_;
  // The incumbent comes first; a trace that equals the incumbent's is not built a second time.
  std::vector<Trace> wanted = {incumbent};
  for (const Trace& trace : traces) {
    if (std::find(wanted.begin(), wanted.end(), trace) == wanted.end()) wanted.push_back(trace);
  }
  PreparedKernel& kernel = state.prepared.get(state.request_for(task), wanted);
  const BuiltCandidate& first = kernel.built.at(incumbent).candidate;
  if (first.outcome != Outcome::Ok) {
    Measurement failed;
    failed.outcome = first.outcome;
    failed.detail = "the untuned schedule: " + first.detail;
    return std::vector<Measurement>(traces.size(), failed);
  }
  std::map<Trace, size_t> place;  // of each trace among the executables
  const ProgramSet programs = state.programs_of(task, kernel, wanted, place);
  // Another kernel only: what is prepared of this one is read below.
  if (const KernelTask* next = std::exchange(state.expected, nullptr);
      next != nullptr && next->workload != task.workload)
    state.prepared.begin(state.request_for(*next), next->untuned);
  std::vector<Measurement> measured;
  try {
    measured = measure_programs(programs, rounds);
  } catch (...) {
    state.prepared.stop();
    throw;
  }
  std::vector<Measurement> results;
  for (const Trace& trace : traces) {
    const BuiltCandidate& candidate = kernel.built.at(trace).candidate;
    Measurement failed;
    failed.outcome = candidate.outcome;
    failed.detail = candidate.detail;
    results.push_back(candidate.outcome == Outcome::Ok ? measured[place.at(trace)] : failed);
    Measurement& result = results.back();
    result.time.median /= candidate.calls;
    result.time.minimum /= candidate.calls;
    result.ratio *= static_cast<double>(first.calls) / candidate.calls;
    if (state.is_exact() && result.outcome == Outcome::Ok &&
        (kernel.fastest_call == 0 || result.time.median < kernel.fastest_call))
      kernel.fastest_call = result.time.median;
  }
  return results;
}

}  // namespace tc
