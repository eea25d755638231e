// The kernels of a session of tuning.
#include "tuner/tuned_kernel.h"

#include <algorithm>
#include <numeric>

#include "tuner/least_time.h"

namespace tc {

std::vector<Trace> recall(TunedKernel& kernel, const RecordStore& log, const OwnRecords& own,
                          std::vector<std::string>& notes) {
  constexpr size_t kMaxSeeds = 4;
  const KernelTask& task = *kernel.task;
  RecordFilter filter;
  filter.workload = task.workload;
  std::vector<Trace> others;
  for (const Record& record : log.records(filter, &notes)) {
    const bool same = record.target == task.target.name && record.device == own.device &&
                      record.threads == task.threads && record.build == own.build;
    if (same) kernel.known[record.trace] = believed(record.measurement, kernel.least_time, record.unit);
    else if (record.measurement.outcome == Outcome::Ok && others.size() < kMaxSeeds)
      others.push_back(record.trace);
  }
  return others;
}

void TunedKernels::weigh(double (*time_of)(const TunedKernel&)) {
  for (size_t m = 0; scales_.size() > 1 && m < scales_.size(); ++m) {
    double total = 0;
    for (const TunedKernel& kernel : kernels_) total += time_of(kernel) * kernel.calls[m];
    scales_[m] = total > 0 ? 1 / total : 1;
  }
}

double TunedKernels::weight(const TunedKernel& kernel) const {
  return std::inner_product(scales_.begin(), scales_.end(), kernel.calls.begin(), 0.0);
}

double TunedKernels::untuned_time(size_t model) const {
  double total = 0;
  for (const TunedKernel& kernel : kernels_) total += kernel.untuned_time * kernel.calls[model];
  return total;
}

double TunedKernels::saved(const TunedKernel& kernel, size_t model) {
  return kernel.calls[model] * (kernel.untuned_time - kernel.time());
}

std::vector<TunedKernel*> TunedKernels::by_prediction() {
  std::vector<TunedKernel*> order;
  for (TunedKernel& kernel : kernels_) order.push_back(&kernel);
  std::stable_sort(order.begin(), order.end(), [this](const TunedKernel* a, const TunedKernel* b) {
    return a->task->predicted_seconds * weight(*a) > b->task->predicted_seconds * weight(*b);
  });
  return order;
}

std::vector<const TunedKernel*> TunedKernels::changed(size_t model) const {
  std::vector<const TunedKernel*> changed;
  for (const TunedKernel& kernel : kernels_) {
    if (kernel.calls[model] == 0) continue;
    // A search that started from random schedules may not have reached the speed of the untuned one.
    const bool faster = kernel.search->best_ratio() < 1 && kernel.search->best() != kernel.task->untuned;
    if (!kernel.out() && faster) changed.push_back(&kernel);
  }
  std::stable_sort(changed.begin(), changed.end(), [model](const TunedKernel* a, const TunedKernel* b) {
    return saved(*a, model) > saved(*b, model);
  });
  return changed;
}

}  // namespace tc
