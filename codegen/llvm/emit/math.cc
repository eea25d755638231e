// Elementary functions as generated vector code: no library is called.
//
// f32 exp, log, tanh, sigmoid and erf, which models use most, are computed in f32; all other f32
// functions in f64 and rounded. Polynomials are minimax fits (fit_polynomials.py).
#include "codegen/llvm/emit/math.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "codegen/llvm/emit/range_reduction.h"
#include "codegen/llvm/emit/number.h"
#include "codegen/llvm/units/riscv_vector_instructions.h"
#include "ir/error.h"
#include "ir/math_tables.h"

namespace tc {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// e^x = 2^count * (1 + tail): what exp and expm1 have in common. x is within the clamp.
struct Exponential {
  Number tail, count, rounded;  // count as an integer, and as a float
};

// The instruction that multiplies a vector of 512 bits by powers of two, given as floats, and rounds once; or
// none.
llvm::Intrinsic::ID scaling_instruction(const Target& target, llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (target.arch != Arch::X86_64 || target.vector_bits != 512 || vector == nullptr)
    return llvm::Intrinsic::not_intrinsic;
  const unsigned lanes = vector->getNumElements();
  if (type->getScalarType()->isFloatTy() && lanes == 16)
    return llvm::Intrinsic::x86_avx512_mask_scalef_ps_512;
  if (type->getScalarType()->isDoubleTy() && lanes == 8)
    return llvm::Intrinsic::x86_avx512_mask_scalef_pd_512;
  return llvm::Intrinsic::not_intrinsic;
}

// The instruction that looks up, for each lane, one element of a vector of as many f32; or none.
llvm::Intrinsic::ID table_instruction(const Target& target, llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (target.arch != Arch::X86_64 || vector == nullptr || !type->getScalarType()->isFloatTy())
    return llvm::Intrinsic::not_intrinsic;
  const unsigned lanes = vector->getNumElements();
  if (lanes == 16 && target.vector_bits == 512) return llvm::Intrinsic::x86_avx512_permvar_sf_512;
  if (lanes == 8 && target.vector_bits >= 256) return llvm::Intrinsic::x86_avx2_permps;
  return llvm::Intrinsic::not_intrinsic;
}

// Exponentials of numbers of a type, and the tools of all functions.
class Exponentials {
 public:
  Exponentials(Builder& builder, const Target& target, llvm::Type* type)
      : builder_(builder),
        single_(type->getScalarType()->isFloatTy()),
        scaling_(scaling_instruction(target, type)),
        compares_bits_(target.is_riscv() && type->isVectorTy()) {}

  Number exp(Number x) { return power_of(split(within_exponents(x))); }

  // The same for numbers that are at most 40 or NaN; a NaN has to be the result of arithmetic, unless its
  // exponential does not matter. Nothing overflows, so that one factor is enough, 2^64 times the power of
  // two; the product with 2^-64 is then rounded once, also where it is subnormal.
  Number exp_of_nonpositive(Number x) {
    if (!single_) return exp(x);
    constexpr int kRaised = 64, kBias = 127, kMantissa = 23;
    const bool scales = scaling_ != llvm::Intrinsic::not_intrinsic;
    // The bound of exp; without the scaling instruction the one at which the factor's exponent bits are
    // zero.
    const Number bounded = not_below(x, scales ? -176 : -(kRaised + kBias) * M_LN2);
    // Adding the magic number rounds to an integer in the low bits, which are then those of the factor's
    // exponent.
    const double magic = 0x1.8p23 + (scales ? 0 : kRaised + kBias);
    const Number shifted = fma(bounded, x.same(M_LOG2E), x.same(magic)), count = shifted - magic;
    const Number r = reduced(bounded, count);
    const Number power = fma(fma(polynomial(r, kExpF32), r, x.same(1)), r, x.same(1));
    return scales ? times_power(power, count)
                  : power * shifted.bits().shift_left(kMantissa).as_float() * 0x1p-64;
  }

  // The same for numbers from -80 to 80 (f32).
  Number exp_of_small(Number x) {
    const Exponential parts = split(x);
    return (parts.tail + 1) * power_of_two(parts.count);
  }

  // exp(x) - 1 without cancellation; x at least -60 and at most 80 (f32) or 700 (f64).
  Number expm1(Number x) {
    const Exponential parts = split(x);
    const Number scale = power_of_two(parts.count);
    return fma(scale, parts.tail, scale - 1);
  }

