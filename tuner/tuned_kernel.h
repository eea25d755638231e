// The kernels of a session of tuning, which one or more models call.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
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
  double expected_gain = 0;  // of one more batch, as a share of its time, by the batches before
  bool exhausted = false;
  double least_time = 0;   // lower bound for any schedule
  double roof = 0;         // time at the core's peak rate, by a table that is the device's; 0: unknown
  bool broken = false;     // the untuned schedule cannot be measured
  bool skipped = false;    // or was not, since the time did not last
  double pace = 0;         // seconds that a candidate took, build included; 0 while unknown
  int measured = 0;        // candidates, in this session
  std::vector<int> calls;  // in one run of each model; 0 where it does not have the kernel

  bool out() const { return broken || skipped; }

  double time() const { return untuned_time * search->best_ratio(); }

  // Whether the best schedule is so near the machine's limit that a better one saves nothing worth its
  // search. What is faster than the limit shows that the table is not the device's.
  bool at_roof() const { return roof > 0 && time() >= roof && time() <= kNearRoof * roof; }
  static constexpr double kNearRoof = 1.02;

  // Of one more batch, as a share of the time: no more than the part beyond the roof.
  double likely_gain() const {
    return roof > 0 && roof < time() ? std::min(expected_gain, 1 - roof / time()) : expected_gain;
  }
};

// Whose records are a session's own: those of its device, measured with its build of the compiler.
struct OwnRecords {
  std::string device, build;
};

// Takes the log's own results of the kernel over as known. Returns traces that were measured for another
// target, device or number of threads, or with another build: they are worth trying, but their times are not
// used.
std::vector<Trace> recall(TunedKernel& kernel, const RecordStore& log, const OwnRecords& own,
                          std::vector<std::string>& notes);

class TunedKernels {
 public:
  explicit TunedKernels(size_t models) : scales_(models, 1) {}

  void add(TunedKernel kernel) { kernels_.push_back(std::move(kernel)); }
  std::vector<TunedKernel>::iterator begin() { return kernels_.begin(); }
  std::vector<TunedKernel>::iterator end() { return kernels_.end(); }
  std::vector<TunedKernel>::const_iterator begin() const { return kernels_.begin(); }
  std::vector<TunedKernel>::const_iterator end() const { return kernels_.end(); }
  size_t size() const { return kernels_.size(); }
  TunedKernel& operator[](size_t i) { return kernels_[i]; }

  // Makes each model count alike, however long a run of it takes: by the times that the kernels are said to
  // have. One model by itself is not scaled.
  void weigh(double (*time_of)(const TunedKernel&));
  // What a second of one call counts for.
  double weight(const TunedKernel& kernel) const;
  // Of one run of the untuned model, in the device's unit.
  double untuned_time(size_t model) const;
  // What the kernel's best schedule saves in one run of the model, by measurements of the kernel alone.
  static double saved(const TunedKernel& kernel, size_t model);

  // Those first that are predicted to take most of the models' time.
  std::vector<TunedKernel*> by_prediction();
  // Kernels of the model that have a schedule faster than the untuned one; those that save most come first.
  std::vector<const TunedKernel*> changed(size_t model) const;

 private:
  std::vector<TunedKernel> kernels_;
  std::vector<double> scales_;  // by model: what a second of a run of it counts for
};

}  // namespace tc
