// Expressions of a leaf's statements as scalar and vector values.
#include <array>
#include <functional>

#include "codegen/llvm/emit/math.h"
#include "codegen/llvm/units/riscv_vector_instructions.h"
#include "codegen/llvm/emit/never_positive.h"
#include "codegen/llvm/emit/tile_emitter.h"
#include "codegen/llvm/units/matrix_unit.h"
#include "codegen/llvm/units/x86_vector_instructions.h"
#include "ir/error.h"
#include "ir/narrow_float.h"

namespace tc {

llvm::Value* TileEmitter::spread(const Value& value) {
  if (value.vector || lanes_ == 1) return value.value;
  return builder_.CreateVectorSplat(static_cast<unsigned>(lanes_), value.value);
}

TileEmitter::Value TileEmitter::evaluate(const ExprPtr& expr, const Guard& guard) {
  const auto key = std::make_pair(expr.get(), guard.id);
  const auto found = evaluated_.find(key);
  if (found != evaluated_.end()) return found->second;
  const Value value = compute(expr, guard);
  evaluated_[key] = value;
  return value;
}

std::optional<std::pair<ExprPtr, ExprPtr>> TileEmitter::product_of(const ExprPtr& expr) const {
  if (expr->kind != Expr::Kind::Binary || expr->binary != BinaryOp::Mul) return std::nullopt;
  return std::make_pair(expr->operands[0], expr->operands[1]);
}

// The expression as an affine one, where it is an index or an integer constant.
std::optional<Affine> TileEmitter::as_affine(const ExprPtr& expr) const {
  if (expr->kind == Expr::Kind::Index) return expr->affine.substitute(iterators_);
  if (expr->kind == Expr::Kind::Const && expr->dtype == DType::I64) return Affine(expr->integer);
  if (expr->kind == Expr::Kind::Binary && expr->dtype == DType::I64 &&
      (expr->binary == BinaryOp::Add || expr->binary == BinaryOp::Sub)) {
    const auto a = as_affine(expr->operands[0]), b = as_affine(expr->operands[1]);
    if (a && b) return expr->binary == BinaryOp::Add ? *a + *b : *a - *b;
  }
  return std::nullopt;
}

TileEmitter::Value TileEmitter::affine_value(const Affine& affine) {
  const int64_t step = lanes_ > 1 ? affine.coefficient(lane_) : 0;
  if (step == 0) return {hoisted(affine), false};
  llvm::SmallVector<llvm::Constant*, 64> lanes;
  for (int i = 0; i < lanes_; ++i) lanes.push_back(context_.i64(step * i));
  llvm::Value* base = hoisted(affine - Affine::variable(lane_, step));
  return {builder_.CreateAdd(builder_.CreateVectorSplat(static_cast<unsigned>(lanes_), base),
                             llvm::ConstantVector::get(lanes)),
          true};
}

TileEmitter::Value TileEmitter::evaluate_compare(const Expr& expr, const Guard& guard) {
  const auto left = as_affine(expr.operands[0]), right = as_affine(expr.operands[1]);
  if (left && right) {
    const Affine difference = *left - *right;
    // Each of these comparisons as `affine >= 0`.
    Affine at_least;
    bool decided = true;
    switch (expr.binary) {
      case BinaryOp::Ge: at_least = difference; break;
      case BinaryOp::Gt: at_least = difference - 1; break;
      case BinaryOp::Le: at_least = difference * -1; break;
      case BinaryOp::Lt: at_least = difference * -1 - 1; break;
      default: decided = false;
    }
    if (decided) {
      if (proves_nonnegative(at_least, context_.ranges, known_)) return {builder_.getTrue(), false};
      if (refutes_nonnegative(at_least, context_.ranges)) return {builder_.getFalse(), false};
      if (lanes_ > 1 && at_least.coefficient(lane_) != 0) return {lane_mask(at_least), true};
      return {condition(at_least), false};
    }
  }
  Value a = evaluate(expr.operands[0], guard), b = evaluate(expr.operands[1], guard);
  const bool vector = a.vector || b.vector;
  if (vector) a.value = spread(a), b.value = spread(b);
  return {arithmetic_.binary(expr.binary, expr.operands[0]->dtype, a.value, b.value), vector};
}

TileEmitter::Guard TileEmitter::narrow(const Guard& guard, const Value& condition, bool holds) {
  llvm::Value* value = holds ? condition.value : builder_.CreateNot(condition.value);
  Guard result = guard;
  if (condition.vector) {
    result.mask = guard.mask == nullptr ? value : builder_.CreateAnd(guard.mask, value);
    result.some_lane = false;
  } else {
    result.scalar = guard.scalar == nullptr ? value : builder_.CreateAnd(guard.scalar, value);
    result.level = -1;
  }
  const int next = static_cast<int>(guard_ids_.size()) + 1;
  result.id = guard_ids_.insert({text("branch ", next), next}).first->second;
  return result;
}

TileEmitter::Value TileEmitter::evaluate_select(const Expr& expr, const Guard& guard) {
  const Value condition = evaluate(expr.operands[0], guard);
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition.value)) {
    return evaluate(expr.operands[known->isOne() ? 1 : 2], guard);
  }
  auto loads = [](const ExprPtr& operand) {
    bool any = false;
    for_each_load(operand, [&](const Expr&) { any = true; });
    return any;
  };
  auto side = [&](const ExprPtr& operand, bool holds) {
    return evaluate(operand, loads(operand) ? narrow(guard, condition, holds) : guard);
  };
  Value a = side(expr.operands[1], true), b = side(expr.operands[2], false);
  const bool vector = condition.vector || a.vector || b.vector;
  if (vector) a.value = spread(a), b.value = spread(b);
  return {builder_.CreateSelect(condition.value, a.value, b.value), vector};
}

