// The analytic default schedule: ways of scheduling, most special first.
#include <algorithm>

#include "ir/traffic.h"
#include "scheduler/builder.h"
#include "scheduler/legality.h"

namespace tc {
namespace {

ScheduleState default_state(const ScheduleState& start, int threads, double tolerance) {
  if (start.ordered) {
    fail(ErrorKind::Schedule, "schedule of kernel '", start.kernel->kernel.name, "' has lines of order already; the "
         "default follows on rewrites only");
  }
  for (int way = tolerance > 0 ? 0 : 2; way < 5; ++way) {
    Builder builder(start, threads);
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
    Builder builder(ScheduleAccess::state(start), threads);
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

namespace {

// Of a multiply-add on the target's matrix unit, where the statement is a sum of products for it; else 0.
double cycles_of_product(const Kernel& kernel, const Statement& statement, const Target& target) {
  const Expr& value = *statement.value;
  if (statement.reduction != Reduction::Sum || value.kind != Expr::Kind::Binary || value.binary != BinaryOp::Mul) return 0;
  const Expr& operand = *value.operands[0];
  if (operand.kind != Expr::Kind::Cast || operand.operands[0]->kind != Expr::Kind::Load) return 0;
  const MatrixUnit& unit = target.matrix;
  const MatrixUnit::Format* format = unit.format(operand.operands[0]->dtype);
  const DType sum = kernel.buffers[static_cast<size_t>(statement.write.buffer)].dtype;
  if (format == nullptr || format->accumulator != sum) return 0;
  const double turns = unit.vectors ? 2 / target.multiply_adds : 1;
  return turns * format->cycles / (static_cast<double>(unit.rows) * unit.columns * format->groups * format->members);
}

}  // namespace

double predicted_seconds(const ScheduledKernel& scheduled, const Target& target, int threads, int64_t likely) {
  std::map<std::string, int64_t> parameters;
  for (const Parameter& parameter : scheduled.kernel.parameters) {
    parameters[parameter.name] = std::clamp(likely, parameter.minimum, parameter.maximum);
  }
  const double lanes = std::max(1, target.lanes(DType::F32));
  Kernel vectors = scheduled.kernel;
  double compute = 0;
  std::erase_if(vectors.statements, [&](const Statement& statement) {
    const double cycles = cycles_of_product(scheduled.kernel, statement, target);
    compute += instance_count(statement, parameters) * cycles;
    return cycles > 0;
  });
  compute += flop_count(vectors, parameters) / (2 * lanes * target.multiply_adds);
  // A model's constants together are larger than the near caches; what kernels pass on is in them.
  const Traffic traffic = traffic_of(scheduled.kernel, parameters);
  const double memory = traffic.constants / target.l3_bandwidth +
                        (traffic.read + traffic.written) / target.l2_bandwidth;
  constexpr double kClock = 2.5e9;
  return std::max(compute, memory) / (kClock * std::max(1, threads));
}

}  // namespace tc
