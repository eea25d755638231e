// Conversions between the loop IR's types on LLVM values, where a target's instructions do not have the
// meaning of the loop IR.
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "codegen/llvm/emit/arithmetic.h"
#include "codegen/llvm/emit/narrow_float_conversions.h"
#include "codegen/llvm/units/riscv_vector_instructions.h"

namespace tc {

// Vector conversions with a static rounding towards zero crash qemu 7.2 with an assertion; those that take
// the current rounding mode do not. Vectors on RISC-V avoid the former.
bool Arithmetic::avoids_truncating_conversions(llvm::Value* a) const {
  return target_.is_riscv() && target_.vector_bits > 0 && a->getType()->isVectorTy();
}

llvm::Value* Arithmetic::truncate(llvm::Value* a) {
  if (!avoids_truncating_conversions(a)) {
    return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, a);
  }
  llvm::Value* magnitude = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
  return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign,
                                        builder_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, magnitude), a);
}

// Float to integer by adding 1.5 * 2^52, which leaves a whole number of less than 51 bits in the low
// bits of the sum; 64-bit results are put together from two halves.
llvm::Value* Arithmetic::float_to_integer_by_sum(DType to, llvm::Value* a) {
  llvm::LLVMContext& context = builder_.getContext();
  const int lanes = lanes_of(a);
  llvm::Type* wide = widen(llvm::Type::getDoubleTy(context), lanes);
  llvm::Type* words = widen(llvm::Type::getInt64Ty(context), lanes);
  llvm::Type* type = widen(value_type(context, to), lanes);
  auto whole_bits = [&](llvm::Value* whole) {
    constexpr double kMagic = 0x1.8p52;
    llvm::Value* sum = builder_.CreateFAdd(whole, same(whole, kMagic));
    return builder_.CreateSub(builder_.CreateBitCast(sum, words),
                              builder_.CreateBitCast(same(whole, kMagic), words));
  };
  llvm::Value* x = builder_.CreateFPCast(a, wide);
  x = truncate(builder_.CreateSelect(builder_.CreateFCmpORD(x, x), x, same(x, 0)));
  const int64_t bits = 8 * size_of(to);
  const double limit = std::ldexp(1.0, static_cast<int>(is_signed(to) ? bits - 1 : bits));
  const double low = is_signed(to) ? -limit : 0;
  if (bits < 64) {
    x = builder_.CreateSelect(builder_.CreateFCmpOGT(x, same(x, limit - 1)), same(x, limit - 1), x);
    x = builder_.CreateSelect(builder_.CreateFCmpOLT(x, same(x, low)), same(x, low), x);
    return builder_.CreateTrunc(whole_bits(x), type);
  }
  llvm::Value* above = builder_.CreateFCmpOGE(x, same(x, limit));
  llvm::Value* below = builder_.CreateFCmpOLT(x, same(x, low));
  x = builder_.CreateSelect(builder_.CreateOr(above, below), same(x, 0), x);
  llvm::Value* high =
      builder_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, builder_.CreateFMul(x, same(x, 0x1p-32)));
  llvm::Value* rest = builder_.CreateFSub(x, builder_.CreateFMul(high, same(x, 0x1p32)));
  llvm::Value* result = builder_.CreateAdd(
      builder_.CreateShl(whole_bits(high), same_int(whole_bits(high), 32)), whole_bits(rest));
  const int64_t highest = is_signed(to) ? std::numeric_limits<int64_t>::max() : -1;
  const int64_t lowest = is_signed(to) ? std::numeric_limits<int64_t>::min() : 0;
  result = builder_.CreateSelect(above, same_int(result, highest), result);
  return builder_.CreateSelect(below, same_int(result, lowest), result);
}