// (a * b + c) >> s of vectors of i32 whose instructions give the upper and the lower half of a product; null
// where c is neither 0 nor half of what is shifted away.
static llvm::Value* shifted_product(Builder& builder, llvm::Value* a, llvm::Value* b, int64_t added,
                                    int64_t bits) {
  constexpr int64_t kHalf = 32;
  if (added != 0 && (bits == 1 || added != int64_t{1} << (bits - 1))) return nullptr;
  llvm::Type* type = a->getType();
  const auto number = [&](int64_t value) {
    return llvm::ConstantInt::get(type, static_cast<uint64_t>(value));
  };
  llvm::Value* upper = call_intrinsic(builder, "llvm.arm.mve.vmulh", type, {a, b, builder.getInt32(0)});
  if (bits < kHalf) upper = builder.CreateShl(upper, number(kHalf - bits));
  if (added == 0 && bits == kHalf) return upper;
  llvm::Value* lower = builder.CreateMul(a, b);
  if (added == 0) return builder.CreateOr(upper, builder.CreateLShr(lower, number(bits)));
  // One bit more than the result needs, rounded.
  llvm::Value* half = builder.CreateLShr(lower, number(bits - 1));
  return builder.CreateAdd(upper, builder.CreateLShr(builder.CreateAdd(half, number(1)), number(1)));
}

