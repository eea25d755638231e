// The RISC-V targets: scalar ones, and ones with the vector extension for each minimum vector length; with
// 64-bit addresses, and with 32-bit addresses for small systems.
//
// A block has 16 channels with vectors of 128 and 256 bits (register groups, LMUL, of 4 and 2) and 32 with
// 512 and 1024 bits (groups of 2 and 1); blocks are shorter for some numbers of channels (Target::width_for,
// frontend/pipeline/layout.cc). With `+lengths` a block has 16 channels at every length (one register at 512
// bits), so that one packed copy of the constants serves all lengths; there is no version for 1024 bits. The
// sizes of tiles count blocks. The 32 registers hold 7, 14 or 28 accumulators of one block and leave one
// group for the weights; `vfmacc.vf` takes the other operand from a scalar register. Groups of 8 are never
// accumulators.
#include <string_view>

#include "ir/target/riscv_cores.h"
#include "ir/target/tables.h"

namespace tc::targets {
namespace {

// The cores that targets without a core's name are planned for. Their costs are, in order of magnitude, those
// of cores that start one register of a group per cycle.
constexpr CoreRow kScalar = {.name = "rv64gc",
                             .latency = {.vector = 5},
                             .strided_element = 1.5,
                             .third_level_bytes = 32 << 20,
                             .second_level_bandwidth = 8,
                             .third_level_bandwidth = 4,
                             .memory_bandwidth = 8,
                             .clock_ghz = 2.5};

constexpr CoreRow vector_row() {
  CoreRow row = kScalar;
  row.name = "rv64gcv";
  row.second_level_bandwidth = 16;
  return row;
}
constexpr CoreRow kVectors = vector_row();

Target scalar() {
  Target target;
  target.name = "rv64gc";
  target.arch = Arch::RiscV64;
  target.triple = "riscv64-unknown-linux-gnu";
  target.cpu = "generic-rv64";
  target.features = "+m,+a,+f,+d,+c";
  target.abi = "lp64d";
  target.vector_bits = 0;
  target.vector_registers = 32;  // scalar floating-point registers
  target.block = 4;
  target.tiles = {{4, 6}, {4, 5}, {4, 4}, {2, 8}, {2, 6}, {1, 16}, {4, 3}, {2, 4},
                  {1, 8}, {4, 2}, {2, 2}, {1, 4}, {4, 1}, {2, 1},  {1, 2}, {1, 1}};
  use_core(target, kScalar);
  return target;
}

using Tiles = std::vector<std::pair<int, int>>;

// Tiles for blocks that are groups of two registers.
Tiles tiles_of_pairs() {
  return {{1, 14}, {2, 7}, {1, 13}, {1, 12}, {2, 6}, {1, 10}, {1, 8}, {1, 7},
          {2, 5},  {2, 4}, {1, 6},  {1, 4},  {2, 2}, {1, 2},  {1, 1}};
}

// Tiles for blocks that are one register.
Tiles tiles_of_single_registers() {
  return {{1, 28}, {2, 14}, {2, 13}, {2, 12}, {1, 24}, {3, 9}, {4, 6}, {1, 16}, {2, 8}};
}

Tiles menu(const std::vector<Tiles>& parts) {
  Tiles result;
  for (const Tiles& each : parts) result.insert(result.end(), each.begin(), each.end());
  return result;
}

Target vector(int bits) {
  Target target = scalar();
  bool shortest = bits == 128;
  target.name = shortest ? "rv64gcv" : "rv64gcv_zvl" + std::to_string(bits) + "b";
  target.features += ",+v,+zvl" + std::to_string(bits) + "b";
  target.vector_bits = bits;
  target.vector_registers = 32;
  target.scalable = true;
  target.masked_memory = true;
  target.broadcast_operand = true;
  target.block = 16;
  switch (bits) {
    case 128:  // m4, or m2 for halves of blocks
      target.tiles = {{1, 7}, {1, 6},  {1, 5},  {1, 4}, {1, 3}, {1, 2},  {1, 1}, {1, 14},
                      {2, 7}, {1, 13}, {1, 12}, {2, 6}, {3, 4}, {1, 10}, {2, 5}, {1, 8}};
      break;
    case 256:  // m2, or m1 for halves of blocks
      target.tiles = menu({tiles_of_pairs(), tiles_of_single_registers()});
      break;
    default: {
      // Blocks of 32: m2 at 512 bits, m1 at 1024. At 512 bits a block of 16 lanes (small_block, or a kernel
      // version that keeps the layout of shorter vectors) is one register, so tiles with twice as many
      // vectors fit.
      target.block = 32;
      target.small_block = 16;
      target.tiles = bits == 512 ? menu({tiles_of_pairs(), tiles_of_single_registers()})
                                 : menu({tiles_of_single_registers(), tiles_of_pairs()});
      break;
    }
  }
  use_core(target, kVectors);
  return target;
}

// The target for microcontrollers, whose artefacts are of kind `bare`. It has single precision at most:
// RV32IMFC has no doubles, and Zve32f no vectors of doubles.
Target with_short_addresses(Target target, const std::string& name, const std::string& vectors) {
  target.name = name;
  target.arch = Arch::RiscV32;
  target.triple = "riscv32-unknown-elf";
  target.cpu = "generic-rv32";
  target.features = "+m,+f,+c" + vectors;
  target.abi = "ilp32f";
  target.word_bits = 32;
  // Without the zero, the stack pointer, two that the ABI reserves, and the one that counts a loop's trips.
  // With vectors, sums are vectors.
  if (target.vector_bits == 0) target.integer_registers = 27;
  target.has_runtime = false;
  target.constants = ConstantMemory::Flash;
  target.parallel = ParallelLoops::None;
  return target;
}

Row row_of(const CoreRow& core) {
  std::vector<std::string> required = {"v"};
  if (core.vector_bits > 128) required.push_back("zvl" + std::to_string(core.vector_bits) + "b");
  return named_core(vector(core.vector_bits), core, required);
}

}  // namespace

std::vector<Row> riscv_rows() {
  std::vector<Row> rows = {
      {scalar(), "64-bit RISC-V without vectors (RV64GC)", {}, {}},
      {vector(128), "64-bit RISC-V with vectors of 128 bits or more", {"v"}, {}},
      {vector(256), "64-bit RISC-V with vectors of 256 bits or more", {"v", "zvl256b"}, {}},
      {vector(512), "64-bit RISC-V with vectors of 512 bits or more", {"v", "zvl512b"}, {}},
      {vector(1024), "64-bit RISC-V with vectors of 1024 bits or more", {"v", "zvl1024b"}, {}},
  };
  rows.push_back({with_short_addresses(scalar(), "rv32imfc", ""),
                  "32-bit RISC-V without vectors, for systems without an OS",
                  {"m"},
                  {}});
  rows.push_back({with_short_addresses(vector(128), "rv32imfc_zve32f", ",+zve32f,+zvl128b"),
                  "32-bit RISC-V with vectors of float32, of 128 bits or more, for systems without an OS",
                  {"zve32f", "zvl128b"},
                  {}});
  // The targets above already represent the generic core.
  for (const CoreRow& core : kRiscvCores) {
    if (std::string_view(core.name) != "generic") rows.push_back(row_of(core));
  }
  return rows;
}

std::vector<std::string> riscv_features() {
  return {"v",    "zba",     "zbb",      "zbc",      "zbs",     "zfh",     "zfhmin",  "zicond",   "zvbb",
          "zvfh", "zvfhmin", "zvfbfmin", "zvfbfwma", "zvl128b", "zvl256b", "zvl512b", "zvl1024b", "xsmtvdot"};
}

std::vector<std::string> riscv32_features() {
  return {"zve32f", "zba", "zbb", "zbc", "zbs", "zfh", "zfhmin", "zicond", "zvfh", "zvfhmin"};
}

}  // namespace tc::targets