llvm::Value* Arithmetic::double_to_float_odd(llvm::Value* a) {
  llvm::LLVMContext& context = builder_.getContext();
  const int lanes = lanes_of(a);
  llvm::Type* single = widen(llvm::Type::getFloatTy(context), lanes);
  llvm::Type* bits = widen(llvm::Type::getInt32Ty(context), lanes);
  llvm::Value* nearest = builder_.CreateFPTrunc(a, single);
  llvm::Value* back = builder_.CreateFPExt(nearest, a->getType());
  llvm::Value* word = builder_.CreateBitCast(nearest, bits);
  // Where rounding went away from zero, goes back towards zero; then the last bit says "inexact".
  llvm::Value* away = builder_.CreateFCmpOGT(builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                             builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a));
  llvm::Value* towards = builder_.CreateSub(word, builder_.CreateZExt(away, bits));
  llvm::Value* inexact = builder_.CreateFCmpONE(back, a);
  llvm::Value* odd = builder_.CreateOr(towards, builder_.CreateZExt(inexact, bits));
  return builder_.CreateBitCast(odd, single);
}

// By an instruction of AVX-512-BF16, for half a register, one register, or two at once; null for other
// widths.
llvm::Value* Arithmetic::float_to_bfloat_by_instruction(llvm::Value* a) {
  constexpr int kWhole = 16;  // lanes of a register
  const int lanes = lanes_of(a);
  const auto part = [&](int first, int count) {
    llvm::SmallVector<int, 32> mask(static_cast<size_t>(count));
    std::iota(mask.begin(), mask.end(), first);
    return builder_.CreateShuffleVector(a, mask);
  };
  llvm::Value* result = nullptr;
  if (lanes == kWhole / 2) {
    result = builder_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_256, {}, {a});
  } else if (lanes == kWhole) {
    result = builder_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {a});
  } else if (lanes == 2 * kWhole) {
    // The second operand becomes the lower half.
    result = builder_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {},
                                      {part(kWhole, kWhole), part(0, kWhole)});
  } else {
    return nullptr;
  }
  return builder_.CreateBitCast(result, widen(llvm::Type::getInt16Ty(builder_.getContext()), lanes));
}

// Whether the target's features contain this one, with its sign (+ or -).
static bool says(const Target& target, const std::string& feature) {
  return ("," + target.features + ",").find("," + feature + ",") != std::string::npos;
}

// Whether the target has instructions that convert halves. On RISC-V scalars are converted by Zfhmin, which
// Zfh and Zvfh imply, and vectors by Zvfhmin, which Zvfh implies; without vector registers LLVM splits
// vectors into scalars.
static bool has_half_conversions(const Target& target, llvm::Value* a) {
  if (target.arch == Arch::X86_64) return true;
  if (!target.is_riscv()) return false;
  const auto has = [&](const char* feature) { return says(target, feature); };
  if (a->getType()->isVectorTy() && target.vector_bits > 0)
    return (has("+zvfh") || has("+zvfhmin")) && !has("-zvfhmin");
  return (has("+zfh") || has("+zfhmin") || has("+zvfh")) && !has("-zfhmin");
}

// Whether vectors are converted to bfloat16 and from it by Zvfbfmin, which Zvfbfwma implies.
static bool has_bfloat_conversions(const Target& target, llvm::Value* a) {
  const auto has = [&](const char* feature) { return says(target, feature); };
  return target.is_riscv() && a->getType()->isVectorTy() && (has("+zvfbfmin") || has("+zvfbfwma")) &&
         !has("-zvfbfmin");
}

llvm::Value* Arithmetic::float_to_bfloat(llvm::Value* a) {
  if (bfloats_flush_) {
    if (llvm::Value* result = float_to_bfloat_by_instruction(a)) return result;
  }
  llvm::LLVMContext& context = builder_.getContext();
  const int lanes = lanes_of(a);
  if (has_bfloat_conversions(target_, a)) {
    llvm::Value* short_float = builder_.CreateFPTrunc(a, widen(llvm::Type::getBFloatTy(context), lanes));
    return builder_.CreateBitCast(short_float, widen(llvm::Type::getInt16Ty(context), lanes));
  }
  llvm::Type* bits = widen(llvm::Type::getInt32Ty(context), lanes);
  llvm::Value* word = builder_.CreateBitCast(a, bits);
  llvm::Value* even = builder_.CreateAnd(builder_.CreateLShr(word, same_int(word, 16)), same_int(word, 1));
  llvm::Value* rounded = builder_.CreateAdd(word, builder_.CreateAdd(even, same_int(word, 0x7fff)));
  llvm::Value* quiet = builder_.CreateOr(word, same_int(word, 0x400000));
  rounded = builder_.CreateSelect(builder_.CreateFCmpUNO(a, a), quiet, rounded);
  return builder_.CreateTrunc(builder_.CreateLShr(rounded, same_int(word, 16)),
                              widen(llvm::Type::getInt16Ty(context), lanes));
}

