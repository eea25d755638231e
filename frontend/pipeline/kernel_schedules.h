// The schedules of a plan's kernels: each kernel is scheduled once, by a recorded trace or by default.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontend/pipeline/plan_builder.h"
#include "scheduler/scheduler.h"

namespace tc {

class KernelSchedules {
 public:
  // Kernels, reports and notes go to `result`.
  KernelSchedules(const BuildOptions& options, BuiltPlan& result) : options_(options), result_(result) {}

  struct Entry {
    int index = -1;  // of the kernel in the plan
    std::string workload;
    bool tuned = false;
    std::vector<std::string> trace;
    double seconds = 0;
    bool single_thread = false;  // too small to divide
    double tolerance = 0;        // the model's, or less
  };
  // What the schedule of a kernel depends on beside its statements.
  struct Use {
    // Before the run begins, so that it can have the scratch memory that they need; else much of it limits
    // the sizes.
    bool sizes_known = false;
    bool repeated = false;  // a loop of the plan runs it, so that it may alternate
    // All elements of a matrix that it multiplies by are equal: it must not be stored in words.
    bool equal_weights = false;
  };
  // Of the kernel with these layout lines; its buffers have names by role.
  const Entry& schedule(const Kernel& kernel, const std::vector<std::string>& layout_lines, const Use& use);
  // Of one call.
  void report(const Kernel& kernel, const Entry& entry, const std::vector<std::string>& layout_lines);

 private:
  // Replays the trace on `schedule`; why it is not taken, if so. Throws what replaying it and
  // options.check_kernel throw.
  std::optional<std::string> refuse_trace(const Kernel& kernel, const std::vector<std::string>& layout_lines,
                                          const std::vector<std::string>& trace, double tolerance,
                                          Schedule& schedule) const;
  // The first of the given traces that this kernel allows; what the others cost is bounded, and is noted.
  std::optional<Schedule> recorded_schedule(const Kernel& kernel,
                                            const std::vector<std::string>& layout_lines, const Entry& entry);
  // That one, else the default.
  Schedule choose_schedule(const Kernel& kernel, const std::vector<std::string>& layout_lines, Entry& entry);
  // Versions of the entry's kernel for the target's longer vectors: those that take the same arguments.
  void add_versions(const Kernel& kernel, const std::vector<std::string>& layout_lines, const Entry& entry,
                    bool repeated);

  const BuildOptions& options_;
  BuiltPlan& result_;
  // By workload, which has the layout lines, whether a loop repeats the kernel, and whether sizes are limited
  // where others' are not.
  std::map<std::string, Entry> scheduled_;
  size_t refused_ = 0;      // recorded schedules
  double replay_work_ = 0;  // of those that were tried
  bool stopped_ = false;    // no more are tried
};

}  // namespace tc
