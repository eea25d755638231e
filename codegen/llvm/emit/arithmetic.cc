// The scalar operators of the loop IR on LLVM values, lane by lane: their meaning is ir/loop.h's.
#include "codegen/llvm/module_compiler.h"
#include "codegen/llvm/emit/arithmetic.h"

#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "codegen/llvm/emit/math.h"
#include "ir/error.h"

namespace tc {
namespace {

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

// Whether all lanes are the same constant, which is not NaN and has no negative sign (-0 has one).
static bool is_nonnegative(llvm::Value* value) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(value);
  const auto* number =
      constant ? llvm::dyn_cast_or_null<llvm::ConstantFP>(constant->getSplatValue()) : nullptr;
  return number != nullptr && !number->isNegative() && !number->isNaN();
}

// Whether the value is the result of an arithmetic instruction. On RISC-V a NaN of such a result is the
// canonical one, whose bits are those of an integer larger than any number's ("NaN Generation and
// Propagation" of the F extension). So the larger of two floats, one of which is not negative, is the larger
// of two signed integers: one instruction and no mask.
static bool is_computed_float(llvm::Value* value) {
  const auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
  if (instruction == nullptr) return false;
  switch (instruction->getOpcode()) {
    case llvm::Instruction::FAdd:
    case llvm::Instruction::FSub:
    case llvm::Instruction::FMul:
    case llvm::Instruction::FDiv: return true;
    default: break;
  }
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(instruction);
  return call != nullptr && (call->getIntrinsicID() == llvm::Intrinsic::fmuladd ||
                             call->getIntrinsicID() == llvm::Intrinsic::fma);
}

// Compares and selects so that the second operand is the result where the first is NaN or both are
// equal: exactly what x86's max and min instructions do.
llvm::Value* Arithmetic::extremum(bool maximum, DType dtype, llvm::Value* a, llvm::Value* b) {
  if (!is_float(dtype)) {
    const auto id = is_signed(dtype) ? (maximum ? llvm::Intrinsic::smax : llvm::Intrinsic::smin)
                                     : (maximum ? llvm::Intrinsic::umax : llvm::Intrinsic::umin);
    return builder_.CreateBinaryIntrinsic(id, a, b);
  }
  if (is_constant_number(b)) std::swap(a, b);
  if (target_.arch == Arch::X86_64 && a->getType()->isVectorTy() && !is_constant_number(a)) {
    // One instruction, and in parallel a test of `a` alone: a chain through `b` waits for the one
    // instruction only.
    llvm::Value* best =
        builder_.CreateBinaryIntrinsic(maximum ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a, b);
    llvm::cast<llvm::Instruction>(best)->setHasNoSignedZeros(true);
    return best;
  }
  if (maximum && target_.is_riscv() && dtype == DType::F32 && a->getType()->isVectorTy() &&
      is_nonnegative(a) && is_computed_float(b)) {
    llvm::Type* bits = llvm::VectorType::getInteger(llvm::cast<llvm::VectorType>(a->getType()));
    llvm::Value* best = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, builder_.CreateBitCast(a, bits),
                                                       builder_.CreateBitCast(b, bits));
    return builder_.CreateBitCast(best, a->getType());
  }
  llvm::Value* wins = maximum ? builder_.CreateFCmpOGT(a, b) : builder_.CreateFCmpOLT(a, b);
  llvm::Value* best = builder_.CreateSelect(wins, a, b);
  if (is_constant_number(a)) return best;  // b's NaN is already kept
  return builder_.CreateSelect(builder_.CreateFCmpUNO(a, a), a, best);
}

// On in-order cores a maximum may be a link of a chain: codegen/llvm/passes/lower_maximum_chains.h turns a
// whole chain into instructions.
llvm::Value* Arithmetic::max_of_many(DType dtype, llvm::Value* value, llvm::Value* accumulator) {
  const bool plain = !orders_code(target_) || !is_float(dtype) || !value->getType()->isVectorTy();
  if (plain || is_constant_number(value) || is_constant_number(accumulator))
    return binary(BinaryOp::Max, dtype, value, accumulator);
  llvm::Value* best = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, value, accumulator);
  llvm::cast<llvm::Instruction>(best)->setHasNoSignedZeros(true);
  return best;
}