// Integer arithmetic on the bits, for targets without half conversions as well: the float is scaled
// so that the adder rounds at the half's last bit.
llvm::Value* Arithmetic::float_to_half(llvm::Value* a) {
  llvm::LLVMContext& context = builder_.getContext();
  const int lanes = lanes_of(a);
  llvm::Type* half_bits = widen(llvm::Type::getInt16Ty(context), lanes);
  if (has_half_conversions(target_, a)) {
    return builder_.CreateBitCast(builder_.CreateFPTrunc(a, widen(llvm::Type::getHalfTy(context), lanes)),
                                  half_bits);
  }
  llvm::Type* bits = widen(llvm::Type::getInt32Ty(context), lanes);
  llvm::Value* word = builder_.CreateBitCast(a, bits);
  llvm::Value* magnitude = builder_.CreateAnd(word, same_int(word, 0x7fffffff));
  llvm::Value* sign =
      builder_.CreateAnd(builder_.CreateLShr(word, same_int(word, 16)), same_int(word, 0x8000));
  // Normal results: rebias the exponent and round the 13 lost bits to nearest even.
  llvm::Value* even =
      builder_.CreateAnd(builder_.CreateLShr(magnitude, same_int(word, 13)), same_int(word, 1));
  llvm::Value* normal = builder_.CreateLShr(
      builder_.CreateAdd(builder_.CreateSub(magnitude, same_int(word, int64_t{112} << 23)),
                         builder_.CreateAdd(even, same_int(word, 0xfff))),
      same_int(word, 13));
  // Subnormal results: adding 0.5 leaves the result, rounded, in the float's low bits.
  llvm::Value* absolute = builder_.CreateBitCast(magnitude, a->getType());
  llvm::Value* shifted = builder_.CreateFAdd(absolute, same(a, 0.5));
  llvm::Value* subnormal =
      builder_.CreateSub(builder_.CreateBitCast(shifted, bits), same_int(word, int64_t{126} << 23));
  llvm::Value* result = builder_.CreateSelect(
      builder_.CreateICmpULT(magnitude, same_int(word, int64_t{113} << 23)), subnormal, normal);
  result = builder_.CreateSelect(builder_.CreateICmpUGE(magnitude, same_int(word, int64_t{143} << 23)),
                                 same_int(word, 0x7c00), result);
  result = builder_.CreateSelect(builder_.CreateICmpUGT(magnitude, same_int(word, 0x7f800000)),
                                 same_int(word, 0x7e00), result);
  return builder_.CreateTrunc(builder_.CreateOr(result, sign), half_bits);
}

