// Targets as plain data, which the analytic cost model, the choice of layouts and code generation read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/dtype.h"
#include "ir/target/narrow_product.h"

namespace tc {

struct Accelerator;  // ir/accelerator.h

// ArmM: Arm's M profile, of microcontrollers (Cortex-M), whose code is Thumb's.
enum class Arch : uint8_t { X86_64, RiscV64, AArch64, RiscV32, ArmM };

// Bytes of a cache line, the same for all targets.
constexpr int64_t kLineBytes = 64;

// Where the constants of a compiled model are at run time.
enum class ConstantMemory : uint8_t {
  Host,  // in the memory that a run works in: one limit (max_ram) covers both
  Flash  // in read-only memory, which has its own limit (max_flash)
};

// Who runs the iterations of a parallel loop.
enum class ParallelLoops : uint8_t {
  Threads,  // the runtime's threads, each its share
  None      // only the thread that calls the kernel
};

// A unit that multiplies small matrices held in registers of its own, or in vector registers. `registers` is
// 0 where the target has no such unit.
struct MatrixUnit {
  // A type of operands that kernels may multiply with it, and the type of the sums.
  struct Format {
    DType operand, accumulator;
    int groups, pack;  // the depth is groups * pack
    double cycles;     // per depth, when several are in flight
    const NarrowProduct* instruction = nullptr;
  };
  int rows = 0, columns = 0;  // of an accumulator
  int registers = 0;
  std::vector<Format> formats;
  bool vectors = false;  // accumulators and groups of the columns are held in vector registers
  int parts = 1;         // how many registers each of these takes

  // The deepest format for operands of this type, or null.
  const Format* format(DType operand) const {
    for (const Format& each : formats) {
      if (each.operand == operand) return &each;
    }
    return nullptr;
  }
  // The format for operands of this type that takes the fewest cycles for a sum over `numbers` numbers, or
  // null.
  const Format* format(DType operand, int64_t numbers) const;
};

// An instruction set as the compiler uses it: features, registers, instructions and ABI, and also the blocks
// of channels and the register tiles, which follow from the number and the length of its registers.
struct Isa {
  Arch arch = Arch::X86_64;
  std::string triple;         // LLVM triple
  std::string cpu;            // LLVM CPU, which implies features
  std::string features;       // LLVM feature string: "+avx2,+fma"
  std::string tuning;         // LLVM features that only choose among equivalent instructions; the same form
  std::string abi;            // RISC-V: "lp64d", "ilp32f"
  int word_bits = 64;         // bits of addresses and of general-purpose registers
  int vector_bits = 0;        // native vector length, 0 for scalar targets; RVV: minimum VLEN
  int vector_registers = 16;  // architectural vector registers (RVV: of LMUL 1)
  // Registers for integers and addresses, where these are fewer than `vector_registers`; 0: they are not.
  int integer_registers = 0;
  bool floats_in_vectors = false;     // scalar floats live in the vector registers
  bool scalable = false;              // RVV: code for vectors of fixed length also runs on longer vectors
  bool masked_memory = false;         // AVX-512, RVV: cheap masked loads and stores
  bool broadcast_operand = false;     // multiply-add takes a broadcast scalar (memory on AVX-512,
                                      // register on RVV)
  bool prefetch_instruction = false;  // there is a prefetch instruction
  // There are instructions for floats. Without them code calls functions that the platform's ABI prescribes
  // and its compilers bring.
  bool float_unit = true;
  bool rounding_instructions = true;  // there are instructions that round floats to whole numbers
  MatrixUnit matrix;
  std::vector<const NarrowProduct*> lane_products;  // the narrow products of register tiles
  int block = 16;                                   // channel block of blocked layouts, in f32 elements
  // Block for dimensions that have no more channels than this, where `block` takes several registers; 0: they
  // use `block`.
  int small_block = 0;
  // Targets with longer vectors for which an artefact also has versions of its kernels, shortest first
  // (`+lengths`).
  std::vector<std::string> wider_targets;
  // The register tiles to try: vectors x columns, best first.
  std::vector<std::pair<int, int>> tiles;

