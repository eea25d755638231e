// What the inner loops of compiled kernels consist of on x86-64.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "ir/error.h"
#include "codegen/llvm/kernel_code.h"
#include "scheduler/scheduler.h"
#include "tests/codegen_harness.h"
#include "tests/codegen_kernels.h"

namespace tc::testing {
namespace {

ConvolutionSpec hot_convolution() {
  ConvolutionSpec spec;
  spec.input_blocks = spec.output_blocks = 4;
  spec.height = spec.width = 58;
  spec.columns = 14;
  spec.vectors = 2;
  spec.unroll = 1;
  return spec;
}

TEST(CodegenAssembly, Avx512TileHas28MultiplyAddsAndNoSpill) {
  const std::string assembly =
      kernel_assembly(blocked_convolution(hot_convolution()), avx512_target(), "kernel");
  const std::string loop = hottest_loop(assembly, "vfmadd");
  EXPECT_EQ(count_lines(loop, "vfmadd"), 28) << loop;
  EXPECT_EQ(count_lines(loop, "(%rsp)"), 0) << loop;
  // Weights, the counter, its comparison and the jump.
  EXPECT_LE(count_lines(loop, "\t"), 28 + 14 + 2 + 8) << loop;
  for (const char* store : {"vmovups\t%zmm", "vmovaps\t%zmm"}) {
    std::string rest = assembly;
    for (size_t at = rest.find(store); at != std::string::npos; at = rest.find(store, at + 1)) {
      const std::string line = rest.substr(at, rest.find('\n', at) - at);
      EXPECT_EQ(line.find("(%rsp)"), std::string::npos) << line;
    }
  }
}

TEST(CodegenAssembly, PaddingCostsNothingInTheInnerLoop) {
  ConvolutionSpec spec = hot_convolution();
  spec.height = spec.width = 56;
  spec.padding = 1;
  const std::string assembly = kernel_assembly(blocked_convolution(spec), avx512_target(), "kernel");
  const std::string loop = hottest_loop(assembly, "vfmadd");
  EXPECT_EQ(count_lines(loop, "vfmadd"), 28) << loop;
  EXPECT_EQ(count_lines(loop, "cmov"), 0) << loop;
  EXPECT_EQ(count_lines(loop, "(%rsp)"), 0) << loop;
}

TEST(CodegenAssembly, Avx2TileHas12MultiplyAddsAndNoSpill) {
  ConvolutionSpec spec = hot_convolution();
  spec.block = 8;
  spec.columns = 6;
  spec.height = spec.width = 26;
  const std::string loop =
      hottest_loop(kernel_assembly(blocked_convolution(spec), avx2_target(), "kernel"), "vfmadd");
  EXPECT_EQ(count_lines(loop, "vfmadd"), 12) << loop;
  EXPECT_EQ(count_lines(loop, "(%rsp)"), 0) << loop;
}

// A product whose panels of 32 columns are read by 16 tiles of 8 rows each.
Schedule product_with_panels(const std::string& target, int rows = 128) {
  const std::string m = std::to_string(rows);
  const Kernel kernel = parse_kernel("kernel \"product\"\n  input A f32[" + m +
                                     ", 300]\n  constant B f32[300, 256]\n  output C f32[" + m +
                                     ", 256]\n  init[m:" + m + ", n:256]: C[m, n] = 0\n  macc[m:" + m +
                                     ", n:256, k:300]: C[m, n] += A[m, k] * B[k, n]\n");
  return default_schedule(kernel, parse_target(target), 1);
}

TEST(CodegenAssembly, NextPanelComesNearByAFewInstructions) {
  const std::string loop = hottest_loop(
      kernel_assembly(product_with_panels("x86-64-v4").finish(), parse_target("x86-64-v4"), "kernel"),
      "vfmadd");
  const int prefetches = count_lines(loop, "prefetcht0");
  EXPECT_GE(prefetches, 1) << loop;
  EXPECT_LE(8 * prefetches, count_lines(loop, "vfmadd")) << loop;
  EXPECT_EQ(count_lines(loop, "(%rsp)"), 0) << loop;
  // Without such an instruction the default does not ask for it, and where it is asked for it is nothing.
  Schedule schedule = product_with_panels("rv64gc");
  for (const std::string& line : schedule.trace()) EXPECT_NE(line.rfind("prefetch", 0), 0u) << line;
  const std::string before = kernel_assembly(schedule.finish(), parse_target("rv64gc"), "kernel");
  ASSERT_EQ(schedule.apply("prefetch B macc_n_o"), std::nullopt);
  EXPECT_EQ(count_lines(kernel_assembly(schedule.finish(), parse_target("rv64gc"), "kernel"), "fmadd"),
            count_lines(before, "fmadd"));
}

// A 3x3 convolution of blocked channels over maps of so many columns.
Schedule convolution_over(int64_t columns, const std::string& target) {
  const std::string map = text("[m:1, f:64, y:30, x:", columns);
  const Kernel kernel =
      parse_kernel(text("kernel \"convolution\"\n  input X f32[1, 64, 32, ", columns + 2,
                        "]\n  constant W f32[64, 64, 3, 3]\n  output O f32[1, 64, 30, ", columns, "]\n  init",
                        map, "]: O[m, f, y, x] = 0\n  macc", map,
                        ", c:64, r:3, s:3]: O[m, f, y, x] += X[m, c, y + r, x + s] * W[f, c, r, s]\n"));
  const int64_t block = parse_target(target).block;
  return default_schedule(kernel, parse_target(target), 1,
                          {text("layout X 1 ", block), text("layout O 1 ", block)});
}

// The same with zeros around the map: the window's columns are unrolled, so that its taps meet in one block
// of code.
TEST(CodegenAssembly, UnrolledWindowsKeepTheirSumsInRegisters) {
  const Kernel kernel = parse_kernel(
      "kernel \"convolution\"\n  input X f32[1, 64, 30, 96]\n  constant W f32[64, 64, 3, 3]\n  output O f32[1, 64, 30, 96]\n"
      "  init[m:1, f:64, y:30, x:96]: O[m, f, y, x] = 0\n"
      "  macc[m:1, f:64, y:30, x:96, c:64, r:3, s:3] where y + r - 1 >= 0, 30 - y - r >= 0, x + s - 1 >= 0, 96 - x - s >= 0: "
      "O[m, f, y, x] += X[m, c, y + r - 1, x + s - 1] * W[f, c, r, s]\n");
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const Target target = parse_target(name);
    const Schedule schedule = default_schedule(
        kernel, target, 1, {text("layout X 1 ", target.block), text("layout O 1 ", target.block)});
    const auto trace = schedule.trace();
    EXPECT_NE(std::find(trace.begin(), trace.end(), "unroll macc_s"), trace.end()) << name;
    const std::string loop = hottest_loop(kernel_assembly(schedule.finish(), target, "kernel"), "vfmadd");
    EXPECT_GE(count_lines(loop, "vfmadd"), 96) << loop;
    EXPECT_EQ(count_lines(loop, "(%rsp)"), 0) << loop;
  }
}

TEST(CodegenAssembly, PanelsThatTwoTilesReadComeNearToo) {
  const auto trace = product_with_panels("x86-64-v4", 28).trace();
  EXPECT_NE(std::find(trace.begin(), trace.end(), "prefetch B macc_n_ot"), trace.end());
  // One tile has the next panel's loads in its own steps as well.
  const auto single = product_with_panels("x86-64-v4", 12).trace();
  EXPECT_EQ(std::find(single.begin(), single.end(), "prefetch B macc_n_ot"), single.end());
}

TEST(CodegenAssembly, NextTilesInputComesNearOnceALine) {
  for (const auto& [target, tile] : {std::pair("x86-64-v4", 14), std::pair("x86-64-v3", 6)}) {
    const std::string loop = hottest_loop(
        kernel_assembly(convolution_over(126, target).finish(), parse_target(target), "kernel"), "vfmadd");
    const int lines =
        tile * parse_target(target).block * 4 / 64;  // of a row of a tile, without the window's rest
    EXPECT_GE(count_lines(loop, "prefetcht0"), lines) << loop;
    EXPECT_LE(count_lines(loop, "prefetcht0"), lines + 3) << loop;
    EXPECT_EQ(count_lines(loop, "(%rsp)"), 0) << loop;
  }
  // A single tile has no next one, and without such an instruction the default does not ask for it.
  for (const auto& [columns, target] : {std::pair(14, "x86-64-v4"), std::pair(126, "rv64gc")}) {
    const Schedule schedule = convolution_over(columns, target);
    for (const std::string& line : schedule.trace()) EXPECT_NE(line.rfind("prefetch X", 0), 0u) << line;
  }
}

// RISC-V has no such instruction: a load into the register that is zero takes no register and nothing waits
// for it.
TEST(CodegenAssembly, NextTilesInputComesNearByLoadsOfNothing) {
  for (const auto& [target, tile] : {std::pair("rv64gcv_zvl256b", 14), std::pair("rv64gcv", 7)}) {
    const std::string loop = hottest_loop(
        kernel_assembly(convolution_over(126, target).finish(), parse_target(target), "kernel"), "vfmacc");
    EXPECT_GE(count_lines(loop, "lbu\tzero, "), tile) << loop;
    EXPECT_LE(count_lines(loop, "lbu\tzero, "), tile + 3) << loop;
    EXPECT_EQ(count_lines(loop, "(sp)"), 0) << loop;
  }
}

// The sum's NaN has the bits of an integer larger than any number's: one comparison of integers, and no mask.
TEST(CodegenAssembly, LargerOfSumAndZeroIsOneInstructionOfIntegersOnRiscV) {
  const Kernel kernel = parse_kernel(
      "kernel \"relu\"\n  input A f32[64]\n  input B f32[64]\n  output C f32[64]\n"
      "  relu[i:64]: C[i] = max(A[i] + B[i], 0)\n");
  const Target target = parse_target("rv64gcv");
  const std::string code = kernel_assembly(default_schedule(kernel, target, 1).finish(), target, "kernel");
  EXPECT_GE(count_lines(code, "vmax.v"), 1) << code;
  EXPECT_EQ(count_lines(code, "vmerge"), 0) << code;
  // What comes from memory may be another NaN.
  const Kernel loaded = parse_kernel(
      "kernel \"relu\"\n  input A f32[64]\n  output C f32[64]\n  relu[i:64]: C[i] = max(A[i], 0)\n");
  EXPECT_GE(
      count_lines(kernel_assembly(default_schedule(loaded, target, 1).finish(), target, "kernel"), "vmerge"),
      1);
}

// Two inputs multiplied, of which the second one's rows are `columns` long.
Kernel product_of_inputs(int64_t columns) {
  const std::string n = std::to_string(columns);
  return parse_kernel("kernel \"product\"\n  input A f32[128, 128]\n  input B f32[128, " + n +
                      "]\n  output C f32[128, " + n + "]\n  init[m:128, n:" + n +
                      "]: C[m, n] = 0\n  macc[m:128, n:" + n + ", k:128]: C[m, n] += A[m, k] * B[k, n]\n");
}

TEST(CodegenAssembly, LanesBeyondTheColumnsNeedNoSelection) {
  const Target target = parse_target("x86-64-v4");
  const std::string whole = hottest_loop(
      kernel_assembly(default_schedule(product_of_inputs(32), target, 1).finish(), target, "kernel"),
      "vfmadd");
  const std::string part = hottest_loop(
      kernel_assembly(default_schedule(product_of_inputs(26), target, 1).finish(), target, "kernel"),
      "vfmadd");
  EXPECT_EQ(count_lines(part, "vfmadd"), count_lines(whole, "vfmadd")) << part;
  EXPECT_EQ(count_lines(part, "(%rsp)") + count_lines(part, "vblend"), 0) << part;
  // Masks are for loads of the second vector: one a step.
  EXPECT_LE(16 * count_lines(part, "{%k"), count_lines(part, "vfmadd")) << part;
}

TEST(CodegenAssembly, ExponentialsAreScaledByOneInstruction) {
  const Target target = parse_target("x86-64-v4");
  const Kernel kernel =
      parse_kernel("kernel \"exp\"\n  input I f32[256]\n  output O f32[256]\n  e[i:256]: O[i] = exp(I[i])\n");
  const std::string assembly =
      kernel_assembly(default_schedule(kernel, target, 1).finish(), target, "kernel");
  EXPECT_GE(count_lines(assembly, "vscalefps"), 1) << assembly;
  EXPECT_EQ(count_lines(assembly, "vpsrad") + count_lines(assembly, "vpslld"), 0) << assembly;
}

// The even and the odd numbers' products, and one instruction that takes the upper halves of both.
TEST(CodegenAssembly, UpperHalvesOfProductsAreNotShifted) {
  const Kernel kernel = parse_kernel(
      "kernel \"scale\"\n  input I i32[256]\n  constant C i32[256]\n  output O i32[256]\n"
      "  e[i:256]: O[i] = i32(shr(i64(I[i]) * i64(C[i]), 32))\n");
  const Target target = parse_target("x86-64-v4");
  const std::string assembly =
      kernel_assembly(default_schedule(kernel, target, 1).finish(), target, "kernel");
  const int products = count_lines(assembly, "vpmuldq");
  EXPECT_GE(products, 2) << assembly;
  EXPECT_EQ(2 * count_lines(assembly, "vpermt2d"), products) << assembly;
  EXPECT_EQ(count_lines(assembly, "vpmullq") + count_lines(assembly, "vpaddq"), 0) << assembly;
}

// A byte that is stored and read in one kernel is cut once.
TEST(CodegenAssembly, NumbersThatFitABytePassThroughItUnchanged) {
  const auto extensions = [](const char* low) {
    const Kernel kernel =
        parse_kernel(text("kernel \"cut\"\n  input I i32[256]\n  output O i32[256]\n"
                          "  e[i:256]: O[i] = i32(i8(min(max(I[i], ",
                          low, "), 123) + 4)) * 8\n"));
    const Target target = parse_target("x86-64-v4");
    const std::string assembly =
        kernel_assembly(default_schedule(kernel, target, 1).finish(), target, "kernel");
    return count_lines(assembly, "vpsrad") + count_lines(assembly, "vpmovsx");
  };
  EXPECT_EQ(extensions("-132"), 0);
  EXPECT_GE(extensions("-133"), 1);
}

// In the loop over tiles of a short sum of bytes, what becomes of one tile's sums stands between the next
// one's products; the first tile's products and the last one's stores are outside of it. Of a long sum
// nothing is moved.
TEST(CodegenAssembly, ShortSumsRunTogetherWithWhatFollowsTheLast) {
  const auto assembly_of = [](int blocks) {
    const Kernel kernel = parse_kernel(text(
        "kernel \"product\"\n  input I u8[", blocks, ", 800, 16]\n  constant W i8[4, 16, ", blocks,
        ", 16]\n  constant S f32[4, 16]\n"
        "  output O u8[4, 800, 16]\n  local T i32[4, 800, 16]\n  macc_init[a:4, x:800, b:16]: T[a, x, b] = 0\n"
        "  macc[a:4, x:800, b:16, c:",
        blocks,
        ", d:16]: T[a, x, b] += i32(I[c, x, d]) * i32(W[a, b, c, d])\n"
        "  e[a:4, x:800, b:16]: O[a, x, b] = u8(i32(round(min(max(f32(T[a, x, b]) * S[a, b], 0), 255))))\n"));
    const Target target = parse_target("x86-64-v4+avx512vnni");
    return kernel_assembly(default_schedule(kernel, target, 1).finish(), target, "kernel");
  };
  // Whether a conversion stands between two products, with no label or jump in between.
  const auto alternate = [](const std::string& assembly) {
    int seen = 0;  // a product, then a conversion
    std::istringstream lines(assembly);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\tj") == 0 || line.find(".LBB") == 0) seen = 0;
      if (line.find("vpdpbusd") != std::string::npos && seen == 2) return true;
      if (line.find("vpdpbusd") != std::string::npos) seen = 1;
      if (line.find("vcvtdq2ps") != std::string::npos && seen == 1) seen = 2;
    }
    return false;
  };
  EXPECT_TRUE(alternate(assembly_of(4))) << assembly_of(4);
  EXPECT_FALSE(alternate(assembly_of(64)));
}

