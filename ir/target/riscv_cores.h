// RISC-V cores with vectors as a table, which the compiler's targets (rvv.cc) and the simulated board
// (runtime/qemu/cycle_model.h) both read.
//
// Sources, by the letters in the rows' comments. Figures without a source are assumed: they are the generic
// row's unless the row's comment says otherwise.
//   L  LLVM's scheduling models, llvm/lib/Target/RISCV: RISCVSchedSpacemitX60.td ("based on documentation of the C908 and experiments on
//      real hardware"), RISCVSchedSiFiveP600.td, RISCVSchedSiFive7.td (the X280's)
//   D  SpacemiT's data sheet of the K1
//   R  rvv-bench on the X100: https://camel-cdr.github.io/rvv-bench-results/spacemit_x100, with its author's summary
//      "RVV benchmark SpacemiT X100" of 17 January 2026
//   X  SpacemiT, "X100 features", https://riscv.org/blog/2023/01/spacemit-makes-important-breakthroughs-in-risc-v-high-performance-cores-spacemit
//   C  T-Head, "XuanTie C908", https://riscv.org/blog/2022/11/xuantie-c908-high-performance-risc-v-processor-catered-to-aiot-industry-chang-liu-alibaba-cloud
//   I  Chen et al., "Xuantie-910", ISCA 2020, of the C910 that the C920 extends
//   S  Brown, "Is RISC-V ready for High Performance Computing? An evaluation of the Sophon SG2044", arXiv:2508.13840
//   B  opensolvers/benchmarks, ime/README.md: measured on boards with the K1
//   W  WikiChip on the X280: 256-bit datapaths, 32 KiB of first cache, a private second one
#pragma once

#include <string_view>

#include "ir/target/core_row.h"

