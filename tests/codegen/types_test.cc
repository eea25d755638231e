// Every operator on every element type against the interpreter, casts, select, gathers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/narrow_float.h"
#include "tests/codegen_harness.h"
#include "tests/codegen_kernels.h"

namespace tc::testing {
namespace {

const std::vector<DType> kAllTypes = {
#define X(name, ...) DType::name,
    TC_FOR_EACH_DTYPE(X)
#undef X
};

// Numbers at the edges of the type among ordinary ones.
Tensor edges(DType dtype, int64_t count, uint32_t seed) {
  Tensor tensor = seeded(dtype, {count}, seed);
  std::vector<double> special;
  if (is_float(dtype)) {
    special = {0.0,
               -0.0,
               0.5,
               -0.5,
               1.5,
               2.5,
               -2.5,
               1e-3,
               300.7,
               -300.7,
               3e9,
               -3e9,
               1e-7,
               65504,
               6e-8,
               std::numeric_limits<double>::infinity(),
               -std::numeric_limits<double>::infinity(),
               std::numeric_limits<double>::quiet_NaN()};
    for (size_t i = 0; i < special.size(); ++i) {
      tensor.set(static_cast<int64_t>((i * 7 + seed) % static_cast<size_t>(count)), special[i]);
    }
  } else if (dtype != DType::Bool) {
    const int64_t bits = bits_of(dtype);
    const int64_t highest = is_signed(dtype) ? static_cast<int64_t>(~uint64_t{0} >> (65 - bits)) : -1;
    const int64_t values[] = {0, 1, -1, 2, 31, 63, highest, ~highest, 7, -7};
    for (size_t i = 0; i < 10; ++i) {
      tensor.set_int(static_cast<int64_t>((i * 3 + seed) % static_cast<size_t>(count)), values[i]);
    }
  }
  return tensor;
}

constexpr int64_t kCount = 61;

TEST(CodegenTypes, BinaryOperators) {
  for (const DType dtype : kAllTypes) {
    if (is_storage(dtype)) continue;
    std::vector<Result> results;
    for (const BinaryOp op : {
#define X(name, text) BinaryOp::name,
             TC_FOR_EACH_BINARY(X)
#undef X
         }) {
      const bool bits = op == BinaryOp::And || op == BinaryOp::Or || op == BinaryOp::Xor;
      const bool shift = op == BinaryOp::Shl || op == BinaryOp::Shr;
      const bool compare = op >= BinaryOp::Eq && op <= BinaryOp::Ge;
      if (op == BinaryOp::Atan2 && !is_float(dtype)) continue;
      if (is_float(dtype) && (bits || shift)) continue;
      if (dtype == DType::Bool && !bits && !compare) continue;
      results.push_back({compare ? DType::Bool : dtype,
                         [op](const std::vector<ExprPtr>& in) { return binary(op, in[0], in[1]); }});
    }
    SCOPED_TRACE(name_of(dtype));
    expect_like_interpreter(several(kCount, 16, {dtype, dtype}, results), host_targets(), {},
                            {{"A", edges(dtype, kCount, 1)}, {"B", edges(dtype, kCount, 2)}}, 1e-6);
  }
}

// Parts of a product of 64 bits of two numbers of 32, which vectors multiply the even and the odd ones of.
TEST(CodegenTypes, PartsOfWideProducts) {
  std::vector<Result> results;
  for (const int64_t shift : {1, 8, 31, 32}) {
    for (const int64_t added : {int64_t{0}, int64_t{1} << 30}) {
      results.push_back(
          {DType::I32, [=](const std::vector<ExprPtr>& in) {
             const ExprPtr product = binary(BinaryOp::Mul, cast(DType::I64, in[0]), cast(DType::I64, in[1]));
             const ExprPtr sum =
                 added == 0 ? product : binary(BinaryOp::Add, product, int_constant(DType::I64, added));
             return cast(DType::I32, binary(BinaryOp::Shr, sum, int_constant(DType::I64, shift)));
           }});
    }
  }
  expect_like_interpreter(several(kCount, 16, {DType::I32, DType::I32}, results), host_targets(), {},
                          {{"A", edges(DType::I32, kCount, 1)}, {"B", edges(DType::I32, kCount, 2)}}, 0);
}

TEST(CodegenTypes, UnaryOperators) {
  for (const DType dtype : kAllTypes) {
    if (is_storage(dtype)) continue;
    std::vector<Result> results;
    auto add = [&](UnaryOp op, DType to) {
      results.push_back({to, [op](const std::vector<ExprPtr>& in) { return unary(op, in[0]); }});
    };
    if (dtype == DType::Bool) {
      add(UnaryOp::Not, dtype);
    } else {
      for (const UnaryOp op : {UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Sign, UnaryOp::Floor, UnaryOp::Ceil,
                               UnaryOp::Round, UnaryOp::Trunc}) {
        add(op, dtype);
      }
      add(UnaryOp::IsNan, DType::Bool);
      add(UnaryOp::IsInf, DType::Bool);
      if (is_float(dtype)) {
        add(UnaryOp::Sqrt, dtype);
      } else {
        add(UnaryOp::BitNot, dtype);
      }
    }
    SCOPED_TRACE(name_of(dtype));
    expect_like_interpreter(several(kCount, 8, {dtype}, results), host_targets(), {},
                            {{"A", edges(dtype, kCount, 1)}}, 1e-6);
  }
}

TEST(CodegenTypes, CastsBetweenAllTypes) {
  for (const DType from : kAllTypes) {
    std::vector<Result> results;
    for (const DType to : kAllTypes) {
      results.push_back({to, [to](const std::vector<ExprPtr>& in) { return cast(to, in[0]); }});
    }
    SCOPED_TRACE(name_of(from));
    expect_like_interpreter(several(kCount, 16, {from}, results), host_targets(), {},
                            {{"A", edges(from, kCount, 3)}}, 0);
  }
}

// Vectors of f32 are rounded by the conversion itself.
TEST(CodegenTypes, RoundedCastsSaturate) {
  Tensor values = edges(DType::F32, kCount, 3);
  const double special[] = {2147483648.0, -2147483648.0, 2147483520.0, -2147483904.0, 1e30,
                            -1e30,        0.49999997,    3.5,          -0.5,          8388607.5,
                            127.5,        -128.5,        255.5};
  for (size_t i = 0; i < std::size(special); ++i)
    values.set(static_cast<int64_t>((i * 9 + 1) % kCount), special[i]);
  std::vector<Result> results;
  for (const DType to : kAllTypes) {
    results.push_back(
        {to, [to](const std::vector<ExprPtr>& in) { return cast(to, unary(UnaryOp::Round, in[0])); }});
  }
  for (const int lanes : {16, 8, 4, 2, 1}) {
    SCOPED_TRACE(lanes);
    expect_like_interpreter(several(kCount, lanes, {DType::F32}, results), host_targets(), {},
                            {{"A", values}}, 0);
  }
}

TEST(CodegenTypes, HalfRoundsOnceFromEverywhere) {
  // Values between two halves, at and beside the middle, subnormal ones included.
  const int64_t count = 4096;
  Tensor wide(DType::F64, {count}), single(DType::F32, {count});
  for (int64_t i = 0; i < count; ++i) {
    const double base = half_to_float(static_cast<uint16_t>(i * 7 % 0x7c00));
    const double next = half_to_float(static_cast<uint16_t>(i * 7 % 0x7c00 + 1));
    const double middle = base + (next - base) / 2;
    wide.set(i, i % 3 == 0 ? middle : i % 3 == 1 ? std::nextafter(middle, 1e9) : std::nextafter(middle, 0));
    single.set(i, middle);
  }
  for (const DType to : {DType::F16, DType::BF16}) {
    const auto narrow = [to](const std::vector<ExprPtr>& in) { return cast(to, in[0]); };
    expect_like_interpreter(elementwise(count, 16, DType::F64, to, narrow), host_targets(), {}, {{"A", wide}},
                            0);
    expect_like_interpreter(elementwise(count, 16, DType::F32, to, narrow), host_targets(), {},
                            {{"A", single}}, 0);
  }
}

// All numbers of the narrow floats: between two of them, at and beside the middle, and beyond the largest.
TEST(CodegenTypes, NarrowFloatsRoundOnceFromEverywhere) {
  for (const DType to : kAllTypes) {
    if (!is_narrow_float(to)) continue;
    const int64_t codes = int64_t{1} << bits_of(to), count = codes * 5;
    Tensor stored(to, {codes}), wide(DType::F64, {count}), single(DType::F32, {count});
    for (int64_t i = 0; i < codes; ++i) {
      stored.bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
      const double base = narrow_to_double(to, static_cast<uint8_t>(i)),
                   next = narrow_to_double(to, static_cast<uint8_t>((i + 1) % codes));
      const double middle = base + (next - base) / 2;
      const double values[] = {base, middle, std::nextafter(middle, 1e300), std::nextafter(middle, -1e300),
                               base * 1.5};
      for (int64_t k = 0; k < 5; ++k) {
        wide.set(5 * i + k, values[k]);
        single.set(5 * i + k, values[k]);
      }
    }
    const auto narrow = [to](const std::vector<ExprPtr>& in) { return cast(to, in[0]); };
    const auto widen = [](const std::vector<ExprPtr>& in) { return cast(DType::F32, in[0]); };
    SCOPED_TRACE(name_of(to));
    expect_like_interpreter(elementwise(count, 16, DType::F64, to, narrow), host_targets(), {}, {{"A", wide}},
                            0);
    expect_like_interpreter(elementwise(count, 8, DType::F32, to, narrow), host_targets(), {},
                            {{"A", single}}, 0);
    expect_like_interpreter(elementwise(codes, 16, to, DType::F32, widen), host_targets(), {},
                            {{"A", stored}}, 0);
  }
}

TEST(CodegenTypes, SelectsEvaluateOneSide) {
  // The second operand is out of range where the condition does not hold.
  for (const int64_t width : {1, 4, 16}) {
    const ScheduledKernel kernel =
        elementwise(kCount, width, DType::F32, DType::F32, [](const std::vector<ExprPtr>& in) {
          const ExprPtr inside = binary(
              BinaryOp::And, binary(BinaryOp::Ge, index_value(v("i") - 3), int_constant(DType::I64, 0)),
              binary(BinaryOp::Lt, index_value(v("i") + 5), int_constant(DType::I64, kCount)));
          const ExprPtr before = load(DType::F32, 0, std::vector<Affine>{v("i") - 3});
          const ExprPtr after = load(DType::F32, 0, std::vector<Affine>{v("i") + 5});
          return select(inside, binary(BinaryOp::Sub, before, after), in[0]);
        });
    expect_like_interpreter(kernel, host_targets(), {}, {{"A", seeded(DType::F32, {kCount}, 4)}}, 0);
  }
}

TEST(CodegenTypes, SelectsOnData) {
  const ScheduledKernel kernel =
      elementwise(kCount, 16, DType::F32, DType::F32, [](const std::vector<ExprPtr>& in) {
        return select(binary(BinaryOp::Lt, in[0], in[1]), in[2],
                      unary(UnaryOp::Neg, binary(BinaryOp::Mul, in[0], in[2])));
      });
  expect_like_interpreter(kernel, host_targets(), {},
                          {{"A", seeded(DType::F32, {kCount}, 4)},
                           {"B", seeded(DType::F32, {kCount}, 5)},
                           {"C", seeded(DType::F32, {kCount}, 6)}},
                          0);
}

TEST(CodegenTypes, GathersByData) {
  for (const DType dtype : {DType::F32, DType::F64, DType::I8, DType::F16, DType::Bool}) {
    for (const int64_t width : {1, 16}) {
      const ScheduledKernel kernel = elementwise(
          kCount, width, dtype, dtype,
          [&](const std::vector<ExprPtr>& in) {
            // Clamped as whoever builds a gather does.
            const ExprPtr index =
                binary(BinaryOp::Max, int_constant(DType::I64, 0),
                       binary(BinaryOp::Min, cast(DType::I64, in[1]), int_constant(DType::I64, kCount - 1)));
            std::vector<Subscript> place(1);
            place[0].dynamic = index;
            return load(dtype, 0, place);
          },
          {dtype, DType::I32});
      expect_like_interpreter(kernel, host_targets(), {},
                              {{"A", seeded(dtype, {kCount}, 4)}, {"B", seeded(DType::I32, {kCount}, 5)}}, 0);
    }
  }
}

TEST(CodegenTypes, IndicesAreValues) {
  const ScheduledKernel kernel =
      elementwise(kCount, 16, DType::I64, DType::I64, [](const std::vector<ExprPtr>& in) {
        return binary(BinaryOp::Add, binary(BinaryOp::Mul, index_value(v("i") * 3 - 5), in[0]),
                      index_value(v("i")));
      });
  expect_like_interpreter(kernel, host_targets(), {}, {{"A", seeded(DType::I64, {kCount}, 4)}}, 0);
}

TEST(CodegenTypes, NanPassesThroughMaxAndMin) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Tensor a(DType::F32, {64}), b(DType::F32, {64});
  for (int64_t i = 0; i < 64; ++i) {
    a.set(i, i % 3 == 0 ? nan : static_cast<double>(i % 7) - 3);
    b.set(i, i % 4 == 0 ? nan : static_cast<double>(i % 5) - 2);
  }
  std::vector<Result> results;
  for (const BinaryOp op : {BinaryOp::Max, BinaryOp::Min}) {
    results.push_back({DType::F32, [op](const auto& in) { return binary(op, in[0], in[1]); }});
    results.push_back(
        {DType::F32, [op](const auto& in) { return binary(op, in[0], constant(DType::F32, 0)); }});
    results.push_back(
        {DType::F32, [op](const auto& in) { return binary(op, constant(DType::F32, 6), in[0]); }});
  }
  for (const Target& target : host_targets()) {
    expect_like_interpreter(several(64, 16, {DType::F32, DType::F32}, results), target, {},
                            {{"A", a}, {"B", b}}, 0);
    for (const Reduction reduction : {Reduction::Max, Reduction::Min}) {
      Tensor rows = a;
      rows.shape = {4, 16};
      expect_like_interpreter(row_reduction(4, 16, reduction), target, {}, {{"A", rows}}, 0);
    }
  }
}

}  // namespace
}  // namespace tc::testing