llvm::Value* Arithmetic::half_to_float(llvm::Value* a) {
  llvm::LLVMContext& context = builder_.getContext();
  const int lanes = lanes_of(a);
  llvm::Type* single = widen(llvm::Type::getFloatTy(context), lanes);
  if (has_half_conversions(target_, a)) {
    return builder_.CreateFPExt(builder_.CreateBitCast(a, widen(llvm::Type::getHalfTy(context), lanes)),
                                single);
  }
  llvm::Type* bits = widen(llvm::Type::getInt32Ty(context), lanes);
  if (has_riscv_vectors(target_, lanes)) {
    // Subnormal floats are as fast as others there, so that a product moves the exponent; it loses no bit.
    // What should be infinite or NaN is 2^16 or more, and gets the bits of the exponent that it lacks.
    llvm::Value* wide = builder_.CreateSExt(a, bits);
    llvm::Value* moved = builder_.CreateShl(wide, same_int(wide, 13));
    llvm::Value* unscaled = builder_.CreateAnd(moved, same_int(wide, 0x8fffffff));
    llvm::Value* scaled = builder_.CreateBitCast(
        builder_.CreateFMul(builder_.CreateBitCast(unscaled, single), llvm::ConstantFP::get(single, 0x1p112)),
        bits);
    llvm::Value* is_special =
        builder_.CreateICmpUGE(builder_.CreateAnd(a, same_int(a, 0x7fff)), same_int(a, 0x7c00));
    return builder_.CreateBitCast(
        builder_.CreateSelect(is_special, builder_.CreateOr(scaled, same_int(wide, 0x7f800000)), scaled),
        single);
  }
  llvm::Value* word = builder_.CreateZExt(a, bits);
  llvm::Value* sign =
      builder_.CreateShl(builder_.CreateAnd(word, same_int(word, 0x8000)), same_int(word, 16));
  llvm::Value* magnitude = builder_.CreateAnd(word, same_int(word, 0x7fff));
  llvm::Value* moved = builder_.CreateShl(magnitude, same_int(word, 13));
  llvm::Value* normal = builder_.CreateAdd(moved, same_int(word, int64_t{112} << 23));
  llvm::Value* special = builder_.CreateAdd(moved, same_int(word, int64_t{224} << 23));
  // Subnormal: the mantissa as an integer times 2^-24.
  llvm::Value* small =
      builder_.CreateFMul(builder_.CreateUIToFP(magnitude, single), llvm::ConstantFP::get(single, 0x1p-24));
  llvm::Value* result =
      builder_.CreateSelect(builder_.CreateICmpUGE(magnitude, same_int(word, 0x7c00)), special, normal);
  result = builder_.CreateSelect(builder_.CreateICmpULT(magnitude, same_int(word, 0x400)),
                                 builder_.CreateBitCast(small, bits), result);
  return builder_.CreateBitCast(builder_.CreateOr(result, sign), single);
}

// An integer of fewer than 8 bits, held in one of 8 bits whose other bits may be anything.
llvm::Value* Arithmetic::short_integer(DType dtype, llvm::Value* a) {
  const int64_t bits = bits_of(dtype);
  if (!is_signed(dtype)) return builder_.CreateAnd(a, same_int(a, (int64_t{1} << bits) - 1));
  return builder_.CreateAShr(builder_.CreateShl(a, same_int(a, 8 - bits)), same_int(a, 8 - bits));
}

// Converts to an integer of less than 8 bits: a float saturates, an integer keeps its low bits.
llvm::Value* Arithmetic::to_short_integer(DType from, DType to, llvm::Value* a) {
  llvm::Value* whole = cast(from, computed_type(to), a);
  if (!is_float(from)) return short_integer(to, whole);
  const int64_t bits = bits_of(to);
  if (!is_signed(to))
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, whole,
                                          same_int(whole, (int64_t{1} << bits) - 1));
  const int64_t limit = int64_t{1} << (bits - 1);
  whole = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, whole, same_int(whole, limit - 1));
  return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, whole, same_int(whole, -limit));
}

// Removes, from a result of `round_to_integer` to which constants may be added, the selection of zero for
// NaN: only the low 16 bits are used, and the least i32, which the instruction makes of a NaN, has zeros
// there as well.
llvm::Value* Arithmetic::low_bits_of_rounded(llvm::Value* a) {
  auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(a);
  if (sum != nullptr && sum->getOpcode() == llvm::Instruction::Add &&
      llvm::isa<llvm::Constant>(sum->getOperand(1))) {
    llvm::Value* rounded = low_bits_of_rounded(sum->getOperand(0));
    return rounded == sum->getOperand(0) ? a : builder_.CreateAdd(rounded, sum->getOperand(1));
  }
  auto* chosen = llvm::dyn_cast<llvm::SelectInst>(a);
  const auto* call =
      chosen == nullptr ? nullptr : llvm::dyn_cast<llvm::IntrinsicInst>(chosen->getTrueValue());
  if (call == nullptr || !llvm::isa<llvm::ConstantAggregateZero>(chosen->getFalseValue())) return a;
  switch (call->getIntrinsicID()) {
    case llvm::Intrinsic::x86_avx_cvt_ps2dq_256:
    case llvm::Intrinsic::x86_sse2_cvtps2dq:
    case llvm::Intrinsic::x86_avx512_mask_cvtps2dq_512: return chosen->getTrueValue();
    default: return a;
  }
}

