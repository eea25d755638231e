// Conversions between f32 and floats of 8 and 4 bits on LLVM values, by integer arithmetic on the bits.
#include <cmath>

#include "codegen/llvm/emit/narrow_float_conversions.h"
#include "ir/narrow_float.h"

namespace tc {
namespace {

using Special = NarrowFloat::Special;

constexpr int kMantissaBits = 23;  // of f32, like the following constants
constexpr int kBias = 127;
constexpr int64_t kInfinity = int64_t{255} << kMantissaBits;
constexpr int64_t kNan = kInfinity + (int64_t{1} << (kMantissaBits - 1));
constexpr int64_t kMagnitude = 0x7fffffff;

llvm::Constant* same_int(llvm::Value* like, int64_t value) {
  return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(value));
}

}  // namespace

// The bits are the exponent of an f32, except for 2^-127 and NaN.
llvm::Value* NarrowFloats::exponent_to_float(llvm::Value* a) {
  const int lanes = lanes_of(a);
  llvm::LLVMContext& context = builder_.getContext();
  llvm::Value* word = builder_.CreateZExt(a, widen(llvm::Type::getInt32Ty(context), lanes));
  llvm::Value* result = builder_.CreateShl(word, same_int(word, kMantissaBits));
  result = builder_.CreateSelect(builder_.CreateICmpEQ(word, same_int(word, 0)),
                                 same_int(word, int64_t{1} << (kMantissaBits - 1)), result);
  result = builder_.CreateSelect(builder_.CreateICmpEQ(word, same_int(word, kExponentNan)),
                                 same_int(word, kNan), result);
  return builder_.CreateBitCast(result, widen(llvm::Type::getFloatTy(context), lanes));
}

// Adds half of a unit of the exponent, so that halves round up; for subnormal numbers that is a quarter.
llvm::Value* NarrowFloats::float_to_exponent(llvm::Value* a) {
  const int lanes = lanes_of(a);
  llvm::LLVMContext& context = builder_.getContext();
  llvm::Value* word = builder_.CreateBitCast(a, widen(llvm::Type::getInt32Ty(context), lanes));
  llvm::Value* magnitude = builder_.CreateAnd(word, same_int(word, kMagnitude));
  llvm::Value* is_small = builder_.CreateICmpULT(magnitude, same_int(word, int64_t{1} << kMantissaBits));
  llvm::Value* half = builder_.CreateSelect(is_small, same_int(word, int64_t{1} << (kMantissaBits - 2)),
                                            same_int(word, int64_t{1} << (kMantissaBits - 1)));
  llvm::Value* result =
      builder_.CreateLShr(builder_.CreateAdd(magnitude, half), same_int(word, kMantissaBits));
  result = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, result, same_int(word, kExponentNan));
  return builder_.CreateTrunc(result, widen(llvm::Type::getInt8Ty(context), lanes));
}

llvm::Value* NarrowFloats::to_float(DType from, llvm::Value* a) {
  if (from == DType::F8E8M0) return exponent_to_float(a);
  const NarrowFloat format = narrow_float(from);
  const int lanes = lanes_of(a), shift = kMantissaBits - format.mantissa_bits;
  llvm::LLVMContext& context = builder_.getContext();
  llvm::Type* single = widen(llvm::Type::getFloatTy(context), lanes);
  llvm::Value* word = builder_.CreateZExt(a, widen(llvm::Type::getInt32Ty(context), lanes));
  llvm::Value* sign = builder_.CreateShl(builder_.CreateAnd(word, same_int(word, format.sign())),
                                         same_int(word, 31 - format.magnitude_bits()));
  llvm::Value* magnitude = builder_.CreateAnd(word, same_int(word, format.sign() - 1));
  llvm::Value* moved = builder_.CreateShl(magnitude, same_int(word, shift));
  llvm::Value* result =
      builder_.CreateAdd(moved, same_int(word, int64_t{kBias - format.bias} << kMantissaBits));
  // Subnormal: the mantissa as an integer times the unit of the last place.
  llvm::Value* small = builder_.CreateFMul(
      builder_.CreateUIToFP(magnitude, single),
      llvm::ConstantFP::get(single, std::ldexp(1.0, 1 - format.bias - format.mantissa_bits)));
  result = builder_.CreateSelect(
      builder_.CreateICmpULT(magnitude, same_int(word, int64_t{1} << format.mantissa_bits)),
      builder_.CreateBitCast(small, word->getType()), result);
  if (format.special == Special::Ieee || format.special == Special::LargestIsNan) {
    llvm::Value* beyond = builder_.CreateICmpUGT(magnitude, same_int(word, format.largest()));
    result = builder_.CreateSelect(beyond, same_int(word, kNan), result);
  }
  if (format.special == Special::Ieee) {
    llvm::Value* infinite = builder_.CreateICmpEQ(magnitude, same_int(word, format.overflow()));
    result = builder_.CreateSelect(infinite, same_int(word, kInfinity), result);
  }
  result = builder_.CreateOr(result, sign);
  if (format.special == Special::ZeroIsNan) {
    result = builder_.CreateSelect(builder_.CreateICmpEQ(word, same_int(word, format.nan())),
                                   same_int(word, kNan), result);
  }
  return builder_.CreateBitCast(result, single);
}

