// Products of bytes, of which each step adds up four in each lane of 32 bits, by one instruction or several.
#include <algorithm>

#include "codegen/backend/byte_expr_matchers.h"
#include "codegen/llvm/units/matrix_unit.h"
#include "codegen/llvm/units/riscv_vector_instructions.h"
#include "codegen/llvm/role_metadata.h"
#include "codegen/llvm/emit/tile_emitter.h"
#include "ir/access.h"
#include "ir/error.h"
#include "ir/target/narrow_product.h"

namespace tc {
namespace {

// Whether the number of bytes is a multiple of words whatever its variables are.
bool has_whole_words(const Affine& bytes) {
  constexpr int64_t kWord = 4;
  return bytes.constant() % kWord == 0 &&
         std::all_of(bytes.terms().begin(), bytes.terms().end(),
                     [](const auto& term) { return term.second % kWord == 0; });
}

}  // namespace

llvm::Value* TileEmitter::add_short_product(const Accumulator& accumulator, const Constraints& pending) {
  constexpr int kLanesOfWord = 4;
  const bool in_scalars = adds_products_in_scalars(context_.target) && lanes_ == kLanesOfWord;
  const NarrowProduct* row = lane_product(context_.target, lanes_, DType::I16, DType::I16, DType::I32);
  if (statement_->reduction != Reduction::Sum || statement_->value->dtype != DType::I32 ||
      !accumulator.value->getType()->isVectorTy() ||
      (!in_scalars && (row == nullptr || row->depth != 1 || !has_riscv_vectors(context_.target, lanes_)))) {
    return nullptr;
  }
  const auto product = product_of(statement_->value);
  if (!product) return nullptr;
  const Guard guard = guard_for(pending);
  const auto a = byte_value(product->first, guard);
  const auto b = a ? byte_value(product->second, guard) : std::nullopt;
  if (!b || (!a->vector && !b->vector)) return nullptr;
  if (in_scalars) {
    return add_products_of_lanes(accumulator.value, {{a->value, a->vector}, a->dtype},
                                 {{b->value, b->vector}, b->dtype});
  }
  const auto widened = [&](llvm::Value* byte, DType type) {
    llvm::Type* half = widen(builder_.getInt16Ty(), lanes_of(byte));
    llvm::Value* made = is_signed(type) ? builder_.CreateSExt(byte, half) : builder_.CreateZExt(byte, half);
    if (made->getType()->isVectorTy()) set_role(made, Role::Widening);
    return made;
  };
  return add_short_products(builder_, context_.target, *row, accumulator.value, widened(a->value, a->dtype),
                            widened(b->value, b->dtype));
}

// The address of the first byte of the loop over bytes.
TileEmitter::Address TileEmitter::bytes_address(const Access& access, const TileLoop& bytes_loop) {
  Address address = address_of(access, Guard());
  address.bytes =
      address.bytes - Affine::variable(bytes_loop.name, address.bytes.coefficient(bytes_loop.name));
  return address;
}

// The operand where the expression is a load of adjacent bytes.
std::optional<TileEmitter::ByteOperand> TileEmitter::byte_load(const ExprPtr& expr,
                                                               const TileLoop& bytes_loop) {
  const Expr* load = loaded_byte(expr);
  if (load == nullptr || kernel_.buffers[static_cast<size_t>(load->access.buffer)].scope == Scope::Register)
    return std::nullopt;
  for (const Subscript& subscript : load->access.index) {
    // Data may choose a matrix, but not the bytes of a word or the lanes.
    if (subscript.dynamic == nullptr) continue;
    const Access data{load->access.buffer, {{Affine(0), subscript.dynamic}}};
    if (depends_on(data, bytes_loop.name) || depends_on(data, lane_)) return std::nullopt;
  }
  const Address address = address_of(load->access, Guard());
  if (address.dynamic_lanes != nullptr) return std::nullopt;
  const bool symbolic = std::any_of(address.symbolic.begin(), address.symbolic.end(), [&](const auto& each) {
    return each.second.coefficient(bytes_loop.name) != 0;
  });
  if (symbolic || !address.symbolic_lane.empty() || address.bytes.coefficient(bytes_loop.name) != 1)
    return std::nullopt;
  if (address.lane_bytes != 0 && address.lane_bytes != bytes_loop.extent) return std::nullopt;
  return ByteOperand{expr, address.lane_bytes == 0, load->dtype, is_signed(load->dtype) ? 127 : 255, true};
}

// The number of bits of a shift, where it is the same in all lanes.
std::optional<Affine> TileEmitter::shift_of(const ExprPtr& expr) const {
  if (expr->kind == Expr::Kind::Const) return Affine(expr->integer);
  if (expr->kind != Expr::Kind::Cast || is_float(expr->dtype)) return std::nullopt;
  auto affine = as_affine(expr->operands[0]);
  if (affine && lanes_ > 1 && affine->coefficient(lane_) != 0) return std::nullopt;
  return affine;
}

// The operand where the expression is a load, or is made of loads by bitwise operations that act on the four
// bytes of a word as on each byte alone.
std::optional<TileEmitter::ByteOperand> TileEmitter::byte_operand(const ExprPtr& expr,
                                                                  const TileLoop& bytes_loop) {
  if (auto load = byte_load(expr, bytes_loop)) return load;
  if (expr->kind != Expr::Kind::Binary || expr->dtype != DType::I32) return std::nullopt;
  const ExprPtr &left = expr->operands[0], &right = expr->operands[1];
  if (is_binary(expr, BinaryOp::Or)) {
    auto low = byte_operand(left, bytes_loop);
    const auto shift = is_binary(right, BinaryOp::Shl) ? constant_byte(right->operands[1]) : std::nullopt;
    const auto high = shift ? byte_operand(right->operands[0], bytes_loop) : std::nullopt;
    if (!low || !high || low->dtype != DType::U8 || high->dtype != DType::U8 || low->shared != high->shared)
      return std::nullopt;
    if (*shift > 7 || high->most << *shift > 255) return std::nullopt;
    return ByteOperand{expr, low->shared, DType::U8, low->most | high->most << *shift};
  }
  const auto number = constant_byte(right);
  if (!number) return std::nullopt;
  if (is_binary(expr, BinaryOp::Xor)) {
    const auto bytes = byte_operand(left, bytes_loop);
    if (!bytes || bytes->dtype != DType::U8) return std::nullopt;
    return ByteOperand{expr, bytes->shared, DType::U8, 255};
  }
  if (!is_binary(expr, BinaryOp::And)) return std::nullopt;
  // A shift moves bits of the next byte in, which the mask has to remove.
  const bool shifted = is_binary(left, BinaryOp::Shr);
  const auto shift = shifted ? shift_of(left->operands[1]) : Affine(0);
  const auto bytes = byte_operand(shifted ? left->operands[0] : left, bytes_loop);
  if (!bytes || bytes->dtype != DType::U8 || !shift) return std::nullopt;
  const Interval range = range_of(*shift, context_.ranges);
  if (range.low < 0 || range.high > 7 || (*number & ~(255 >> range.high)) != 0) return std::nullopt;
  return ByteOperand{expr, bytes->shared, DType::U8, *number};
}

// The operand that is the same in all lanes, and the one of which each lane has its own.
std::optional<std::pair<TileEmitter::ByteOperand, TileEmitter::ByteOperand>> TileEmitter::byte_operands(
    const TileLoop& bytes_loop) {
  const auto product = product_of(statement_->value);
  if (!product) return std::nullopt;
  auto first = byte_operand(product->first, bytes_loop);
  if (!first) return std::nullopt;
  auto second = byte_operand(product->second, bytes_loop);
  if (!second || first->shared == second->shared) return std::nullopt;
  return first->shared ? std::pair(*first, *second) : std::pair(*second, *first);
}

bool TileEmitter::loads_in_bounds(const ExprPtr& expr) const {
  bool inside = true;
  for_each_load(expr, [&](const Expr& load) { inside = inside && in_bounds(load.access); });
  return inside;
}

// The elements of the loop as the bytes of 32-bit numbers: the same number in all lanes (`shared`), or each
// lane's own.
llvm::Value* TileEmitter::bytes_of(const ExprPtr& expr, const TileLoop& bytes_loop, const Guard& guard,
                                   bool shared) {
  if (const Expr* load = loaded_byte(expr))
    return load_bytes(*load, bytes_address(load->access, bytes_loop), guard, shared);
  const ExprPtr &left = expr->operands[0], &right = expr->operands[1];
  const auto in_each_byte = [](llvm::Value* like, int64_t number) {
    return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(number) * 0x01010101);
  };
  const auto moved = [&](llvm::Value* like, const Affine& bits) -> llvm::Value* {
    if (bits.is_constant())
      return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(bits.constant()));
    llvm::Value* number = builder_.CreateTrunc(hoisted(bits), builder_.getInt32Ty());
    return like->getType()->isVectorTy() ? builder_.CreateVectorSplat(static_cast<unsigned>(lanes_), number)
                                         : number;
  };
  if (is_binary(expr, BinaryOp::Or)) {
    llvm::Value *low = bytes_of(left, bytes_loop, guard, shared),
                *high = bytes_of(right->operands[0], bytes_loop, guard, shared);
    return builder_.CreateOr(low, builder_.CreateShl(high, moved(high, Affine(right->operands[1]->integer))));
  }
  if (is_binary(expr, BinaryOp::Xor)) {
    llvm::Value* bytes = bytes_of(left, bytes_loop, guard, shared);
    return builder_.CreateXor(bytes, in_each_byte(bytes, right->integer));
  }
  const bool shifted = is_binary(left, BinaryOp::Shr);
  llvm::Value* bytes = bytes_of(shifted ? left->operands[0] : left, bytes_loop, guard, shared);
  if (shifted) bytes = builder_.CreateLShr(bytes, moved(bytes, *shift_of(left->operands[1])));
  return builder_.CreateAnd(bytes, in_each_byte(bytes, right->integer));
}