// An integer of 64 bits as f32, rounded once, for targets with 32-bit addresses, where LLVM would call a
// library function. Takes up to 32 bits from the highest one of the magnitude, sets the last of them where a
// lower bit is set, converts them, and multiplies by a power of two.
static llvm::Value* long_integer_to_float(Builder& builder, llvm::Value* a, bool has_sign) {
  constexpr int64_t kWord = 32, kBias = 127, kMantissa = 23;
  const int lanes = lanes_of(a);
  llvm::LLVMContext& context = builder.getContext();
  const auto same = [&](int64_t value) {
    return llvm::ConstantInt::get(a->getType(), static_cast<uint64_t>(value));
  };
  llvm::Type *word = widen(llvm::Type::getInt32Ty(context), lanes),
             *single = widen(llvm::Type::getFloatTy(context), lanes);
  llvm::Value* negative = builder.CreateICmpSLT(a, same(0));
  llvm::Value* magnitude = has_sign ? builder.CreateSelect(negative, builder.CreateNeg(a), a) : a;
  llvm::Value* zeros = builder.CreateBinaryIntrinsic(
      llvm::Intrinsic::ctlz, builder.CreateLShr(magnitude, same(kWord)), builder.getFalse());
  llvm::Value* left_out = builder.CreateSub(same(2 * kWord), zeros);  // bits
  llvm::Value* high = builder.CreateLShr(magnitude, left_out);
  llvm::Value* rest = builder.CreateICmpNE(builder.CreateShl(high, left_out), magnitude);
  llvm::Value* bits = builder.CreateOr(builder.CreateTrunc(high, word), builder.CreateZExt(rest, word));
  llvm::Value* power =
      builder.CreateTrunc(builder.CreateShl(builder.CreateAdd(left_out, same(kBias)), same(kMantissa)), word);
  llvm::Value* result =
      builder.CreateFMul(builder.CreateUIToFP(bits, single), builder.CreateBitCast(power, single));
  return has_sign ? builder.CreateSelect(negative, builder.CreateFNeg(result), result) : result;
}