namespace tc {

// The first row is the default. tests/qemu/__init__.py reads this text: each row begins with its name and has
// `.features`, which may be empty.
inline constexpr CoreRow kRiscvCores[] = {
    // A made-up core in the class of the first boards with vectors: every figure is a choice of this project.
    {.name = "generic",
     .description = "in order, two issues: the simulated board's default",
     .features = "",
     .vector_bits = 256,
     .datapath_bits = 128},
    // L: widths, latencies, misprediction, VLEN and DLEN. D: caches, clock. Vector floats as its scalar
    // multiply-add; gathers as the X100's. B: `smt.vmadot`, which only the cores 0 to 3 of the K1 have, so
    // that a target has to ask for it (`spacemit-x60+xsmtvdot`).
    {.name = "spacemit-x60",
     .description = "SpacemiT X60 (K1, M1): vectors of 256 bits",
     .features = "+zba,+zbb,+zbc,+zbs,+zfh",
     .vector_bits = 256,
     .datapath_bits = 128,
     .memory_ports = 2,
     .latency = {.integer_multiply = 6,
                 .integer_divide = 20,
                 .floating = 5,
                 .float_simple = 4,
                 .float_divide = 15,
                 .double_divide = 22,
                 .vector = 5,
                 .matrix = 6,
                 .load = 4,
                 .misprediction = 9},
     .gather = {.per_pair = 2},
     .first_level_ways = 4,
     .clock_ghz = 1.6},
    // R: issue, ports, DLEN, gathers. X: VLEN. Out of order by X's comparison with Arm's A75; window,
    // latencies and caches are assumed.
    {.name = "spacemit-x100",
     .description = "SpacemiT X100 (K3): vectors of 256 bits, out of order",
     .features = "+zba,+zbb,+zbs,+zfh",
     .vector_bits = 256,
     .datapath_bits = 256,
     .issue_width = 3,
     .window = 96,
     .float_units = 2,
     .memory_ports = 2,
     .latency = {.vector = 5, .load = 4, .misprediction = 9},
     .gather = {.per_pair = 2},
     .first_level_kib = 64,
     .second_level_kib = 1024,
     .misses = 8,
     .clock_ghz = 2.4},
    // L: widths, window, units, latencies (of vector floats 6, of loads 4, of scalar floats 4), gathers, the
    // divider, reductions. Caches are configurable.
    {.name = "sifive-p670",
     .description = "SiFive P670: vectors of 128 bits, out of order",
     .features = "+zba,+zbb,+zbs,+zfh",
     .vector_bits = 128,
     .datapath_bits = 128,
     .issue_width = 4,
     .window = 160,
     .vector_units = 2,
     .float_units = 2,
     .memory_ports = 2,
     .latency = {.integer_divide = 35,
                 .float_divide = 6,
                 .double_divide = 11,
                 .vector = 6,
                 .vector_simple = 1,
                 .load = 4,
                 .misprediction = 9},
     .gather = {.per_pair = 0, .per_register = 1},
     .divider = {.per_pass = 76, .by_width = false, .own_unit = true},
     .reduction = {.per_pass = 6, .per_level = 3},
     .second_level_kib = 1024,
     .misses = 8,
     .clock_ghz = 3.0},
    // L: widths, latencies, VLEN and DLEN, gathers, segments, division, reductions. W: first cache. The
    // second one's size is assumed.
    {.name = "sifive-x280",
     .description = "SiFive X280: vectors of 512 bits",
     .features = "+zba,+zbb,+zfh",
     .vector_bits = 512,
     .datapath_bits = 256,
     .latency = {.integer_divide = 66,
                 .floating = 5,
                 .float_simple = 3,
                 .float_divide = 27,
                 .double_divide = 56,
                 .vector = 8,
                 .vector_simple = 4,
                 .misprediction = 3},
     .gather = {.per_pair = 0, .per_element = 1},
     .divider = {.per_pass = 56, .by_width = false},
     .reduction = {.busy = 35, .per_element = 6},
     .whole_segments = true,
     .clock_ghz = 1.8},
    // C: two issues in order, nine stages (a mispredicted branch costs as many cycles). L, whose X60 is
    // modelled on this core's manual: latencies. VLEN as K230's boards report it; DLEN, gathers and the
    // second cache are assumed.
    {.name = "thead-c908",
     .description = "T-Head C908 (K230): vectors of 128 bits",
     .features = "+zba,+zbb,+zbc,+zbs,+zfh",
     .vector_bits = 128,
     .datapath_bits = 128,
     .memory_ports = 2,
     .latency = {.integer_multiply = 4,
                 .integer_divide = 20,
                 .floating = 5,
                 .float_simple = 4,
                 .float_divide = 15,
                 .double_divide = 22,
                 .vector = 5,
                 .load = 4,
                 .misprediction = 9},
     .gather = {.per_pair = 2},
     .first_level_ways = 4,
     .second_level_kib = 256,
     .clock_ghz = 1.6},
    // I: three decoded a cycle, out of order, twelve stages, two vector pipes of 128 bits, 64 KiB. S: caches
    // of the SG2044, 2.6 GHz. The window, latencies and gathers are assumed.
    {.name = "thead-c920v2",
     .description = "T-Head C920v2 (SG2044): vectors of 128 bits, out of order",
     .features = "+zba,+zbb,+zbc,+zbs,+zfh",
     .vector_bits = 128,
     .datapath_bits = 128,
     .issue_width = 3,
     .window = 96,
     .vector_units = 2,
     .memory_ports = 2,
     .latency = {.floating = 5, .vector = 5, .load = 4, .memory = 120, .misprediction = 10},
     .gather = {.per_pair = 2},
     .first_level_kib = 64,
     .first_level_ways = 4,
     .second_level_kib = 2048,
     .second_level_ways = 16,
     .third_level_bytes = 1 << 20,
     .misses = 8,
     .clock_ghz = 2.6},
};

// Null where there is none of that name.
constexpr const CoreRow* riscv_core(std::string_view name) {
  for (const CoreRow& core : kRiscvCores) {
    if (core.name == name) return &core;
  }
  return nullptr;
}

}  // namespace tc
