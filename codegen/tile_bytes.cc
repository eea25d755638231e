// Products of bytes, four of which are summed up at once in each lane of 32 bits.
#include <algorithm>

#include "codegen/matrix_unit.h"
#include "codegen/riscv_vectors.h"
#include "codegen/tile_emitter.h"
#include "ir/error.h"
#include "ir/target/byte_products.h"

namespace tc {
namespace {

// The load of a byte that the expression is as an integer of 32 bits, or null.
const Expr* byte_load(const ExprPtr& expr) {
  if (expr->kind != Expr::Kind::Cast || expr->dtype != DType::I32) return nullptr;
  const Expr* load = expr->operands[0].get();
  const bool byte = load->kind == Expr::Kind::Load && (load->dtype == DType::I8 || load->dtype == DType::U8);
  return byte ? load : nullptr;
}

}  // namespace

llvm::Value* TileEmitter::add_short_product(const Accumulator& accumulator, const Constraints& pending) {
  if (statement_->reduction != Reduction::Sum || statement_->value->dtype != DType::I32 || !accumulator.value->getType()->isVectorTy() ||
      !has_riscv_vectors(context_.target, lanes_)) {
    return nullptr;
  }
  const auto product = product_of(statement_->value);
  if (!product) return nullptr;
  const Expr *first = byte_load(product->first), *second = byte_load(product->second);
  if (first == nullptr || second == nullptr) return nullptr;
  const Guard guard = guard_for(pending);
  const Value a = evaluate(product->first->operands[0], guard), b = evaluate(product->second->operands[0], guard);
  if (!a.vector && !b.vector) return nullptr;
  const auto widened = [&](llvm::Value* byte, DType type) {
    llvm::Type* half = widen(builder_.getInt16Ty(), lanes_of(byte));
    return is_signed(type) ? builder_.CreateSExt(byte, half) : builder_.CreateZExt(byte, half);
  };
  return add_short_products(builder_, context_.target, accumulator.value, widened(a.value, first->dtype), widened(b.value, second->dtype));
}

// Operands whose members lie side by side; of the loop over the members the addresses are where it begins.
std::optional<TileEmitter::ByteOperands> TileEmitter::byte_operands(const TileLoop& members) {
  const auto product = product_of(statement_->value);
  if (!product) return std::nullopt;
  ByteOperands result;
  for (const ExprPtr& operand : {product->first, product->second}) {
    const Expr* load = byte_load(operand);
    if (load == nullptr || kernel_.buffers[static_cast<size_t>(load->access.buffer)].scope == Scope::Register) return std::nullopt;
    for (const Subscript& subscript : load->access.index) {
      if (subscript.dynamic) return std::nullopt;
    }
    Address address = address_of(load->access, Guard());
    const bool symbolic = std::any_of(address.symbolic.begin(), address.symbolic.end(), [&](const auto& each) {
      return each.second.coefficient(members.name) != 0;
    });
    if (symbolic || !address.symbolic_lane.empty() || address.bytes.coefficient(members.name) != 1) return std::nullopt;
    address.bytes = address.bytes - Affine::variable(members.name, 1);
    if (address.lane_bytes == 0 && result.shared == nullptr) {
      result.shared = load;
      result.shared_at = address;
    } else if (address.lane_bytes == members.extent && result.apart == nullptr) {
      result.apart = load;
      result.apart_at = address;
    } else {
      return std::nullopt;
    }
  }
  return result;
}

bool TileEmitter::sum_bytes(size_t position, const Constraints& pending) {
  const TileLoop& members = tile_->loops[position];
  const bool last = position + 2 == tile_->loops.size() && tile_->loops.back().kind == TileLoop::Kind::Vector;
  if (!region_.active || region_.lane_partial || !last || members.extent != byte_products(context_.target) ||
      statement_->reduction != Reduction::Sum || statement_->value->dtype != DType::I32) {
    return false;
  }
  if (32 * lanes_ > context_.target.vector_bits || 32 * lanes_ < 256) return false;
  if (std::any_of(pending.begin(), pending.end(), [&](const Affine& each) { return each.coefficient(members.name) != 0; })) return false;
  evaluated_.clear();
  iterators_.clear();
  for (const auto& [name, affine] : tile_->iterators) iterators_[name] = with_values(affine);
  const auto operands = byte_operands(members);
  if (!operands) return false;
  const Guard guard = guard_for(pending);
  const bool apart_inside = guard.empty() || in_bounds(operands->apart->access);
  if (!apart_inside && guard.mask != nullptr) return false;

  Accumulator& accumulator = region_.accumulators.at(accumulator_key());
  Constraints needed;
  for (const Affine& constraint : pending) {
    if (accumulator.exists_where.count(constraint.str()) == 0) needed.push_back(constraint);
  }
  const bool must_guard = !needed.empty() || !in_bounds(operands->shared->access);
  llvm::Value* shared = load_bytes(*operands->shared, operands->shared_at, must_guard ? guard : Guard(), true);
  llvm::Value* apart = load_bytes(*operands->apart, operands->apart_at, apart_inside ? Guard() : guard, false);
  llvm::Value* next = add_bytes(accumulator.value, shared, operands->shared->dtype, apart, operands->apart->dtype);
  // What a guarded load gives where the instance does not exist is 0, which adds nothing.
  if (guard_for(needed).mask == nullptr) needed.clear();
  accumulator.value = selected(needed, next, accumulator.value);
  return true;
}

// The members as one number of 32 bits: in all lanes, or each lane its own.
llvm::Value* TileEmitter::load_bytes(const Expr& load, const Address& address, const Guard& guard, bool shared) {
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
  llvm::Value* value = shared ? load_whole(address, word, guard, kWord, llvm::Align(1))
                              : load_whole(address, widen(word, lanes_), guard, kWord * lanes_, llvm::Align(1));
  if (guard.empty()) prefetch(load.access, address);
  if (kernel_.buffers[static_cast<size_t>(load.access.buffer)].scope == Scope::Constant && !fills_registers()) {
    llvm::cast<llvm::LoadInst>(value)->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(builder_.getContext(), {}));
  }
  if (shared) value = builder_.CreateVectorSplat(static_cast<unsigned>(lanes_), value);
  if (!key.empty()) loaded_.back()[key] = {value, true};
  return value;
}