 protected:
  // The exponential of x + low, where `low` is less than a unit in the last place of x.
  Number exp_of_sum(Number x, Number low) { return power_of(split(within_exponents(x), &low)); }

  Number power_of_two(Number count) {
    return (count + (single_ ? 127 : 1023)).shift_left(single_ ? 23 : 52).as_float();
  }

  template <size_t N>
  Number polynomial(Number t, const double (&coefficients)[N]) {
    Number sum = t.same(coefficients[N - 1]);
    for (size_t i = N - 1; i-- > 0;) sum = fma(sum, t, t.same(coefficients[i]));
    return sum;
  }

  Builder& builder_;
  bool single_;

 private:
  // Below -104 (-746) an exponential is zero. The lower bound is where the exponent bits of both factors are
  // zero: products that round to zero otherwise take a hundred cycles on many processors, and the masked
  // scores of attention make many of them.
  Number within_exponents(Number x) { return clamp(x, single_ ? -176 : -1418, single_ ? 89 : 710); }

  Number power_of(const Exponential& parts) {
    if (scaling_ != llvm::Intrinsic::not_intrinsic) return times_power(parts.tail + 1, parts.rounded);
    // Two factors, so that the result may be subnormal or infinite.
    const Number half = parts.count.shift_right_signed(1);
    return (parts.tail + 1) * power_of_two(half) * power_of_two(parts.count - half);
  }

  Number clamp(Number x, double low, double high) {
    const Number above = select(x > high, x.same(high), x);
    return select(above < low, x.same(low), above);
  }

  // The larger of x and a negative number; NaN stays. On RISC-V a NaN that arithmetic gives is the canonical
  // one, which is positive, so that this is the smaller of two unsigned integers.
  Number not_below(Number x, double low) {
    const Number limit = x.same(low);
    if (!compares_bits_) return select(x < limit, limit, x);
    return Number(builder_, builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x.bits().value(),
                                                           limit.bits().value()))
        .as_float();
  }

  // x - n ln 2.
  Number reduced(Number x, Number n) {
    const Number r = fma(n, x.same(single_ ? -0.693145752 : -6.93147180369123816490e-01), x);
    return fma(n, x.same(single_ ? -1.42860682e-6 : -1.90821492927058770002e-10), r);
  }

  Exponential split(Number x, const Number* low = nullptr) {
    // Adding the magic number rounds to an integer in the low bits.
    const double magic = single_ ? 0x1.8p23 : 0x1.8p52;
    const Number shifted = fma(x, x.same(M_LOG2E), x.same(magic));
    const Number n = shifted - magic;
    Number r = reduced(x, n);
    if (low != nullptr) r = r + *low;
    const Number series = single_ ? polynomial(r, kExpF32) : polynomial(r, kExpF64);
    return {fma(series * r, r, r), shifted.bits() - x.same(magic).bits(), n};
  }

  // x * 2^count, by the instruction that scales.
  Number times_power(Number x, Number count) {
    constexpr int kCurrentRounding = 4;
    const auto lanes = llvm::cast<llvm::FixedVectorType>(x.value()->getType())->getNumElements();
    llvm::Value* all = llvm::Constant::getAllOnesValue(builder_.getIntNTy(lanes));
    return Number(builder_, builder_.CreateIntrinsic(scaling_, {},
                                                     {x.value(), count.value(), x.value(), all,
                                                      builder_.getInt32(kCurrentRounding)}));
  }

  llvm::Intrinsic::ID scaling_;
  bool compares_bits_;  // integers and floats are in the same registers
};

class Functions : public Exponentials {
 public:
  Functions(Builder& builder, const Target& target, llvm::Type* type)
      : Exponentials(builder, target, type),
        table_(table_instruction(target, type)),
        divides_(target.is_riscv() && type->isVectorTy()),
        target_(target),
        multiplies_(multiplies_quotients(target, type)) {}

  Number log(Number x) {
    const auto [m, e] = mantissa_and_exponent(x);
    const Number f = m - 1;
    Number result;
    if (single_) {
      const Number z = f * f;
      Number tail = polynomial(f, kLogF32) * f * z;
      tail = fma(e, x.same(-2.12194440e-4), tail);
      tail = fma(z, x.same(-0.5), tail);
      result = fma(e, x.same(0.693359375), f + tail);
    } else {
      const Number s = f / (f + 2);
      const Number z = s * s;
      const Number series = polynomial(z, kLogF64) * z;
      const Number half_square = f * f * 0.5;
      const Number low = e * 1.90821492927058770002e-10;
      // log(1+f) = f - (f^2/2 - s (f^2/2 + series))
      const Number tail = half_square - fma(s, half_square + series, low);
      result = fma(e, x.same(6.93147180369123816490e-01), f - tail);
    }
    result = select(x < kInfinity, result, x);  // infinity and NaN
    result = select(x == 0, x.same(-kInfinity), result);
    return select(x < 0, x.nan(), result);
  }