  bool is_riscv() const { return arch == Arch::RiscV64 || arch == Arch::RiscV32; }
  int lanes(DType dtype) const;  // of one native vector; 1 on scalar targets
};

// A core that executes the instructions. Its costs are of vectors of the instruction set's length, per cycle
// and core (core_row.h has the cores as tables).
struct Core {
  std::string core;  // the name of its row
  // LLVM CPU whose latencies and units LLVM uses to schedule instructions before register allocation; empty:
  // Isa::cpu. Functions for in-order cores are then scheduled once more, by the core's own row
  // (codegen/llvm/passes/order_instructions.cc).
  std::string scheduled_for;
  // LLVM CPU whose table LLVM uses to schedule those functions again after register allocation; empty: LLVM
  // does not.
  std::string rescheduled_for;
  int window = 0;         // instructions in flight; 0: it executes in order
  int datapath_bits = 0;  // width of a vector unit; 0: that of the vectors
  // The core does not wait for a load whose result nothing reads, so such a load works as a prefetch.
  bool prefetch_by_loads = false;
  double multiply_adds = 2;      // vector multiply-adds issued per cycle
  double loads = 2, stores = 1;  // vector loads and stores per cycle
  int latency = 4;               // multiply-add latency, cycles
  int l2_latency = 12;           // of a load that the second cache holds, cycles
  int memory_latency = 80;       // of a load that only memory holds, cycles
  double division = 16;          // cycles in which a division of a vector of f32 occupies its unit
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20;
  int64_t l3_bytes = 32 << 20;  // the part one program gets: cores, and on servers other programs, share it
  int64_t l1_way_bytes = 4 << 10;               // addresses at this distance share a set of the L1 cache
  double l2_bandwidth = 32, l3_bandwidth = 10;  // bytes per cycle and core
  double memory_bandwidth = 8;                  // the same
  double clock_ghz = 2.5;                       // only for reports, which turn predicted cycles into seconds
  int tlb_entries = 64;  // of the first level, each for a page of 4 KiB: translations that cost nothing
  double gather_cost = 1.5, scatter_cost = 1.5;  // per element, in loads or stores of a whole vector

  // Whether the core executes instructions in any order that their operands allow. For such a core the best
  // order of code is the one that needs the fewest registers; an in-order core stalls at the first
  // instruction whose operand is not ready.
  bool out_of_order() const { return window > 0; }
};

// One machine as the compiler sees it: an instruction set, a core that executes it, and the system around
// them.
struct Target : Isa, Core {
  std::string name;  // canonical: `x86-64-v4`, `rv64gcv_zvl256b`, `native` resolved
  std::shared_ptr<const Accelerator> accelerator =
      nullptr;              // that executes kernels beside the core (`+accel:NAME`)
  bool has_runtime = true;  // there are an operating system and tc's runtime for it
  ConstantMemory constants = ConstantMemory::Host;
  ParallelLoops parallel = ParallelLoops::Threads;
  int cores = 1;
  // Kernels are plain loops over single elements, which take the fewest bytes of code.
  bool least_code = false;
  // Half a block takes half the time of a block, because the block's vectors take several registers (RVV), or
  // because a vector occupies its unit twice.
  bool half_blocks = false;

  // Whether kernels prefetch lines that they will read.
  bool prefetches() const { return prefetch_instruction || prefetch_by_loads; }
  // How many lanes the vectors of a dimension of `size` elements should have: at most `width`, and fewer
  // where the last vector would leave too many of its lanes empty. It is `small_block` if the whole dimension
  // fits it, or if it is a whole register and vectors of `width` lanes would have a third more lanes in all.
  // Else it is half of `width` if `half_blocks` holds, the target has no versions for longer vectors, and
  // halves save enough: a tenth of all lanes where registers are counted (counts_registers), elsewhere half
  // of the last vector, which is worth reading the other operands more often. Else it is `width`.
  int64_t width_for(int64_t size, int64_t width) const;
};

// `native`, `x86-64-v3`, `x86-64-v4`, `sapphirerapids`, `znver4`, `znver5`, `rv64gc`, `rv64gcv`,
// `rv64gcv_zvl256b`, `rv32imfc`, `aarch64`, `cortex-m4`, with `+feature,-feature` after it, and `@core` last:
// code for any machine with these instructions, planned for that core (`x86-64-v3@znver4`). An unknown name
// throws a Target error that lists the nearest valid ones; an unknown feature or core likewise.
Target parse_target(const std::string& text);
// The target for kernels with the fewest bytes of code: without vectors and matrix units.
Target for_least_code(Target target);
// Canonical names with one line of description each, for `tc.targets()`.
std::vector<std::pair<std::string, std::string>> known_targets();
// True where this machine can run code for the target; else `why` says which feature is missing.
bool runs_here(const Target& target, std::string* why);

}  // namespace tc
