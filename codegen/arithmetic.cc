// The scalar operators of the loop IR on LLVM values, lane by lane: their meaning is ir/loop.h's.
#include "codegen/arithmetic.h"

#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "codegen/math.h"
#include "ir/error.h"

namespace tc {
namespace {

int lanes_of(llvm::Value* value) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector == nullptr ? 1 : static_cast<int>(vector->getNumElements());
}

bool is_constant_number(llvm::Value* value) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(value);
  if (constant == nullptr) return false;
  if (constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  return number != nullptr && !number->isNaN();
}

}  // namespace

llvm::Constant* Arithmetic::same(llvm::Value* like, double value) {
  return llvm::ConstantFP::get(like->getType(), value);
}

llvm::Constant* Arithmetic::same_int(llvm::Value* like, int64_t value) {
  return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(value), true);
}

// Compares and selects so that the second operand is the result where the first is NaN or both are
// equal: exactly what x86's max and min instructions do.
llvm::Value* Arithmetic::extremum(bool maximum, DType dtype, llvm::Value* a, llvm::Value* b) {
  if (!is_float(dtype)) {
    const auto id = is_signed(dtype)
                        ? (maximum ? llvm::Intrinsic::smax : llvm::Intrinsic::smin)
                        : (maximum ? llvm::Intrinsic::umax : llvm::Intrinsic::umin);
    return builder_.CreateBinaryIntrinsic(id, a, b);
  }
  if (is_constant_number(b)) std::swap(a, b);
  if (target_.arch == Arch::X86_64 && a->getType()->isVectorTy() && !is_constant_number(a)) {
    // One instruction and, beside it, a test of a alone: a chain through b waits for the one.
    llvm::Value* best = builder_.CreateBinaryIntrinsic(maximum ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a, b);
    llvm::cast<llvm::Instruction>(best)->setHasNoSignedZeros(true);
    return best;
  }
  llvm::Value* wins = maximum ? builder_.CreateFCmpOGT(a, b) : builder_.CreateFCmpOLT(a, b);
  llvm::Value* best = builder_.CreateSelect(wins, a, b);
  if (is_constant_number(a)) return best;  // b's NaN is already kept
  return builder_.CreateSelect(builder_.CreateFCmpUNO(a, a), a, best);
}

llvm::Value* Arithmetic::unary(UnaryOp op, DType dtype, llvm::Value* a) {
  const bool is_f = is_float(dtype);
  auto intrinsic = [&](llvm::Intrinsic::ID id) { return builder_.CreateUnaryIntrinsic(id, a); };
  switch (op) {
    case UnaryOp::Neg: return is_f ? builder_.CreateFNeg(a) : builder_.CreateNeg(a);
    case UnaryOp::Abs:
      if (is_f) return intrinsic(llvm::Intrinsic::fabs);
      if (!is_signed(dtype)) return a;
      return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, builder_.getFalse());
    case UnaryOp::Sign: {
      if (is_f) {
        llvm::Value* sign = builder_.CreateSelect(builder_.CreateFCmpOGT(a, same(a, 0)), same(a, 1), a);
        return builder_.CreateSelect(builder_.CreateFCmpOLT(a, same(a, 0)), same(a, -1), sign);
      }
      llvm::Value* positive = is_signed(dtype) ? builder_.CreateICmpSGT(a, same_int(a, 0))
                                               : builder_.CreateICmpNE(a, same_int(a, 0));
      llvm::Value* sign = builder_.CreateZExt(positive, a->getType());
      if (!is_signed(dtype)) return sign;
      llvm::Value* negative = builder_.CreateICmpSLT(a, same_int(a, 0));
      return builder_.CreateOr(sign, builder_.CreateSExt(negative, a->getType()));
    }
    case UnaryOp::Floor: return is_f ? intrinsic(llvm::Intrinsic::floor) : a;
    case UnaryOp::Ceil: return is_f ? intrinsic(llvm::Intrinsic::ceil) : a;
    case UnaryOp::Round: return is_f ? intrinsic(llvm::Intrinsic::roundeven) : a;
    case UnaryOp::Trunc: return is_f ? truncate(a) : a;
    case UnaryOp::Sqrt: return intrinsic(llvm::Intrinsic::sqrt);
    case UnaryOp::Not:
      if (dtype == DType::Bool) return builder_.CreateNot(a);
      return builder_.CreateZExt(builder_.CreateICmpEQ(a, same_int(a, 0)), a->getType());
    case UnaryOp::BitNot: return builder_.CreateNot(a);
    case UnaryOp::IsNan:
      return is_f ? builder_.CreateFCmpUNO(a, a)
                  : builder_.CreateICmpNE(a, a);
    case UnaryOp::IsInf:
      if (!is_f) return builder_.CreateICmpNE(a, a);
      return builder_.CreateFCmpOEQ(intrinsic(llvm::Intrinsic::fabs),
                                    same(a, std::numeric_limits<double>::infinity()));
    default: break;
  }
  TC_CHECK(dtype == DType::F32 || dtype == DType::F64, "for the function ", name_of(op));
  return emit_function(builder_, target_, op, a);
}