  Number log1p(Number x) {
    const Number u = x + 1;
    const Number correction = (x - (u - 1)) / u;
    Number result = log(u) + correction;
    result = select(u == 1, x, result);
    result = select(u < kInfinity, result, x);
    return select(x == -1, x.same(-kInfinity), result);
  }

  Number tanh(Number x) {
    // With t = exp(-2|x|) - 1: tanh |x| = -t / (2 + t), or 1 - 2 (t + 1) / (2 + t) where that is near
    // 1, so that the error of t counts less.
    const Number a = x.abs();
    const Number limit = x.same(single_ ? 10 : 20);
    const Number t = expm1(select(a < limit, a, limit) * -2);
    const Number far = t < -0.75;
    const Number quotient = divided(select(far, (t + 1) * 2, -t), t + 2);
    const Number result = select(far, x.same(1) - quotient, quotient).copy_sign(x);
    return select(x.is_nan(), x, result);
  }

  Number sigmoid(Number x) {
    // The exponential of a number that is not positive, so that neither side overflows.
    const Number e = exp_of_nonpositive(-x.abs());
    const Number numerator = select(x < 0, e, x.same(1));
    return select(x.is_nan(), x, divided(numerator, e + 1));
  }

  Number erf(Number x) {
    if (table_ == llvm::Intrinsic::x86_avx512_permvar_sf_512)
      return erf_by_parts(x, kErf16PartsF32, kErfPart16);
    if (table_ == llvm::Intrinsic::x86_avx2_permps) return erf_by_parts(x, kErf8PartsF32, kErfPart8);
    if (single_ && divides_) return erf_as_quotient(x);
    const Number a = x.abs();
    const Number square = a * a;
    const Number near = single_ ? polynomial(square, kErfSmallF32) : polynomial(square, kErfSmallF64);
    const Number small = fma(near, x, x);
    Number large;
    if (single_) {
      const Number bounded = select(a < 4, a, x.same(4));
      large = x.same(1) - exp_of_small(polynomial(bounded - 2.5, kErfLargeF32));
    } else {
      const Number bounded = select(a < 6, a, x.same(6));
      const Number t = (bounded - 3) / (bounded + 3);
      const Number scaled = polynomial(t, kErfLargeF64) / fma(bounded, x.same(2), x.same(1));
      large = x.same(1) - exp(-(bounded * bounded)) * scaled;
    }
    return select(a >= 1, large.copy_sign(x), small);  // of NaN the polynomial is NaN
  }

  // erf as a quotient of polynomials, within 7 units in the last place (6.04 at -3.652): on in-order cores,
  // where every operation takes time, it takes half of the cycles. The steps of both polynomials round, and
  // the error is largest where the result is near 1, which it may exceed by 2^-22.
  Number erf_as_quotient(Number x) {
    const Number a = x.abs();
    const Number bounded = select(a > kErfBound, x.same(kErfBound), a);  // where the quotient is 1; NaN stays
    const Number square = bounded * bounded;
    return divided(polynomial(square, kErfNumeratorF32) * bounded, polynomial(square, kErfDenominatorF32))
        .copy_sign(x);
  }

  // erf as piecewise polynomials, whose coefficients are tables in registers: half of the work.
  template <size_t Powers, size_t Parts>
  Number erf_by_parts(Number x, const double (&table)[Powers][Parts], double width) {
    const Number a = x.abs();
    const Number bounded = select(a > 4, x.same(4), a);  // erf(4) is 1; NaN stays
    const Number rounded = fma(bounded, x.same(1 / width), x.same(0x1.8p23));
    const Number part = rounded - 0x1.8p23;
    const Number t = fma(part, x.same(-width), bounded);
    constexpr size_t kHighest = Powers - 1;
    Number sum = look_up(table[kHighest], rounded);
    for (size_t power = kHighest; --power > 0;) sum = fma(t, sum, look_up(table[power], rounded));
    const Number start = select(part == 0, t, look_up(table[0], rounded));
    return fma(t, sum, start).copy_sign(x);
  }