bool TileEmitter::sum_bytes(size_t position, const Constraints& pending) {
  const TileLoop& bytes_loop = tile_->loops[position];
  const bool last = position + 2 == tile_->loops.size() && tile_->loops.back().kind == TileLoop::Kind::Vector;
  if (!region_.active || region_.lane_partial || !last ||
      bytes_loop.extent != byte_products(context_.target) || statement_->reduction != Reduction::Sum ||
      statement_->value->dtype != DType::I32) {
    return false;
  }
  const bool in_scalars = adds_products_in_scalars(context_.target);
  const std::vector<const NarrowProduct*>& rows = context_.target.lane_products;
  if (!in_scalars && std::none_of(rows.begin(), rows.end(),
                                  [&](const NarrowProduct* row) { return row->columns == lanes_; }))
    return false;
  if (std::any_of(pending.begin(), pending.end(),
                  [&](const Affine& each) { return each.coefficient(bytes_loop.name) != 0; }))
    return false;
  // A loop over results has products of its own in each copy, such as those of a depthwise convolution.
  const std::vector<Subscript>& results = statement_->write.index;
  if (std::any_of(results.begin(), results.end(), [&](const Subscript& each) {
        return each.affine.substitute(tile_->iterators).coefficient(bytes_loop.name) != 0;
      }))
    return false;
  evaluated_.clear();
  iterators_.clear();
  for (const auto& [name, affine] : tile_->iterators) iterators_[name] = with_values(affine);
  const auto operands = byte_operands(bytes_loop);
  if (!operands) return false;
  const Guard guard = guard_for(pending);
  const auto& [shared, apart] = *operands;
  const bool apart_inside = guard.empty() || loads_in_bounds(apart.expr);
  if (!apart_inside && (guard.mask != nullptr || !apart.plain)) return false;

  Accumulator& accumulator = region_.accumulators.at(accumulator_key());
  Constraints needed;
  for (const Affine& constraint : pending) {
    if (accumulator.exists_where.count(constraint.str()) == 0) needed.push_back(constraint);
  }
  const bool must_guard = !needed.empty() || !loads_in_bounds(shared.expr);
  if (must_guard && !guard.empty() && !shared.plain) return false;
  llvm::Value* shared_bytes = bytes_of(shared.expr, bytes_loop, must_guard ? guard : Guard(), true);
  llvm::Value* apart_bytes = bytes_of(apart.expr, bytes_loop, apart_inside ? Guard() : guard, false);
  // Where the instance does not exist, the guarded load gives 0, which adds nothing.
  if (guard_for(needed).mask == nullptr) needed.clear();
  if (in_scalars) {
    add_word_product(
        {accumulator_key(), shared_bytes, apart_bytes, is_signed(shared.dtype), is_signed(apart.dtype)},
        needed);
    return true;
  }
  llvm::Value* next = add_bytes(accumulator.value, shared, shared_bytes, apart, apart_bytes);
  accumulator.value = selected(needed, next, accumulator.value);
  return true;
}