// Conversions of vectors that round towards zero by themselves end qemu 7.2 with an assertion; the
// ones that take the current rounding mode do not. Vectors on RISC-V go without the former.
bool Arithmetic::avoids_truncating_conversions(llvm::Value* a) const {
  return target_.arch == Arch::RiscV64 && a->getType()->isVectorTy();
}

llvm::Value* Arithmetic::truncate(llvm::Value* a) {
  if (!avoids_truncating_conversions(a)) {
    return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, a);
  }
  llvm::Value* magnitude = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
  return builder_.CreateBinaryIntrinsic(
      llvm::Intrinsic::copysign,
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
  llvm::Value* high = builder_.CreateUnaryIntrinsic(
      llvm::Intrinsic::floor, builder_.CreateFMul(x, same(x, 0x1p-32)));
  llvm::Value* rest = builder_.CreateFSub(x, builder_.CreateFMul(high, same(x, 0x1p32)));
  llvm::Value* result = builder_.CreateAdd(
      builder_.CreateShl(whole_bits(high), same_int(whole_bits(high), 32)), whole_bits(rest));
  const int64_t highest = is_signed(to) ? std::numeric_limits<int64_t>::max() : -1;
  const int64_t lowest = is_signed(to) ? std::numeric_limits<int64_t>::min() : 0;
  result = builder_.CreateSelect(above, same_int(result, highest), result);
  return builder_.CreateSelect(below, same_int(result, lowest), result);
}

llvm::Value* Arithmetic::compare(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b) {
  using P = llvm::CmpInst::Predicate;
  P predicate{};
  const bool f = is_float(dtype), s = is_signed(dtype);
  switch (op) {
    case BinaryOp::Eq: predicate = f ? P::FCMP_OEQ : P::ICMP_EQ; break;
    case BinaryOp::Ne: predicate = f ? P::FCMP_UNE : P::ICMP_NE; break;
    case BinaryOp::Lt: predicate = f ? P::FCMP_OLT : s ? P::ICMP_SLT : P::ICMP_ULT; break;
    case BinaryOp::Le: predicate = f ? P::FCMP_OLE : s ? P::ICMP_SLE : P::ICMP_ULE; break;
    case BinaryOp::Gt: predicate = f ? P::FCMP_OGT : s ? P::ICMP_SGT : P::ICMP_UGT; break;
    default: predicate = f ? P::FCMP_OGE : s ? P::ICMP_SGE : P::ICMP_UGE; break;
  }
  return builder_.CreateCmp(predicate, a, b);
}

