// Targets as tables of plain data: what the analytic model, layout choice and codegen read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/dtype.h"
#include "ir/target/narrow_product.h"

namespace tc {

enum class Arch : uint8_t { X86_64, RiscV64, AArch64, RiscV32 };

// Bytes of a line of the caches, of all targets alike.
constexpr int64_t kLineBytes = 64;

// Where the constants of a compiled model lie.
enum class ConstantMemory : uint8_t {
  Host,  // in the memory that a run works in, too: one limit (max_ram) holds for both
  Flash  // in read-only memory of its own, with a limit of its own (max_flash)
};

// What runs the iterations of a parallel loop.
enum class ParallelLoops : uint8_t {
  Threads,  // the runtime's threads, each a share
  None      // nothing: kernels run on the thread that calls them
};

// A unit that multiplies small matrices held in registers of its own, or in vectors: none where `registers`
// is 0.
struct MatrixUnit {
  // What kernels may multiply with it, and what they sum up in.
  struct Format {
    DType operand, accumulator;
    int groups, pack;  // their product: the depth
    double cycles;     // of a depth, where others are in flight
    const NarrowProduct* instruction = nullptr;
  };
  int rows = 0, columns = 0;  // of an accumulator
  int registers = 0;
  std::vector<Format> formats;
  bool vectors = false;  // accumulators and groups of the columns are vector registers
  int parts = 1;         // registers of each of these

  // The deepest format of operands of this type, or null.
  const Format* format(DType operand) const {
    for (const Format& each : formats) {
      if (each.operand == operand) return &each;
    }
    return nullptr;
  }
  // Of those for operands of this type the one that takes the fewest cycles for a sum over so many numbers,
  // or null.
  const Format* format(DType operand, int64_t numbers) const;
};

// An instruction set as the compiler uses it: features, registers, instructions, ABI, and what follows from
// the number and the length of its registers, blocks of channels and register tiles.
struct Isa {
  Arch arch = Arch::X86_64;
  std::string triple;         // LLVM triple
  std::string cpu;            // LLVM CPU, which stands for features
  std::string features;       // LLVM feature string: "+avx2,+fma"
  std::string tuning;         // LLVM features that only choose among equal instructions, in the same form
  std::string abi;            // RISC-V: "lp64d", "ilp32f"
  int word_bits = 64;         // of addresses and of general registers
  int vector_bits = 0;        // native vector length, 0 for scalar targets; RVV: minimum VLEN
  int vector_registers = 16;  // architectural vector registers (RVV: of LMUL 1)
  bool floats_in_vectors = false;     // scalar floats live in the vector registers
  bool scalable = false;              // RVV: fixed-size code runs on longer vectors too
  bool masked_memory = false;         // AVX-512, RVV: cheap masked loads and stores
  bool broadcast_operand = false;     // multiply-add takes a broadcast scalar (memory on AVX-512,
                                      // register on RVV)
  bool prefetch_instruction = false;  // there is one that brings a line near
  MatrixUnit matrix;
  std::vector<const NarrowProduct*> lane_products;  // what register tiles multiply narrow numbers by
  int block = 16;                                   // channel block of blocked layouts, in f32 elements
  // Block of dimensions that have no more channels, where `block` takes several registers; 0: `block`.
  int small_block = 0;
  // Targets of longer vectors that an artefact has versions of its kernels for, shortest first (`+lengths`).
  std::vector<std::string> wider_targets;
  // Menu of register tiles: vectors x columns, best first.
  std::vector<std::pair<int, int>> tiles;

  bool is_riscv() const { return arch == Arch::RiscV64 || arch == Arch::RiscV32; }
  int lanes(DType dtype) const;  // of one native vector; 1 on scalar targets
};

// A core that executes the instructions, in costs of vectors of the instruction set's length (core_row.h has
// cores as tables). Numbers are per cycle and core.
struct Core {
  std::string core;  // the name of its row
  // LLVM CPU by whose latencies and units instructions are ordered before registers are given; empty: that of
  // Isa::cpu. After that, functions of cores that execute in order are ordered once more, by the core's own
  // row (codegen/passes/in_order.cc).
  std::string scheduled_for;
  // LLVM CPU by whose table LLVM orders those functions again after registers are given; empty: none.
  std::string rescheduled_for;
  int window = 0;         // instructions in flight; 0: it executes in order
  int datapath_bits = 0;  // of a vector unit; 0: as the vectors
  // A load whose result nothing reads brings a line near: the core does not wait for it.
  bool prefetch_by_loads = false;
  double multiply_adds = 2;      // vector multiply-adds issued per cycle
  double loads = 2, stores = 1;  // vector loads and stores per cycle
  int latency = 4;               // multiply-add latency, cycles
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20;
  int64_t l3_bytes = 32 << 20;  // that one program can count on: shared by cores, and on servers by strangers
  int64_t l1_way_bytes = 4 << 10;               // addresses so far apart share a set of the first cache
  double l2_bandwidth = 32, l3_bandwidth = 10;  // bytes per cycle and core
  double memory_bandwidth = 8;                  // the same
  double clock_ghz = 2.5;  // only turns predicted cycles into seconds for reports: it decides nothing
  int tlb_entries = 64;    // of the first level: pages of 4 KiB whose addresses cost nothing
  double gather_cost = 1.5, scatter_cost = 1.5;  // of one element, in loads or stores of a whole vector

  // Whether instructions execute in any order that their operands allow. Code is then best in the order that
  // needs the fewest registers; in order, a core waits at the first instruction whose operand is not there.
  bool out_of_order() const { return window > 0; }
};

// One machine as the compiler sees it: an instruction set, a core that executes it, and the system around
// them.
struct Target : Isa, Core {
  std::string name;         // canonical: `x86-64-v4`, `rv64gcv_zvl256b`, `native` resolved
  bool has_runtime = true;  // there is an operating system, and tc's runtime for it
  ConstantMemory constants = ConstantMemory::Host;
  ParallelLoops parallel = ParallelLoops::Threads;
  int cores = 1;
  // Half a block takes half of its time: the block's vectors are of several registers (RVV), or a vector
  // takes its unit twice.
  bool half_blocks = false;

  // Whether kernels bring lines near that they will read.
  bool prefetches() const { return prefetch_instruction || prefetch_by_loads; }
  // Lanes of the vectors of a dimension of `size`, of `width` or fewer. `small_block` where that holds all of
  // it, or where vectors of `width` would have a third more lanes and `small_block` fills a register. Where
  // `half_blocks` holds, half of the width: in order if that leaves out a tenth of all lanes, else if the
  // last vector would have no more lanes than half, which makes up for reading other operands more often.
  // Never half for a target with versions for longer vectors; else `width`.
  int64_t width_for(int64_t size, int64_t width) const;
};

// `native`, `x86-64-v3`, `x86-64-v4`, `sapphirerapids`, `znver4`, `znver5`, `rv64gc`, `rv64gcv`,
// `rv64gcv_zvl256b`, `rv32imfc`, `aarch64`, with `+feature,-feature` after it, and `@core` last: code for any
// machine with these instructions, planned for that core (`x86-64-v3@znver4`). An unknown name throws a
// Target error that lists the nearest valid ones; an unknown feature or core likewise.
Target parse_target(const std::string& text);
// Canonical names with one line of description each, for `tc.targets()`.
std::vector<std::pair<std::string, std::string>> known_targets();
// True where this machine can run code for the target; else `why` says which feature lacks.
bool runs_here(const Target& target, std::string* why);

}  // namespace tc