llvm::Value* TileEmitter::load_bytes(const Expr& load, const Address& address, const Guard& guard,
                                     bool shared) {
  std::string key;
  if (is_read_only(load.access.buffer)) {
    key = "bytes " + load_key(load.access, address, guard, nullptr);
    for (auto scope = loaded_.rbegin(); scope != loaded_.rend(); ++scope) {
      const auto found = scope->find(key);
      if (found != scope->end()) return found->second.value;
    }
  }
  llvm::Type* word = builder_.getInt32Ty();
  constexpr int64_t kWord = 4;
  const bool is_constant = kernel_.buffers[static_cast<size_t>(load.access.buffer)].scope == Scope::Constant;
  const llvm::Align align(is_constant && has_whole_words(address.bytes) ? kWord : 1);
  llvm::Value* value = shared ? load_whole(address, word, guard, kWord, align)
                              : load_whole(address, widen(word, lanes_), guard, kWord * lanes_, align);
  if (guard.empty()) prefetch(load.access, address);
  if (is_constant && !fills_registers()) {
    llvm::cast<llvm::LoadInst>(value)->setMetadata(llvm::LLVMContext::MD_invariant_load,
                                                   llvm::MDNode::get(builder_.getContext(), {}));
  }
  if (shared && lanes_ > 1) value = builder_.CreateVectorSplat(static_cast<unsigned>(lanes_), value);
  if (!key.empty()) loaded_.back()[key] = {value, true};
  return value;
}