  // sin and cos of an angle, f64.
  std::pair<Number, Number> sin_cos(const Angle& reduced) {
    const Number r = reduced.angle;
    const Number z = r * r;
    const Number sine = fma(polynomial(z, kSinF64) * z, r, r);
    const Number cosine = fma(polynomial(z, kCosF64) * z, z, fma(z, r.same(-0.5), r.same(1)));
    const Number quadrant = reduced.quadrant;
    const Number odd = (quadrant & 1) != 0;
    const Number sine_sign = (quadrant & 2).shift_left(62);
    const Number cosine_sign = ((quadrant + 1) & 2).shift_left(62);
    const Number a = (select(odd, cosine, sine).bits() ^ sine_sign).as_float();
    const Number b = (select(odd, sine, cosine).bits() ^ cosine_sign).as_float();
    return {a, b};
  }

  // atan2 for the upper right octants: the angle of (x, y) with 0 <= y, 0 <= x.
  Number atan_quadrant(Number y, Number x) {
    const Number swapped = y > x;
    const Number top = select(swapped, x, y);
    const Number bottom = select(swapped, y, x);
    Number q = top / bottom;
    q = select(top == bottom, x.same(1), q);  // infinity / infinity
    q = select(bottom == 0, x.same(0), q);
    const Number steep = q > 0.41421356237309503;
    const Number t = select(steep, (q - 1) / (q + 1), q);
    const Number z = t * t;
    Number angle = fma(polynomial(z, kAtanF64) * z, t, t);
    angle = angle + select(steep, x.same(M_PI_4), x.same(0));
    return select(swapped, x.same(M_PI_2) - angle, angle);
  }

  Number atan2(Number y, Number x) {
    Number angle = atan_quadrant(y.abs(), x.abs());
    angle = select(x.sign_bit(), x.same(M_PI) - angle, angle).copy_sign(y);
    return select(x.is_nan(), x, select(y.is_nan(), y, angle));
  }

  // `exactly` is for f64 that are not rounded to f32 afterwards: the exponential would magnify the rounding
  // error of y log x.
  Number pow(Number x, Number y, bool exactly) {
    const Number a = x.abs();
    Number result = exactly ? exact_power(a, y) : exp(select(a == 1, x.same(0), y * log(a)));
    // Odd integers keep the sign of x; numbers of 2^53 and more are even.
    const Number whole = y.round_even() == y;
    const Number half = y * 0.5;
    const Number odd = whole & (half.round_even() != half) & (y.abs() < 0x1p53);
    result = select(odd & x.sign_bit(), -result, result);
    result = select((x < 0) & !whole & (a < kInfinity), x.nan(), result);
    result = select(x.is_nan() | y.is_nan(), x.nan(), result);
    return select((y == 0) | (x == 1), x.same(1), result);
  }

  Number sinh(Number x) {
    const Number a = x.abs();
    const Number bounded = select(a < 20, a, x.same(20));
    const Number t = expm1(bounded);
    const Number near = (t + t / (t + 1)) * 0.5;
    const Number root = exp(a * 0.5);
    const Number far = root * 0.5 * root;
    return select(a < 20, near, select(x.is_nan(), x, far)).copy_sign(x);
  }

  Number cosh(Number x) {
    const Number a = x.abs();
    const Number root = exp(a * 0.5);
    const Number square = root * root;
    const Number far = root * 0.5 * root;
    return select(a < 20, (square + x.same(1) / square) * 0.5, select(x.is_nan(), x, far));
  }

  Number asinh(Number x) {
    const Number a = x.abs();
    const Number big = a > 0x1p28;
    const Number bounded = select(big, x.same(1), a);
    const Number square = bounded * bounded;
    const Number near = log1p(bounded + square / ((square + 1).sqrt() + 1));
    return select(big, log(a) + M_LN2, near).copy_sign(x);
  }

  Number acosh(Number x) {
    const Number big = x > 0x1p28;
    const Number t = x - 1;
    const Number near = log1p(t + (t * 2 + t * t).sqrt());
    return select(big, log(x) + M_LN2, select(x < 1, x.nan(), near));
  }

  Number atanh(Number x) {
    const Number a = x.abs();
    const Number result = log1p(a * 2 / (x.same(1) - a)) * 0.5;
    return select(a > 1, x.nan(), select(a == 1, x.same(kInfinity), result)).copy_sign(x);
  }