TEST(CodegenAssembly, ErfOfAQuotientDividesNothing) {
  const Kernel kernel = parse_kernel(
      "kernel \"gelu\"\n  input I f32[256]\n  output O f32[256]\n"
      "  e[i:256]: O[i] = I[i] * (erf(I[i] / 1.4142135) + 1) * 0.5\n");
  for (const char* name : {"x86-64-v4", "x86-64-v3"}) {
    const Target target = parse_target(name);
    const std::string assembly =
        kernel_assembly(default_schedule(kernel, target, 1).finish(), target, "kernel");
    EXPECT_EQ(count_lines(assembly, "vdivps"), 0) << name << assembly;
    EXPECT_EQ(count_lines(assembly, "vpsrad"), 0) << name << assembly;
  }
}

// Coefficients come from registers: six of sixteen parts each, or eight of eight; as many products less one,
// besides two that find the part.
TEST(CodegenAssembly, ErfIsLookedUp) {
  const Kernel kernel =
      parse_kernel("kernel \"erf\"\n  input I f32[256]\n  output O f32[256]\n  e[i:256]: O[i] = erf(I[i])\n");
  for (const auto& [name, powers] : {std::pair("x86-64-v4", 6), std::pair("x86-64-v3", 8)}) {
    const Target target = parse_target(name);
    const auto copies = [&](const std::string& assembly) { return count_lines(assembly, "vminps"); };
    const std::string assembly =
        kernel_assembly(default_schedule(kernel, target, 1).finish(), target, "kernel");
    ASSERT_GE(copies(assembly), 1) << assembly;
    EXPECT_EQ(count_lines(assembly, "vpermps") + count_lines(assembly, "vpermd"), powers * copies(assembly))
        << assembly;
    const int products =
        count_lines(assembly, "vfmadd") + count_lines(assembly, "vfnmadd") + count_lines(assembly, "vfmsub");
    EXPECT_LE(products, (powers + 1) * copies(assembly)) << assembly;
  }
}