// By an instruction where there is one for unsigned times signed numbers; else even and odd members apart, as numbers of
// 16 bits, whose products are summed up in pairs: no such sum leaves 32 bits.
llvm::Value* TileEmitter::add_bytes(llvm::Value* sums, llvm::Value* shared, DType shared_type, llvm::Value* apart, DType apart_type) {
  if (has_byte_instruction(context_.target, lanes_, shared_type, apart_type)) {
    llvm::Value* whole = is_signed(shared_type) ? apart : shared;
    llvm::Value* integer = is_signed(shared_type) ? shared : apart;
    return call_intrinsic(builder_, text("llvm.x86.avx512.vpdpbusd.", 32 * lanes_).c_str(), sums->getType(), {sums, whole, integer});
  }
  llvm::Type* halves = widen(builder_.getInt16Ty(), 2 * lanes_);
  const auto eight = llvm::ConstantInt::get(halves, 8);
  // Members 0 and 2, or 1 and 3.
  const auto members = [&](llvm::Value* words, DType type, bool odd) {
    llvm::Value* pairs = builder_.CreateBitCast(words, halves);
    if (is_signed(type)) return builder_.CreateAShr(odd ? pairs : builder_.CreateShl(pairs, eight), eight);
    return odd ? builder_.CreateLShr(pairs, eight) : builder_.CreateAnd(pairs, llvm::ConstantInt::get(halves, 255));
  };
  const char* name = lanes_ == 16 ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd";
  for (const bool odd : {false, true}) {
    llvm::Value* products = call_intrinsic(builder_, name, sums->getType(), {members(shared, shared_type, odd), members(apart, apart_type, odd)});
    sums = builder_.CreateAdd(sums, products);
  }
  return sums;
}

}  // namespace tc
