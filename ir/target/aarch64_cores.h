// 64-bit Arm cores as a table.
//
// Sources, by the letters in the rows' comments. Figures without a source are assumed.
//   L  LLVM's scheduling models, llvm/lib/Target/AArch64: AArch64SchedA53.td, AArch64SchedA55.td,
//      AArch64SchedNeoverseN1.td
//   T  Arm's Technical Reference Manuals of the cores: paths to the first data cache, caches and their ways
//   O  Arm's Software Optimization Guides, of the Cortex-A76 and of the Neoverse N1
//   W  WikiChip on the Neoverse N1: https://en.wikichip.org/wiki/arm_holdings/microarchitectures/neoverse_n1
#pragma once

#include "ir/target/core_row.h"

namespace tc {

inline constexpr CoreRow kArmCores[] = {
    // O: Cortex-A76 and later, with two pipes of 128 bits.
    {.name = "aarch64",
     .description = "Cortex-A76 and later",
     .vector_bits = 128,
     .datapath_bits = 128,
     .issue_width = 4,
     .window = 128,
     .vector_units = 2,
     .float_units = 2,
     .memory_ports = 2,
     .vector_loads = 2,
     .strided_element = 1.5,
     .first_level_kib = 64,
     .first_level_ways = 4,
     .third_level_bytes = 32 << 20,
     .second_level_bandwidth = 24,
     .third_level_bandwidth = 8,
     .memory_bandwidth = 8,
     .clock_ghz = 2.5},
    // L: issue, latencies, misprediction; operations on 128 bits take their pipe, of 64 bits, twice. T: 64
    // bits a cycle are read from the first cache, 128 written; four ways. Cache sizes are configurable.
    {.name = "cortex-a53",
     .description = "Arm Cortex-A53: in order, a vector unit of 64 bits",
     .vector_bits = 128,
     .datapath_bits = 64,
     .vector_stores = 2,
     .latency = {.integer_multiply = 4,
                 .integer_divide = 4,
                 .float_divide = 18,
                 .double_divide = 33,
                 .vector = 8,
                 .vector_simple = 6,
                 .load = 4,
                 .misprediction = 9},
     .divider = {.per_pass = 14},
     .first_level_ways = 4,
     .second_level_ways = 16,
     .clock_ghz = 1.4,
     .scheduled_for = "cortex-a53",
     .rescheduled_for = "cortex-a53"},
    // L: issue, latencies, misprediction, two pipes of 64 bits, both of which an operation on 128 bits
    // occupies; loads of 64 bits and stores of 128 a cycle. T: four ways. Cache sizes are configurable.
    {.name = "cortex-a55",
     .description = "Arm Cortex-A55: in order, two vector units of 64 bits",
     .features = "+dotprod,+fullfp16",
     .vector_bits = 128,
     .datapath_bits = 64,
     .vector_units = 2,
     .float_units = 2,
     .vector_stores = 2,
     .latency = {.integer_multiply = 4,
                 .integer_divide = 8,
                 .float_divide = 13,
                 .double_divide = 22,
                 .vector = 4,
                 .vector_simple = 2,
                 .load = 4,
                 .misprediction = 8},
     .divider = {.per_pass = 10},
     .first_level_ways = 4,
     .second_level_kib = 256,
     .second_level_ways = 4,
     .clock_ghz = 1.8,
     .scheduled_for = "cortex-a55",
     .rescheduled_for = "cortex-a55"},
    // L: window, latencies, misprediction, two vector pipes, two for loads and stores. O: 128 bits a pipe. W:
    // four instructions decoded a cycle, caches and ways. Bandwidths as the first row's.
    {.name = "neoverse-n1",
     .description = "Arm Neoverse N1: out of order",
     .features = "+dotprod,+fullfp16",
     .vector_bits = 128,
     .datapath_bits = 128,
     .issue_width = 4,
     .window = 128,
     .vector_units = 2,
     .float_units = 2,
     .memory_ports = 2,
     .vector_loads = 2,
     .latency = {.integer_multiply = 4,
                 .integer_divide = 20,
                 .floating = 4,
                 .float_divide = 10,
                 .double_divide = 15,
                 .vector = 4,
                 .vector_simple = 2,
                 .load = 4,
                 .misprediction = 11},
     .strided_element = 1.5,
     .first_level_kib = 64,
     .first_level_ways = 4,
     .second_level_kib = 1024,
     .third_level_bytes = 32 << 20,
     .misses = 20,
     .second_level_bandwidth = 24,
     .third_level_bandwidth = 8,
     .memory_bandwidth = 8,
     .clock_ghz = 2.6,
     .scheduled_for = "neoverse-n1"},
};

}  // namespace tc