TEST(CodegenAssembly, ReluIsOneInstruction) {
  const std::string assembly = kernel_assembly(elementwise_relu(64, 16), avx512_target(), "kernel");
  EXPECT_EQ(count_lines(assembly, "vmaxps"), 1) << assembly;
  EXPECT_EQ(count_lines(assembly, "vcmp"), 0) << assembly;
}

TEST(CodegenAssembly, SumsOfColumnsAreAddedUpTogether) {
  // 16 sums of 16 parts: 15 additions of vectors, and one store of them all. One after the other they take
  // four additions each. (For many rows, lanes along the columns are taken, without such sums.)
  const Kernel kernel = parse_kernel(
      "kernel \"scores\"\n  parameter p0 = keys in [1, 8192]\n  input A f32[4, 64]\n  input B f32[p0, 64]\n"
      "  output C f32[4, p0]\n  local D f32[4, p0]\n  init[m:4, n:p0]: D[m, n] = 0\n"
      "  macc[m:4, n:p0, k:64]: D[m, n] += A[m, k] * B[n, k]\n"
      "  scaled[m:4, n:p0]: C[m, n] = D[m, n] * 0.125\n");
  const std::string assembly = kernel_assembly(
      default_schedule(kernel, parse_target("x86-64-v4"), 1).finish(), parse_target("x86-64-v4"), "kernel");
  const size_t first = assembly.find("vfmadd"), end = assembly.find("(%r", assembly.find("vmulps"));
  ASSERT_NE(end, std::string::npos);
  const std::string tile = assembly.substr(first, end - first);
  EXPECT_EQ(count_lines(tile, "vfmadd"), 16) << tile;
  EXPECT_EQ(count_lines(tile, "vshuf"), 30) << tile;
  EXPECT_LE(count_lines(tile, "vaddps"), 16) << tile;
  EXPECT_EQ(count_lines(tile, "vextract"), 0) << tile;
}

