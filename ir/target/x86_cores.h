// x86-64 cores as a table.
//
// The rows named after levels of x86-64 describe typical cores: AVX2 that of Haswell and Zen, AVX-512 that of
// server cores with two 512-bit multiply-add ports. Sources, by the letters in the rows' comments:
//   M  measured by the project on such a core
//   G  AMD, "Software Optimization Guide for the AMD Zen4 Microarchitecture" (57647) and that for Zen 5 (58455)
//   I  Intel 64 and IA-32 Architectures Optimization Reference Manual
#pragma once

#include "ir/target/core_row.h"

namespace tc {

inline constexpr int64_t kServersShare = 32 << 20;  // of an L3 cache that many programs share

inline constexpr CoreRow kX86Cores[] = {
    // I: window, caches and ways of Haswell. M: bandwidths; of the second cache half of the 64 bytes that the
    // manuals state is what loops see.
    {.name = "x86-64-v3",
     .description = "Haswell, Zen and later",
     .vector_bits = 256,
     .datapath_bits = 256,
     .issue_width = 4,
     .window = 192,
     .vector_units = 2,
     .float_units = 2,
     .memory_ports = 2,
     .vector_loads = 2,
     .strided_element = 1.5,
     .third_level_bytes = kServersShare,
     .second_level_bandwidth = 28,
     .third_level_bandwidth = 10,
     .memory_bandwidth = 8,
     .clock_ghz = 2.5},
    // I: window and caches of Skylake servers.
    {.name = "x86-64-v4",
     .description = "Skylake servers, Zen 4 and later",
     .vector_bits = 512,
     .datapath_bits = 512,
     .issue_width = 4,
     .window = 224,
     .vector_units = 2,
     .float_units = 2,
     .memory_ports = 2,
     .vector_loads = 2,
     .strided_element = 1.5,
     .second_level_kib = 1024,
     .third_level_bytes = kServersShare,
     .second_level_bandwidth = 40,
     .third_level_bandwidth = 8,
     .memory_bandwidth = 8,
     .clock_ghz = 2.5},
    // I: window and caches. M: 16 GB/s past the second cache on one core at about 2.7 GHz.
    {.name = "sapphirerapids",
     .description = "Intel Sapphire Rapids",
     .vector_bits = 512,
     .datapath_bits = 512,
     .issue_width = 6,
     .window = 512,
     .vector_units = 2,
     .float_units = 2,
     .memory_ports = 3,
     .vector_loads = 2,
     .strided_element = 1.5,
     .first_level_kib = 48,
     .first_level_ways = 12,
     .second_level_kib = 2048,
     .second_level_ways = 16,
     .third_level_bytes = kServersShare,
     .second_level_bandwidth = 40,
     .third_level_bandwidth = 6,
     .memory_bandwidth = 8,
     .clock_ghz = 2.5,
     .scheduled_for = "sapphirerapids"},
    // G: window, caches, and units of 256 bits, which a vector of 512 takes twice. M: bandwidths.
    {.name = "znver4",
     .description = "AMD Zen 4: 512 bits take each unit of 256 twice",
     .vector_bits = 512,
     .datapath_bits = 256,
     .issue_width = 6,
     .window = 320,
     .vector_units = 2,
     .float_units = 2,
     .memory_ports = 3,
     .vector_loads = 2,
     .strided_element = 1.5,
     .second_level_kib = 1024,
     .third_level_bytes = kServersShare,
     .second_level_bandwidth = 28,
     .third_level_bandwidth = 16,
     .memory_bandwidth = 8,
     .clock_ghz = 2.5,
     .scheduled_for = "znver4"},
    // G: window and caches. M: bandwidths.
    {.name = "znver5",
     .description = "AMD Zen 5: units of 512 bits",
     .vector_bits = 512,
     .datapath_bits = 512,
     .issue_width = 8,
     .window = 448,
     .vector_units = 2,
     .float_units = 2,
     .memory_ports = 4,
     .vector_loads = 2,
     .strided_element = 1.5,
     .first_level_kib = 48,
     .first_level_ways = 12,
     .second_level_kib = 1024,
     .second_level_ways = 16,
     .third_level_bytes = kServersShare,
     .second_level_bandwidth = 50,
     .third_level_bandwidth = 16,
     .memory_bandwidth = 8,
     .clock_ghz = 2.5,
     .scheduled_for = "znver5"},
};

}  // namespace tc
