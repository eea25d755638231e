// Stores whose lanes are far apart while the copies of a loop write adjacent elements: a transposition in
// registers turns vectors of lanes into vectors of copies, each of which one instruction stores. Where
// elements are bytes, four copies become one vector: the four bytes of the first lane, those of the second...
#include <algorithm>

#include "codegen/llvm/emit/tile_emitter.h"

namespace tc {
namespace {

constexpr int64_t kElement = 4;  // bytes
constexpr int kGroup = 4;        // elements in 128 bits, within which an instruction interleaves two vectors
constexpr int64_t kBytes = 4;    // copies of bytes, adjacent in memory, that each lane has

// Lanes of `a` (0 ..) and `b` (from the number of lanes on).
llvm::Value* shuffle(Builder& builder, llvm::Value* a, llvm::Value* b, const std::vector<int>& lanes) {
  return builder.CreateShuffleVector(a, b, lanes);
}

// The matrix whose rows are vectors of as many lanes as there are rows, a power of two >= 4, transposed in
// log2(rows) steps of one shuffle per row.
std::vector<llvm::Value*> transposed(Builder& builder, std::vector<llvm::Value*> rows) {
  const int size = static_cast<int>(rows.size());
  // Within groups: 4 rows of groups become 4 rows of their columns; by single elements, then by pairs.
  for (const int width : {1, 2}) {
    std::vector<llvm::Value*> next(rows.size());
    std::vector<int> low, high;
    for (int lane = 0; lane < size; ++lane) {
      const int group = lane / kGroup * kGroup, run = lane % kGroup / width;
      const int from = group + run / 2 * width + lane % width + (run % 2) * size;
      low.push_back(from);
      high.push_back(from + kGroup / 2);
    }
    for (int i = 0; i < size; ++i) {
      const int place = i % kGroup, base = i - place;
      // Pairs (0, 1) and (2, 3) give rows 0, 1 and 2, 3; then (0, 2) gives 0, 1 and (1, 3) gives 2, 3.
      const int first = width == 1 ? place / 2 * 2 : place / 2;
      next[static_cast<size_t>(i)] =
          shuffle(builder, rows[static_cast<size_t>(base + first)],
                  rows[static_cast<size_t>(base + first + width)], place % 2 == 0 ? low : high);
    }
    rows = std::move(next);
  }
  // Among groups: row 4 i + q holds, group by group, column 4 g + q of the i-th four rows. Each step puts
  // the even groups of two rows into one row and the odd ones into another; there are as many steps as bits
  // in the number of a group.
  const int groups = size / kGroup;
  std::vector<int> even, odd;
  for (int lane = 0; lane < size; ++lane) {
    const int group = lane / kGroup;
    const int from = (2 * group % groups) * kGroup + lane % kGroup + (2 * group >= groups ? size : 0);
    even.push_back(from);
    odd.push_back(from + kGroup);
  }
  for (int step = 1; step < groups; step *= 2) {
    std::vector<llvm::Value*> next(rows.size());
    for (int i = 0; i < groups / 2; ++i) {
      for (int q = 0; q < kGroup; ++q) {
        auto row = [&](int group) { return static_cast<size_t>(group * kGroup + q); };
        next[row(i)] = shuffle(builder, rows[row(2 * i)], rows[row(2 * i + 1)], even);
        next[row(i + groups / 2)] = shuffle(builder, rows[row(2 * i)], rows[row(2 * i + 1)], odd);
      }
    }
    rows = std::move(next);
  }
  return rows;
}

// The elements of `a` and `b` alternately.
llvm::Value* interleaved(Builder& builder, llvm::Value* a, llvm::Value* b) {
  const int size = lanes_of(a);
  std::vector<int> lanes;
  for (int lane = 0; lane < size; ++lane) {
    lanes.push_back(lane);
    lanes.push_back(lane + size);
  }
  return shuffle(builder, a, b, lanes);
}

}  // namespace

// Whether the copies of the loop at `position`, the last before the vector loop, write adjacent elements and
// read nothing that the leaf writes, so that their stores may be delayed and combined.
bool TileEmitter::stores_across(size_t position) const {
  const std::vector<TileLoop>& loops = tile_->loops;
  if (context_.target.vector_bits == 0 || context_.target.scalable || region_.active) return false;
  if (position + 2 != loops.size() || loops.back().kind != TileLoop::Kind::Vector) return false;
  if (lanes_ < kGroup || (lanes_ & (lanes_ - 1)) != 0 || loops[position].extent < 2) return false;
  const Buffer& buffer = kernel_.buffers[static_cast<size_t>(statement_->write.buffer)];
  const int64_t element = size_of(buffer.dtype);
  const bool bytes = element == 1 && loops[position].extent == kBytes;
  if (statement_->reduction != Reduction::None || buffer.scope == Scope::Register ||
      (element != kElement && !bytes))
    return false;
  bool apart = true;
  for_each_load(statement_->value,
                [&](const Expr& load) { apart = apart && is_read_only(load.access.buffer); });
  const BufferSlot& slot = context_.buffers[static_cast<size_t>(statement_->write.buffer)];
  int64_t along_lanes = 0, along_copies = 0;
  for (size_t d = 0; d < statement_->write.index.size(); ++d) {
    const Subscript& subscript = statement_->write.index[d];
    const Affine index = subscript.affine.substitute(tile_->iterators);
    const int64_t lane = index.coefficient(lane_), copy = index.coefficient(loops[position].name);
    if (subscript.dynamic != nullptr || ((lane != 0 || copy != 0) && slot.symbolic_stride[d] != nullptr))
      return false;
    along_lanes += lane * slot.stride[d];
    along_copies += copy * slot.stride[d];
  }
  if (!apart || along_copies != element) return false;
  return bytes ? along_lanes == kBytes : along_lanes >= loops[position].extent * kElement;
}

// For bytes: stores the four bytes of each lane, lane after lane, as one vector.
void TileEmitter::store_interleaved() {
  const WaitingStore& start = waiting_.front();
  bool together = waiting_.size() == kBytes;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    const Affine behind = waiting_[i].address.bytes - start.address.bytes;
    together = together && waiting_[i].mask == start.mask && behind == Affine(static_cast<int64_t>(i));
  }
  if (!together) {
    for (const WaitingStore& one : waiting_) scatter(one.address, one.value, one.mask, llvm::Align(1));
    return;
  }
  const auto pair = [&](size_t first) {
    llvm::Value* bytes = interleaved(builder_, waiting_[first].value, waiting_[first + 1].value);
    return builder_.CreateBitCast(bytes, widen(builder_.getInt16Ty(), lanes_));
  };
  llvm::Value* fours = builder_.CreateBitCast(interleaved(builder_, pair(0), pair(2)),
                                              widen(builder_.getInt8Ty(), kBytes * lanes_));
  if (start.mask == nullptr) {
    builder_.CreateAlignedStore(fours, pointer(start.address), llvm::Align(1));
    return;
  }
  std::vector<llvm::Constant*> mask;
  for (int64_t i = 0; i < kBytes * lanes_; ++i)
    mask.push_back(start.mask->getAggregateElement(static_cast<unsigned>(i / kBytes)));
  builder_.CreateMaskedStore(fours, pointer(start.address), llvm::Align(1), llvm::ConstantVector::get(mask));
}

