// Arm's targets for microcontrollers: a row for each core of cortex_m_cores.h.
//
// Floats are in 32 registers, integers and addresses in 13. With MVE, the 32 registers are also eight vectors
// of 128 bits, of integers and floats. Code is for an address that the linker chooses, in memory that it can
// execute.
#include <string_view>

#include "ir/target/cortex_m_cores.h"
#include "ir/target/tables.h"

namespace tc::targets {
namespace {

// Registers for integers, and those that 16-bit instructions can name.
constexpr int kRegisters = 13, kLowRegisters = 8;
constexpr int kVectorBits = 128, kVectorRegisters = 8;  // of MVE

// What the cores differ in: LLVM's triple, whose `hf` passes floats in registers, what they do with floats,
// and the features that the code relies on.
struct Profile {
  const char* core;
  const char* triple;
  bool float_unit, rounds;
  std::vector<std::string> required, optional;
  bool vectors = false;
};

std::vector<Profile> profiles() {
  return {{"cortex-m0plus", "thumbv6m-none-eabi", false, false, {}, {}},
          {"cortex-m4", "thumbv7em-none-eabihf", true, false, {"dsp"}, {"dsp"}},
          {"cortex-m7", "thumbv7em-none-eabihf", true, true, {"dsp"}, {"dsp"}},
          {"cortex-m33", "thumbv8m.main-none-eabihf", true, true, {"dsp"}, {"dsp"}},
          {"cortex-m55", "thumbv8.1m.main-none-eabihf", true, true, {"dsp", "mve", "mve.fp"}, {}, true}};
}

Row row_of(const Profile& profile) {
  const CoreRow& core = *core_of(Arch::ArmM, profile.core);
  Target target;
  target.name = profile.core;
  target.arch = Arch::ArmM;
  target.triple = profile.triple;
  target.cpu = profile.core;
  target.features = core.features;
  target.word_bits = 32;
  target.vector_bits = 0;
  target.vector_registers = profile.float_unit ? 32 : kLowRegisters;
  target.integer_registers = profile.float_unit ? kRegisters : kLowRegisters;
  target.float_unit = profile.float_unit;
  target.rounding_instructions = profile.rounds;
  target.has_runtime = false;
  target.constants = ConstantMemory::Flash;
  target.parallel = ParallelLoops::None;
  target.block = 4;
  target.tiles = {{4, 6}, {4, 5}, {4, 4}, {2, 8}, {2, 6}, {1, 16}, {4, 3}, {2, 4},
                  {1, 8}, {4, 2}, {2, 2}, {1, 4}, {4, 1}, {2, 1},  {1, 2}, {1, 1}};
  if (!profile.float_unit) target.tiles = {{4, 1}, {2, 2}, {2, 1}, {1, 2}, {1, 1}};
  if (profile.vectors) {
    target.vector_bits = kVectorBits;
    target.vector_registers = kVectorRegisters;
    target.floats_in_vectors = true;
    target.tiles = {{1, 6}, {2, 3}, {1, 5}, {1, 4}, {2, 2}, {1, 3}, {3, 1}, {1, 2}, {2, 1}, {1, 1}};
  }
  use_core(target, core);
  return {target, core.description, profile.required, profile.optional};
}

}  // namespace

std::vector<Row> cortex_m_rows() {
  std::vector<Row> rows;
  for (const Profile& profile : profiles()) rows.push_back(row_of(profile));
  return rows;
}

std::vector<std::string> cortex_m_features() { return {"dsp", "fp64", "fullfp16", "mve", "mve.fp"}; }

}  // namespace tc::targets