llvm::Value* NarrowFloats::from_float(DType to, llvm::Value* a) {
  if (to == DType::F8E8M0) return float_to_exponent(a);
  const NarrowFloat format = narrow_float(to);
  const int lanes = lanes_of(a), shift = kMantissaBits - format.mantissa_bits;
  llvm::LLVMContext& context = builder_.getContext();
  llvm::Value* word = builder_.CreateBitCast(a, widen(llvm::Type::getInt32Ty(context), lanes));
  llvm::Value* magnitude = builder_.CreateAnd(word, same_int(word, kMagnitude));
  llvm::Value* sign = builder_.CreateAnd(
      builder_.CreateLShr(word, same_int(word, 31 - format.magnitude_bits())), same_int(word, format.sign()));
  // Normal results: rebias the exponent and round the lost bits to nearest even.
  llvm::Value* even =
      builder_.CreateAnd(builder_.CreateLShr(magnitude, same_int(word, shift)), same_int(word, 1));
  llvm::Value* rebiased =
      builder_.CreateSub(magnitude, same_int(word, int64_t{kBias - format.bias} << kMantissaBits));
  llvm::Value* half = builder_.CreateAdd(even, same_int(word, (int64_t{1} << (shift - 1)) - 1));
  llvm::Value* normal = builder_.CreateLShr(builder_.CreateAdd(rebiased, half), same_int(word, shift));
  // Subnormal results: adding a number whose unit in the last place is that of the results leaves the
  // result, rounded, in the low bits.
  const int exponent = kMantissaBits + 1 - format.bias - format.mantissa_bits;
  llvm::Value* sum = builder_.CreateFAdd(builder_.CreateBitCast(magnitude, a->getType()),
                                         llvm::ConstantFP::get(a->getType(), std::ldexp(1.0, exponent)));
  llvm::Value* subnormal = builder_.CreateSub(builder_.CreateBitCast(sum, word->getType()),
                                              same_int(word, int64_t{exponent + kBias} << kMantissaBits));
  llvm::Value* is_small =
      builder_.CreateICmpULT(magnitude, same_int(word, int64_t{kBias - format.bias + 1} << kMantissaBits));
  llvm::Value* result = builder_.CreateSelect(is_small, subnormal, normal);
  result = builder_.CreateSelect(builder_.CreateICmpUGT(result, same_int(word, format.largest())),
                                 same_int(word, format.overflow()), result);
  if (format.special == Special::ZeroIsNan) {
    sign = builder_.CreateSelect(builder_.CreateICmpEQ(result, same_int(word, 0)), same_int(word, 0), sign);
  }
  result = builder_.CreateOr(result, sign);
  result = builder_.CreateSelect(builder_.CreateICmpUGT(magnitude, same_int(word, kInfinity)),
                                 same_int(word, format.nan()), result);
  return builder_.CreateTrunc(result, widen(llvm::Type::getInt8Ty(context), lanes));
}

}  // namespace tc
