#include "runtime/agent/subject.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/agent/one_processor.h"

namespace tc::agent {
namespace {

// No run is shorter: a call and its return take some four cycles. Doubling four numbers takes 4 ns on Zen 4.
constexpr double kMinSeconds = 1e-9;
// Nor does a core write faster: 128 bytes per cycle at a clock frequency that no core has.
constexpr double kMaxBytesPerSecond = 1e12;
// Address space in addition to the candidate's own memory: stacks, the C library, rounding to pages.
constexpr int64_t kBaseBytes = int64_t{16} << 20, kThreadBytes = int64_t{9} << 20;
// Threads that a candidate may have in addition to those that it is told to use.
constexpr int kMoreThreads = 16;

}  // namespace

Subject::Subject(Bench& bench, const Batch& batch, int index, Inputs& inputs,
                 const std::function<bool()>& cancelled)
    : bench_(bench),
      batch_(batch),
      index_(index),
      inputs_(inputs),
      cancelled_(cancelled),
      left_(batch.timeout_seconds) {
  for (const Port& port : batch.outputs) outputs_.emplace_back("tc-output", port.bytes);
}

void Subject::start(double candidates) {
  const File& executable = *batch_.executables[static_cast<size_t>(index_)];
  // The physical addresses of its pages matter as much as its schedule for data that just fit into a cache.
  // So a candidate gets other pages each time it is measured.
  constexpr int64_t kMaxCopied = int64_t{64} << 20;
  if (!bench_.is_deterministic() && executable.bytes() <= kMaxCopied)
    copy_ = make_file(executable.data(), executable.bytes());
  Launch launch;
  launch.executable = (copy_ ? *copy_ : executable).descriptor();
  launch.executable_bytes = executable.bytes();
  launch.threads = batch_.threads + kMoreThreads;
  launch.arguments = {"candidate", "--serve", std::to_string(batch_.threads)};
  launch.memory_bytes = batch_.memory_bytes + executable.bytes() + kBaseBytes + kThreadBytes * batch_.threads;
  for (const Descriptor& input : inputs_.descriptors()) launch.descriptors.push_back(input.get());
  for (const SharedMemory& output : outputs_) launch.descriptors.push_back(output.descriptor());
  for (const Port& port : batch_.inputs) launch.memory_bytes += port.bytes;
  for (const Port& port : batch_.outputs) launch.memory_bytes += port.bytes;
  launch.cpu_seconds = candidates * batch_.timeout_seconds * batch_.threads;
  bench_.prepare(launch, batch_, executable);
  processors_ = launch.processors.empty() ? own_processors() : launch.processors;
  inputs_.hide();
  const double begin = now_seconds();
  process_.emplace(launch);
  left_ -= process_->expect('R', std::max(left_, 0.001), "starting", cancelled_) - begin;
  process_->stop();
}

void Subject::poison_outputs(uint8_t value) {
  for (const SharedMemory& output : outputs_)
    if (output.bytes() > 0) std::memset(output.data(), value, static_cast<size_t>(output.mapped_bytes()));
}

double Subject::processor_seconds() const { return process_->processor_seconds().value_or(now_seconds()); }

void Subject::begin(uint32_t runs, const std::string& doing) {
  process_->expect_silence("between two commands");
  doing_ = doing;
  runs_ = runs;
  done_.reset();
  uint8_t command[5] = {'N'};
  for (int i = 0; i < 4; ++i) command[1 + i] = static_cast<uint8_t>(runs >> 8 * i);
  begin_requests_ = process_->requests();
  begin_agent_ = thread_seconds();
  process_->send(command, sizeof command);
  begin_processor_ = processor_seconds();
  begin_ = now_seconds();
  process_->go_on();
}

bool Subject::is_done_by(double clock) {
  if (!done_) done_ = process_->expect_until('D', std::min(clock, begin_ + left_), doing_, cancelled_);
  return done_.has_value();
}

double Subject::finish() {
  if (!done_) {
    const double gone = now_seconds() - begin_;
    done_ = process_->expect('D', std::max(left_ - gone, 0.001), doing_, cancelled_);
  }
  process_->stop();
  agent_seconds_ = process_->requests() == begin_requests_ ? thread_seconds() - begin_agent_ : 0;
  const double seconds = *done_ - begin_;
  left_ -= seconds;
  double least = kMinSeconds;
  for (const SharedMemory& output : outputs_)
    least += static_cast<double>(output.bytes()) / (kMaxBytesPerSecond * batch_.threads);
  if (seconds < least * runs_)
    throw Misbehaviour{Outcome::WrongResult, "does not run as often as it is told: " + std::to_string(runs_) +
                                                 " runs took " + std::to_string(std::lround(seconds * 1e6)) +
                                                 " us, in which no machine writes their outputs"};
  return seconds;
}

double Subject::run(uint32_t runs, const std::string& doing) {
  begin(runs, doing);
  return finish();
}

OneProcessorRun Subject::run_on_one_processor(bool warm, const std::function<void()>& show,
                                              const std::string& doing) {
  OneProcessorRun single;
  std::map<int, Process::ThreadTime> before;
  {
    const OneProcessor one(*process_, processors_);
    single.beside = one.is_shared();
    single.goes_first = one.goes_first();
    if (warm) run(1, doing);
    before = process_->thread_times();
    show();
    run(1, doing);
  }
  single.processor = since_begin().processor;
  single.agent = agent_seconds_;
  if (before.empty()) return single;
  // The rest of the process's time was used by threads that have ended.
  double ended = single.processor;
  for (const auto& [thread, now] : process_->thread_times()) {
    const Process::ThreadTime then = before[thread];
    single.busiest = std::max(single.busiest, now.seconds - then.seconds);
    single.switches = std::max(single.switches, static_cast<int>(now.switches - then.switches));
    ended -= now.seconds - then.seconds;
  }
  single.busiest = std::max(single.busiest, ended);
  return single;
}

AllProcessorsRun Subject::run_on_all_processors(const std::function<void()>& show, const std::string& doing) {
  AllProcessorsRun result;
  run(1, doing);
  result.wake = run(0, doing);
  show();
  result.seconds = run(1, doing);
  result.agent = agent_seconds_;
  return result;
}

Subject::Clocks Subject::since_begin() const {
  return {now_seconds() - begin_, processor_seconds() - begin_processor_};
}

std::string Subject::beyond_outputs(uint8_t value) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Port& port = batch_.outputs[i];
    for (int64_t at = port.bytes; at < outputs_[i].mapped_bytes(); ++at)
      if (outputs_[i].data()[at] != value)
        return "wrote behind the end of output '" + port.name + "' (byte " + std::to_string(at) + " of " +
               std::to_string(port.bytes) + ")";
  }
  return "";
}

}  // namespace tc::agent
