// The last step of tuning: which of the faster schedules make the whole model faster.
//
// A kernel measured by itself finds its data in the cache, or other code around it, than inside the model. So
// the schedules that won by themselves are compared inside the model, and the model keeps only those that
// make it faster there.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tuner/record.h"

namespace tc {

// A trace for each workload.
using Choices = std::map<std::string, Trace>;

// Measures the whole model under each set of choices, with interleaved runs; ratios refer to the first set.
// Workloads that are not in a set take the untuned trace. A set that is not measured within so many seconds
// (infinite where nothing limits them) has the outcome Timeout.
using MeasureModel =
    std::function<std::vector<Measurement>(const std::vector<Choices>&, int rounds, double seconds)>;

// A kernel with a schedule that is faster than the untuned one, measured by itself.
struct FasterKernel {
  std::string workload;
  std::vector<Trace> fastest;  // one or more; the first is the best
  double saved = 0;            // share of the untuned model's time, by the kernel's own measurements
};

struct ModelDecision {
  enum class Kind {
    Faster,        // `choices` make the model faster
    NotSurely,     // no choices surely do
    Unmeasurable,  // the untuned model has no time: it failed
    NoTime,        // the seconds did not last
  };
  Kind kind = Kind::NotSurely;
  Choices choices;
  double ratio = 1;  // of Faster: the model's time, tuned divided by untuned
};

// Compares sets of choices inside the model within `seconds_left()`, which is asked now and then. `exact`
// says that the device gives the same time each time, so that each set is measured once. Adds sentences about
// failures to `notes`.
ModelDecision decide_in_model(const std::vector<FasterKernel>& kernels, bool exact,
                              const MeasureModel& measure_model, const std::function<double()>& seconds_left,
                              std::vector<std::string>& notes);

// The seconds that decide_in_model needs at least: `build` is what one build of the model takes, `run` what
// one run on the device takes.
double seconds_to_decide(double build, double run, bool exact);

}  // namespace tc