 private:
  // a to the power y, for f64; a is not negative. Of special values only 0, 1 and infinity are handled here,
  // the others in pow.
  Number exact_power(Number a, Number y) {
    const auto [high, low] = long_log(a);
    const Number product = y * high;
    const Number rest = fma(y, low, fma(y, high, -product));
    const Number special = select(a == 0, a.same(-kInfinity), a);
    const Number whole = select((a == 0) | !(a < kInfinity), y * special, select(a == 1, a.same(0), product));
    // `rest` counts only where the power is neither 0 nor infinite; 1 to the power of infinity is 1.
    return exp_of_sum(whole, select((whole.abs() < 1024) & (product.abs() < 1024), rest, a.same(0)));
  }

  // log of an f64 that is positive and finite, as a sum whose error is less than 2^-56 of it.
  std::pair<Number, Number> long_log(Number x) {
    const auto [m, e] = mantissa_and_exponent(x);
    // log m = 2 s + s z P(z) of s = f / (f + 2), z = s^2, with both the divisor and the quotient in two
    // parts.
    const Number f = m - 1, divisor = m + 1, divisor_rest = m - (divisor - 1);
    const Number s = f / divisor;
    const Number s_rest = fma(-s, divisor_rest, fma(-s, divisor, f)) / divisor;
    const Number z = s * s;
    const Number tail = fma(s_rest, s.same(2), polynomial(z, kLogF64) * z * s);
    const Number large = e * 6.93147180369123816490e-01, twice = s * 2;
    const Number most = large + twice;
    const Number rest = (twice - (most - large)) + fma(e, e.same(1.90821492927058770002e-10), tail);
    const Number high = most + rest;
    return {high, rest - (high - most)};
  }

  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)), of a positive number; subnormals are scaled first.
  std::pair<Number, Number> mantissa_and_exponent(Number x) {
    const int mantissa = single_ ? 23 : 52;
    const Number small = x < (single_ ? 0x1p-126 : 0x1p-1022);
    const Number scaled = select(small, x * (single_ ? 0x1p24 : 0x1p54), x);
    // The exponent is that of m / sqrt(1/2), rounded down.
    const int64_t half = single_ ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;
    const Number offset = scaled.bits() - half;
    const Number exponent_bits = offset.shift_right_signed(mantissa);
    const Number m = (scaled.bits() - exponent_bits.shift_left(mantissa)).as_float();
    const Number e = exponent_bits.to_float();
    return {m, e - select(small, x.same(single_ ? 24 : 54), x.same(0))};
  }

  // For each lane the table's element whose index is in the last bits of the float `which`.
  template <size_t Parts>
  Number look_up(const double (&table)[Parts], Number which) {
    std::vector<float> elements(std::begin(table), std::end(table));
    llvm::Value* all = llvm::ConstantDataVector::get(builder_.getContext(), elements);
    return Number(builder_, builder_.CreateIntrinsic(table_, {}, {all, which.bits().value()}));
  }

  llvm::Intrinsic::ID table_;
  // A quotient whose divisor is a normal number far from the bounds of its type, and whose value is, too.
  // Where the core divides slowly, the reciprocal is estimated and refined by two steps of Newton's method,
  // and the quotient is corrected by its remainder, which leaves an error below one unit in the last place.
  Number divided(Number numerator, Number divisor) {
    if (!multiplies_) return numerator / divisor;
    const Number one = divisor.same(1);
    Number reciprocal(builder_, estimate_reciprocal(builder_, target_, divisor.value()));
    for (int step = 0; step < kNewtonSteps; ++step)
      reciprocal = fma(reciprocal, fma(-divisor, reciprocal, one), reciprocal);
    const Number quotient = numerator * reciprocal;
    return fma(fma(-quotient, divisor, numerator), reciprocal, quotient);
  }

  // The estimate has 7 bits, each step doubles them, and f32 have 24; the correction makes up for the rest.
  static constexpr int kNewtonSteps = 2;
  static bool multiplies_quotients(const Target& target, llvm::Type* type) {
    constexpr int kOperations = 1 + 2 * kNewtonSteps + 3;
    // More operations also take more registers and issue slots, so that the division has to take clearly
    // longer.
    constexpr double kLonger = 1.5;
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    if (vector == nullptr || !vector->getElementType()->isFloatTy()) return false;
    return has_riscv_vectors(target, static_cast<int>(vector->getNumElements())) &&
           target.division * target.multiply_adds > kLonger * kOperations;
  }

  bool divides_;  // a division of vectors costs less than two polynomials and an exponential
  const Target& target_;
  bool multiplies_;  // and more than an estimate of the reciprocal and its refinement
};