llvm::Value* Arithmetic::float_binary(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b) {
  switch (op) {
    case BinaryOp::Add: return builder_.CreateFAdd(a, b);
    case BinaryOp::Sub: return builder_.CreateFSub(a, b);
    case BinaryOp::Mul: return builder_.CreateFMul(a, b);
    case BinaryOp::Div: return builder_.CreateFDiv(a, b);
    case BinaryOp::Max: return extremum(true, dtype, a, b);
    case BinaryOp::Min: return extremum(false, dtype, a, b);
    case BinaryOp::Fmod: return fmod(a, b);
    case BinaryOp::Mod: {
      llvm::Value* remainder = fmod(a, b);
      llvm::Value* nonzero = builder_.CreateFCmpUNE(remainder, same(a, 0));
      llvm::Value* opposite = builder_.CreateXor(builder_.CreateFCmpOLT(remainder, same(a, 0)),
                                                 builder_.CreateFCmpOLT(b, same(a, 0)));
      return builder_.CreateSelect(builder_.CreateAnd(nonzero, opposite),
                                   builder_.CreateFAdd(remainder, b), remainder);
    }
    case BinaryOp::Pow:
    case BinaryOp::Atan2: return emit_function(builder_, target_, op, a, b);
    default: break;
  }
  fail(ErrorKind::Internal, "internal error: ", name_of(op), " of ", name_of(dtype));
}

llvm::Value* Arithmetic::integer_binary(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b) {
  const bool is_s = is_signed(dtype);
  const int64_t width = a->getType()->getScalarSizeInBits();
  llvm::Constant* zero = same_int(a, 0);
  llvm::Constant* one = same_int(a, 1);
  switch (op) {
    case BinaryOp::Add: return builder_.CreateAdd(a, b);
    case BinaryOp::Sub: return builder_.CreateSub(a, b);
    case BinaryOp::Mul: return builder_.CreateMul(a, b);
    case BinaryOp::Max: return extremum(true, dtype, a, b);
    case BinaryOp::Min: return extremum(false, dtype, a, b);
    case BinaryOp::And: return builder_.CreateAnd(a, b);
    case BinaryOp::Or: return builder_.CreateOr(a, b);
    case BinaryOp::Xor: return builder_.CreateXor(a, b);
    case BinaryOp::Div:
    case BinaryOp::Mod:
    case BinaryOp::Fmod: {
      // Division by 0 gives 0, the remainder by 0 gives 0; x / -1 is -x, wrapping.
      llvm::Value* bad = builder_.CreateICmpEQ(b, zero);
      if (is_s) bad = builder_.CreateOr(bad, builder_.CreateICmpEQ(b, same_int(a, -1)));
      llvm::Value* divisor = builder_.CreateSelect(bad, one, b);
      if (op == BinaryOp::Div) {
        llvm::Value* quotient =
            is_s ? builder_.CreateSDiv(a, divisor) : builder_.CreateUDiv(a, divisor);
        if (is_s) {
          quotient = builder_.CreateSelect(builder_.CreateICmpEQ(b, same_int(a, -1)),
                                           builder_.CreateNeg(a), quotient);
        }
        return builder_.CreateSelect(builder_.CreateICmpEQ(b, zero), zero, quotient);
      }
      llvm::Value* remainder =
          is_s ? builder_.CreateSRem(a, divisor) : builder_.CreateURem(a, divisor);
      if (!is_s || op == BinaryOp::Fmod) return remainder;
      llvm::Value* nonzero = builder_.CreateICmpNE(remainder, zero);
      llvm::Value* opposite =
          builder_.CreateICmpSLT(builder_.CreateXor(remainder, b), zero);
      return builder_.CreateSelect(builder_.CreateAnd(nonzero, opposite),
                                   builder_.CreateAdd(remainder, b), remainder);
    }
    case BinaryOp::Shl:
    case BinaryOp::Shr: {
      llvm::Value* small = builder_.CreateICmpULT(b, same_int(a, width));
      llvm::Value* amount = builder_.CreateSelect(small, b, zero);
      llvm::Value* shifted = op == BinaryOp::Shl ? builder_.CreateShl(a, amount)
                             : is_s              ? builder_.CreateAShr(a, amount)
                                                 : builder_.CreateLShr(a, amount);
      return builder_.CreateSelect(small, shifted, zero);
    }
    case BinaryOp::Pow: {
      // Repeated squaring; a negative exponent gives what truncating the real power gives.
      llvm::Value* result = one;
      llvm::Value* base = a;
      llvm::Value* exponent = b;
      for (int64_t bit = 0; bit < width; ++bit) {
        llvm::Value* odd = builder_.CreateICmpNE(builder_.CreateAnd(exponent, one), zero);
        result = builder_.CreateSelect(odd, builder_.CreateMul(result, base), result);
        base = builder_.CreateMul(base, base);
        exponent = builder_.CreateLShr(exponent, one);
      }
      if (!is_s) return result;
      llvm::Value* is_one = builder_.CreateICmpEQ(a, one);
      llvm::Value* is_minus = builder_.CreateICmpEQ(a, same_int(a, -1));
      llvm::Value* odd = builder_.CreateICmpNE(builder_.CreateAnd(b, one), zero);
      llvm::Value* inverse = builder_.CreateSelect(
          is_one, one,
          builder_.CreateSelect(is_minus, builder_.CreateSelect(odd, same_int(a, -1), one), zero));
      return builder_.CreateSelect(builder_.CreateICmpSLT(b, zero), inverse, result);
    }
    default: break;
  }
  fail(ErrorKind::Internal, "internal error: ", name_of(op), " of ", name_of(dtype));
}

