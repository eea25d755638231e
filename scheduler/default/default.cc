// The analytic default: what the table of strategies decides, as lines, schedules and reports.
#include <algorithm>
#include <iomanip>
#include <sstream>

#include "ir/accelerator.h"
#include "scheduler/default/strategy.h"

namespace tc {
namespace {

// Without any strategy the statements stay in their order.
ScheduleState default_state(const ScheduleState& start, int threads, double tolerance) {
  const Decision decision = decide(StrategyInput(start, threads, tolerance));
  return decision.result ? decision.result->state() : start;
}

// 3 digits: "1.25e+06".
std::string rounded(double cycles) {
  std::ostringstream out;
  out << std::setprecision(3) << cycles;
  return out.str();
}

}  // namespace

std::vector<std::string> default_trace(const Schedule& start, int threads, double tolerance) {
  const ScheduleState& from = ScheduleAccess::state(start);
  const std::vector<std::string> trace = default_state(from, threads, tolerance).trace;
  return {trace.begin() + static_cast<std::ptrdiff_t>(start.trace().size()), trace.end()};
}

std::vector<StrategyReport> default_report(const Schedule& start, int threads, double tolerance) {
  return decide(StrategyInput(ScheduleAccess::state(start), threads, tolerance, true)).reports;
}

std::string str(const std::vector<StrategyReport>& report) {
  size_t width = 0;
  for (const StrategyReport& each : report) width = std::max(width, each.name.size());
  std::string result;
  for (const StrategyReport& each : report) {
    result += (each.taken ? "* " : "  ") + each.name + std::string(width - each.name.size(), ' ');
    if (!each.plan.empty()) {
      result += "  " + rounded(each.cycles) + " cycles";
      if (each.plain > 0) result += " of " + rounded(each.plain) + " of the plain sums";
      result += ": " + each.plan;
    }
    if (!each.rejected.empty()) result += (each.plan.empty() ? "  no: " : "; no: ") + each.rejected;
    result += "\n";
  }
  const bool none =
      std::none_of(report.begin(), report.end(), [](const StrategyReport& each) { return each.taken; });
  return none ? result + "* none: the loops stay as the statements have them\n" : result;
}

std::vector<std::vector<std::string>> algorithm_traces(const Schedule& start, int threads, double tolerance) {
  std::vector<std::vector<std::string>> result;
  const StrategyInput input(ScheduleAccess::state(start), threads, tolerance, true);
  for (const Strategy& each : strategies()) {
    if (each.kind != StrategyKind::Algorithm) continue;
    StrategyKnobs knobs;
    try {
      result.push_back(apply_strategy(each, input, knobs).state().trace);
    } catch (const NotApplicable&) {
      // It has no trace.
    }
  }
  return result;
}

Schedule default_schedule(Kernel kernel, const Target& target, int threads,
                          const std::vector<std::string>& layout_lines, double tolerance) {
  return placed_schedule(std::move(kernel), target, threads, layout_lines, tolerance, Placement::Predicted);
}

Schedule placed_schedule(Kernel kernel, const Target& target, int threads,
                         const std::vector<std::string>& layout_lines, double tolerance,
                         Placement placement) {
  Schedule schedule(std::move(kernel), target);
  if (auto refused = schedule.replay(layout_lines)) fail(ErrorKind::Schedule, *refused);
  const ScheduleState& start = ScheduleAccess::state(schedule);
  const Decision decision = decide(StrategyInput(start, threads, tolerance, false, placement));
  if (placement == Placement::Accelerator && !is_for_accelerator(decision)) {
    fail(ErrorKind::Unsupported, "kernel '", start.kernel->kernel.name, "' cannot be placed on accelerator '",
         target.accelerator == nullptr ? "" : target.accelerator->name,
         "': ", why_not_for_accelerator(decision), "; place it on the core");
  }
  return ScheduleAccess::schedule(decision.result ? decision.result->state() : start);
}

}  // namespace tc