// The argument of a function that damps errors of its argument, with a product in place of a division by a
// constant, which takes as long as ten products. The value stays as it is where the reciprocal is not a
// normal number.
llvm::Value* without_division(Builder& builder, llvm::Value* value) {
  auto* division = llvm::dyn_cast<llvm::BinaryOperator>(value);
  if (division == nullptr || division->getOpcode() != llvm::Instruction::FDiv) return value;
  auto* divisor = llvm::dyn_cast<llvm::Constant>(division->getOperand(1));
  if (divisor != nullptr && divisor->getType()->isVectorTy()) divisor = divisor->getSplatValue();
  auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(divisor);
  if (number == nullptr) return value;
  llvm::APFloat reciprocal(number->getValueAPF().getSemantics(), 1);
  reciprocal.divide(number->getValueAPF(), llvm::APFloat::rmNearestTiesToEven);
  if (!reciprocal.isNormal()) return value;
  return builder.CreateFMul(division->getOperand(0), llvm::ConstantFP::get(value->getType(), reciprocal));
}

}  // namespace

llvm::Value* emit_function(Builder& builder, const Target& target, UnaryOp op, llvm::Value* value) {
  if (op == UnaryOp::Erf || op == UnaryOp::Tanh || op == UnaryOp::Sigmoid)
    value = without_division(builder, value);
  llvm::Type* type = value->getType();
  const bool single = type->getScalarType()->isFloatTy();
  Number x(builder, value);
  Functions native(builder, target, type);
  switch (op) {
    case UnaryOp::Exp: return native.exp(x).value();
    case UnaryOp::Log: return native.log(x).value();
    case UnaryOp::Tanh: return native.tanh(x).value();
    case UnaryOp::Sigmoid: return native.sigmoid(x).value();
    case UnaryOp::Erf: return native.erf(x).value();
    default: break;
  }
  const Number original = x;
  if (single) x = x.extend_float();
  Functions wide(builder, target, x.value()->getType());
  Number result;
  switch (op) {
    case UnaryOp::Sin:
    case UnaryOp::Cos:
    case UnaryOp::Tan: {
      const auto [sine, cosine] =
          wide.sin_cos(single ? reduce_single(builder, original, x) : reduce_double(builder, x));
      result = op == UnaryOp::Sin ? sine : op == UnaryOp::Cos ? cosine : sine / cosine;
      // Infinities have no result; -0 keeps its sign.
      result = select(x.abs() < kInfinity, result, x.nan());
      if (op != UnaryOp::Cos) result = select(x == 0, x, result);
      break;
    }
    case UnaryOp::Asin:
    case UnaryOp::Acos: {
      const Number side = ((x.same(1) - x) * (x + 1)).sqrt();
      result = op == UnaryOp::Asin ? wide.atan2(x, side) : wide.atan2(side, x);
      break;
    }
    case UnaryOp::Atan: result = wide.atan2(x, x.same(1)); break;
    case UnaryOp::Sinh: result = wide.sinh(x); break;
    case UnaryOp::Cosh: result = wide.cosh(x); break;
    case UnaryOp::Asinh: result = wide.asinh(x); break;
    case UnaryOp::Acosh: result = wide.acosh(x); break;
    case UnaryOp::Atanh: result = wide.atanh(x); break;
    case UnaryOp::Log1p: result = wide.log1p(x); break;
    default: fail(ErrorKind::Internal, "internal error: no code for the function ", name_of(op));
  }
  return single ? result.truncate_float().value() : result.value();
}

llvm::Value* emit_exp_of_nonpositive(Builder& builder, const Target& target, llvm::Value* x) {
  return Functions(builder, target, x->getType()).exp_of_nonpositive(Number(builder, x)).value();
}

llvm::Value* emit_function(Builder& builder, const Target& target, BinaryOp op, llvm::Value* a,
                           llvm::Value* b) {
  const bool single = a->getType()->getScalarType()->isFloatTy();
  Number x(builder, a), y(builder, b);
  if (single) x = x.extend_float(), y = y.extend_float();
  Functions wide(builder, target, x.value()->getType());
  Number result;
  switch (op) {
    case BinaryOp::Pow: result = wide.pow(x, y, !single); break;
    case BinaryOp::Atan2: result = wide.atan2(x, y); break;
    default: fail(ErrorKind::Internal, "internal error: no code for the function ", name_of(op));
  }
  return single ? result.truncate_float().value() : result.value();
}

}  // namespace tc