// i32((i64(a) * i64(b) + c) >> s) of two i32, where c and s are constants and 0 < s <= 32. Vectors of x86
// multiply every second number of 32 bits: the products of the even ones end in the lower half of a lane of
// 64 bits, those of the odd ones in its upper half, and one vector is made of both.
std::optional<TileEmitter::Value> TileEmitter::upper_product(const Expr& cast, const Guard& guard) {
  constexpr int64_t kHalf = 32;
  constexpr int kLeast = 8, kMost = 16;
  constexpr int kLanesOfMicrocontrollers = 4;
  const bool has_halves = context_.target.arch == Arch::ArmM && lanes_ == kLanesOfMicrocontrollers;
  if (!has_halves && (context_.target.arch != Arch::X86_64 || context_.target.vector_bits < kHalf * kLeast ||
                      (lanes_ != kLeast && lanes_ != kMost)))
    return std::nullopt;
  if (kHalf * lanes_ > context_.target.vector_bits || cast.dtype != DType::I32) return std::nullopt;
  const auto is = [](const Expr& expr, BinaryOp op) {
    return expr.kind == Expr::Kind::Binary && expr.binary == op && expr.dtype == DType::I64;
  };
  const auto is_number = [](const Expr& expr) {
    return expr.kind == Expr::Kind::Const && expr.dtype == DType::I64;
  };
  const Expr& shift = *cast.operands[0];
  if (!is(shift, BinaryOp::Shr) || !is_number(*shift.operands[1])) return std::nullopt;
  const int64_t bits = shift.operands[1]->integer;
  const bool adds = is(*shift.operands[0], BinaryOp::Add) && is_number(*shift.operands[0]->operands[1]);
  const int64_t added = adds ? shift.operands[0]->operands[1]->integer : 0;
  const Expr& product = adds ? *shift.operands[0]->operands[0] : *shift.operands[0];
  if (bits < 1 || bits > kHalf || !is(product, BinaryOp::Mul)) return std::nullopt;
  for (const ExprPtr& operand : product.operands) {
    if (operand->kind != Expr::Kind::Cast || operand->operands[0]->dtype != DType::I32) return std::nullopt;
  }
  const Value a = evaluate(product.operands[0]->operands[0], guard),
              b = evaluate(product.operands[1]->operands[0], guard);
  if (!a.vector && !b.vector) return std::nullopt;
  if (has_halves) {
    llvm::Value* result = shifted_product(builder_, spread(a), spread(b), added, bits);
    return result == nullptr ? std::nullopt : std::optional(Value{result, true});
  }
  llvm::Type* wide = widen(builder_.getInt64Ty(), lanes_ / 2);
  llvm::Value *left = builder_.CreateBitCast(spread(a), wide),
              *right = builder_.CreateBitCast(spread(b), wide);
  const auto number = [&](int64_t value) {
    return llvm::ConstantInt::get(wide, static_cast<uint64_t>(value), true);
  };
  const auto lower = [&](llvm::Value* value) {
    return builder_.CreateAShr(builder_.CreateShl(value, number(kHalf)), number(kHalf));
  };
  const auto upper = [&](llvm::Value* value) { return builder_.CreateAShr(value, number(kHalf)); };
  llvm::Value* even = builder_.CreateAdd(builder_.CreateMul(lower(left), lower(right)), number(added));
  llvm::Value* odd = builder_.CreateAdd(builder_.CreateMul(upper(left), upper(right)), number(added));
  llvm::Type* narrow = widen(builder_.getInt32Ty(), lanes_);
  // Where the upper halves are wanted, no product is shifted: the shuffle that joins both takes the even
  // ones from their upper halves.
  const bool moves = bits != kHalf;
  even = builder_.CreateBitCast(moves ? builder_.CreateLShr(even, number(bits)) : even, narrow);
  odd = builder_.CreateBitCast(moves ? builder_.CreateShl(odd, number(kHalf - bits)) : odd, narrow);
  llvm::SmallVector<int, kMost> places;
  for (int i = 0; i < lanes_; ++i) places.push_back(i % 2 == 0 ? i + (moves ? 0 : 1) : lanes_ + i);
  return Value{builder_.CreateShuffleVector(even, odd, places), true};
}

