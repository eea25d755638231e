// Predicted cycles and time of a scheduled kernel by the analytic cost model.
#include <algorithm>
#include <map>

#include "ir/target/narrow_product.h"
#include "ir/target/register_groups.h"
#include "ir/traffic.h"
#include "scheduler/core/statements.h"
#include "scheduler/scheduler.h"

namespace tc {
namespace {

// Cycles of a multiply-add on the target's matrix unit, where the statement is a sum of products for it; else
// 0.
double cycles_of_product(const Kernel& kernel, const Statement& statement, const Target& target) {
  const Expr& value = *statement.value;
  if (statement.reduction != Reduction::Sum || value.kind != Expr::Kind::Binary ||
      value.binary != BinaryOp::Mul)
    return 0;
  const Expr& operand = *value.operands[0];
  if (operand.kind != Expr::Kind::Cast || operand.operands[0]->kind != Expr::Kind::Load) return 0;
  const MatrixUnit& unit = target.matrix;
  const MatrixUnit::Format* format = format_of_stored(unit, operand.operands[0]->dtype);
  const DType sum = kernel.buffers[static_cast<size_t>(statement.write.buffer)].dtype;
  if (format == nullptr || format->accumulator != sum) return 0;
  const NarrowProduct* row = format->instruction;
  const bool own_cycles = !unit.vectors || (row != nullptr && row->encoding.opcode != 0);
  const double turns = own_cycles ? 1 : 2 / target.multiply_adds;
  return turns * format->cycles /
         (static_cast<double>(unit.rows) * unit.columns * format->groups * format->pack);
}

// Cycles of a product of bytes that is added up in 32 bits; 0 for other statements.
double cycles_of_bytes(const Kernel& kernel, const Statement& statement, const Target& target) {
  const Expr& value = *statement.value;
  if (statement.reduction != Reduction::Sum || value.kind != Expr::Kind::Binary ||
      value.binary != BinaryOp::Mul || value.dtype != DType::I32)
    return 0;
  std::vector<const Expr*> loads;
  for (const ExprPtr& operand : value.operands) {
    if (operand->kind != Expr::Kind::Cast || operand->operands[0]->kind != Expr::Kind::Load) return 0;
    const Expr& load = *operand->operands[0];
    if (load.dtype != DType::I8 && load.dtype != DType::U8) return 0;
    loads.push_back(&load);
  }
  const double lanes = std::max(1, target.lanes(DType::I32));
  const int together = byte_products(target);
  const bool four =
      together > 0 &&
      std::any_of(statement.iterators.begin(), statement.iterators.end(), [&](const Iterator& iterator) {
        return iterator.extent == Affine(together) &&
               std::all_of(loads.begin(), loads.end(), [&](const Expr* load) {
                 return element_stride(kernel, load->access, iterator.name) == 1;
               });
      });
  // Products one at a time: each byte is converted to 32 bits, multiplied and added.
  constexpr double kAlone = 2, kByHalves = 3;
  if (!four) return kAlone / (lanes * target.multiply_adds);
  const bool instruction =
      has_byte_instruction(target, static_cast<int64_t>(lanes), loads[0]->dtype, loads[1]->dtype);
  return (instruction ? 1 : kByHalves) / (lanes * together * target.multiply_adds);
}

}  // namespace

double predicted_cycles(const ScheduledKernel& scheduled, const Target& target, int64_t likely) {
  std::map<std::string, int64_t> parameters;
  for (const Parameter& parameter : scheduled.kernel.parameters) {
    parameters[parameter.name] = std::clamp(likely, parameter.minimum, parameter.maximum);
  }
  const double lanes = std::max(1, target.lanes(DType::F32));
  Kernel vectors = scheduled.kernel;
  double compute = 0;
  std::erase_if(vectors.statements, [&](const Statement& statement) {
    double cycles = cycles_of_product(scheduled.kernel, statement, target);
    if (cycles == 0) cycles = cycles_of_bytes(scheduled.kernel, statement, target);
    compute += instance_count(statement, parameters) * cycles;
    return cycles > 0;
  });
  compute += flop_count(vectors, parameters) / (2 * lanes * target.multiply_adds);
  // The constants of a model together do not fit the first two caches; what one kernel passes to the next
  // does.
  const Traffic traffic = traffic_of(scheduled.kernel, parameters);
  const double memory =
      traffic.constants / target.l3_bandwidth + (traffic.read + traffic.written) / target.l2_bandwidth;
  return std::max(compute, memory);
}

double predicted_seconds(const ScheduledKernel& scheduled, const Target& target, int threads,
                         int64_t likely) {
  return predicted_cycles(scheduled, target, likely) / (target.clock_ghz * 1e9 * std::max(1, threads));
}

}  // namespace tc
