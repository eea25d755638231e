// What a kernel has to move and what it is called: the work that profiles compare with the machine.
#include "frontend/profile/work.h"

#include <gtest/gtest.h>

#include "tests/scheduler_kernels.h"

namespace tc {
namespace {

TEST(Traffic, CountsEachElementOnce) {
  // Softmax reads its input twice, and its own exponentials are no arguments.
  const Traffic softmax = traffic_of(testing::small_kernel("softmax"), {});
  EXPECT_EQ(softmax.read, 4 * 3 * 5 * 21);
  EXPECT_EQ(softmax.written, 4 * 3 * 5 * 21);
  EXPECT_EQ(softmax.constants, 0);
  const Traffic conv = traffic_of(testing::small_kernel("conv"), {});
  EXPECT_EQ(conv.read, 4 * 5 * 7 * 9);
  EXPECT_EQ(conv.constants, 4 * (6 * 5 * 3 * 3 + 6));
  EXPECT_EQ(conv.written, 4 * 6 * 7 * 9);
}

TEST(Traffic, CountsWhatStridesTouch) {
  const Kernel kernel = parse_kernel(R"(kernel "every other pixel, and a row that a number chooses"
  input I f32[1, 3, 10, 10]
  input N i64[4]
  constant T f32[1000, 8]
  output O f32[1, 3, 5, 4]
  output P f32[4, 8]
  take[c:3, y:5, x:4]: O[0, c, y, x] = I[0, c, 2*y, 2*x + 1]
  look[i:4, j:8]: P[i, j] = T[{min(max(N[i], 0), 999)}, j]
)");
  const Traffic traffic = traffic_of(kernel, {});
  EXPECT_EQ(traffic.read, 4 * 3 * 5 * 4 + 8 * 4);
  EXPECT_EQ(traffic.constants, 4 * 4 * 8);
  EXPECT_EQ(traffic.written, 4 * (3 * 5 * 4 + 4 * 8));
}

TEST(Traffic, FollowsParameters) {
  const Kernel kernel = testing::small_kernel("gemm_symbolic");
  for (int64_t rows : {1, 50}) {
    const Traffic traffic = traffic_of(kernel, {{"p0", rows}});
    EXPECT_EQ(traffic.read, 4 * rows * 9);
    EXPECT_EQ(traffic.constants, 4 * 9 * 19);
    EXPECT_EQ(traffic.written, 4 * rows * 19);
  }
}

TEST(Classes, AreToldByStructure) {
  const std::map<std::string, std::string> expected = {{"conv", "conv 3x3"},
                                                       {"conv_plain", "conv 3x3/2"},
                                                       {"conv_group", "grouped conv 3x3"},
                                                       {"pointwise", "conv 1x1"},
                                                       {"depthwise", "depthwise 3x3"},
                                                       {"conv1d", "conv 5/2"},
                                                       {"gemm", "product"},
                                                       {"gemm_direct", "product"},
                                                       {"gemm_transposed", "product"},
                                                       {"gemv", "matrix x vector"},
                                                       {"gemm_symbolic", "product"},
                                                       {"pool", "pool 3x3/2"},
                                                       {"average", "rows"},
                                                       {"softmax", "rows"},
                                                       {"softmax_symbolic", "rows"}};
  for (const auto& [name, what] : expected)
    EXPECT_EQ(kernel_class(testing::small_kernel(name)), what) << name;
  const char* simple = "kernel \"k\"\n  input I f32[6, 7]\n  output O f32[7, 6]\n  s[a:7, b:6]: O[a, b] = ";
  EXPECT_EQ(kernel_class(parse_kernel(std::string(simple) + "I[b, a]\n")), "move");
  EXPECT_EQ(kernel_class(parse_kernel(std::string(simple) + "exp(I[b, a])\n")), "elementwise");
}

}  // namespace
}  // namespace tc
