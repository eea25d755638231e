// Measuring as the search sees it. The measurer is the tuner's only view of devices.
#pragma once

#include <string>
#include <vector>

#include "ir/loop.h"
#include "ir/target/target.h"
#include "tuner/record.h"

namespace tc {

// One kernel to tune; its sizes are numbers.
struct KernelTask {
  std::string label;     // the nodes it computes
  std::string workload;  // workload_key(kernel) and the layout lines: the log's key
  Kernel kernel;
  std::vector<std::string> layout_lines;
  Target target;
  int threads = 1;                  // of the model; part of the key in the log
  double tolerance = 0;             // of the model: decides which algorithms may be tried
  bool single_thread = false;       // the model runs it on one thread, since it is so small
  int calls = 1;                    // of this kernel in one run of the model
  double predicted_seconds = 0;     // of one call, by the analytic cost model; 0: unknown
  int64_t bytes_between_calls = 0;  // of constants that the model reads in between
  Trace untuned;                    // the analytic default
  std::vector<Trace> algorithms;    // further traces to try: algorithm_traces()
};

// A candidate that takes more than this many times as long as the incumbent is not worth the time that better
// ones need: an exact device stops it, and any other takes one sample of it only.
constexpr double kSlowRatio = 4;

class Measurer {
 public:
  virtual ~Measurer() = default;
  virtual std::string device_key() const = 0;
  virtual std::string unit() const = 0;              // "seconds" or "simulated cycles"
  virtual double clock_hz() const { return 2.5e9; }  // of the device, roughly; for the roofline
  // The task whose untuned schedule is measured after the next call of measure(), which may begin to build it
  // while a device is at work; null: nothing more is to be built ahead. The task outlives the measuring.
  virtual void expect(const KernelTask*) {}
  // One result per trace, in their order. Runs of the incumbent are interleaved with theirs, and `ratio`
  // refers to the incumbent's time. `rounds` is the number of samples of each. Never throws because a
  // candidate fails; throws a Device error where no device is left.
  virtual std::vector<Measurement> measure(const KernelTask& task, const Trace& incumbent,
                                           const std::vector<Trace>& traces, int rounds) = 0;
};

}  // namespace tc
