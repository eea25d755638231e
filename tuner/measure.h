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
  int threads = 1;                  // of the model; part of the log's key
  double tolerance = 0;             // of the model: what algorithms may be tried
  bool single_thread = false;       // so small that one thread runs it in the model
  int calls = 1;                    // of this kernel in one run of the model
  int64_t bytes_between_calls = 0;  // of constants that the model reads meanwhile
  Trace untuned;                    // the analytic default
  std::vector<Trace> algorithms;    // other traces worth a try: algorithm_traces()
};

class Measurer {
 public:
  virtual ~Measurer() = default;
  virtual std::string device_key() const = 0;
  virtual std::string unit() const = 0;              // "seconds" or "simulated cycles"
  virtual double clock_hz() const { return 2.5e9; }  // of the device, roughly: for the roof
  // One result per trace, in their order. The incumbent's is interleaved with them and is what
  // `ratio` refers to. `rounds` is the number of samples of each. Never throws for what a candidate
  // does; throws a Device error where no device is left.
  virtual std::vector<Measurement> measure(const KernelTask& task, const Trace& incumbent,
                                           const std::vector<Trace>& traces, int rounds) = 0;
};

}  // namespace tc
