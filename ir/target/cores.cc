// Turns rows of cores into what the compiler reads: costs of vectors of an instruction set's length.
#include <algorithm>
#include <string_view>

#include "ir/target/aarch64_cores.h"
#include "ir/target/cortex_m_cores.h"
#include "ir/target/riscv_cores.h"
#include "ir/target/tables.h"
#include "ir/target/x86_cores.h"

namespace tc::targets {
namespace {

constexpr int kShortestVector = 128;  // bits; code generation has no shorter vectors

// Whether half a block of channels takes half the time of a block.
bool halves_blocks(const Target& target) {
  constexpr int kFloatBits = 32;
  const int block_bits = target.block * kFloatBits;
  if (target.vector_bits == 0 || target.small_block > 0 || block_bits / 2 < kShortestVector) return false;
  return block_bits >
         std::min(target.vector_bits, target.datapath_bits > 0 ? target.datapath_bits : block_bits);
}

}  // namespace

std::vector<const CoreRow*> cores_of(Arch arch) {
  std::vector<const CoreRow*> result;
  const auto add = [&](const auto& table) {
    for (const CoreRow& row : table) result.push_back(&row);
  };
  switch (arch) {
    case Arch::X86_64: add(kX86Cores); break;
    case Arch::AArch64: add(kArmCores); break;
    case Arch::ArmM: add(kCortexMCores); break;
    case Arch::RiscV64:
    case Arch::RiscV32: add(kRiscvCores); break;
  }
  return result;
}

const CoreRow* core_of(Arch arch, const std::string& name) {
  for (const CoreRow* row : cores_of(arch)) {
    if (name == row->name) return row;
  }
  return nullptr;
}

// A vector takes as many cycles of a unit as the unit needs passes over it.
void use_core(Target& target, const CoreRow& row) {
  Core core;
  core.core = row.name;
  core.scheduled_for = row.scheduled_for;
  core.rescheduled_for = row.rescheduled_for;
  // The target's own LLVM CPU is used anyway.
  if (core.scheduled_for == target.cpu) core.scheduled_for.clear();
  if (target.is_riscv() && target.vector_bits > 0) {
    // LLVM has no latencies for its generic CPU. With those of this CPU fewer accumulators are spilled than
    // with those of others.
    if (core.scheduled_for.empty()) core.scheduled_for = "sifive-p670";
    // With this CPU's table LLVM alternates stores and arithmetic. With an out-of-order core's table it
    // groups the stores, and the arithmetic after them waits.
    if (core.rescheduled_for.empty()) core.rescheduled_for = "sifive-x280";
  }
  core.window = row.window;
  core.datapath_bits = row.datapath_bits;
  // Microcontrollers work in memory that is as near as a cache.
  core.prefetch_by_loads =
      target.vector_bits > 0 && !target.prefetch_instruction && target.arch != Arch::ArmM;
  const bool passes = row.datapath_bits > 0 && target.vector_bits > row.datapath_bits;
  const double vectors = passes ? static_cast<double>(row.datapath_bits) / target.vector_bits : 1;
  core.multiply_adds = vectors * row.vector_units;
  core.loads = vectors * row.vector_loads;
  core.stores = vectors * row.vector_stores;
  core.latency = row.latency.vector;
  core.l2_latency = row.latency.second_level;
  core.memory_latency = row.latency.memory;
  core.division = row.divider.per_pass / vectors;
  const bool is_cycle = row.strided_element == 0;
  core.gather_cost = is_cycle ? core.loads : row.strided_element;
  core.scatter_cost = is_cycle ? core.stores : row.strided_element;
  core.l1_bytes = static_cast<int64_t>(row.first_level_kib) << 10;
  core.l1_way_bytes = core.l1_bytes / row.first_level_ways;
  core.l2_bytes = static_cast<int64_t>(row.second_level_kib) << 10;
  core.l3_bytes = row.third_level_bytes;
  const auto bandwidth = [&](double stated, int latency) {
    const double line_bytes = kLineBytes, lines = row.misses;
    return stated > 0 ? stated : lines * line_bytes / latency;
  };
  core.l2_bandwidth = bandwidth(row.second_level_bandwidth, row.latency.second_level);
  core.l3_bandwidth = bandwidth(row.third_level_bandwidth, row.latency.memory);
  core.memory_bandwidth = bandwidth(row.memory_bandwidth, row.latency.memory);
  core.clock_ghz = row.clock_ghz;
  static_cast<Core&>(target) = core;
  target.half_blocks = halves_blocks(target);
}

std::vector<std::string> names_of(const std::string& features) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < features.size();) {
    const size_t end = std::min(features.find(',', begin), features.size());
    names.push_back(features.substr(begin + 1, end - begin - 1));
    begin = end + 1;
  }
  return names;
}

Row named_core(Target target, const CoreRow& core, std::vector<std::string> required) {
  target.name = core.name;
  for (const std::string& name : names_of(core.features)) required.push_back(name);
  if (*core.features != '\0') target.features += "," + std::string(core.features);
  use_core(target, core);
  return {target, core.description, required, {}};
}

}  // namespace tc::targets
