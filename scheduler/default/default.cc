// The analytic default schedule: ways of scheduling, most special first.
#include "scheduler/default/builder.h"
#include "scheduler/legality/legality.h"

namespace tc {
namespace {

ScheduleState default_state(const ScheduleState& start, int threads, double tolerance) {
  if (start.ordered) {
    fail(ErrorKind::Schedule, "schedule of kernel '", start.kernel->kernel.name, "' has lines of order already; the "
         "default follows on rewrites only");
  }
  for (int way = tolerance > 0 ? 0 : 2; way < 5; ++way) {
    TraceBuilder builder(start, threads);
    try {
      if (way == 0) schedule_matrix(builder, tolerance);
      else if (way == 1) schedule_winograd(builder, tolerance);
      else if (way == 2) schedule_reduction(builder);
      else if (way == 3) schedule_rows(builder);
      else schedule_separately(builder);
      if (!check_state(builder.state())) return builder.state();
    } catch (const Abandon&) {
    }
  }
  return start;
}

}  // namespace

std::vector<std::string> default_trace(const Schedule& start, int threads, double tolerance) {
  const ScheduleState& from = ScheduleAccess::state(start);
  const std::vector<std::string>& trace = default_state(from, threads, tolerance).trace;
  return {trace.begin() + static_cast<std::ptrdiff_t>(start.trace().size()), trace.end()};
}

std::vector<std::vector<std::string>> algorithm_traces(const Schedule& start, int threads, double tolerance) {
  std::vector<std::vector<std::string>> result;
  if (tolerance <= 0) return result;
  for (const bool matrix : {true, false}) {
    TraceBuilder builder(ScheduleAccess::state(start), threads);
    try {
      if (matrix) schedule_matrix(builder, tolerance, true);
      else schedule_winograd(builder, tolerance, true);
      if (!check_state(builder.state())) result.push_back(builder.state().trace);
    } catch (const Abandon&) {
    }
  }
  return result;
}

Schedule default_schedule(Kernel kernel, const Target& target, int threads,
                          const std::vector<std::string>& layout_lines, double tolerance) {
  Schedule schedule(std::move(kernel), target);
  if (auto refused = schedule.replay(layout_lines)) fail(ErrorKind::Schedule, *refused);
  return ScheduleAccess::schedule(default_state(ScheduleAccess::state(schedule), threads, tolerance));
}

}  // namespace tc
