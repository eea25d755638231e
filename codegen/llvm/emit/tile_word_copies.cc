// Copies of bytes four at a time, as the words of a vector: where loops copy four channels of each of several
// positions, or of several blocks, one load gathers four such words and one store scatters them (MVE).
#include <array>

#include "codegen/llvm/emit/tile_emitter.h"

namespace tc {
namespace {

constexpr int64_t kWord = 4;  // bytes
constexpr size_t kWords = 4;  // of a vector
constexpr unsigned kBits = 32;

using Offsets = std::array<int64_t, kWords>;  // of the words, from the first one

bool is_byte(DType type) { return type == DType::I8 || type == DType::U8; }

// The load whose bytes are copied, and what they are combined with by an exclusive or; null for others.
const Expr* copied_load(const Expr& value, int64_t& combined) {
  const Expr* expr = &value;
  combined = 0;
  if (expr->kind == Expr::Kind::Cast && is_byte(expr->dtype)) expr = expr->operands[0].get();
  if (expr->kind == Expr::Kind::Binary && expr->binary == BinaryOp::Xor &&
      expr->operands[1]->kind == Expr::Kind::Const) {
    combined = expr->operands[1]->integer;
    expr = expr->operands[0].get();
  }
  return expr->kind == Expr::Kind::Load && is_byte(expr->dtype) && is_byte(value.dtype) ? expr : nullptr;
}

bool are_adjacent(const Offsets& offsets) {
  for (size_t i = 0; i < kWords; ++i) {
    if (offsets[i] != static_cast<int64_t>(i) * kWord) return false;
  }
  return true;
}

llvm::Constant* vector_of(llvm::LLVMContext& context, const Offsets& offsets) {
  std::array<uint32_t, kWords> words{};
  for (size_t i = 0; i < kWords; ++i) words[i] = static_cast<uint32_t>(offsets[i]);
  return llvm::ConstantDataVector::get(context, llvm::ArrayRef<uint32_t>(words));
}

llvm::Value* load_words(Builder& builder, llvm::Value* from, const Offsets& offsets) {
  llvm::Type* words = llvm::FixedVectorType::get(builder.getInt32Ty(), kWords);
  if (are_adjacent(offsets)) return builder.CreateAlignedLoad(words, from, llvm::Align(kWord));
  llvm::Constant* places = vector_of(builder.getContext(), offsets);
  return builder.CreateIntrinsic(
      llvm::Function::lookupIntrinsicID("llvm.arm.mve.vldr.gather.offset"), {words, from->getType(), words},
      {from, places, builder.getInt32(kBits), builder.getInt32(0), builder.getInt32(1)});
}

void store_words(Builder& builder, llvm::Value* to, const Offsets& offsets, llvm::Value* words) {
  if (are_adjacent(offsets)) {
    builder.CreateAlignedStore(words, to, llvm::Align(kWord));
    return;
  }
  builder.CreateIntrinsic(
      llvm::Function::lookupIntrinsicID("llvm.arm.mve.vstr.scatter.offset"),
      {to->getType(), words->getType(), words->getType()},
      {to, vector_of(builder.getContext(), offsets), words, builder.getInt32(kBits), builder.getInt32(0)});
}

}  // namespace

// The copies of the unrolled loops from `position` on, four at a time. Bytes in blocks of four are words at
// addresses that are multiples of four: no buffer of a caller is in blocks.
bool TileEmitter::copy_words(size_t position, const Constraints& pending) {
  const std::vector<TileLoop>& loops = tile_->loops;
  int64_t combined = 0;
  const Expr* source = copied_load(*statement_->value, combined);
  if (context_.target.arch != Arch::ArmM || context_.target.vector_bits == 0 || region_.active ||
      lanes_ != kWord || source == nullptr || !pending.empty() || statement_->reduction != Reduction::None)
    return false;
  int64_t count = 1;
  for (size_t i = position; i + 1 < loops.size(); ++i) {
    if (loops[i].kind != TileLoop::Kind::Unroll) return false;
    count *= loops[i].extent;
  }
  const Buffer& read = kernel_.buffers[static_cast<size_t>(source->access.buffer)];
  const Buffer& written = kernel_.buffers[static_cast<size_t>(statement_->write.buffer)];
  const auto in_words = [](const Buffer& buffer) { return !buffer.logical.empty() || !is_argument(buffer); };
  // Four words are loaded before the first is stored.
  const bool apart = source->access.buffer != statement_->write.buffer && is_byte(written.dtype);
  if (!apart || count % static_cast<int64_t>(kWords) != 0 || !in_words(read) || !in_words(written) ||
      read.scope == Scope::Register || written.scope == Scope::Register)
    return false;
  const auto saved = values_;
  std::vector<std::pair<Address, Address>> copies;  // from, to
  bool found = true;
  for (int64_t copy = 0; copy < count; ++copy) {
    int64_t rest = copy;
    for (size_t i = loops.size() - 1; i-- > position;) {
      values_[loops[i].name] = Affine(rest % loops[i].extent);
      rest /= loops[i].extent;
    }
    evaluated_.clear();
    iterators_.clear();
    for (const auto& [name, affine] : tile_->iterators) iterators_[name] = with_values(affine);
    copies.emplace_back(address_of(source->access, Guard()), address_of(statement_->write, Guard()));
    for (const Address* each : {&copies.back().first, &copies.back().second})
      found = found && each->contiguous(1) && each->dynamic == nullptr && each->symbolic.empty() &&
              each->bytes.is_multiple_of(kWord);
  }
  values_ = saved;
  const auto offsets = [&](size_t first, bool to, Offsets& result) {
    for (size_t i = 0; i < kWords; ++i) {
      const auto& [a, b] = copies[first + i];
      const Affine apart = (to ? b.bytes : a.bytes) - (to ? copies[first].second : copies[first].first).bytes;
      if (!apart.is_constant() || apart.constant() < 0) return false;
      result[i] = apart.constant();
    }
    return true;
  };
  std::vector<std::pair<Offsets, Offsets>> groups(copies.size() / kWords);
  for (size_t i = 0; i < groups.size() && found; ++i)
    found = offsets(i * kWords, false, groups[i].first) && offsets(i * kWords, true, groups[i].second);
  if (!found) return false;
  for (size_t i = 0; i < groups.size(); ++i) {
    llvm::Value* words = load_words(builder_, pointer(copies[i * kWords].first), groups[i].first);
    const uint64_t byte = static_cast<uint64_t>(combined) & UINT8_MAX;
    if (byte != 0)
      words = builder_.CreateXor(words, llvm::ConstantInt::get(words->getType(), byte * 0x01010101));
    store_words(builder_, pointer(copies[i * kWords].second), groups[i].second, words);
  }
  return true;
}

}  // namespace tc