// min(max(x >> s, least), most) of i32, where least and most are the ends of a byte's type, as such bytes: on
// MVE two instructions that saturate, the first of which also shifts, and no vectors of the ends.
std::optional<TileEmitter::Value> TileEmitter::saturated_byte(const Expr& cast, const Guard& guard) {
  constexpr int kLanes = 4, kMaxShift = 16;
  const bool to_byte = cast.dtype == DType::U8 || cast.dtype == DType::I8;
  if (context_.target.arch != Arch::ArmM || context_.target.vector_bits == 0 || lanes_ != kLanes || !to_byte)
    return std::nullopt;
  const bool sign = cast.dtype == DType::I8;
  const auto operand = [](const Expr& expr, BinaryOp op, int64_t number) -> const Expr* {
    const bool same = expr.kind == Expr::Kind::Binary && expr.binary == op && expr.dtype == DType::I32 &&
                      expr.operands[1]->kind == Expr::Kind::Const && expr.operands[1]->integer == number;
    return same ? expr.operands[0].get() : nullptr;
  };
  const Expr* below = operand(*cast.operands[0], BinaryOp::Min, sign ? INT8_MAX : UINT8_MAX);
  const Expr* inside = below == nullptr ? nullptr : operand(*below, BinaryOp::Max, sign ? INT8_MIN : 0);
  if (inside == nullptr) return std::nullopt;
  const bool shifts = inside->kind == Expr::Kind::Binary && inside->binary == BinaryOp::Shr &&
                      inside->operands[1]->kind == Expr::Kind::Const && inside->operands[1]->integer >= 1 &&
                      inside->operands[1]->integer <= kMaxShift;
  const Value number = evaluate(shifts ? inside->operands[0] : below->operands[0], guard);
  if (!number.vector) return std::nullopt;
  const auto flag = [&](bool value) { return builder_.getInt32(value ? 1 : 0); };
  llvm::Type *words = number.value->getType(), *halves = widen(builder_.getInt16Ty(), 2 * kLanes),
             *bytes = widen(builder_.getInt8Ty(), 4 * kLanes);
  llvm::Value* none = llvm::UndefValue::get(halves);
  llvm::Value* half =
      shifts
          ? builder_.CreateIntrinsic(
                llvm::Function::lookupIntrinsicID("llvm.arm.mve.vshrn"), {halves, words},
                {none, number.value, builder_.getInt32(static_cast<uint32_t>(inside->operands[1]->integer)),
                 flag(true), flag(false), flag(!sign), flag(false), flag(false)})
          : builder_.CreateIntrinsic(llvm::Function::lookupIntrinsicID("llvm.arm.mve.vqmovn"),
                                     {halves, words},
                                     {none, number.value, flag(!sign), flag(false), flag(false)});
  llvm::Value* byte =
      builder_.CreateIntrinsic(llvm::Function::lookupIntrinsicID("llvm.arm.mve.vqmovn"), {bytes, halves},
                               {llvm::UndefValue::get(bytes), half, flag(!sign), flag(!sign), flag(false)});
  return Value{builder_.CreateTrunc(builder_.CreateBitCast(byte, words), widen(builder_.getInt8Ty(), kLanes)),
               true};
}

// a * f + b * g of two words, where f and g are constants in each copy of an unrolled loop: a word times 0
// is not read at all. On RISC-V LLVM would emit two shifts and a sum, where one instruction multiplies and
// adds.
std::optional<TileEmitter::Value> TileEmitter::sum_of_multiples(const Expr& sum, const Guard& guard) {
  const auto is = [](const Expr& expr, BinaryOp op) {
    return expr.kind == Expr::Kind::Binary && expr.binary == op && expr.dtype == DType::I32;
  };
  if (!is(sum, BinaryOp::Add) || !is(*sum.operands[0], BinaryOp::Mul) || !is(*sum.operands[1], BinaryOp::Mul))
    return std::nullopt;
  std::array<Value, 2> factors;
  for (size_t i = 0; i < factors.size(); ++i) {
    const ExprPtr& factor = sum.operands[i]->operands[1];
    if (factor->kind != Expr::Kind::Select) return std::nullopt;
    factors[i] = evaluate(factor, guard);
    if (!llvm::isa<llvm::ConstantInt>(factors[i].value)) return std::nullopt;
  }
  const auto number = [&](size_t i) {
    return llvm::cast<llvm::ConstantInt>(factors[i].value)->getSExtValue();
  };
  const auto word = [&](size_t i) { return evaluate(sum.operands[i]->operands[0], guard); };
  for (const size_t other : {0, 1}) {
    if (number(other) == 0 && number(1 - other) == 1) return word(1 - other);
  }
  const Value first = word(0), second = word(1);
  if (!first.vector || !second.vector || !has_riscv_vectors(context_.target, lanes_)) return std::nullopt;
  return Value{add_multiple(builder_, context_.target, builder_.CreateMul(first.value, spread(factors[0])),
                            second.value, factors[1].value),
               true};
}