void TileEmitter::store_transposed() {
  if (!waiting_.empty() && waiting_.front().value->getType()->getScalarSizeInBits() == 8) {
    store_interleaved();
    waiting_.clear();
    return;
  }
  const llvm::Align align(kElement);
  size_t next = 0;
  for (size_t first = 0; first < waiting_.size(); first = next) {
    const WaitingStore& start = waiting_[first];
    std::vector<llvm::Value*> rows;
    for (next = first; next < waiting_.size() && rows.size() < static_cast<size_t>(lanes_); ++next) {
      const WaitingStore& one = waiting_[next];
      const Affine behind = one.address.bytes - start.address.bytes;
      if (one.mask != start.mask || behind != Affine(static_cast<int64_t>(rows.size()) * kElement)) break;
      rows.push_back(one.value);
    }
    const size_t copies = rows.size();
    if (copies < 2) {
      scatter(start.address, start.value, start.mask, align);
      continue;
    }
    rows.resize(static_cast<size_t>(lanes_), llvm::PoisonValue::get(start.value->getType()));
    const std::vector<llvm::Value*> columns = transposed(builder_, std::move(rows));
    std::vector<int> kept;
    for (size_t i = 0; i < copies; ++i) kept.push_back(static_cast<int>(i));
    for (int lane = 0; lane < lanes_; ++lane) {
      if (start.mask != nullptr &&
          start.mask->getAggregateElement(static_cast<unsigned>(lane))->isNullValue())
        continue;
      llvm::Value* column = columns[static_cast<size_t>(lane)];
      if (copies < static_cast<size_t>(lanes_)) column = builder_.CreateShuffleVector(column, kept);
      Address address = start.address;
      address.bytes = address.bytes + Affine(address.lane_bytes * lane);
      builder_.CreateAlignedStore(column, pointer(address), align);
    }
  }
  waiting_.clear();
}

}  // namespace tc