TEST(CodegenAssembly, TailsAreMasked) {
  const std::string assembly = kernel_assembly(elementwise_relu(100, 16), avx512_target(), "kernel");
  // Two loads and a store under a mask; the same without one for whole vectors.
  EXPECT_EQ(count_lines(assembly, "{%k1} {z}"), 2) << assembly;
  EXPECT_EQ(count_lines(assembly, "{%k1}"), 3) << assembly;
  EXPECT_EQ(count_lines(assembly, "vmaxps"), 2) << assembly;
}

TEST(CodegenAssembly, LanesThatWriteApartAreTransposed) {
  // 16 loads, 64 shuffles and 16 stores of 256 elements; on AVX2 8, 24 and 8 of 64.
  const std::string wide =
      kernel_assembly(transposed(64, 64, 16, 16, DType::F32, true), avx512_target(), "kernel");
  EXPECT_EQ(count_lines(wide, "vunpck") + count_lines(wide, "vshuff"), 64) << wide;
  EXPECT_EQ(count_lines(wide, "vscatter") + count_lines(wide, "(%rsp)"), 0) << wide;
  const std::string narrow =
      kernel_assembly(transposed(64, 64, 8, 8, DType::F32, true), avx2_target(), "kernel");
  EXPECT_EQ(
      count_lines(narrow, "vunpck") + count_lines(narrow, "vperm2f128") + count_lines(narrow, "vinsertf128"),
      24)
      << narrow;
  EXPECT_EQ(count_lines(narrow, "vextract") + count_lines(narrow, "(%rsp)"), 0) << narrow;
  // The ends of rows and columns as well.
  const std::string ends =
      kernel_assembly(transposed(70, 68, 16, 16, DType::F32, true), avx512_target(), "kernel");
  EXPECT_EQ(count_lines(ends, "vscatter"), 0) << ends;
}

