// Reduction of the arguments of sin, cos and tan to an octant around a multiple of a right angle.
#include "codegen/llvm/emit/range_reduction.h"

#include <cmath>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "ir/math_tables.h"

namespace tc {
namespace {

constexpr double kMagic = 0x1.8p52;  // a sum with it is rounded to an integer, whose value is in the low bits

// x + low - k pi/2, with pi/2 in three parts. Accurate up to about 2^30, where k has few bits.
Angle reduce_by_parts(Number x, Number low) {
  const Number rounded = fma(x, x.same(M_2_PI), x.same(kMagic));
  const Number k = rounded - kMagic;
  Number r = fma(k, x.same(-0x1.921fb54442d18p+0), x);
  const Number high = r;
  r = fma(k, x.same(-0x1.1a62633145c07p-54), high + low);
  r = fma(k, x.same(0x1.f1976b7ed8fbcp-110), r);
  return {r, rounded.bits()};
}

// A constant table of the module, made where it is asked for first.
llvm::GlobalVariable* table_of(Builder& builder, const std::string& name,
                               const std::vector<double>& numbers) {
  llvm::Module* module = builder.GetInsertBlock()->getModule();
  if (llvm::GlobalVariable* table = module->getGlobalVariable(name, true)) return table;
  llvm::Constant* data = llvm::ConstantDataArray::get(builder.getContext(), numbers);
  return new llvm::GlobalVariable(*module, data->getType(), true, llvm::GlobalValue::InternalLinkage, data,
                                  name);
}

// The values of `other`, which is emitted under a branch, where the condition holds in some lane; else
// `values`.
std::vector<Number> where_any(Builder& builder, Number condition, const std::vector<Number>& values,
                              const std::function<std::vector<Number>()>& other) {
  llvm::Value* any = condition.value();
  if (any->getType()->isVectorTy()) any = builder.CreateOrReduce(any);
  llvm::LLVMContext& context = builder.getContext();
  llvm::BasicBlock* before = builder.GetInsertBlock();
  llvm::BasicBlock* reduce = llvm::BasicBlock::Create(context, "reduce", before->getParent());
  llvm::BasicBlock* after = llvm::BasicBlock::Create(context, "reduce.end", before->getParent());
  builder.CreateCondBr(any, reduce, after);
  builder.SetInsertPoint(reduce);
  const std::vector<Number> made = other();
  llvm::BasicBlock* end = builder.GetInsertBlock();
  builder.CreateBr(after);
  builder.SetInsertPoint(after);
  std::vector<Number> result;
  for (size_t i = 0; i < values.size(); ++i) {
    llvm::PHINode* phi = builder.CreatePHI(values[i].value()->getType(), 2);
    phi->addIncoming(values[i].value(), before);
    phi->addIncoming(made[i].value(), end);
    result.emplace_back(builder, phi);
  }
  return result;
}

// The nearest integer of a number below 2^51.
Number nearest(Number x) { return (x + kMagic) - kMagic; }

// a + b, and its rounding error, whichever of both is larger.
std::pair<Number, Number> sum_of(Number a, Number b) {
  const Number sum = a + b, rest = sum - a;
  return {sum, (a - (sum - rest)) + (b - rest)};
}

// The reduction of Payne and Hanek: x times 2/pi, of which only those digits are multiplied whose products
// are no multiples of four right angles.
//
// x = X 2^(26 a) with an integer X of up to 79 bits, the sum of x_i 2^(26 i), i = 0 .. 2. 2/pi is the sum of
// d_j 2^(-26 j), with digits of up to 2^25. The products x_i d_j with j - i - a = s have the weight 2^(-26
// s): column s, whose sum is exact in f64. Columns of s < 0 are multiples of 2^26. No double is nearer to a
// multiple of pi/2 than about 2^-61, so that columns up to 6 do.
class DigitReduction {
 public:
  DigitReduction(Builder& builder, Number x, Number wanted) : builder_(builder), x_(x), wanted_(wanted) {}

