// A core of any architecture as a row of plain numbers. Targets (cores.cc) read it and, for RISC-V cores, so
// does the simulated board (runtime/qemu/cycle_model.h), so that a schedule can be tuned for a core that is
// not available. The tables are riscv_cores.h, x86_cores.h, aarch64_cores.h and cortex_m_cores.h. Includes no
// other header of tc.
#pragma once

#include <cstdint>
#include <string_view>

namespace tc {

// Cycles until a dependent instruction may issue, unless a comment says otherwise. Dividers are not
// pipelined.
struct CoreLatencies {
  int integer_multiply = 3, integer_divide = 20;
  int floating = 4, float_simple = 2, float_divide = 12, double_divide = 20;
  int vector = 4;  // vector sums, products, multiply-adds and conversions
  // Vector operations on integers, logic, comparisons, extrema, merges, slides and moves; 0: `vector`.
  int vector_simple = 0;
  int matrix = 6;  // a vendor's product of matrices in vector registers, of which one starts each cycle
  int load = 3;    // from the L1 cache
  int second_level = 12, memory = 80;
  int misprediction = 6;  // what a mispredicted branch costs in addition
};

// A gather of r registers of e elements takes per_pair * r * r + per_register * r + per_element * e cycles.
// per_pair and per_register count once for each pass of the datapath over a register.
struct GatherCost {
  int per_pair = 1, per_register = 0, per_element = 0;
};

// Division and square root of vectors. `per_pass`: cycles that the divider needs for each pass of the
// datapath, for elements of 32 bits.
struct VectorDivider {
  int per_pass = 8;
  bool by_width = true;   // cycles are proportional to the elements' bits; else the same at any width
  bool own_unit = false;  // the divider is a unit of its own; else it occupies a vector unit
};

// Sums and extrema over a register group of n passes: the result is ready after `latency.vector` + per_pass *
// (n - 1) + per_level * log2(elements of a pass) cycles, and the unit is occupied for n; or, where `busy` is
// not 0, both are busy + n. Sums in order take `per_element` for each element.
struct ReductionCost {
  int per_pass = 1, per_level = 4, busy = 0, per_element = 4;
};

struct CoreRow {
  const char* name;  // as targets and `--cpu` spell it
  const char* description = "";
  // LLVM features beyond those of the smallest target with its vectors. RISC-V rows leave out Zvfh, which
  // qemu 7.2 does not know; `sifive-p670+zvfh` adds it.
  const char* features = "";
  // Width of a vector register (RISC-V: VLEN) and of a vector unit (DLEN); 0: a unit is as wide as a
  // register.
  int vector_bits = 0, datapath_bits = 0;
  int issue_width = 2;  // instructions a cycle
  int window = 0;       // instructions in flight of an out-of-order core; 0: the core executes in order
  int vector_units = 1,
      float_units = 1;   // gathers, reductions and division use only the first vector unit
  int memory_ports = 1;  // for scalars. RISC-V vectors have one port of DLEN bits, which shares the first
  // Vector loads and stores a cycle, each of as many bits as a vector unit has.
  double vector_loads = 1, vector_stores = 1;
  CoreLatencies latency = {};
  GatherCost gather = {};
  VectorDivider divider = {};
  ReductionCost reduction = {};
  bool whole_segments = false;  // a segment load or store moves a whole segment per cycle, not one field
  // What one element of a strided or indexed access costs, in loads or stores of a whole vector; 0: an
  // element takes a cycle.
  double strided_element = 0;
  int first_level_kib = 32, first_level_ways = 8;
  int second_level_kib = 512, second_level_ways = 8;
  int64_t third_level_bytes = 0;  // that one program can count on
  int misses = 4;                 // cache lines that can be on their way at the same time
  // Bytes per cycle that loops get from each level; 0: `misses` lines per latency of that level.
  double second_level_bandwidth = 0, third_level_bandwidth = 0, memory_bandwidth = 0;
  double clock_ghz = 1.5;
  // LLVM CPUs whose tables LLVM uses to schedule instructions: before register allocation, and after it in
  // functions that tc has scheduled itself (codegen/llvm/passes/order_instructions.cc). Empty: those of the
  // target without this row.
  const char* scheduled_for = "";
  const char* rescheduled_for = "";
};

}  // namespace tc
