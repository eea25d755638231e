// A kernel in a session of tuning.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tuner/measure.h"
#include "tuner/search.h"
#include "tuner/tune.h"

namespace tc {

struct TunedKernel {
  const KernelTask* task = nullptr;
  std::unique_ptr<KernelSearch> search;
  std::map<Trace, Measurement> known;  // results of the log and of this session, by trace
  KernelProgress progress;
  double untuned_time = 0;
  double expected_gain = 0;  // of one more batch, as a share of its time
  bool exhausted = false;
  double least_time = 0;   // lower bound for any schedule
  bool broken = false;     // the untuned schedule cannot be measured
  bool skipped = false;    // or was not, since the time did not last
  double pace = 0;         // seconds that a candidate took, build included; 0 while unknown
  int measured = 0;        // candidates, in this session
  std::vector<int> calls;  // in one run of each model; 0 where it does not have the kernel

  bool out() const { return broken || skipped; }

  double time() const { return untuned_time * search->best_ratio(); }
};

}  // namespace tc
