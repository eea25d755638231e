// The analytic default schedule.
#include "ir/error.h"
#include "scheduler/scheduler.h"

namespace tc {

std::vector<std::string> default_trace(const Schedule&, int) { return {}; }

Schedule default_schedule(Kernel kernel, const Target& target, int threads,
                          const std::vector<std::string>& layout_lines) {
  Schedule schedule(std::move(kernel), target);
  if (auto refused = schedule.replay(layout_lines)) fail(ErrorKind::Schedule, *refused);
  if (auto refused = schedule.replay(default_trace(schedule, threads))) {
    fail(ErrorKind::Internal, "the default schedule is refused: ", *refused);
  }
  return schedule;
}

double predicted_seconds(const ScheduledKernel& scheduled, const Target& target, int threads) {
  std::map<std::string, int64_t> parameters;
  for (const Parameter& parameter : scheduled.kernel.parameters) {
    parameters[parameter.name] = parameter.minimum;
  }
  const double lanes = std::max(1, target.lanes(DType::F32));
  return flop_count(scheduled.kernel, parameters) / (2 * lanes * target.multiply_adds) /
         (2.5e9 * std::max(1, threads));
}

}  // namespace tc
