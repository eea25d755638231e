// The x86-64 targets.
//
// Costs are those of the cores that the names refer to (x86_cores.h). Tiles should have fewer loads than
// multiply-adds (ports), at least 8 accumulators (latency), and should leave registers free for the
// epilogue's temporaries. The order of the AVX-512 menu is measured on direct convolutions (2x14 92 % of
// peak, 2x13, 2x12, 3x9, 3x8 and 4x6 90 to 92 %, 1x28 75 %, 1x14 72 %); 4x7 fills all registers and spills
// its epilogue. The AVX2 menu is the known one of 16-register kernels: 2x6 and 3x4 with 12 accumulators.
#include <algorithm>

#include "ir/target/tables.h"

namespace tc::targets {
namespace {

const std::vector<std::string> kLevel3 = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"};
const std::vector<std::string> kLevel4 = {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"};
const std::vector<std::string> kMatrix = {"amx-bf16", "amx-int8", "amx-tile"};

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Target avx2() {
  Target target;
  target.arch = Arch::X86_64;
  target.triple = "x86_64-unknown-linux-gnu";
  target.vector_bits = 256;
  target.vector_registers = 16;
  target.floats_in_vectors = true;
  target.block = 8;
  target.prefetch_instruction = true;
  target.tiles = {{2, 6}, {3, 4}, {2, 5}, {2, 4}, {1, 12}, {1, 10}, {1, 8}, {3, 3}, {2, 3},
                  {4, 2}, {1, 6}, {4, 1}, {2, 2}, {1, 4},  {2, 1},  {1, 2}, {1, 1}};
  return target;
}

Target avx512() {
  Target target = avx2();
  target.vector_bits = 512;
  target.vector_registers = 32;
  target.masked_memory = true;
  target.broadcast_operand = true;
  target.block = 16;
  target.tiles = {{2, 14}, {2, 13}, {2, 12}, {3, 9}, {3, 8}, {4, 6}, {2, 11}, {2, 10}, {3, 7},  {4, 5},
                  {2, 9},  {2, 8},  {2, 7},  {4, 7}, {4, 4}, {6, 4}, {3, 6},  {3, 5},  {1, 28}, {1, 24},
                  {1, 16}, {1, 14}, {2, 6},  {2, 5}, {4, 3}, {3, 4}, {1, 12}, {1, 8},  {2, 4},  {4, 2},
                  {3, 3},  {1, 7},  {8, 1},  {4, 1}, {2, 2}, {1, 4}, {2, 1},  {1, 2},  {1, 1}};
  return target;
}

// With the core of the name.
Target named(Target target, const std::string& name) {
  target.name = target.cpu = name;
  use_core(target, *core_of(Arch::X86_64, name));
  return target;
}

}  // namespace

std::vector<Row> x86_rows() {
  std::vector<std::string> level4 = joined(kLevel3, kLevel4);
  const std::vector<std::string> products = {
      "avx512vnni"};  // instructions on vectors, used where there are no tiles
  return {
      {named(avx2(), "x86-64-v3"), "x86-64 with AVX2 and FMA: Haswell, Zen and later", kLevel3, {}},
      {named(avx512(), "x86-64-v4"), "x86-64 with AVX-512: Skylake servers, Zen 4 and later", level4, {}},
      {named(avx512(), "sapphirerapids"), "Intel Sapphire Rapids: AVX-512 with bf16, fp16, VNNI and AMX",
       joined(joined(level4, kMatrix), {"avx512bf16", "avx512fp16", "avx512vnni"}),
       joined(kMatrix, products)},
      {named(avx512(), "znver4"), "AMD Zen 4: AVX-512 with bf16 and VNNI, half as wide inside",
       joined(level4, {"avx512bf16", "avx512vnni"}), products},
      {named(avx512(), "znver5"), "AMD Zen 5: AVX-512 with bf16 and VNNI",
       joined(level4, {"avx512bf16", "avx512vnni", "avxvnni"}), products},
  };
}

std::vector<std::string> x86_features() {
  return joined(joined(kLevel3, kLevel4),
                {"amx-bf16", "amx-int8", "amx-tile", "avx512bf16", "avx512bitalg", "avx512fp16", "avx512ifma",
                 "avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512vpopcntdq", "avxvnni", "gfni", "vaes",
                 "vpclmulqdq"});
}

}  // namespace tc::targets