// x86's instruction gives its second operand where either is NaN; those of other targets ignore a NaN
// themselves. A core whose floating-point unit does not round lacks this instruction, too.
llvm::Value* Arithmetic::larger_number(DType dtype, llvm::Value* value, llvm::Value* number) {
  if (!is_float(dtype)) return extremum(true, dtype, value, number);
  if (target_.arch == Arch::X86_64 || !target_.rounding_instructions)
    return builder_.CreateSelect(builder_.CreateFCmpOGT(value, number), value, number);
  return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, value, number);
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
    case UnaryOp::IsNan: return is_f ? builder_.CreateFCmpUNO(a, a) : builder_.CreateICmpNE(a, a);
    case UnaryOp::IsInf:
      if (!is_f) return builder_.CreateICmpNE(a, a);
      return builder_.CreateFCmpOEQ(intrinsic(llvm::Intrinsic::fabs),
                                    same(a, std::numeric_limits<double>::infinity()));
    default: break;
  }
  TC_CHECK(dtype == DType::F32 || dtype == DType::F64, "for the function ", name_of(op));
  return emit_function(builder_, target_, op, a);
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
      llvm::Value* nothing = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, same(a, 0), b);
      return builder_.CreateSelect(
          nonzero, builder_.CreateSelect(opposite, builder_.CreateFAdd(remainder, b), remainder), nothing);
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
        llvm::Value* quotient = is_s ? builder_.CreateSDiv(a, divisor) : builder_.CreateUDiv(a, divisor);
        if (is_s) {
          quotient = builder_.CreateSelect(builder_.CreateICmpEQ(b, same_int(a, -1)), builder_.CreateNeg(a),
                                           quotient);
        }
        return builder_.CreateSelect(builder_.CreateICmpEQ(b, zero), zero, quotient);
      }
      llvm::Value* remainder = is_s ? builder_.CreateSRem(a, divisor) : builder_.CreateURem(a, divisor);
      if (!is_s || op == BinaryOp::Fmod) return remainder;
      llvm::Value* nonzero = builder_.CreateICmpNE(remainder, zero);
      llvm::Value* opposite = builder_.CreateICmpSLT(builder_.CreateXor(remainder, b), zero);
      return builder_.CreateSelect(builder_.CreateAnd(nonzero, opposite), builder_.CreateAdd(remainder, b),
                                   remainder);
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
    case BinaryOp::Eq:
    case BinaryOp::Ne:
    case BinaryOp::Lt:
    case BinaryOp::Le:
    case BinaryOp::Gt:
    case BinaryOp::Ge: return compare(op, dtype, a, b);
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
  llvm::Value* valid =
      builder_.CreateAnd(builder_.CreateFCmpOLT(start, infinity), builder_.CreateFCmpOGT(divisor, zero));
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
  llvm::Value* modest =
      builder_.CreateFCmpOLT(builder_.CreateFDiv(remainder, divisor), llvm::ConstantFP::get(wide, 0x1p1000));
  llvm::Value* scaled = builder_.CreateSelect(
      modest, divisor, builder_.CreateFMul(divisor, llvm::ConstantFP::get(wide, 0x1p600)));
  llvm::Value* quotient = truncate(builder_.CreateFDiv(remainder, scaled));
  // A quotient with more than 52 bits keeps its upper 26, so that the fused product stays exact.
  llvm::Type* words = widen(llvm::Type::getInt64Ty(context), lanes_of(a));
  llvm::Value* word = builder_.CreateBitCast(quotient, words);
  llvm::Value* upper =
      builder_.CreateBitCast(builder_.CreateAnd(word, same_int(word, ~int64_t{0x7ffffff})), wide);
  quotient = builder_.CreateSelect(builder_.CreateFCmpOLT(quotient, same(quotient, 0x1p52)), quotient, upper);
  llvm::Value* next = builder_.CreateIntrinsic(llvm::Intrinsic::fma, {wide},
                                               {builder_.CreateFNeg(quotient), scaled, remainder});
  // A quotient rounded up made the remainder negative.
  next = builder_.CreateSelect(builder_.CreateFCmpOLT(next, zero), builder_.CreateFAdd(next, scaled), next);
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

llvm::Value* Arithmetic::combine(Reduction reduction, DType dtype, llvm::Value* accumulator,
                                 llvm::Value* value) {
  switch (reduction) {
    case Reduction::None: return value;
    case Reduction::Sum: return binary(BinaryOp::Add, dtype, accumulator, value);
    case Reduction::Product: return binary(BinaryOp::Mul, dtype, accumulator, value);
    case Reduction::Max: return max_of_many(dtype, value, accumulator);
    case Reduction::Min: return binary(BinaryOp::Min, dtype, value, accumulator);
    case Reduction::And: return builder_.CreateAnd(accumulator, value);
    case Reduction::Or: return builder_.CreateOr(accumulator, value);
    case Reduction::MaxNumber: return larger_number(dtype, value, accumulator);
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
      case Reduction::Max:
      case Reduction::MaxNumber: return llvm::ConstantFP::get(type, -infinity);
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
    case Reduction::MaxNumber:
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
  // LLVM's own reduction: where vectors become narrower step by step, its selection of vpdpbusd drops all
  // but the first four lanes.
  if (reduction == Reduction::Sum) return builder_.CreateAddReduce(vector);
  if (reduction == Reduction::MaxNumber && is_float(dtype) && target_.is_riscv())
    return builder_.CreateFPMaxReduce(vector);
  // Combines the lower and the upper half; of an odd number of lanes the last one is taken off first.
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

llvm::Value* reduce_each(Arithmetic& arithmetic, Builder& builder, Reduction reduction, DType dtype,
                         llvm::SmallVector<llvm::Value*, 16> vectors) {
  const int lanes = lanes_of(vectors[0]);
  TC_CHECK(vectors.size() == static_cast<size_t>(lanes) && (lanes & (lanes - 1)) == 0,
           "in a reduction of each of several vectors");
  // Elements change places within 128 bits first, then in wholes of 128 bits: on x86 each such shuffle of two
  // vectors is one instruction.
  const int part = std::min(lanes, static_cast<int>(16 / size_of(dtype)));
  for (int done = 1; done < lanes; done *= 2) {
    const int unit = done < part ? 1 : part, group = done < part ? part : lanes;
    llvm::SmallVector<int, 64> even, odd;
    for (int first = 0; first < lanes; first += group) {
      for (const int source : {first, lanes + first}) {
        for (int i = 0; i < group; i += 2 * unit) {
          for (int element = 0; element < unit; ++element) {
            even.push_back(source + i + element);
            odd.push_back(source + i + unit + element);
          }
        }
      }
    }
    llvm::SmallVector<llvm::Value*, 16> pairs;
    for (size_t i = 0; i < vectors.size(); i += 2) {
      pairs.push_back(arithmetic.combine(reduction, dtype,
                                         builder.CreateShuffleVector(vectors[i], vectors[i + 1], even),
                                         builder.CreateShuffleVector(vectors[i], vectors[i + 1], odd)));
    }
    vectors = pairs;
  }
  return vectors[0];
}

}  // namespace tc
