// Runs riscv64 candidates under qemu-user, timed by the plugin's model of a core.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "ir/target/riscv_cores.h"
#include "runtime/agent/measure.h"
#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::agent {
namespace {

// Address space for qemu itself: its translated code, its libraries, the plugin's tables.
constexpr int64_t kQemuBytes = int64_t{512} << 20;
// And for the recording of a run (runtime/qemu/recording.h).
constexpr int64_t kRecordingBytes = int64_t{512} << 20;
// Part of the guest's memory for its stack and its C library; and the unit to which that memory is rounded.
constexpr int64_t kGuestBytes = int64_t{64} << 20, kGuestUnit = int64_t{1} << 20;
// Threads that qemu starts for itself.
constexpr int kQemuThreads = 8;
// The plugin's report: a page of numbers (runtime/qemu/count_plugin.cc).
constexpr int64_t kReportBytes = 4096;
constexpr size_t kRunsAgain = 511;
constexpr double kLineBytes = 64;  // of a cache
// The most that the inputs of candidates may take that run at the same time.
constexpr int64_t kInputBytes = int64_t{1} << 30;

bool is_program(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

// The path of a program, which is searched on PATH where it is a bare name; empty where it is not found.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
  const char* variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : "/usr/bin:/bin";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string full = path.substr(begin, end - begin) + "/" + name;
    if (end > begin && is_program(full)) return full;
    begin = end + 1;
  }
  return "";
}

std::string own_folder() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  const std::string text(path, size > 0 ? static_cast<size_t>(size) : 0);
  return text.substr(0, text.rfind('/'));
}

std::string find_plugin(const std::string& given) {
  if (!given.empty()) return given;
  if (const char* variable = std::getenv("TC_QEMU_PLUGIN")) return variable;
  for (const char* place : {"/libcount_plugin.so", "/../qemu/libcount_plugin.so"})
    if (access((own_folder() + place).c_str(), R_OK) == 0) return own_folder() + place;
  return "";
}

// A comma separates the plugin's arguments; one inside a value is written twice.
std::string with_double_commas(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == ',' ? std::string(",,") : std::string(1, c);
  return result;
}

// A candidate at a time on a simulated board of its own. Candidates of a batch run side by side, one on each
// of this machine's processors, which changes none of their cycles.
class QemuRunner : public Runner {
 public:
  explicit QemuRunner(const QemuOptions& options) : options_(options), core_(riscv_core(options.core)) {
    if (core_ == nullptr)
      throw std::runtime_error("no core is called '" + options.core + "'; --help lists them");
    vector_bits_ = options.vector_bits == 0 ? core_->vector_bits : options.vector_bits;
    qemu_ = find_program(options.qemu);
    if (qemu_.empty())
      throw std::runtime_error("the simulated board needs " + options.qemu +
                               ", which is not installed: apt install qemu-user");
    const std::string plugin = find_plugin(options.plugin);
    if (plugin.empty() || access(plugin.c_str(), R_OK) != 0)
      throw std::runtime_error("the simulated board needs libcount_plugin.so" +
                               (plugin.empty() ? "" : ", which is not at " + plugin) +
                               "; name it with --plugin");
    plugin_ = realpath_of(plugin);
  }

  std::string name() const override { return "qemu"; }
  std::string unit() const override { return "simulated cycles"; }
  std::vector<std::string> isolation() const override { return isolation_names(); }

