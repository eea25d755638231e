// Constants of plans: each stored once, packed when they are asked for and not before.
#include "frontend/pipeline/constant_store.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "tests/codegen_harness.h"

namespace tc::testing {
namespace {

TensorPtr numbers(std::vector<int64_t> shape, uint32_t seed) {
  return std::make_shared<const Tensor>(seeded(DType::F32, std::move(shape), seed));
}

// K [rows, 128] in blocks of 16 columns, rows * 512 bytes; S the same with rows and blocks merged; P as it
// is.
Kernel blocks(int64_t rows) {
  return parse_kernel(
      text("kernel blocks\n  constant K f32[", rows, ", 8, 16]\n  constant S f32[8, ", rows,
           ", 16]\n  constant P f32[", rows, ", 128]\n  output O f32[1]\n  packing K[r, o, i] of [", rows,
           ", 128] at [r, 16*o + i] fill 0\n  packing S[o, r, i] of [", rows,
           ", 128] at [r, 16*o + i] fill 0\n  packing P[r, c] of [", rows,
           ", 128] at [r, c] fill 0\n  copy[j:1]: O[j] = K[0, 0, 0] + S[0, 0, 0] + P[0, 0]\n"));
}

const Packing& packing(const Kernel& kernel, const std::string& buffer) {
  return *packing_of(kernel, buffer);
}

TEST(ConstantStore, EqualBytesAreStoredOnce) {
  for (const int64_t rows : {4, 1000}) {  // less and more than what is packed at once
    const Kernel kernel = blocks(rows);
    const TensorPtr one = numbers({rows, 128}, 1), same = numbers({rows, 128}, 1),
                    other = numbers({rows, 128}, 2);
    ConstantStore store;
    const int plain = store.index_of(one), packed = store.index_of(one, packing(kernel, "S"), kernel);
    EXPECT_EQ(plain, 0);
    EXPECT_EQ(packed, 1);
    EXPECT_EQ(store.index_of(one), plain);
    EXPECT_EQ(store.index_of(same), plain);
    EXPECT_EQ(store.index_of(same, packing(kernel, "S"), kernel), packed);
    // Packings that move nothing are the tensor itself.
    EXPECT_EQ(store.index_of(one, packing(kernel, "K"), kernel), plain);
    EXPECT_EQ(store.index_of(same, packing(kernel, "P"), kernel), plain);
    EXPECT_EQ(store.index_of(other), 2);
    EXPECT_EQ(store.index_of(other, packing(kernel, "S"), kernel), 3);
    const std::vector<PlanConstant> all = store.all();
    ASSERT_EQ(all.size(), 4u);
    EXPECT_EQ(all[0].make(), one) << "a copy was made";
    EXPECT_EQ(all[1].make()->bytes, pack(packing(kernel, "S"), kernel, *one).bytes);
    EXPECT_EQ(all[3].make()->bytes, pack(packing(kernel, "S"), kernel, *other).bytes);
  }
}

// Loops of two packings may be divided otherwise and still give the same bytes.
TEST(ConstantStore, LoopsMayBeDividedOtherwise) {
  const Kernel kernel = parse_kernel(
      "kernel k\n  constant S f32[8, 1000, 16]\n  constant T f32[4, 2, 1000, 1, 16]\n  constant U f32[4, 1000, 2, 16]\n"
      "  output O f32[1]\n  packing S[o, r, i] of [1000, 128] at [r, 16*o + i] fill 0\n"
      "  packing T[p, o, r, e, i] of [1000, 128] at [r, 32*p + 16*o + i] fill 0\n"
      "  packing U[p, r, o, i] of [1000, 128] at [r, 32*p + 16*o + i] fill 0\n"
      "  copy[j:1]: O[j] = S[0, 0, 0] + T[0, 0, 0, 0, 0] + U[0, 0, 0, 0]\n");
  const TensorPtr original = numbers({1000, 128}, 1);
  ConstantStore store;
  EXPECT_EQ(store.index_of(original, packing(kernel, "S"), kernel), 0);
  EXPECT_EQ(store.index_of(original, packing(kernel, "T"), kernel), 0);
  EXPECT_EQ(store.index_of(original, packing(kernel, "U"), kernel), 1);
  EXPECT_EQ(pack(packing(kernel, "S"), kernel, *original).bytes,
            pack(packing(kernel, "T"), kernel, *original).bytes);
}

// Packed tensors that happen to hold the bytes of another are found where they are small.
TEST(ConstantStore, SmallOnesAreComparedWhenPacked) {
  const Kernel kernel = blocks(4);
  const TensorPtr original = numbers({4, 128}, 1);
  ConstantStore store;
  const auto packed = std::make_shared<const Tensor>(pack(packing(kernel, "S"), kernel, *original));
  EXPECT_EQ(store.index_of(packed), 0);
  EXPECT_EQ(store.index_of(original, packing(kernel, "S"), kernel), 0);
}

// The same bytes in another shape give others when they are packed.
TEST(ConstantStore, ShapesOfOriginalsCount) {
  const Kernel kernel = parse_kernel(
      "kernel k\n  constant K f32[128, 300]\n  output O f32[1]\n  packing K[i, j] of [300, 128] at [j, i] fill 0\n"
      "  copy[j:1]: O[j] = K[0, 0]\n");
  Kernel wide = kernel;
  wide.packings[0].original_shape = {256, 150};
  const TensorPtr tall = numbers({300, 128}, 1), flat = numbers({256, 150}, 1);
  ASSERT_EQ(tall->bytes, flat->bytes);
  ConstantStore store;
  EXPECT_EQ(store.index_of(tall, packing(kernel, "K"), kernel), 0);
  EXPECT_EQ(store.index_of(flat, packing(wide, "K"), wide), 1);
}

TEST(PlanConstant, KnowsItsSizeWithoutItsBytes) {
  const Kernel kernel = parse_kernel(
      "kernel digits\n  constant K i8[2, 3, 3]\n  constant S f32[2]\n  output O i8[2, 3, 3]\n"
      "  packing K[f, d, k] of [2, 3] at [f, k] fill 0 terms d scaled [f]\n  packing S scales of K\n"
      "  copy[f:2, d:3, k:3]: O[f, d, k] = K[f, d, k]\n");
  const TensorPtr original = numbers({2, 3}, 1);
  PlanConstant digits(original, kernel, "K");
  const PlanConstant scales(original, kernel, "S");
  EXPECT_EQ(digits.dtype(), DType::I8);
  EXPECT_EQ(digits.shape(), (std::vector<int64_t>{2, 3, 3}));
  EXPECT_EQ(digits.byte_count(), 18);
  EXPECT_EQ(scales.dtype(), DType::F32);
  EXPECT_EQ(scales.byte_count(), 8);
  EXPECT_EQ(digits.make()->bytes, pack(packing(kernel, "K"), kernel, *original).bytes);
  EXPECT_EQ(scales.make()->bytes, pack(packing(kernel, "S"), kernel, *original).bytes);
  digits.release();
  EXPECT_EQ(digits.byte_count(), 18);
  EXPECT_THROW(digits.make(), Error);
}

TEST(KeepsOrder, OnlyWhereNoByteMoves) {
  const auto keeps = [](const std::string& shape, const std::string& iterators, const std::string& original,
                        const std::string& index, const std::string& before = "") {
    const Kernel kernel = parse_kernel(
        "kernel k\n  constant K f32[" + shape + "]\n  output O f32[1]\n  packing K[" + iterators + "] of [" +
        original + "]" + before + " at [" + index + "] fill 0\n  copy[j:1]: O[j] = 0\n");
    return keeps_order(kernel.packings[0], kernel);
  };
  EXPECT_TRUE(keeps("6, 4", "i, j", "6, 4", "i, j"));
  EXPECT_TRUE(keeps("3, 2, 4", "i, j, k", "6, 4", "2*i + j, k"));
  EXPECT_TRUE(keeps("1, 6, 4, 1", "a, i, j, b", "6, 4, 1", "i, j, b"));
  EXPECT_FALSE(keeps("4, 6", "i, j", "6, 4", "j, i"));
  EXPECT_FALSE(keeps("3, 2, 4", "i, j, k", "6, 4", "3*j + i, k"));
  EXPECT_FALSE(keeps("6, 4", "i, j", "6, 4", "5 - i, j")) << "backwards";
  EXPECT_FALSE(keeps("6, 4", "i, j", "6, 4", "i, j - 1")) << "moved by one";
  EXPECT_FALSE(keeps("8, 4", "i, j", "6, 4", "i, j")) << "padded";
  // One step is the right one, but rows end elsewhere.
  EXPECT_FALSE(keeps("2, 12", "i, j", "6, 4", "3*i, j"));
  EXPECT_FALSE(keeps("2, 2", "i, j", "2, 2", "i, j", " combining 0 [[1, 0], [0, 1]]"));
}

}  // namespace
}  // namespace tc::testing
