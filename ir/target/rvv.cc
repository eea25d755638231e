// The RISC-V targets: scalar, and the vector extension by its shortest vector length.
//
// The channel block is 16 at every length, so that one packed copy of the constants serves all; a
// tile counts blocks: a block is a group of 4, 2 or 1 registers (LMUL) at 128, 256 and 512 bits, and
// half a register at 1024, where tiles are those of 512 bits. The
// 32 registers hold 7, 14 or 28 accumulators of one block and leave one group for the weights;
// `vfmacc.vf` takes the other operand from a scalar register. Groups of 8 are never accumulators.
// Costs are those of cores that start one register group part per cycle, in order of magnitude.
#include "ir/target/tables.h"

namespace tc::targets {
namespace {

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
  target.multiply_adds = 1;
  target.loads = 1;
  target.stores = 1;
  target.latency = 5;
  target.l1_bytes = 32 << 10;
  target.l2_bytes = 512 << 10;
  target.l2_bandwidth = 8;
  target.l3_bandwidth = 4;
  target.tiles = {{4, 6}, {4, 5}, {4, 4}, {2, 8}, {2, 6}, {1, 16}, {4, 3}, {2, 4},
                  {1, 8}, {4, 2}, {2, 2}, {1, 4}, {4, 1}, {2, 1},  {1, 2}, {1, 1}};
  return target;
}

using Tiles = std::vector<std::pair<int, int>>;

// Tiles of blocks that are groups of two registers.
Tiles tiles_of_pairs() {
  return {{1, 14}, {2, 7}, {1, 13}, {1, 12}, {2, 6}, {1, 10}, {1, 8}, {1, 7}, {2, 5}, {2, 4}, {1, 6}, {1, 4}, {2, 2}, {1, 2}, {1, 1}};
}

Target vector(int bits) {
  Target target = scalar();
  bool shortest = bits == 128;
  target.name = shortest ? "rv64gcv" : "rv64gcv_zvl" + std::to_string(bits) + "b";
  target.features += ",+v,+zvl" + std::to_string(bits) + "b";
  // LLVM has no latencies for its generic CPU; by this one's fewer sums leave the registers than by others'.
  target.scheduled_for = "sifive-p670";
  target.vector_bits = bits;
  target.vector_registers = 32;
  target.scalable = true;
  target.masked_memory = true;
  target.broadcast_operand = true;
  target.prefetches = true;
  target.prefetches_by_loads = true;
  target.block = 16;
  target.l2_bandwidth = 16;
  switch (bits) {
    case 128:  // m4
      target.tiles = {{1, 7}, {1, 6}, {1, 5}, {1, 4}, {1, 3}, {1, 2}, {1, 1}};
      break;
    case 256:  // m2
      target.tiles = tiles_of_pairs();
      break;
    default: {
      // Blocks of 32: m2 at 512 bits, m1 at 1024. Where blocks have 16 lanes, as in versions of kernels whose layouts are those
      // of shorter vectors, tiles of twice as many vectors fit.
      target.block = 32;
      target.least_block = 16;
      const Tiles more = {{1, 28}, {2, 14}, {2, 13}, {2, 12}, {1, 24}, {3, 9}, {4, 6}, {1, 16}, {2, 8}};
      target.tiles = bits == 512 ? tiles_of_pairs() : more;
      const Tiles rest = bits == 512 ? more : tiles_of_pairs();
      target.tiles.insert(target.tiles.end(), rest.begin(), rest.end());
      break;
    }
  }
  return target;
}

// The cores of SpacemiT's K1 and M1, by the K1's data sheet: two issues in order, 32 KiB for each core and 512 KiB for each
// cluster of four, no third cache, up to 1.6 GHz.
Target spacemit_x60() {
  Target target = vector(256);
  target.name = "spacemit-x60";
  target.features += ",+zba,+zbb,+zbc,+zbs,+zfh";
  target.l1_way_bytes = 8 << 10;
  target.l3_bytes = 0;
  target.clock_ghz = 1.6;
  return target;
}

}  // namespace

std::vector<Row> riscv_rows() {
  return {
      {scalar(), "64-bit RISC-V without vectors (RV64GC)", {}, {}},
      {vector(128), "64-bit RISC-V with vectors of 128 bits or more", {"v"}, {}},
      {vector(256), "64-bit RISC-V with vectors of 256 bits or more", {"v", "zvl256b"}, {}},
      {vector(512), "64-bit RISC-V with vectors of 512 bits or more", {"v", "zvl512b"}, {}},
      {vector(1024), "64-bit RISC-V with vectors of 1024 bits or more", {"v", "zvl1024b"}, {}},
      {spacemit_x60(), "SpacemiT X60 (K1, M1): vectors of 256 bits",
       {"v", "zvl256b", "zba", "zbb", "zbc", "zbs", "zfh"}, {}},
  };
}

std::vector<std::string> riscv_features() {
  return {"v",   "zba", "zbb", "zbc",     "zbs",     "zfh",     "zfhmin",  "zicond",
          "zvbb", "zvfh", "zvfhmin", "zvl128b", "zvl256b", "zvl512b", "zvl1024b"};
}

}  // namespace tc::targets
