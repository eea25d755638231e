// The 64-bit Arm target: NEON with 32 registers of 128 bits.
//
// A multiply-add can take its scalar operand from a lane of a register, but not from memory. aarch64_cores.h
// has the cores.
#include <string_view>

#include "ir/target/aarch64_cores.h"
#include "ir/target/tables.h"

namespace tc::targets {
namespace {

// A feature by LLVM's name and its bit of AT_HWCAP (word 1) or AT_HWCAP2 (word 2), as Linux's
// Documentation/arch/arm64/elf_hwcaps.rst and asm/hwcap.h state them.
struct Capability {
  const char* feature;
  int word, bit;
};
constexpr Capability kCapabilities[] = {{"bf16", 2, 14}, {"dotprod", 1, 20}, {"fullfp16", 1, 10},
                                        {"i8mm", 2, 13}, {"neon", 1, 1},     {"sve", 1, 22},
                                        {"sve2", 2, 1}};

Target neon() {
  Target target;
  target.name = "aarch64";
  target.arch = Arch::AArch64;
  target.triple = "aarch64-unknown-linux-gnu";
  target.cpu = "generic";
  target.features = "+neon";
  target.vector_bits = 128;
  target.vector_registers = 32;
  target.floats_in_vectors = true;
  target.block = 4;
  target.prefetch_instruction = true;
  target.tiles = {{4, 6}, {3, 8}, {2, 12}, {2, 10}, {4, 5},  {3, 7}, {4, 4}, {2, 8},
                  {3, 6}, {2, 7}, {2, 6},  {1, 14}, {1, 12}, {4, 3}, {2, 4}, {1, 8},
                  {4, 2}, {2, 2}, {1, 4},  {4, 1},  {2, 1},  {1, 2}, {1, 1}};
  return target;
}

}  // namespace

std::vector<Row> aarch64_rows() {
  Row any = {neon(), "64-bit Arm with NEON", {"neon"}, {}};
  use_core(any.target, kArmCores[0]);
  std::vector<Row> rows = {any};
  for (const CoreRow& core : kArmCores) {
    if (core.name != any.target.name) rows.push_back(named_core(neon(), core, {"neon"}));
  }
  return rows;
}

std::vector<std::string> aarch64_features() {
  std::vector<std::string> result;
  for (const Capability& each : kCapabilities) result.push_back(each.feature);
  return result;
}

std::vector<std::string> arm_features(uint64_t hwcap, uint64_t hwcap2) {
  std::vector<std::string> result;
  for (const Capability& each : kCapabilities) {
    if (((each.word == 1 ? hwcap : hwcap2) >> each.bit & 1) != 0) result.push_back(each.feature);
  }
  return result;
}

}  // namespace tc::targets
