// Measuring candidates: how an agent measures a batch of executables.
//
// Every candidate is verified before its times count: at its start on all data sets, with outputs that are
// filled with poison, and again after each sample, which has other inputs than the last one. During each
// sample of several runs the inputs change while the candidate runs, which exposes one that runs less often
// than it is told. Times are taken by the agent's clock; a candidate reports none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/agent/file.h"
#include "runtime/agent/tensor.h"

namespace tc::rpc {
class DeviceInfo;
}

namespace tc::agent {

// The numbers are those of runtime/rpc/tc_rpc.proto.
enum class Outcome : int {
  Ok = 0,
  WrongResult = 3,
  Crash = 4,
  Timeout = 5,
  OutOfMemory = 6,
};

using FilePtr = std::shared_ptr<const File>;

// What to measure. The code that fills this in has to check it: sizes of files against ports, numbers against
// sensible bounds.
struct Batch {
  std::vector<FilePtr> executables;
  std::vector<Port> inputs, outputs;
  struct DataSet {
    uint64_t seed = 0;
    std::vector<FilePtr> expected;  // one for each output
  };
  std::vector<DataSet> data_sets;  // at least two
  double tolerance = 0;            // largest error allowed, relative to an output's largest magnitude
  int threads = 1;
  int rounds = 1;
  double sample_seconds = 0.01;
  double timeout_seconds = 10;     // of one candidate in all
  int64_t memory_bytes = 1 << 30;  // of one candidate, in addition to its file and its tensors
  double slow_ratio = 0;    // slower calls, relative to the first candidate's, get one sample; 0: no limit
  std::vector<int> calls;   // calls in one run, by executable; empty: one each
  double longest_call = 0;  // a simulator stops runs of longer calls, in its unit; 0: no limit
  // A simulator may check a candidate on the last data set only whose call takes at least so long, in its
  // unit; 0: at least as long as that of the batch's first candidate, which is checked on all.
  double known_call = 0;
  bool judges_effort = true;  // compares samples with single runs; tests leave it out
};

struct Result {
  int candidate = 0;  // index into executables
  Outcome outcome = Outcome::Ok;
  std::string detail;           // a sentence; empty where the outcome is Ok
  std::vector<double> samples;  // time of one run each, in the runner's unit; empty unless Ok
  double worst_error = 0;
  int64_t runs_per_sample = 0;
  int64_t peak_bytes = 0;
};

class Runner {
 public:
  virtual ~Runner() = default;
  virtual std::string name() const = 0;  // "native", "qemu"
  virtual std::string unit() const = 0;  // "seconds", "simulated cycles"
  // What confines a candidate here, for people and logs: "seccomp", "memory limit", …
  virtual std::vector<std::string> isolation() const = 0;
  // Describes the device that a runner simulates: architecture, features, processor, cores, vector
  // length, caches, memory. False where it is this machine.
  virtual bool simulate(rpc::DeviceInfo&) const { return false; }
  // Calls `done` once for each candidate, as soon as its result is known. Ends early, without further
  // results, when `cancelled` returns true. Throws a std::runtime_error where this machine fails, never
  // because a candidate does. To be called for one batch at a time.
  virtual void measure(const Batch& batch, const std::function<void(const Result&)>& done,
                       const std::function<bool()>& cancelled) = 0;
};

// Runs candidates on this machine's processor. `launcher` (usually empty) is a program with arguments that
// starts the candidates; the candidate's file and arguments are appended.
std::unique_ptr<Runner> make_native_runner(std::vector<std::string> launcher = {});

// Runs riscv64 candidates under qemu-user, timed by the plugin's model of a core (simulated cycles).
struct QemuOptions {
  std::string qemu = "qemu-riscv64";  // searched on PATH
  std::string plugin;                 // libcount_plugin.so
  std::string core = "generic";       // a row of ir/target/riscv_cores.h
  int vector_bits = 0;                // a power of two, 128 to 1024; 0: the core's
  bool cache = true;                  // models the core's caches
};
// Throws std::runtime_error where qemu or the plugin is missing.
std::unique_ptr<Runner> make_qemu_runner(const QemuOptions& options);

}  // namespace tc::agent
