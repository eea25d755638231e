// One kernel as a program to measure.
#include "tuner/kernel_program.h"

#include <algorithm>
#include <memory>
#include <set>

#include "codegen/backend/table.h"
#include "ir/error.h"
#include "ir/kernel_plan.h"
#include "scheduler/scheduler.h"
#include "tuner/run_library.h"

namespace tc {
namespace {

constexpr uint64_t kConstantPorts = 1000;
constexpr int64_t kMaxCalls = 64;
// Where reading the constants from the third-level cache takes less than this share of the least time of the
// multiply-adds, it makes no difference whether they are cold.
constexpr double kUnseen = 0.01;

// The constant's number among the constants that the kernel had before all rewrites.
uint64_t number_of(const Kernel& kernel, const std::string& constant) {
  uint64_t number = 0;
  for (const Buffer& buffer : kernel.buffers) {
    if (buffer.name == constant) break;
    number += buffer.scope == Scope::Constant && original_of(kernel, buffer.name) == buffer.name;
  }
  return number;
}

PlanConstant constant_of(const Kernel& kernel, const Buffer& buffer, uint64_t seed) {
  const std::string& original = original_of(kernel, buffer.name);
  const uint64_t port = kConstantPorts + number_of(kernel, original);
  if (const Packing* packing = packing_of(kernel, buffer.name)) {
    const Packing& placed = *packing_of(kernel, original);
    const DType dtype = kernel.buffers[static_cast<size_t>(kernel.buffer_index(original))].dtype;
    const Tensor data = sample_data(placed.original_dtype(dtype), placed.original_shape, seed, port);
    // Packed now, once, since many calls may have copies of it.
    return PlanConstant(std::make_shared<const Tensor>(pack(*packing, kernel, data)));
  }
  return PlanConstant(
      std::make_shared<const Tensor>(sample_data(buffer.dtype, sizes_of(port_of(buffer)), seed, port)));
}

Schedule scheduled_as(const KernelProgram& program, const Target& target, const Trace& trace) {
  Schedule schedule(program.kernel, target);
  if (auto refused = schedule.replay(trace)) fail(ErrorKind::Schedule, *refused);
  return schedule;
}

// The padding that fills up the blocks of a layout may have any value. It is marked here in the way
// run_on_samples marks bytes that were not written, so that it is not compared.
void hide_padding(const Schedule& schedule, const Buffer& buffer, Bytes& bytes) {
  if (!is_float(buffer.dtype)) return;
  const std::vector<int64_t> shape = sizes_of(port_of(buffer));
  const auto size = static_cast<size_t>(size_of(buffer.dtype));
  std::vector<int64_t> index(shape.size());
  for (size_t i = 0; i * size < bytes.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    for (size_t d = index.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    if (schedule.is_padding(buffer.name, index))
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(i * size), size, 0xff);
  }
}

void find_constants(const PlanSteps& steps, std::set<int>& constants) {
  for (const PlanStep& step : steps) {
    for (const Location& location : step.locations) {
      if (location.kind == Location::Kind::Constant) constants.insert(location.index);
    }
    find_constants(step.body, constants);
    find_constants(step.otherwise, constants);
  }
}

void count_bytes_between(const Plan& plan, const PlanSteps& steps, int64_t around,
                         std::map<int, int64_t>& between) {
  for (const PlanStep& step : steps) {
    int64_t bytes = around;
    if (step.kind == PlanStep::Kind::Loop) {
      std::set<int> constants;
      find_constants(step.body, constants);
      bytes = 0;
      for (const int constant : constants) {
        bytes += plan.constants[static_cast<size_t>(constant)].byte_count();
      }
    }
    if (step.kind == PlanStep::Kind::Call) between[step.kernel] = std::max(between[step.kernel], bytes);
    count_bytes_between(plan, step.body, bytes, between);
    count_bytes_between(plan, step.otherwise, bytes, between);
  }
}

}  // namespace

std::map<int, int64_t> constant_bytes_between_calls(const Plan& plan) {
  int64_t all = 0;
  for (const PlanConstant& constant : plan.constants) all += constant.byte_count();
  std::map<int, int64_t> between;
  count_bytes_between(plan, plan.steps, all, between);
  return between;
}

int calls_per_run(const Kernel& scheduled, const Target& target, int64_t bytes_between_calls) {
  int64_t own = 0;
  for (const Buffer& buffer : scheduled.buffers) {
    if (buffer.scope != Scope::Constant) continue;
    int64_t bytes = size_of(buffer.dtype);
    for (const Affine& size : buffer.shape) bytes *= size.constant();
    own += bytes;
  }
  const double least =
      flop_count(scheduled, {}) / (2 * std::max(1, target.lanes(DType::F32)) * target.multiply_adds);
  if (static_cast<double>(own) / target.l3_bandwidth < kUnseen * least) return 1;
  // Data that is not used while the second-level cache is filled anew has left it. The factor is there
  // because the target's row has the smallest cache of all machines of its kind.
  const int64_t between = std::min(bytes_between_calls, 4 * target.l2_bytes);
  return own == 0 ? 1 : static_cast<int>(std::clamp<int64_t>((between + own - 1) / own, 1, kMaxCalls));
}

Plan kernel_plan(const ScheduledKernel& scheduled, const Target& target, uint64_t constants_seed, int calls) {
  Plan plan = plan_of_kernel(scheduled, target, [&](const Buffer& buffer) {
    return constant_of(scheduled.kernel, buffer, constants_seed);
  });
  PlanStep call = std::move(plan.steps.back());
  plan.steps.clear();
  const auto own = static_cast<int>(plan.constants.size());
  for (int i = 0; i < calls; ++i) {
    plan.steps.push_back(call);
    if (i + 1 == calls) break;
    for (Location& location : call.locations) {
      if (location.kind == Location::Kind::Constant) location.index += own;
    }
    for (int k = 0; k < own; ++k) plan.constants.push_back(plan.constants[static_cast<size_t>(k)]);
  }
  return plan;
}

int build_kernel_program(const KernelProgram& program, const Trace& trace, const Target& target,
                         const std::string& library_folder, const std::string& path) {
  const ScheduledKernel finished = scheduled_as(program, target, trace).finish();
  const int calls = calls_per_run(finished.kernel, target, program.bytes_between_calls);
  Plan plan = kernel_plan(finished, target, program.constants_seed, calls);
  for (PlanStep& step : plan.steps) step.single_thread = program.threads == 1;
  build_artefact(candidate_kind(), plan, target, {path, path, library_folder});
  return calls;
}

ProgramPorts program_ports(const KernelProgram& program, const Target& target) {
  const Schedule laid_out = scheduled_as(program, target, program.layout_lines);
  ProgramPorts ports;
  for (const Buffer& buffer : laid_out.kernel().buffers) {
    if (buffer.scope == Scope::Input) ports.inputs.push_back(port_of(buffer));
    if (buffer.scope == Scope::Output) ports.outputs.push_back(port_of(buffer));
  }
  return ports;
}

std::vector<std::vector<Bytes>> reference_outputs(const KernelProgram& program, const Target& target,
                                                  const std::vector<uint64_t>& seeds) {
  // Layouts are those of the candidates' target; the loops are compiled for this machine.
  const Schedule schedule = scheduled_as(program, target, program.layout_lines);
  const ScheduledKernel plain = schedule.finish();
  const Target here = parse_target("native");
  Plan plan = kernel_plan(plain, here, program.constants_seed);
  plan.steps[0].single_thread = true;
  const TemporaryFile library;
  build_artefact("shared", plan, here, {library.path(), library.path(), ""});
  std::vector<std::vector<Bytes>> all;
  for (const uint64_t seed : seeds) {
    std::vector<Bytes>& outputs =
        all.emplace_back(run_on_samples(library.path(), plan.inputs, plan.outputs, seed));
    size_t next = 0;
    for (const Buffer& buffer : plain.kernel.buffers) {
      if (buffer.scope == Scope::Output) hide_padding(schedule, buffer, outputs[next++]);
    }
  }
  return all;
}

}  // namespace tc