llvm::Value* Arithmetic::binary(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b) {
  switch (op) {
    case BinaryOp::Eq: case BinaryOp::Ne: case BinaryOp::Lt: case BinaryOp::Le:
    case BinaryOp::Gt: case BinaryOp::Ge: return compare(op, dtype, a, b);
    default: break;
  }
  return is_float(dtype) ? float_binary(op, dtype, a, b) : integer_binary(op, dtype, a, b);
}

// x - y * trunc(x / y), repeated until the remainder is small: each round is exact (the product is
// fused) and removes about 50 bits of the quotient. f32 computes in f64.
llvm::Value* Arithmetic::fmod(llvm::Value* a, llvm::Value* b) {
  llvm::Type* original = a->getType();
  llvm::LLVMContext& context = builder_.getContext();
  llvm::Type* wide = widen(llvm::Type::getDoubleTy(context), lanes_of(a));
  const bool narrow = original->getScalarType()->isFloatTy();
  llvm::Value* x = narrow ? builder_.CreateFPExt(a, wide) : a;
  llvm::Value* y = narrow ? builder_.CreateFPExt(b, wide) : b;
  llvm::Value* divisor = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, y);
  llvm::Value* start = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  llvm::Constant* zero = llvm::ConstantFP::get(wide, 0);
  llvm::Constant* infinity = llvm::ConstantFP::getInfinity(wide);
  // Lanes without a finite quotient stop at once: their result is chosen below.
  llvm::Value* valid = builder_.CreateAnd(builder_.CreateFCmpOLT(start, infinity),
                                          builder_.CreateFCmpOGT(divisor, zero));
  llvm::Value* safe = builder_.CreateSelect(valid, start, zero);

  llvm::Function* function = builder_.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  llvm::BasicBlock* body = llvm::BasicBlock::Create(context, "fmod", function);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(context, "fmod.end", function);
  builder_.CreateBr(body);
  builder_.SetInsertPoint(body);
  llvm::PHINode* remainder = builder_.CreatePHI(wide, 2);
  remainder->addIncoming(safe, before);
  llvm::Value* active = builder_.CreateFCmpOGE(remainder, divisor);
  // Where the quotient would overflow, the divisor is scaled up (exactly) first.
  llvm::Value* modest = builder_.CreateFCmpOLT(builder_.CreateFDiv(remainder, divisor),
                                               llvm::ConstantFP::get(wide, 0x1p1000));
  llvm::Value* scaled = builder_.CreateSelect(
      modest, divisor, builder_.CreateFMul(divisor, llvm::ConstantFP::get(wide, 0x1p600)));
  llvm::Value* quotient = truncate(builder_.CreateFDiv(remainder, scaled));
  // A quotient with more than 52 bits keeps its upper 26, so that the fused product stays exact.
  llvm::Type* words = widen(llvm::Type::getInt64Ty(context), lanes_of(a));
  llvm::Value* word = builder_.CreateBitCast(quotient, words);
  llvm::Value* upper = builder_.CreateBitCast(
      builder_.CreateAnd(word, same_int(word, ~int64_t{0x7ffffff})), wide);
  quotient = builder_.CreateSelect(builder_.CreateFCmpOLT(quotient, same(quotient, 0x1p52)), quotient, upper);
  llvm::Value* next = builder_.CreateIntrinsic(
      llvm::Intrinsic::fma, {wide}, {builder_.CreateFNeg(quotient), scaled, remainder});
  // A quotient rounded up made the remainder negative.
  next = builder_.CreateSelect(builder_.CreateFCmpOLT(next, zero),
                               builder_.CreateFAdd(next, scaled), next);
  next = builder_.CreateSelect(active, next, remainder);
  llvm::Value* more = builder_.CreateFCmpOGE(next, divisor);
  more = builder_.CreateAnd(more, valid);
  if (more->getType()->isVectorTy()) more = builder_.CreateOrReduce(more);
  remainder->addIncoming(next, builder_.GetInsertBlock());
  builder_.CreateCondBr(more, body, after);
  builder_.SetInsertPoint(after);
  llvm::Value* result = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, next, x);
  llvm::Value* finite_x = builder_.CreateFCmpOLT(start, infinity);
  llvm::Value* infinite_y = builder_.CreateFCmpOEQ(divisor, infinity);
  result = builder_.CreateSelect(builder_.CreateAnd(finite_x, infinite_y), x, result);
  llvm::Value* defined = builder_.CreateAnd(finite_x, builder_.CreateFCmpOGT(divisor, zero));
  result = builder_.CreateSelect(defined, result, llvm::ConstantFP::getNaN(wide));
  return narrow ? builder_.CreateFPTrunc(result, original) : result;
}