  bool simulate(rpc::DeviceInfo& device) const override {
    device.set_architecture("riscv64");
    for (const char* feature :
         {"64bit", "i",     "m",      "a",   "f",   "d",      "c",      "v",      "zicsr",  "zifencei",
          "zmmul", "zaamo", "zalrsc", "zca", "zcd", "zve32x", "zve32f", "zve64x", "zve64f", "zve64d"})
      device.add_features(feature);
    for (const std::string& name : extensions()) {
      device.add_features(name);
      if (name == "zfh") device.add_features("zfhmin");  // implied by zfh
    }
    for (int bits = 32; bits <= vector_bits_; bits *= 2)
      device.add_features("zvl" + std::to_string(bits) + "b");
    const std::string model = core_ == &kRiscvCores[0] ? "in-order core" : core_->name;
    device.set_processor("simulated " + model + ", " + (options_.cache ? caches() : "no caches"));
    device.set_cores(1);
    device.set_vector_bits(vector_bits_);
    if (options_.cache) {
      device.set_l1_bytes(int64_t{core_->first_level_kib} << 10);
      device.set_l2_bytes(int64_t{core_->second_level_kib} << 10);
    }
    device.set_memory_bytes(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    return true;
  }

  void measure(const Batch& batch, const std::function<void(const Result&)>& done,
               const std::function<bool()>& cancelled) override {
    if (batch.threads != 1)
      throw std::runtime_error("the simulated board has one core; " + std::to_string(batch.threads) +
                               " threads are asked for");
    std::mutex mutex;  // of what the callers' functions use, and of the error
    std::exception_ptr error;
    std::atomic<size_t> next = 0;
    const auto is_over = [&] {
      const std::lock_guard lock(mutex);
      return error != nullptr || (cancelled && cancelled());
    };
    // Where the batch names no time of another program, the first candidate's is the one to compare with.
    double known_call = batch.known_call, first_call = 0;
    const auto measure_one = [&](size_t i) {
      try {
        const auto done_alone = [&](Result result) {
          result.candidate = static_cast<int>(i);
          const std::lock_guard lock(mutex);
          if (i == 0 && !result.samples.empty())
            first_call = result.samples[0] / (batch.calls.empty() ? 1 : batch.calls[0]);
          done(result);
        };
        measure_alone(batch, i, known_call, done_alone, is_over);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    };
    if (known_call == 0) {
      measure_one(next++);
      known_call = first_call;
    }
    const auto work = [&] {
      for (size_t i = next++; i < batch.executables.size(); i = next++) measure_one(i);
    };
    std::vector<std::thread> threads;
    for (size_t i = 1; i < side_by_side(batch); ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    if (error) std::rethrow_exception(error);
  }

 private:
  // How many candidates run at a time: one on each processor, as far as their inputs fit.
  static size_t side_by_side(const Batch& batch) {
    int64_t bytes = 1;
    for (const Port& port : batch.inputs)
      bytes += port.bytes * (static_cast<int64_t>(batch.data_sets.size()) + 3);
    const auto fitting = static_cast<size_t>(std::max<int64_t>(kInputBytes / bytes, 1));
    return std::min({batch.executables.size(), std::max<size_t>(own_processors().size(), 1), fitting});
  }

  // Measures one candidate of the batch; for `done` it is candidate 0.
  void measure_alone(const Batch& batch, size_t i, double known_call,
                     const std::function<void(const Result&)>& done,
                     const std::function<bool()>& cancelled) const {
    Batch alone = batch;
    alone.known_call = known_call;
    alone.executables = {batch.executables[i]};
    if (!batch.calls.empty()) alone.calls = {batch.calls[i]};
    QemuBench bench(*this, alone);
    measure_batch(bench, alone, done, cancelled);
  }

  // One candidate under qemu.
  class QemuBench : public Bench {
   public:
    QemuBench(const QemuRunner& runner, const Batch& batch)
        : runner_(runner),
          sets_(batch.data_sets.size()),
          longest_run_(batch.longest_call * (batch.calls.empty() ? 1 : batch.calls[0])) {
      for (const Port& port : batch.outputs) output_bytes_ += port.bytes;
      // Integers may be indices, on which it depends what a run accesses. Then the run before has to be one
      // on the other data set.
      for (const Port& port : batch.inputs) runs_once_ &= is_float(port.dtype);
    }

    void prepare(Launch& launch, const Batch& batch, const File& executable) override {
      int64_t bytes = executable.bytes();
      for (const Port& port : batch.inputs) bytes += port.bytes;
      for (const Port& port : batch.outputs) bytes += port.bytes;
      report_.emplace("tc-report", kReportBytes);
      std::memset(report_->data(), 0, kReportBytes);
      const std::string bits = std::to_string(runner_.vector_bits_);
      // All of the guest's memory, reserved at the start; addresses beyond it belong to qemu.
      const int64_t guest = (launch.memory_bytes + kGuestBytes + kGuestUnit - 1) / kGuestUnit * kGuestUnit;
      std::string cpu = "rv64,v=true,vlen=" + bits + ",vext_spec=v1.0";
      // qemu writes Zfh with a capital, but zba without.
      for (const std::string& name : runner_.extensions())
        cpu += "," + (name == "zfh" ? "Zfh" : name) + "=true";
      std::vector<std::string> arguments = {
          runner_.qemu_,
          "-cpu",
          cpu,
          "-seed",
          "1",
          "-R",
          std::to_string(guest),
          "-plugin",
          with_double_commas(runner_.plugin_) + ",out=map:" + std::to_string(kReportDescriptor) +
              ",replies=" + (runs_once_ ? "twice" : "on") +
              ",cycles=on,cache=" + (runner_.options_.cache ? "on" : "off") + longest(bytes) +
              ",guest=" + std::to_string(guest) + ",core=" + runner_.core_->name + ",vlen=" + bits,
          program_path()};
      arguments.insert(arguments.end(), launch.arguments.begin() + 1, launch.arguments.end());
      launch.arguments = std::move(arguments);
      launch.program = runner_.qemu_;
      launch.report = report_->descriptor();
      launch.extra_bytes = kQemuBytes + (runs_once_ ? kRecordingBytes : 0) + guest;
      launch.threads += kQemuThreads;
      launch.shown = library_folders();
      launch.shown.push_back(runner_.plugin_);
    }

    bool is_deterministic() const override { return true; }
    bool runs_once() const override { return runs_once_; }
    bool has_to_run_again() override { return runs_again_ = runs_once_ && numbers()[kRunsAgain] != 0; }

    // The cycles of the run on the last data set. The report has the number of commands, and then the cycles
    // from the candidate's first reply to the end of each command.
    double last_measurement() override {
      const uint64_t* numbers = this->numbers();
      const size_t commands = runs_again_ ? 3 : runs_once_ ? 2 : sets_;
      if (numbers[0] != commands)
        throw Misbehaviour{Outcome::Crash,
                           "answered in a way that the simulator does not see: by another system "
                           "call than write"};
      const auto cycles = static_cast<double>(numbers[commands] - numbers[commands - 1]);
      // No core stores more than one vector per cycle.
      const double least = static_cast<double>(output_bytes_) /
                           std::max(runner_.vector_bits_ / 8, runner_.core_->datapath_bits / 8);
      if (!(cycles >= std::max(least, 1.0) && cycles < 1e18))
        throw Misbehaviour{
            Outcome::WrongResult,
            "took " + std::to_string(cycles) + " simulated cycles, in which no core writes its outputs"};
      return cycles;
    }

   private:
    const uint64_t* numbers() const { return reinterpret_cast<const uint64_t*>(report_->data()); }

    // The plugin's argument that ends a run which takes longer than it may; empty where there is no limit.
    // The first run also loads its data and its code into the caches, for which it gets time in addition.
    std::string longest(int64_t bytes) const {
      if (longest_run_ == 0) return "";
      const double loads = static_cast<double>(bytes) / kLineBytes * runner_.core_->latency.memory;
      return ",longest=" +
             std::to_string(static_cast<uint64_t>(std::ceil(std::min(longest_run_, 1e17) + loads)));
    }

    const QemuRunner& runner_;
    const size_t sets_;
    bool runs_once_ = true, runs_again_ = false;
    const double longest_run_;  // in cycles; 0: no limit
    int64_t output_bytes_ = 0;
    std::optional<SharedMemory> report_;
  };

  static std::string realpath_of(const std::string& path) {
    char* full = realpath(path.c_str(), nullptr);
    const std::string text = full != nullptr ? full : path;
    std::free(full);
    return text;
  }

  std::string caches() const {
    return std::to_string(core_->first_level_kib) + " KiB and " + std::to_string(core_->second_level_kib) +
           " KiB caches";
  }

  // The core's features under LLVM's names.
  std::vector<std::string> extensions() const {
    std::vector<std::string> names;
    std::stringstream list(core_->features);
    for (std::string each; std::getline(list, each, ',');) names.push_back(each.substr(1));
    return names;
  }

  const QemuOptions options_;
  const CoreRow* core_;
  int vector_bits_ = 0;
  std::string qemu_, plugin_;
};

}  // namespace

std::unique_ptr<Runner> make_qemu_runner(const QemuOptions& options) {
  return std::make_unique<QemuRunner>(options);
}

}  // namespace tc::agent
