// Copies of bytes as vectors (MVE). Four at a time, as the words of a vector: where loops copy four channels
// of each of several positions, or of several blocks, one load gathers four such words and one store scatters
// them. Other bytes that are adjacent where they are written: one load gathers 16 of them.
#include <algorithm>
#include <array>
#include <optional>

#include "codegen/llvm/emit/tile_emitter.h"

namespace tc {
namespace {

constexpr int64_t kWord = 4;  // bytes
constexpr size_t kWords = 4;  // of a vector
constexpr unsigned kBits = 32;
constexpr size_t kBytes = 16;    // of a vector
constexpr int64_t kReach = 255;  // bytes from an address to those that one load gathers

using Offsets = std::array<int64_t, kWords>;  // of the words, from the first one

bool is_byte(DType type) { return type == DType::I8 || type == DType::U8; }

// The load whose bytes are copied, and what they are combined with by an exclusive or; null for others.
const Expr* copied_load(const Expr& value, int64_t& combined) {
  const Expr* expr = &value;
  combined = 0;
  const auto without_cast = [](const Expr* of) {
    const bool of_byte =
        of->kind == Expr::Kind::Cast && is_byte(of->dtype) && is_byte(of->operands[0]->dtype);
    return of_byte ? of->operands[0].get() : of;
  };
  expr = without_cast(expr);
  if (expr->kind == Expr::Kind::Binary && expr->binary == BinaryOp::Xor &&
      expr->operands[1]->kind == Expr::Kind::Const) {
    combined = expr->operands[1]->integer;
    expr = without_cast(expr->operands[0].get());
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

// 16 bytes at offsets from an address, each less than 256; those that have none are 0.
using ByteOffsets = std::array<std::optional<int64_t>, kBytes>;

llvm::Value* load_vector(Builder& builder, llvm::Value* from, const ByteOffsets& offsets, uint64_t combined) {
  llvm::Type* type = llvm::FixedVectorType::get(builder.getInt8Ty(), kBytes);
  std::array<uint8_t, kBytes> places{}, mask{}, changes{};
  bool adjacent = true, all = true;
  for (size_t i = 0; i < kBytes; ++i) {
    all = all && offsets[i].has_value();
    adjacent = adjacent && offsets[i] == static_cast<int64_t>(i);
    places[i] = static_cast<uint8_t>(offsets[i].value_or(0));
    mask[i] = offsets[i] ? UINT8_MAX : 0;
    changes[i] = offsets[i] ? static_cast<uint8_t>(combined) : 0;
  }
  const auto constant = [&](const std::array<uint8_t, kBytes>& bytes) {
    return llvm::ConstantDataVector::get(builder.getContext(), llvm::ArrayRef<uint8_t>(bytes));
  };
  llvm::Value* result =
      adjacent ? static_cast<llvm::Value*>(builder.CreateAlignedLoad(type, from, llvm::Align(1)))
               : builder.CreateIntrinsic(
                     llvm::Function::lookupIntrinsicID("llvm.arm.mve.vldr.gather.offset"),
                     {type, from->getType(), type},
                     {from, constant(places), builder.getInt32(8), builder.getInt32(0), builder.getInt32(1)});
  if (!all) result = builder.CreateAnd(result, constant(mask));
  return combined == 0 ? result : builder.CreateXor(result, constant(changes));
}

// Bytes that a vector is made of: where each comes from, unless it is 0, and where it goes.
struct ByteCopy {
  int64_t to = 0;
  std::optional<int64_t> from;
};

// The copies in the order in which they are written, if they are whole vectors that one load can gather each.
std::optional<std::vector<ByteCopy>> in_vectors(std::vector<ByteCopy> copies) {
  if (copies.empty() || copies.size() % kBytes != 0) return std::nullopt;
  std::sort(copies.begin(), copies.end(), [](const ByteCopy& a, const ByteCopy& b) { return a.to < b.to; });
  for (size_t first = 0; first < copies.size(); first += kBytes) {
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (size_t i = 0; i < kBytes; ++i) {
      const ByteCopy& each = copies[first + i];
      if (each.to != copies[first].to + static_cast<int64_t>(i)) return std::nullopt;
      if (!each.from) continue;
      low = std::min(low, *each.from);
      high = std::max(high, *each.from);
    }
    if (low <= high && high - low > kReach) return std::nullopt;
  }
  return copies;
}

}  // namespace

// The number of copies of the unrolled loops from `position` on, where these are all but the vector loop of
// four lanes, and the copies may be made in any order; else 0. Without a source these are copies of a
// constant.
int64_t TileEmitter::copies_of_bytes(size_t position, const Expr* source, const Constraints& pending) const {
  const std::vector<TileLoop>& loops = tile_->loops;
  const Buffer& written = kernel_.buffers[static_cast<size_t>(statement_->write.buffer)];
  if (context_.target.arch != Arch::ArmM || context_.target.vector_bits == 0 || region_.active ||
      lanes_ != kWord || !pending.empty() || statement_->reduction != Reduction::None ||
      !is_byte(written.dtype) || written.scope == Scope::Register)
    return 0;
  if (source != nullptr &&
      (source->access.buffer == statement_->write.buffer ||
       kernel_.buffers[static_cast<size_t>(source->access.buffer)].scope == Scope::Register))
    return 0;
  int64_t count = 1;
  for (size_t i = position; i + 1 < loops.size(); ++i) {
    if (loops[i].kind != TileLoop::Kind::Unroll) return 0;
    count *= loops[i].extent;
  }
  return count;
}

void TileEmitter::for_each_copy(size_t position, int64_t count, const std::function<void()>& run) {
  const std::vector<TileLoop>& loops = tile_->loops;
  const auto saved = values_;
  for (int64_t copy = 0; copy < count; ++copy) {
    int64_t rest = copy;
    for (size_t i = loops.size() - 1; i-- > position;) {
      values_[loops[i].name] = Affine(rest % loops[i].extent);
      rest /= loops[i].extent;
    }
    evaluated_.clear();
    iterators_.clear();
    for (const auto& [name, affine] : tile_->iterators) iterators_[name] = with_values(affine);
    run();
  }
  values_ = saved;
}

// The bytes of all copies and lanes, 16 at a time. A byte may be 0 where a condition on the copy does not
// hold, as those that fill up a block.
bool TileEmitter::copy_bytes(size_t position, const Constraints& pending) {
  const Expr* value = statement_->value.get();
  ExprPtr condition;
  if (value->kind == Expr::Kind::Select && value->operands[2]->kind == Expr::Kind::Const &&
      value->operands[2]->integer == 0 && value->operands[0]->kind == Expr::Kind::Binary) {
    condition = value->operands[0];
    value = value->operands[1].get();
  }
  int64_t combined = 0;
  const Expr* source = copied_load(*value, combined);
  const bool is_constant = value->kind == Expr::Kind::Const && condition == nullptr;
  if (source == nullptr && !is_constant) return false;
  const int64_t count = copies_of_bytes(position, source, pending);
  if (count == 0 || (source != nullptr && !is_read_only(source->access.buffer))) return false;
  std::vector<ByteCopy> copies;
  std::optional<Address> from, to;  // of the first byte
  bool found = true;
  const auto distance = [&](std::optional<Address>& first, const Address& address) {
    if (!first) first = address;
    const Affine apart = address.bytes - first->bytes;
    found = found && apart.is_constant() && address.symbolic.empty() && address.symbolic_lane.empty() &&
            address.dynamic == nullptr && address.dynamic_lanes == nullptr;
    return apart.is_constant() ? apart.constant() : 0;
  };
  for_each_copy(position, count, [&] {
    std::array<bool, kWord> exists{};
    exists.fill(source != nullptr);
    if (condition != nullptr) {
      const auto* known = llvm::dyn_cast<llvm::Constant>(spread(evaluate(condition, Guard())));
      found = found && known != nullptr;
      for (unsigned lane = 0; lane < kWord && found; ++lane) {
        const llvm::Constant* of_lane = known->getAggregateElement(lane);
        found = of_lane != nullptr && llvm::isa<llvm::ConstantInt>(of_lane);
        exists[lane] = found && of_lane->isOneValue();
      }
    }
    const bool any = std::find(exists.begin(), exists.end(), true) != exists.end();
    const Address write = address_of(statement_->write, Guard());
    const Address read = any ? address_of(source->access, Guard()) : Address();
    const int64_t behind = distance(to, write), behind_read = any ? distance(from, read) : 0;
    for (int64_t lane = 0; lane < kWord; ++lane) {
      copies.push_back({behind + lane * write.lane_bytes, std::nullopt});
      if (exists[static_cast<size_t>(lane)]) copies.back().from = behind_read + lane * read.lane_bytes;
    }
  });
  const auto sorted = found ? in_vectors(std::move(copies)) : std::nullopt;
  if (!sorted) return false;
  const auto moved = [](Address address, int64_t bytes) {
    address.bytes = address.bytes + Affine(bytes);
    address.lane_bytes = 0;
    return address;
  };
  for (size_t first = 0; first < sorted->size(); first += kBytes) {
    const auto store = [&](llvm::Value* bytes) {
      builder_.CreateAlignedStore(bytes, pointer(moved(*to, (*sorted)[first].to)), llvm::Align(1));
    };
    const auto of = [&](size_t i) { return (*sorted)[first + i].from; };
    int64_t low = INT64_MAX;
    for (size_t i = 0; i < kBytes; ++i) low = std::min(low, of(i).value_or(INT64_MAX));
    if (low == INT64_MAX) {
      const uint64_t byte = is_constant ? static_cast<uint64_t>(value->integer) & UINT8_MAX : 0;
      store(llvm::ConstantInt::get(llvm::FixedVectorType::get(builder_.getInt8Ty(), kBytes), byte));
      continue;
    }
    ByteOffsets offsets;
    for (size_t i = 0; i < kBytes; ++i) {
      if (of(i)) offsets[i] = *of(i) - low;
    }
    store(load_vector(builder_, pointer(moved(*from, low)), offsets,
                      static_cast<uint64_t>(combined) & UINT8_MAX));
  }
  return true;
}

// The copies of the unrolled loops from `position` on, four at a time. Bytes in blocks of four are words at
// addresses that are multiples of four: no buffer of a caller is in blocks.
bool TileEmitter::copy_words(size_t position, const Constraints& pending) {
  int64_t combined = 0;
  const Expr* source = copied_load(*statement_->value, combined);
  const int64_t count = source == nullptr ? 0 : copies_of_bytes(position, source, pending);
  if (count == 0 || count % static_cast<int64_t>(kWords) != 0) return false;
  const Buffer& read = kernel_.buffers[static_cast<size_t>(source->access.buffer)];
  const Buffer& written = kernel_.buffers[static_cast<size_t>(statement_->write.buffer)];
  const auto in_words = [](const Buffer& buffer) { return !buffer.logical.empty() || !is_argument(buffer); };
  if (!in_words(read) || !in_words(written)) return false;
  std::vector<std::pair<Address, Address>> copies;  // from, to
  bool found = true;
  for_each_copy(position, count, [&] {
    copies.emplace_back(address_of(source->access, Guard()), address_of(statement_->write, Guard()));
    for (const Address* each : {&copies.back().first, &copies.back().second})
      found = found && each->contiguous(1) && each->dynamic == nullptr && each->symbolic.empty() &&
              each->bytes.is_multiple_of(kWord);
  });
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