llvm::Value* Arithmetic::double_to_float_odd(llvm::Value* a) {
  llvm::LLVMContext& context = builder_.getContext();
  const int lanes = lanes_of(a);
  llvm::Type* single = widen(llvm::Type::getFloatTy(context), lanes);
  llvm::Type* bits = widen(llvm::Type::getInt32Ty(context), lanes);
  llvm::Value* nearest = builder_.CreateFPTrunc(a, single);
  llvm::Value* back = builder_.CreateFPExt(nearest, a->getType());
  llvm::Value* word = builder_.CreateBitCast(nearest, bits);
  // Towards zero where rounding went away from zero, then the last bit says "inexact".
  llvm::Value* away = builder_.CreateFCmpOGT(
      builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
      builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a));
  llvm::Value* towards = builder_.CreateSub(word, builder_.CreateZExt(away, bits));
  llvm::Value* inexact = builder_.CreateFCmpONE(back, a);
  llvm::Value* odd = builder_.CreateOr(towards, builder_.CreateZExt(inexact, bits));
  return builder_.CreateBitCast(odd, single);
}

// By AVX-512-BF16, in pairs of vectors where there are two; null for other widths.
llvm::Value* Arithmetic::float_to_bfloat_by_instruction(llvm::Value* a) {
  constexpr int kWhole = 16;         // lanes of a register
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

llvm::Value* Arithmetic::float_to_bfloat(llvm::Value* a) {
  if (bfloats_flush_) {
    if (llvm::Value* result = float_to_bfloat_by_instruction(a)) return result;
  }
  llvm::LLVMContext& context = builder_.getContext();
  const int lanes = lanes_of(a);
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
  if (target_.arch == Arch::X86_64) {
    return builder_.CreateBitCast(
        builder_.CreateFPTrunc(a, widen(llvm::Type::getHalfTy(context), lanes)), half_bits);
  }
  llvm::Type* bits = widen(llvm::Type::getInt32Ty(context), lanes);
  llvm::Value* word = builder_.CreateBitCast(a, bits);
  llvm::Value* magnitude = builder_.CreateAnd(word, same_int(word, 0x7fffffff));
  llvm::Value* sign = builder_.CreateAnd(builder_.CreateLShr(word, same_int(word, 16)),
                                         same_int(word, 0x8000));
  // Normal results: rebias the exponent and round the 13 lost bits to nearest even.
  llvm::Value* even = builder_.CreateAnd(builder_.CreateLShr(magnitude, same_int(word, 13)), same_int(word, 1));
  llvm::Value* normal = builder_.CreateLShr(
      builder_.CreateAdd(builder_.CreateSub(magnitude, same_int(word, int64_t{112} << 23)),
                         builder_.CreateAdd(even, same_int(word, 0xfff))),
      same_int(word, 13));
  // Subnormal results: adding 0.5 leaves the result, rounded, in the float's low bits.
  llvm::Value* absolute = builder_.CreateBitCast(magnitude, a->getType());
  llvm::Value* shifted = builder_.CreateFAdd(absolute, same(a, 0.5));
  llvm::Value* subnormal = builder_.CreateSub(builder_.CreateBitCast(shifted, bits),
                                              same_int(word, int64_t{126} << 23));
  llvm::Value* result = builder_.CreateSelect(
      builder_.CreateICmpULT(magnitude, same_int(word, int64_t{113} << 23)), subnormal, normal);
  result = builder_.CreateSelect(
      builder_.CreateICmpUGE(magnitude, same_int(word, int64_t{143} << 23)),
      same_int(word, 0x7c00), result);
  result = builder_.CreateSelect(
      builder_.CreateICmpUGT(magnitude, same_int(word, 0x7f800000)), same_int(word, 0x7e00), result);
  return builder_.CreateTrunc(builder_.CreateOr(result, sign), half_bits);
}

llvm::Value* Arithmetic::half_to_float(llvm::Value* a) {
  llvm::LLVMContext& context = builder_.getContext();
  const int lanes = lanes_of(a);
  llvm::Type* single = widen(llvm::Type::getFloatTy(context), lanes);
  if (target_.arch == Arch::X86_64) {
    return builder_.CreateFPExt(
        builder_.CreateBitCast(a, widen(llvm::Type::getHalfTy(context), lanes)), single);
  }
  llvm::Type* bits = widen(llvm::Type::getInt32Ty(context), lanes);
  llvm::Value* word = builder_.CreateZExt(a, bits);
  llvm::Value* sign = builder_.CreateShl(builder_.CreateAnd(word, same_int(word, 0x8000)), same_int(word, 16));
  llvm::Value* magnitude = builder_.CreateAnd(word, same_int(word, 0x7fff));
  llvm::Value* moved = builder_.CreateShl(magnitude, same_int(word, 13));
  llvm::Value* normal = builder_.CreateAdd(moved, same_int(word, int64_t{112} << 23));
  llvm::Value* special = builder_.CreateAdd(moved, same_int(word, int64_t{224} << 23));
  // Subnormal: the mantissa as an integer times 2^-24.
  llvm::Value* small = builder_.CreateFMul(builder_.CreateUIToFP(magnitude, single),
                                           llvm::ConstantFP::get(single, 0x1p-24));
  llvm::Value* result = builder_.CreateSelect(
      builder_.CreateICmpUGE(magnitude, same_int(word, 0x7c00)), special, normal);
  result = builder_.CreateSelect(builder_.CreateICmpULT(magnitude, same_int(word, 0x400)),
                                 builder_.CreateBitCast(small, bits), result);
  return builder_.CreateBitCast(builder_.CreateOr(result, sign), single);
}

llvm::Value* Arithmetic::cast(DType from, DType to, llvm::Value* a) {
  if (from == to) return a;
  llvm::LLVMContext& context = builder_.getContext();
  const int lanes = lanes_of(a);
  if (from == DType::F16 || from == DType::BF16) {
    llvm::Value* single = nullptr;
    if (from == DType::F16) {
      single = half_to_float(a);
    } else {
      llvm::Value* word = builder_.CreateZExt(a, widen(llvm::Type::getInt32Ty(context), lanes));
      single = builder_.CreateBitCast(builder_.CreateShl(word, same_int(word, 16)),
                                      widen(llvm::Type::getFloatTy(context), lanes));
    }
    return cast(DType::F32, to, single);
  }
  if (to == DType::F16 || to == DType::BF16) {
    if (from != DType::F32 && from != DType::F64) {
      a = cast(from, DType::F64, a);
      from = DType::F64;
    }
    if (from == DType::F64) a = double_to_float_odd(a);
    return to == DType::F16 ? float_to_half(a) : float_to_bfloat(a);
  }
  llvm::Type* type = widen(value_type(context, to), lanes);
  if (to == DType::Bool) {
    return is_float(from) ? builder_.CreateFCmpUNE(a, same(a, 0))
                          : builder_.CreateICmpNE(a, same_int(a, 0));
  }
  if (is_float(from)) {
    if (is_float(to)) return builder_.CreateFPCast(a, type);
    if (avoids_truncating_conversions(a)) return float_to_integer_by_sum(to, a);
    if (a->getType()->isVectorTy() && size_of(to) <= 4 && (is_signed(to) || size_of(to) < 4)) return float_to_short_integer(to, a);
    return builder_.CreateIntrinsic(
        is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
        {type, a->getType()}, {a});
  }
  if (is_float(to)) {
    return is_signed(from) ? builder_.CreateSIToFP(a, type) : builder_.CreateUIToFP(a, type);
  }
  return builder_.CreateIntCast(a, type, is_signed(from));
}

// Of a vector of rounded f32: the instruction that rounds while it converts, of the vector before it was
// rounded; null where there is none. What is not an i32 becomes the least i32, a NaN zero.
llvm::Value* Arithmetic::round_to_integer(llvm::Value* a) {
  const auto* rounded = llvm::dyn_cast<llvm::IntrinsicInst>(a);
  const int lanes = lanes_of(a);
  if (target_.arch != Arch::X86_64 || rounded == nullptr || rounded->getIntrinsicID() != llvm::Intrinsic::roundeven ||
      !a->getType()->getScalarType()->isFloatTy() || 32 * lanes > target_.vector_bits) {
    return nullptr;
  }
  llvm::Value* number = rounded->getArgOperand(0);
  llvm::Value* whole = nullptr;
  llvm::Constant* zero = llvm::Constant::getNullValue(widen(llvm::Type::getInt32Ty(builder_.getContext()), lanes));
  if (lanes == 16) {
    constexpr int kCurrentRounding = 4;
    whole = builder_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_cvtps2dq_512, {},
                                     {number, zero, builder_.getInt16(-1), builder_.getInt32(kCurrentRounding)});
  } else if (lanes == 8 || lanes == 4) {
    whole = builder_.CreateIntrinsic(lanes == 8 ? llvm::Intrinsic::x86_avx_cvt_ps2dq_256 : llvm::Intrinsic::x86_sse2_cvtps2dq,
                                     {}, {number});
  } else {
    return nullptr;
  }
  return builder_.CreateSelect(builder_.CreateFCmpORD(number, number), whole, zero);
}