TileEmitter::Value TileEmitter::compute(const ExprPtr& pointer, const Guard& guard) {
  const Expr& expr = *pointer;
  llvm::LLVMContext& context = builder_.getContext();
  switch (expr.kind) {
    case Expr::Kind::Const: {
      llvm::Type* type = value_type(context, expr.dtype);
      if (expr.dtype == DType::F16) return {builder_.getInt16(double_to_half(expr.number)), false};
      if (expr.dtype == DType::BF16) {
        return {builder_.getInt16(float_to_bfloat(static_cast<float>(expr.number))), false};
      }
      if (is_narrow_float(expr.dtype))
        return {builder_.getInt8(double_to_narrow(expr.dtype, expr.number)), false};
      if (is_float(expr.dtype)) return {llvm::ConstantFP::get(type, expr.number), false};
      if (expr.dtype == DType::Bool) return {builder_.getInt1(expr.integer != 0), false};
      return {llvm::ConstantInt::get(type, static_cast<uint64_t>(expr.integer), true), false};
    }
    case Expr::Kind::Load: {
      const Buffer& buffer = kernel_.buffers[static_cast<size_t>(expr.access.buffer)];
      if (buffer.scope == Scope::Register) return read_register(element_key(expr.access));
      return load(expr.access, expr.dtype, guard, false);
    }
    case Expr::Kind::Index: return affine_value(expr.affine.substitute(iterators_));
    case Expr::Kind::Unary: {
      const Value a = evaluate(expr.operands[0], guard);
      if (expr.unary == UnaryOp::Round && a.vector && has_riscv_vectors(context_.target, lanes_) &&
          is_bounded_float(*expr.operands[0])) {
        return {round_bounded(builder_, a.value), true};
      }
      if (expr.unary == UnaryOp::Exp && is_never_positive(kernel_, *statement_, *expr.operands[0]))
        return {emit_exp_of_nonpositive(builder_, context_.target, a.value), a.vector};
      return {arithmetic_.unary(expr.unary, expr.operands[0]->dtype, a.value), a.vector};
    }
    case Expr::Kind::Cast: {
      if (const auto upper = upper_product(expr, guard)) return *upper;
      if (const auto byte = saturated_byte(expr, guard)) return *byte;
      // A byte that one operator stores and the next one, in the same kernel, reads.
      if (expr.dtype == DType::I32 && keeps_number(*expr.operands[0]))
        return evaluate(expr.operands[0]->operands[0], guard);
      if (const auto rounded = lanes_ > 1 ? rounded_byte(kernel_, expr) : std::nullopt) {
        const Value number = evaluate(rounded->number, guard);
        if (number.vector && has_riscv_vectors(context_.target, lanes_))
          return {round_to_bytes_riscv(builder_, context_.target, *rounded, number.value), true};
        if (llvm::Value* bytes = number.vector
                                     ? round_to_bytes_x86(builder_, context_.target, *rounded, number.value)
                                     : nullptr)
          return {bytes, true};
      }
      if (const auto number = float_of_bytes(expr, guard)) return *number;
      const Value a = evaluate(expr.operands[0], guard);
      return {arithmetic_.cast(expr.operands[0]->dtype, expr.dtype, a.value), a.vector};
    }
    case Expr::Kind::Binary: {
      if (expr.binary >= BinaryOp::Eq && expr.binary <= BinaryOp::Ge) {
        return evaluate_compare(expr, guard);
      }
      if (expr.dtype == DType::I64) {
        if (const auto affine = as_affine(pointer)) return affine_value(*affine);
      }
      if (const auto sum = sum_of_multiples(expr, guard)) return *sum;
      Value a = evaluate(expr.operands[0], guard), b = evaluate(expr.operands[1], guard);
      const bool vector = a.vector || b.vector;
      if (vector) a.value = spread(a), b.value = spread(b);
      return {arithmetic_.binary(expr.binary, expr.operands[0]->dtype, a.value, b.value), vector};
    }
    case Expr::Kind::Select: return evaluate_select(expr, guard);
  }
  fail(ErrorKind::Internal, "internal error: expression of an unknown kind");
}

}  // namespace tc
