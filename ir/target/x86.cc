// The x86-64 targets.
//
// Numbers are of the cores that the names stand for: AVX2 of Haswell and Zen, AVX-512 of the server
// cores with two 512-bit multiply-add ports. Tiles: ports want fewer loads than multiply-adds, the
// latency wants at least 8 accumulators, and the epilogue's temporaries want spare registers. The
// order of the AVX-512 menu is measured on direct convolutions (2x14 92 % of peak, 2x13, 2x12, 3x9,
// 3x8 and 4x6 90 to 92 %, 1x28 75 %, 1x14 72 %); 4x7 fills all registers and spills its epilogue.
// The AVX2 menu is the known one of 16-register kernels: 2x6 and 3x4 with 12 accumulators.
#include <algorithm>

#include "ir/target/tables.h"

namespace tc::targets {
namespace {

const std::vector<std::string> kLevel3 = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt",
                                          "movbe"};
const std::vector<std::string> kLevel4 = {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"};
const std::vector<std::string> kMatrix = {"amx-bf16", "amx-int8", "amx-tile"};

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Target avx2() {
  Target target;
  target.name = target.cpu = "x86-64-v3";
  target.arch = Arch::X86_64;
  target.triple = "x86_64-unknown-linux-gnu";
  target.vector_bits = 256;
  target.vector_registers = 16;
  target.block = 8;
  target.multiply_adds = 2;
  target.loads = 2;
  target.stores = 1;
  target.latency = 4;
  target.prefetches = true;
  target.reorders = true;
  target.l1_bytes = 32 << 10;
  target.l2_bytes = 512 << 10;
  target.l2_bandwidth = 28;  // half of the 64 bytes that the manuals state is what loops see
  target.l3_bandwidth = 10;
  target.tiles = {{2, 6}, {3, 4}, {2, 5}, {2, 4}, {1, 12}, {1, 10}, {1, 8}, {3, 3}, {2, 3},
                  {4, 2}, {1, 6}, {4, 1}, {2, 2}, {1, 4},  {2, 1},  {1, 2}, {1, 1}};
  return target;
}

Target avx512() {
  Target target = avx2();
  target.name = target.cpu = "x86-64-v4";
  target.vector_bits = 512;
  target.vector_registers = 32;
  target.masked_memory = true;
  target.broadcast_operand = true;
  target.block = 16;
  target.l2_bytes = 1 << 20;
  target.l2_bandwidth = 40;
  target.l3_bandwidth = 8;
  target.tiles = {{2, 14}, {2, 13}, {2, 12}, {3, 9},  {3, 8}, {4, 6}, {2, 11}, {2, 10}, {3, 7},
                  {4, 5},  {2, 9},  {2, 8},  {2, 7},  {4, 7}, {4, 4}, {6, 4},  {3, 6},  {3, 5},
                  {1, 28}, {1, 24}, {1, 16}, {1, 14}, {2, 6}, {2, 5}, {4, 3},  {3, 4},  {1, 12},
                  {1, 8},  {2, 4},  {4, 2},  {3, 3},  {1, 7}, {8, 1}, {4, 1},  {2, 2},  {1, 4},
                  {2, 1},  {1, 2},  {1, 1}};
  return target;
}

Target named(Target target, const std::string& name) {
  target.name = target.cpu = name;
  return target;
}

}  // namespace

std::vector<Row> x86_rows() {
  Target sapphirerapids = named(avx512(), "sapphirerapids");
  sapphirerapids.l1_bytes = 48 << 10;
  sapphirerapids.l2_bytes = 2 << 20;
  sapphirerapids.l3_bandwidth = 6;  // 16 GB/s past L2 measured on one core at about 2.7 GHz
  // 512 bits take two turns of each unit of 256.
  Target znver4 = named(avx512(), "znver4");
  znver4.multiply_adds = znver4.loads = 1;
  znver4.stores = 0.5;
  znver4.halves = true;
  znver4.l2_bandwidth = 28;
  znver4.l3_bandwidth = 16;
  Target znver5 = named(avx512(), "znver5");
  znver5.l1_bytes = 48 << 10;
  znver5.l2_bandwidth = 50;
  znver5.l3_bandwidth = 16;
  std::vector<std::string> level4 = joined(kLevel3, kLevel4);
  const std::vector<std::string> products = {"avx512vnni"};   // of vectors: the unit where there is none of tiles
  return {
      {avx2(), "x86-64 with AVX2 and FMA: Haswell, Zen and later", kLevel3, {}},
      {avx512(), "x86-64 with AVX-512: Skylake servers, Zen 4 and later", level4, {}},
      {sapphirerapids, "Intel Sapphire Rapids: AVX-512 with bf16, fp16, VNNI and AMX",
       joined(joined(level4, kMatrix), {"avx512bf16", "avx512fp16", "avx512vnni"}), joined(kMatrix, products)},
      {znver4, "AMD Zen 4: AVX-512 with bf16 and VNNI, half as wide inside",
       joined(level4, {"avx512bf16", "avx512vnni"}), products},
      {znver5, "AMD Zen 5: AVX-512 with bf16 and VNNI",
       joined(level4, {"avx512bf16", "avx512vnni", "avxvnni"}), products},
  };
}

std::vector<std::string> x86_features() {
  return joined(joined(kLevel3, kLevel4),
                {"amx-bf16", "amx-int8", "amx-tile", "avx512bf16", "avx512bitalg", "avx512fp16",
                 "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512vpopcntdq",
                 "avxvnni", "gfni", "vaes", "vpclmulqdq"});
}

}  // namespace tc::targets