// LLVM converts vectors that saturate number by number: so the range is cut before.
llvm::Value* Arithmetic::float_to_short_integer(DType to, llvm::Value* a) {
  const int bits = 8 * static_cast<int>(size_of(to)) - is_signed(to);
  const double limit = std::ldexp(1.0, bits);
  const bool single = a->getType()->getScalarType()->isFloatTy();
  // The largest number below the limit whose whole part is one of the type.
  const double most = single && bits > 24 ? limit - std::ldexp(1.0, bits - 24) : limit - 1;
  if (llvm::Value* whole = to == DType::I32 ? round_to_integer(a) : nullptr) {
    return builder_.CreateSelect(builder_.CreateFCmpOGE(a, same(a, limit)), same_int(whole, INT32_MAX), whole);
  }
  llvm::Constant* least = same(a, is_signed(to) ? -limit : 0);
  llvm::Value* number = builder_.CreateSelect(builder_.CreateFCmpORD(a, a), a, same(a, 0));
  llvm::Value* above = builder_.CreateSelect(builder_.CreateFCmpOGT(number, least), number, least);
  llvm::Value* inside = builder_.CreateSelect(builder_.CreateFCmpOLT(above, same(a, most)), above, same(a, most));
  llvm::Type* word = widen(llvm::Type::getInt32Ty(builder_.getContext()), lanes_of(a));
  llvm::Value* whole = builder_.CreateFPToSI(inside, word);
  if (most < limit - 1) whole = builder_.CreateSelect(builder_.CreateFCmpOGE(a, same(a, limit)), same_int(whole, INT32_MAX), whole);
  return builder_.CreateIntCast(whole, widen(value_type(builder_.getContext(), to), lanes_of(a)), is_signed(to));
}