TEST(CodegenAssembly, DefaultsOfMovesReadAndWriteVectors) {
  const Target target = parse_target("x86-64-v4");
  for (const auto& [from, to, layout] :
       std::vector<std::tuple<std::string, std::string, std::string>>{{"[c, x]", "[c, x]", "layout I 0 16"},
                                                                      {"[c, x]", "[c, x]", "layout O 0 16"},
                                                                      {"[c, x]", "[x, c]", ""}}) {
    const Kernel kernel = parse_kernel("kernel \"move\"\n  input I f32[90, 50]\n  output O f32" +
                                       std::string(to == from ? "[90, 50]" : "[50, 90]") +
                                       "\n  copy[c:90, x:50]: O" + to + " = I" + from + "\n");
    const std::vector<std::string> lines(layout.empty() ? 0 : 1, layout);
    const std::string assembly =
        kernel_assembly(default_schedule(kernel, target, 1, lines).finish(), target, "kernel");
    EXPECT_EQ(count_lines(assembly, "vscatter") + count_lines(assembly, "vgather"), 0) << layout << assembly;
    EXPECT_GE(count_lines(assembly, "vunpck"), 32) << layout << assembly;
  }
}

TEST(CodegenAssembly, SameTextTwice) {
  const ScheduledKernel kernel = blocked_convolution(hot_convolution());
  EXPECT_EQ(kernel_assembly(kernel, avx512_target(), "kernel"),
            kernel_assembly(kernel, avx512_target(), "kernel"));
  EXPECT_EQ(kernel_llvm_ir(kernel, avx512_target(), "kernel"),
            kernel_llvm_ir(kernel, avx512_target(), "kernel"));
}

}  // namespace
}  // namespace tc::testing
