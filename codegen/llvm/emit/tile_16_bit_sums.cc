// Products of bytes that are summed up in 16 bits, as many of them as surely fit, before their sum is added
// to an accumulator of 32 bits. On cores whose widening instructions take as long as their results are wide,
// such products take half as many cycles.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "codegen/backend/byte_expr_matchers.h"
#include "codegen/llvm/emit/tile_emitter.h"
#include "codegen/llvm/role_metadata.h"
#include "codegen/llvm/units/riscv_vector_instructions.h"
#include "ir/target/narrow_product.h"

namespace tc {
namespace {

// With fewer products in a sum, adding the sums up takes longer than the products.
constexpr int64_t kLeastProducts = 3;

llvm::Value* widened(Builder& builder, llvm::Value* bytes, bool has_sign) {
  llvm::Type* half = widen(builder.getInt16Ty(), lanes_of(bytes));
  llvm::Value* made = has_sign ? builder.CreateSExt(bytes, half) : builder.CreateZExt(bytes, half);
  set_role(made, Role::Widening);
  return made;
}

}  // namespace

// An unsigned byte minus a number, if the difference is a signed byte.
std::optional<TileEmitter::ByteValue> TileEmitter::difference_of_byte(const ExprPtr& expr, int64_t number,
                                                                      const Guard& guard) {
  const auto byte = byte_value(expr, guard);
  constexpr int64_t kMost = std::numeric_limits<int8_t>::max();
  if (!byte || byte->dtype != DType::U8 || number > kMost + 1 || byte->most - number > kMost)
    return std::nullopt;
  llvm::Value* less = llvm::ConstantInt::get(byte->value->getType(), static_cast<uint64_t>(number));
  return ByteValue{builder_.CreateSub(byte->value, less), byte->vector, DType::I8,
                   std::max(number, byte->most - number)};
}

// A float that is made of bytes by operations on integers. They are computed in bytes, not in as many bits as
// the float has.
std::optional<TileEmitter::Value> TileEmitter::float_of_bytes(const Expr& cast, const Guard& guard) {
  const ExprPtr& whole = cast.operands[0];
  if (cast.dtype != DType::F32 || whole->kind != Expr::Kind::Binary ||
      !has_riscv_vectors(context_.target, lanes_))
    return std::nullopt;
  const auto byte = byte_value(whole, guard);
  if (!byte || !byte->vector) return std::nullopt;
  llvm::Type* type = widen(builder_.getFloatTy(), lanes_);
  llvm::Value* half = widened(builder_, byte->value, is_signed(byte->dtype));
  return Value{is_signed(byte->dtype) ? builder_.CreateSIToFP(half, type) : builder_.CreateUIToFP(half, type),
               true};
}

// The value of an expression of bytes, computed in bytes.
std::optional<TileEmitter::ByteValue> TileEmitter::byte_value(const ExprPtr& expr, const Guard& guard) {
  if (const Expr* load = loaded_byte(expr)) {
    const Value value = evaluate(expr->operands[0], guard);
    return ByteValue{value.value, value.vector, load->dtype, is_signed(load->dtype) ? 128 : 255};
  }
  if (expr->kind != Expr::Kind::Binary || expr->dtype != DType::I32) return std::nullopt;
  const auto number_like = [](llvm::Value* like, int64_t number) {
    return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(number));
  };
  const ExprPtr &left = expr->operands[0], &right = expr->operands[1];
  if (is_binary(expr, BinaryOp::Or)) {
    const auto bits = is_binary(right, BinaryOp::Shl) ? constant_byte(right->operands[1]) : std::nullopt;
    const auto low = bits ? byte_value(left, guard) : std::nullopt;
    const auto high = low ? byte_value(right->operands[0], guard) : std::nullopt;
    if (!high || low->dtype != DType::U8 || high->dtype != DType::U8 || low->vector != high->vector ||
        *bits > 7 || high->most << *bits > 255)
      return std::nullopt;
    llvm::Value* moved = builder_.CreateShl(high->value, number_like(high->value, *bits));
    return ByteValue{builder_.CreateOr(low->value, moved), low->vector, DType::U8,
                     low->most | high->most << *bits};
  }
  const auto number = constant_byte(right);
  if (number && is_binary(expr, BinaryOp::Sub)) return difference_of_byte(left, *number, guard);
  const bool keeps = is_binary(expr, BinaryOp::And);
  if (!number || (!keeps && !is_binary(expr, BinaryOp::Xor))) return std::nullopt;
  const bool shifted = keeps && is_binary(left, BinaryOp::Shr);
  const auto shift = shifted ? shift_of(left->operands[1]) : Affine(0);
  if (!shift) return std::nullopt;
  const Interval range = range_of(*shift, context_.ranges);
  const auto byte = byte_value(shifted ? left->operands[0] : left, guard);
  if (!byte || byte->dtype != DType::U8 || range.low < 0 || range.high > 7) return std::nullopt;
  llvm::Value* value = byte->value;
  if (!keeps)
    return ByteValue{builder_.CreateXor(value, number_like(value, *number)), byte->vector, DType::U8};
  if (shift->is_constant()) {
    value = builder_.CreateLShr(value, number_like(value, shift->constant()));
  } else {
    llvm::Value* bits = builder_.CreateTrunc(hoisted(*shift), builder_.getInt8Ty());
    if (byte->vector) bits = builder_.CreateVectorSplat(static_cast<unsigned>(lanes_), bits);
    value = builder_.CreateLShr(value, bits);
  }
  return ByteValue{builder_.CreateAnd(value, number_like(value, *number)), byte->vector, DType::U8, *number};
}

bool TileEmitter::add_to_short_sum(Accumulator& accumulator, const Guard& guard) {
  if (statement_->reduction != Reduction::Sum || statement_->value->dtype != DType::I32 ||
      !accumulator.value->getType()->isVectorTy() || !has_riscv_vectors(context_.target, lanes_))
    return false;
  const NarrowProduct* row = short_product(context_.target, lanes_);
  const auto product = row != nullptr ? product_of(statement_->value) : std::nullopt;
  if (!product) return false;
  auto shared = byte_value(product->first, guard);
  auto apart = shared ? byte_value(product->second, guard) : std::nullopt;
  if (!apart) return false;
  if (shared->vector) std::swap(shared, apart);
  if (shared->vector || !apart->vector || shared->dtype != DType::I8 || apart->dtype != DType::U8)
    return false;
  constexpr int64_t kLargest = std::numeric_limits<int16_t>::max();
  const int64_t most = shared->most * apart->most;
  if (kLeastProducts * most > kLargest) return false;
  if (accumulator.short_most + most > kLargest) add_short_sum(accumulator);
  llvm::Type* half = widen(builder_.getInt16Ty(), lanes_);
  if (accumulator.short_sum == nullptr) accumulator.short_sum = llvm::Constant::getNullValue(half);
  accumulator.short_sum =
      add_byte_product(builder_, context_.target, *row, accumulator.short_sum, shared->value, apart->value);
  accumulator.short_most += most;
  return true;
}

void TileEmitter::add_short_sum(Accumulator& accumulator) {
  if (accumulator.short_sum == nullptr) return;
  llvm::Value* wide = builder_.CreateSExt(accumulator.short_sum, accumulator.value->getType());
  accumulator.value = builder_.CreateAdd(accumulator.value, wide);
  accumulator.short_sum = nullptr;
  accumulator.short_most = 0;
}

void TileEmitter::add_waiting_products() {
  add_word_products();
  for (auto& [name, accumulator] : region_.accumulators) add_short_sum(accumulator);
}

}  // namespace tc