  Angle run() {
    constexpr int kColumns = 7;
    split();
    std::vector<Number> columns;
    for (int s = 0; s < kColumns; ++s) {
      Number sum = parts_[0] * digit(s);
      for (int i = 1; i < kParts; ++i) sum = fma(parts_[static_cast<size_t>(i)], digit(s + i), sum);
      columns.push_back(sum * std::ldexp(1.0, -kDigitBits * s));
    }
    // Multiples of four quadrants are dropped; the sum of the first three columns then has less than 53 bits
    // after the quadrant.
    const Number whole = columns[0] - nearest(columns[0] * 0.25) * 4,
                 large = columns[1] - nearest(columns[1] * 0.25) * 4;
    const Number start = whole + large, rounded = (start + columns[2]) + kMagic;
    const Number first = (start - (rounded - kMagic)) + columns[2];
    const auto [second, second_rest] = sum_of(first, columns[3]);
    const auto [third, third_rest] = sum_of(second, columns[4]);
    const Number rest = second_rest + third_rest + (columns[5] + columns[6]);
    // The remainder in right angles, times pi/2 in two parts.
    const Number high = third + rest, low = rest - (high - third);
    const Number product = high * M_PI_2;
    const Number tail =
        fma(high, x_.same(M_PI_2), -product) + fma(high, x_.same(0x1.1a62633145c07p-54), low * M_PI_2);
    return {product + tail, rounded.bits()};
  }

 private:
  static constexpr int kDigitBits = 26, kParts = 3, kBias = 1023, kMantissa = 52;

  // Splits x into its power of two, which determines the first digit, and the parts of X.
  void split() {
    const Number biased =
        select(wanted_, x_.bits().shift_right(kMantissa) & 2047, x_.bits().same(kBias + kMantissa));
    // a + 1: the quotient by 26 of a number below 1,000.
    index_ = biased.minus(kBias + kMantissa - kDigitBits).times(2521).shift_right(16);
    const Number scale =
        (index_.times(-kDigitBits) + index_.same(kBias + kDigitBits)).shift_left(kMantissa).as_float();
    Number left = x_ * scale;
    for (int i = kParts - 1; i > 0; --i) {
      const double power = std::ldexp(1.0, kDigitBits * i);
      const Number part = nearest(left * (1 / power));
      left = left - part * power;
      parts_[static_cast<size_t>(i)] = part;
    }
    parts_[0] = left;
  }

  // d_j for j = a + offset.
  Number digit(int offset) {
    while (static_cast<int>(digits_.size()) <= offset) {
      llvm::GlobalVariable* table = table_of(builder_, "digits.of.two.over.pi",
                                             {std::begin(kTwoOverPiDigits), std::end(kTwoOverPiDigits)});
      digits_.push_back(x_.gather(table, index_ + index_.same(static_cast<double>(digits_.size()))));
    }
    return digits_[static_cast<size_t>(offset)];
  }

  Builder& builder_;
  Number x_, wanted_, index_;
  Number parts_[kParts];
  std::vector<Number> digits_;
};

}  // namespace

Angle reduce_double(Builder& builder, Number x) {
  const Number size = x.abs();
  const Number large = (size >= 0x1p30) & (size < HUGE_VAL);
  const Angle small = reduce_by_parts(x, x.same(0));
  const std::vector<Number> reduced = where_any(builder, large, {small.angle, small.quadrant}, [&] {
    const Angle exact = DigitReduction(builder, x, large).run();
    return std::vector<Number>{select(large, exact.angle, small.angle),
                               select(large, exact.quadrant, small.quadrant)};
  });
  return {reduced[0], reduced[1]};
}

// A large f32 is replaced by the sum of two f64 that equals it modulo 2 pi: its mantissa times its power of
// two modulo 2 pi.
Angle reduce_single(Builder& builder, Number single, Number wide) {
  const Number large = single.abs() >= 0x1p28;
  const std::vector<Number> reduced = where_any(builder, large, {wide, wide.same(0)}, [&] {
    std::vector<double> numbers;
    for (const auto& row : kPowersModuloTwoPi) numbers.insert(numbers.end(), {row[0], row[1]});
    llvm::GlobalVariable* table = table_of(builder, "powers.modulo.two.pi", numbers);
    // |x| = mantissa * 2^exponent with an integer mantissa of 24 bits.
    const Number bits = single.bits();
    const Number biased = bits.shift_right(23) & 255;
    const Number finite_and_large = large & (biased < 255);
    const Number exponent = select(finite_and_large, biased - (127 + 23), biased.same(0)).extend();
    const Number mantissa = ((bits & 0x7fffff) | 0x800000).to_double().copy_sign(wide);
    const Number high = wide.gather(table, exponent.times(2));
    const Number low = wide.gather(table, exponent.times(2) + 1);
    const Number product = mantissa * high;
    const Number tail = fma(mantissa, low, fma(mantissa, high, -product));
    return std::vector<Number>{select(large, product, wide), select(large, tail, wide.same(0))};
  });
  return reduce_by_parts(reduced[0], reduced[1]);
}

}  // namespace tc