llvm::Value* Arithmetic::combine(Reduction reduction, DType dtype, llvm::Value* accumulator,
                                 llvm::Value* value) {
  switch (reduction) {
    case Reduction::None: return value;
    case Reduction::Sum: return binary(BinaryOp::Add, dtype, accumulator, value);
    case Reduction::Product: return binary(BinaryOp::Mul, dtype, accumulator, value);
    case Reduction::Max: return binary(BinaryOp::Max, dtype, value, accumulator);
    case Reduction::Min: return binary(BinaryOp::Min, dtype, value, accumulator);
    case Reduction::And: return builder_.CreateAnd(accumulator, value);
    case Reduction::Or: return builder_.CreateOr(accumulator, value);
  }
  fail(ErrorKind::Internal, "internal error: unknown reduction");
}

llvm::Constant* Arithmetic::identity(Reduction reduction, DType dtype, int lanes) {
  llvm::Type* type = widen(value_type(builder_.getContext(), dtype), lanes);
  if (is_float(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    switch (reduction) {
      case Reduction::Sum: return llvm::ConstantFP::get(type, 0);
      case Reduction::Product: return llvm::ConstantFP::get(type, 1);
      case Reduction::Max: return llvm::ConstantFP::get(type, -infinity);
      case Reduction::Min: return llvm::ConstantFP::get(type, infinity);
      default: break;
    }
  }
  const unsigned width = type->getScalarSizeInBits();
  auto integer = [&](const llvm::APInt& value) { return llvm::ConstantInt::get(type, value); };
  const bool is_s = is_signed(dtype);
  switch (reduction) {
    case Reduction::Sum: return integer(llvm::APInt(width, 0));
    case Reduction::Product: return integer(llvm::APInt(width, 1));
    case Reduction::Max:
      return integer(is_s ? llvm::APInt::getSignedMinValue(width) : llvm::APInt::getMinValue(width));
    case Reduction::Min:
      return integer(is_s ? llvm::APInt::getSignedMaxValue(width) : llvm::APInt::getMaxValue(width));
    case Reduction::And: return integer(llvm::APInt::getAllOnes(width));
    case Reduction::Or: return integer(llvm::APInt(width, 0));
    case Reduction::None: break;
  }
  fail(ErrorKind::Internal, "internal error: no identity");
}

llvm::Value* Arithmetic::reduce(Reduction reduction, DType dtype, llvm::Value* vector) {
  if (!vector->getType()->isVectorTy()) return vector;
  if (reduction == Reduction::Sum && is_float(dtype)) {
    llvm::Value* sum = builder_.CreateFAddReduce(
        llvm::ConstantFP::getNegativeZero(vector->getType()->getScalarType()), vector);
    llvm::cast<llvm::Instruction>(sum)->setHasAllowReassoc(true);
    return sum;
  }
  // Halves against halves; odd counts peel their last lane.
  llvm::Value* rest = nullptr;
  int lanes = lanes_of(vector);
  while (lanes > 1) {
    if (lanes % 2 != 0) {
      llvm::Value* last = builder_.CreateExtractElement(vector, static_cast<uint64_t>(lanes - 1));
      rest = rest == nullptr ? last : combine(reduction, dtype, rest, last);
      --lanes;
    }
    llvm::SmallVector<int, 64> low, high;
    for (int i = 0; i < lanes / 2; ++i) {
      low.push_back(i);
      high.push_back(lanes / 2 + i);
    }
    lanes /= 2;
    vector = combine(reduction, dtype, builder_.CreateShuffleVector(vector, low),
                     builder_.CreateShuffleVector(vector, high));
  }
  llvm::Value* result = builder_.CreateExtractElement(vector, uint64_t{0});
  return rest == nullptr ? result : combine(reduction, dtype, result, rest);
}

}  // namespace tc
