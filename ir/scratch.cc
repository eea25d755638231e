// Sizes of the memory that kernels and plans work in.
#include "ir/scratch.h"

#include <algorithm>

#include "ir/ranges.h"

namespace tc {

std::map<int, int64_t> scratch_layout(const Kernel& kernel) {
  Ranges ranges;
  for (const Parameter& parameter : kernel.parameters) {
    ranges[parameter.name] = {parameter.minimum, parameter.maximum};
  }
  constexpr int64_t kMost = int64_t{1} << 50;
  std::map<int, int64_t> offsets;
  int64_t total = 0;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const Buffer& buffer = kernel.buffers[i];
    if (buffer.scope != Scope::Stack || !buffer.memory.empty()) continue;
    __int128 bytes = size_of(buffer.dtype);
    for (const Affine& extent : buffer.shape) {
      bytes *= std::max<int64_t>(0, range_of(extent, ranges).high);
      bytes = std::min<__int128>(bytes, kMost);
    }
    offsets[static_cast<int>(i)] = total;
    total += (static_cast<int64_t>(bytes) + 63) / 64 * 64;
  }
  offsets[-1] = total;
  return offsets;
}

int64_t scratch_bytes(const ScheduledKernel& kernel) {
  return kernel.scratch_by_sizes ? 0 : scratch_layout(kernel.kernel).at(-1);
}

Dim sized_scratch(const Kernel& kernel, const std::vector<Dim>& parameters) {
  Dim total;
  for (const Buffer& buffer : kernel.buffers) {
    if (buffer.scope != Scope::Stack || !buffer.memory.empty()) continue;
    Dim bytes = static_cast<int64_t>(size_of(buffer.dtype));
    for (const Affine& extent : buffer.shape) {
      Dim size = extent.constant();
      for (size_t i = 0; i < kernel.parameters.size(); ++i) {
        const int64_t coefficient = extent.coefficient(kernel.parameters[i].name);
        if (coefficient != 0) size = size + coefficient * parameters.at(i);
      }
      bytes = bytes * max(size, 0);
    }
    total = total + 64 * ceil_div(bytes, 64);
  }
  return total;
}

int64_t plan_scratch_bytes(const Plan& plan) {
  int64_t bytes = plan.scratch_bytes;
  for (const ScheduledKernel& kernel : plan.kernels) bytes = std::max(bytes, scratch_bytes(kernel));
  for (const auto& [index, versions] : plan.versions) {
    for (const VectorVersion& version : versions) bytes = std::max(bytes, scratch_bytes(version.kernel));
  }
  return bytes;
}

int64_t first_scratch_bytes(const Plan& plan) {
  return plan.first_scratch_bytes ? *plan.first_scratch_bytes : plan_scratch_bytes(plan);
}

int64_t bare_scratch_offset(const Plan& plan) {
  return (plan.arena_bytes.constant() + kBareArenaAlignment - 1) / kBareArenaAlignment * kBareArenaAlignment;
}

int64_t state_bytes(const Plan& plan, const KeptState& state) {
  const PortInfo& port = plan.inputs.at(static_cast<size_t>(state.input));
  return element_count(port.shape).constant() * static_cast<int64_t>(size_of(port.dtype));
}

std::vector<int64_t> bare_state_offsets(const Plan& plan) {
  constexpr int64_t kAlignment = 16;  // of the longest vectors of targets without an operating system
  std::vector<int64_t> offsets;
  int64_t next = bare_scratch_offset(plan) + first_scratch_bytes(plan);
  for (const KeptState& state : plan.states) {
    offsets.push_back((next + kAlignment - 1) / kAlignment * kAlignment);
    next = offsets.back() + state_bytes(plan, state);
  }
  offsets.push_back(next);
  return offsets;
}

int64_t bare_arena_bytes(const Plan& plan) {
  // Never 0: C has no empty arrays.
  return std::max(bare_state_offsets(plan).back(), kBareArenaAlignment);
}

std::vector<int64_t> constant_offsets(const std::vector<PlanConstant>& constants) {
  std::vector<int64_t> offsets;
  const auto aligned = [](int64_t offset, int64_t alignment) {
    return (offset + alignment - 1) / alignment * alignment;
  };
  int64_t next = 0;
  for (const PlanConstant& constant : constants) {
    offsets.push_back(aligned(next, constant.alignment()));
    next = offsets.back() + constant.byte_count();
  }
  offsets.push_back(constants.empty() ? 0 : aligned(next, constants.back().alignment()));
  return offsets;
}

}  // namespace tc
