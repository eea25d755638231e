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
    bool single_thread = false;  // too small to divide among threads
    double tolerance = 0;        // the model's, or less
    Placement placement = Placement::Predicted;
  };
  // What the schedule of a kernel depends on in addition to its statements.
  struct Use {
    // The kernel's sizes are known before the run begins, so that the run can provide the scratch memory that
    // they need. Otherwise sizes that would need much scratch memory are limited.
    bool sizes_known = false;
    bool repeated = false;  // a loop of the plan runs it, so that its schedule may alternate
    // A matrix that it multiplies with has equal elements only, and must not be stored in words.
    bool equal_weights = false;
  };
  // The entry of the kernel with these layout lines, scheduled when it is asked for the first time. The
  // kernel's buffers are named by role (rename_buffers).
  const Entry& schedule(const Kernel& kernel, const std::vector<std::string>& layout_lines, const Use& use);
  // Adds a report for one call of the kernel.
  void report(const Kernel& kernel, const Entry& entry, const std::vector<std::string>& layout_lines);

 private:
  // Replays the trace on `schedule`. Returns why the trace is refused, or nothing where it can be taken.
  // Throws what the replay and options.check_kernel throw.
  std::optional<std::string> refuse_trace(const Kernel& kernel, const std::vector<std::string>& layout_lines,
                                          const std::vector<std::string>& trace, double tolerance,
                                          Schedule& schedule) const;
  // The schedule of the first recorded trace that this kernel allows. The time for traces that are refused is
  // bounded, and each is noted.
  std::optional<Schedule> recorded_schedule(const Kernel& kernel,
                                            const std::vector<std::string>& layout_lines, const Entry& entry);
  // The recorded schedule if there is one, else the default.
  Schedule choose_schedule(const Kernel& kernel, const std::vector<std::string>& layout_lines, Entry& entry);
  // Adds versions of the entry's kernel for the target's longer vectors, where they take the same arguments.
  void add_versions(const Kernel& kernel, const std::vector<std::string>& layout_lines, const Entry& entry,
                    bool repeated);

  const BuildOptions& options_;
  BuiltPlan& result_;
  // By workload, to which are added the layout lines, whether a loop repeats the kernel, and whether its
  // sizes are limited where those of an equal kernel are not.
  std::map<std::string, Entry> scheduled_;
  size_t refused_ = 0;      // number of recorded schedules that were refused
  double replay_work_ = 0;  // what the recorded schedules that were tried have cost
  bool stopped_ = false;    // no more recorded schedules are tried
};

}  // namespace tc