llvm::Value* Arithmetic::cast(DType from, DType to, llvm::Value* a) {
  if (from == to) return a;
  // LLVM makes integers of 64 bits of two lanes on MVE, and converts these by a library's functions.
  if (target_.arch == Arch::ArmM && target_.vector_bits > 0 && is_float(from) != is_float(to) &&
      lanes_of(a) == 2) {
    llvm::Value* four =
        builder_.CreateShuffleVector(a, llvm::Constant::getNullValue(a->getType()), {0, 1, 2, 3});
    return builder_.CreateShuffleVector(cast(from, to, four), {0, 1});
  }
  if (from == DType::I32 && is_integer(to) && size_of(to) <= 2) a = low_bits_of_rounded(a);
  llvm::LLVMContext& context = builder_.getContext();
  const int lanes = lanes_of(a);
  if (is_storage(from) && !is_float(from)) return cast(computed_type(from), to, short_integer(from, a));
  if (is_storage(to) && !is_float(to)) return to_short_integer(from, to, a);
  if (is_storage(from)) {
    llvm::Value* single = nullptr;
    if (from == DType::F16) {
      single = half_to_float(a);
    } else if (is_narrow_float(from)) {
      single = NarrowFloats(builder_).to_float(from, a);
    } else {
      llvm::Type* type = widen(llvm::Type::getFloatTy(context), lanes);
      if (has_bfloat_conversions(target_, a)) {
        single = builder_.CreateFPExt(
            builder_.CreateBitCast(a, widen(llvm::Type::getBFloatTy(context), lanes)), type);
      } else {
        llvm::Value* word = builder_.CreateZExt(a, widen(llvm::Type::getInt32Ty(context), lanes));
        single = builder_.CreateBitCast(builder_.CreateShl(word, same_int(word, 16)), type);
      }
    }
    return cast(DType::F32, to, single);
  }
  if (is_storage(to)) {
    if (from != DType::F32 && from != DType::F64) {
      // A float holds every number of 16 bits exactly, which serves targets without doubles.
      const DType wide = target_.word_bits == 32 && size_of(from) <= 2 ? DType::F32 : DType::F64;
      a = cast(from, wide, a);
      from = wide;
    }
    if (from == DType::F64) a = double_to_float_odd(a);
    if (is_narrow_float(to)) return NarrowFloats(builder_).from_float(to, a);
    return to == DType::F16 ? float_to_half(a) : float_to_bfloat(a);
  }
  llvm::Type* type = widen(value_type(context, to), lanes);
  if (to == DType::Bool) {
    return is_float(from) ? builder_.CreateFCmpUNE(a, same(a, 0)) : builder_.CreateICmpNE(a, same_int(a, 0));
  }
  if (is_float(from)) {
    if (is_float(to)) return builder_.CreateFPCast(a, type);
    const bool is_short =
        a->getType()->isVectorTy() && size_of(to) <= 4 && (is_signed(to) || size_of(to) < 4);
    // Conversion by a sum needs doubles, which targets with 32-bit addresses lack.
    const bool by_sum = avoids_truncating_conversions(a) && !(is_short && target_.word_bits == 32);
    if (by_sum) return float_to_integer_by_sum(to, a);
    if (is_short) return float_to_short_integer(to, a);
    return builder_.CreateIntrinsic(is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
                                    {type, a->getType()}, {a});
  }
  if (is_float(to)) {
    if (target_.word_bits == 32 && to == DType::F32 && size_of(from) == 8)
      return long_integer_to_float(builder_, a, is_signed(from));
    return is_signed(from) ? builder_.CreateSIToFP(a, type) : builder_.CreateUIToFP(a, type);
  }
  return builder_.CreateIntCast(a, type, is_signed(from));
}

// Whether the number is the minimum with a constant that fits an i32, in the form that `extremum` emits: it
// is then no larger than that, or NaN.
static bool stays_below_limit(llvm::Value* number) {
  const auto* chosen = llvm::dyn_cast<llvm::SelectInst>(number);
  const auto* compared = chosen == nullptr ? nullptr : llvm::dyn_cast<llvm::FCmpInst>(chosen->getCondition());
  const auto* end = chosen == nullptr ? nullptr : llvm::dyn_cast<llvm::Constant>(chosen->getTrueValue());
  if (compared == nullptr || end == nullptr || !end->getType()->isVectorTy() ||
      compared->getPredicate() != llvm::CmpInst::FCMP_OLT || compared->getOperand(0) != end ||
      compared->getOperand(1) != chosen->getFalseValue()) {
    return false;
  }
  const auto* most = llvm::dyn_cast_or_null<llvm::ConstantFP>(end->getSplatValue());
  return most != nullptr && most->getValueAPF().convertToFloat() < 0x1p31F;
}