// Uses the instruction for unsigned times signed numbers where there is one. Else, where the unsigned
// numbers are below 128, sums of two products fit 16 bits (2 * 127 * 128). Else even and odd bytes are
// separated as numbers of 16 bits, whose products are summed up in pairs; no such sum overflows 32 bits.
llvm::Value* TileEmitter::add_bytes(llvm::Value* sums, const ByteOperand& a, llvm::Value* a_bytes,
                                    const ByteOperand& b, llvm::Value* b_bytes) {
  const bool mixed = is_signed(a.dtype) != is_signed(b.dtype);
  llvm::Value* unsigned_bytes = is_signed(a.dtype) ? b_bytes : a_bytes;
  llvm::Value* signed_bytes = is_signed(a.dtype) ? a_bytes : b_bytes;
  const auto row = [&](DType first, DType second, DType sum) {
    return lane_product(context_.target, lanes_, first, second, sum);
  };
  if (const NarrowProduct* four = row(a.dtype, b.dtype, DType::I32)) {
    const bool is_first = !is_signed(four->a);
    return add_products(builder_, context_.target, *four, sums, is_first ? unsigned_bytes : signed_bytes,
                        is_first ? signed_bytes : unsigned_bytes);
  }
  llvm::Type* halves = widen(builder_.getInt16Ty(), 2 * lanes_);
  const auto eight = llvm::ConstantInt::get(halves, 8);
  // Bytes 0 and 2, or 1 and 3, of each word.
  const auto every_other = [&](llvm::Value* words, DType type, bool odd) {
    llvm::Value* pairs = builder_.CreateBitCast(words, halves);
    if (is_signed(type)) return builder_.CreateAShr(odd ? pairs : builder_.CreateShl(pairs, eight), eight);
    return odd ? builder_.CreateLShr(pairs, eight)
               : builder_.CreateAnd(pairs, llvm::ConstantInt::get(halves, 255));
  };
  const NarrowProduct* of_halves = row(DType::I16, DType::I16, DType::I32);
  const NarrowProduct* of_bytes = mixed ? row(a.dtype, b.dtype, DType::I16) : nullptr;
  TC_CHECK(of_halves != nullptr, "for ", lanes_, " lanes of target ", context_.target.name);
  if (of_bytes != nullptr && (is_signed(a.dtype) ? b : a).most < 128) {
    llvm::Type* bytes = widen(builder_.getInt8Ty(), 4 * lanes_);
    llvm::Value* pairs = call_intrinsic(
        builder_, of_bytes->intrinsic, halves,
        {builder_.CreateBitCast(unsigned_bytes, bytes), builder_.CreateBitCast(signed_bytes, bytes)});
    llvm::Value* products = call_intrinsic(builder_, of_halves->intrinsic, sums->getType(),
                                           {pairs, llvm::ConstantInt::get(halves, 1)});
    return builder_.CreateAdd(sums, products);
  }
  for (const bool odd : {false, true}) {
    llvm::Value* products =
        call_intrinsic(builder_, of_halves->intrinsic, sums->getType(),
                       {every_other(a_bytes, a.dtype, odd), every_other(b_bytes, b.dtype, odd)});
    sums = builder_.CreateAdd(sums, products);
  }
  return sums;
}

}  // namespace tc
