// A core as a row of plain numbers, of any architecture: what targets (cores.cc) and, of RISC-V cores, the
// simulated board (runtime/qemu/cycle_model.h) both know of it, so that a schedule can be tuned for a core
// that is not there. The tables are riscv_cores.h, x86_cores.h and aarch64_cores.h. Includes nothing of ours.
#pragma once

#include <cstdint>
#include <string_view>

namespace tc {

// Cycles until a dependent instruction may issue, where nothing else is said. Dividers are not pipelined.
struct CoreLatencies {
  int integer_multiply = 3, integer_divide = 20;
  int floating = 4, float_simple = 2, float_divide = 12, double_divide = 20;
  int vector = 4;  // vector sums, products, multiply-adds and conversions
  // Vector integers, logic, comparisons, extrema, merges, slides and moves; 0: as `vector`.
  int vector_simple = 0;
  int load = 3;  // from the first cache
  int second_level = 12, memory = 80;
  int misprediction = 6;  // that a branch costs beyond itself
};

// Cycles of a gather of r registers of e elements: per_pair * r * r + per_register * r + per_element * e,
// per_pair and per_register for each pass of the datapath over a register.
struct GatherCost {
  int per_pair = 1, per_register = 0, per_element = 0;
};

// Division and square root of vectors: cycles of the divider for each pass of the datapath, at elements of 32
// bits.
struct VectorDivider {
  int per_pass = 8;
  bool by_width = true;   // in proportion to the elements' bits; else as long at any width
  bool own_unit = false;  // a unit of its own; else a vector unit is busy
};

// Sums and extrema over a register group of n passes take `latency.vector` + per_pass * (n - 1) + per_level *
// log2(elements of a pass) cycles until the result is there, and the unit n; or, where `busy` is given, both
// take busy + n. Sums in order: `per_element` each.
struct ReductionCost {
  int per_pass = 1, per_level = 4, busy = 0, per_element = 4;
};

struct CoreRow {
  const char* name;  // as targets and `--cpu` spell it
  const char* description = "";
  // LLVM's, beyond those of the least target of its vectors. RISC-V: without Zvfh, which qemu 7.2 does not
  // know: `sifive-p670+zvfh`.
  const char* features = "";
  // Of its registers (RISC-V: VLEN) and of a vector unit (DLEN); a unit of 0 bits is as wide as the
  // registers.
  int vector_bits = 0, datapath_bits = 0;
  int issue_width = 2;  // instructions a cycle
  int window = 0;  // instructions in flight of a core that executes out of order; 0: it executes in order
  int vector_units = 1,
      float_units = 1;   // gathers, reductions and division take the first of the vector units
  int memory_ports = 1;  // for scalars. On RISC-V vectors have one of DLEN bits that shares the first
  // Vector loads and stores a cycle, each of as many bits as a vector unit has.
  double vector_loads = 1, vector_stores = 1;
  CoreLatencies latency = {};
  GatherCost gather = {};
  VectorDivider divider = {};
  ReductionCost reduction = {};
  bool whole_segments = false;  // a segment of fields moves in a cycle, not a field
  // What one element of an access with a stride or with indices costs, in loads or stores of a whole vector;
  // 0: it takes a cycle.
  double strided_element = 0;
  int first_level_kib = 32, first_level_ways = 8;
  int second_level_kib = 512, second_level_ways = 8;
  int64_t third_level_bytes = 0;  // that one program can count on
  int misses = 4;                 // lines under way at once
  // Bytes a cycle that loops see of each level; 0: what `misses` lines bring in that level's latency.
  double second_level_bandwidth = 0, third_level_bandwidth = 0, memory_bandwidth = 0;
  double clock_ghz = 1.5;
  // LLVM CPUs by whose tables it orders instructions: before registers are given, and after that in functions
  // that tc has ordered itself (codegen/passes/in_order.cc). Empty: those of the target without this row.
  const char* scheduled_for = "";
  const char* rescheduled_for = "";
};

}  // namespace tc