// Converts a vector of rounded f32 with the instruction that rounds while it converts, applied to the vector
// before rounding; null where there is none. A number outside of i32 becomes the least i32, a NaN zero.
llvm::Value* Arithmetic::round_to_integer(llvm::Value* a) {
  const auto* rounded = llvm::dyn_cast<llvm::IntrinsicInst>(a);
  const int lanes = lanes_of(a);
  if (target_.arch != Arch::X86_64 || rounded == nullptr ||
      rounded->getIntrinsicID() != llvm::Intrinsic::roundeven ||
      !a->getType()->getScalarType()->isFloatTy() || 32 * lanes > target_.vector_bits) {
    return nullptr;
  }
  llvm::Value* number = rounded->getArgOperand(0);
  llvm::Value* whole = nullptr;
  llvm::Constant* zero =
      llvm::Constant::getNullValue(widen(llvm::Type::getInt32Ty(builder_.getContext()), lanes));
  if (lanes == 16) {
    constexpr int kCurrentRounding = 4;
    whole =
        builder_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_cvtps2dq_512, {},
                                 {number, zero, builder_.getInt16(-1), builder_.getInt32(kCurrentRounding)});
  } else if (lanes == 8 || lanes == 4) {
    whole = builder_.CreateIntrinsic(
        lanes == 8 ? llvm::Intrinsic::x86_avx_cvt_ps2dq_256 : llvm::Intrinsic::x86_sse2_cvtps2dq, {},
        {number});
  } else {
    return nullptr;
  }
  return builder_.CreateSelect(builder_.CreateFCmpORD(number, number), whole, zero);
}

// Four rounded f32 as i32 on MVE, whose instruction rounds, saturates, and makes zero of a NaN; null
// elsewhere.
static llvm::Value* convert_nearest(Builder& builder, const Target& target, llvm::Value* a) {
  const auto* rounded = llvm::dyn_cast<llvm::IntrinsicInst>(a);
  if (target.arch != Arch::ArmM || target.vector_bits == 0 || lanes_of(a) != 4 || rounded == nullptr ||
      rounded->getIntrinsicID() != llvm::Intrinsic::roundeven || !a->getType()->getScalarType()->isFloatTy())
    return nullptr;
  llvm::Type* whole = widen(builder.getInt32Ty(), 4);
  return builder.CreateIntrinsic(llvm::Function::lookupIntrinsicID("llvm.arm.mve.vcvtn"),
                                 {whole, a->getType()}, {builder.getInt32(0), rounded->getArgOperand(0)});
}

// LLVM converts with saturation lane by lane, so the numbers are clamped first.
llvm::Value* Arithmetic::float_to_short_integer(DType to, llvm::Value* a) {
  llvm::Value* nearest = to == DType::I32 ? convert_nearest(builder_, target_, a) : nullptr;
  if (nearest != nullptr) return nearest;
  const int bits = 8 * static_cast<int>(size_of(to)) - is_signed(to);
  const double limit = std::ldexp(1.0, bits);
  const bool single = a->getType()->getScalarType()->isFloatTy();
  // The largest number below the limit that the integer type can hold after truncation.
  const double most = single && bits > 24 ? limit - std::ldexp(1.0, bits - 24) : limit - 1;
  if (llvm::Value* whole = to == DType::I32 ? round_to_integer(a) : nullptr) {
    if (stays_below_limit(llvm::cast<llvm::IntrinsicInst>(a)->getArgOperand(0))) return whole;
    return builder_.CreateSelect(builder_.CreateFCmpOGE(a, same(a, limit)), same_int(whole, INT32_MAX),
                                 whole);
  }
  llvm::Constant* least = same(a, is_signed(to) ? -limit : 0);
  llvm::Value* number = builder_.CreateSelect(builder_.CreateFCmpORD(a, a), a, same(a, 0));
  llvm::Value* above = builder_.CreateSelect(builder_.CreateFCmpOGT(number, least), number, least);
  llvm::Value* inside =
      builder_.CreateSelect(builder_.CreateFCmpOLT(above, same(a, most)), above, same(a, most));
  llvm::Type* word = widen(llvm::Type::getInt32Ty(builder_.getContext()), lanes_of(a));
  llvm::Value* whole =
      avoids_truncating_conversions(a)
          ? builder_.CreateIntrinsic(llvm::Intrinsic::lrint, {word, a->getType()}, {truncate(inside)})
          : builder_.CreateFPToSI(inside, word);
  if (most < limit - 1)
    whole =
        builder_.CreateSelect(builder_.CreateFCmpOGE(a, same(a, limit)), same_int(whole, INT32_MAX), whole);
  return builder_.CreateIntCast(whole, widen(value_type(builder_.getContext(), to), lanes_of(a)),
                                is_signed(to));
}

}  // namespace tc
