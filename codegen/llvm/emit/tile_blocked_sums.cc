// Blocked summation: the terms of each block of a sum are added up from zero, and the block's sum is then
// added to the total of the blocks before it.
#include <algorithm>

#include "codegen/llvm/emit/tile_emitter.h"
#include "ir/error.h"
#include "ir/tile.h"

namespace tc {

// Totals are kept in memory, with volatile stores and loads: if LLVM promoted them to values, they would
// need the registers that accumulators fill.

void TileEmitter::begin_blocks(size_t position) {
  if (statement_->reduction != Reduction::Sum || region_.accumulators.empty()) return;
  const bool blocks =
      std::any_of(tile_->loops.begin() + static_cast<std::ptrdiff_t>(position), tile_->loops.end(),
                  [](const TileLoop& loop) { return loop.sum_block > 0; });
  if (!blocks || reads_itself(*statement_)) return;
  llvm::Type* type = region_.accumulators.begin()->second.value->getType();
  llvm::BasicBlock& entry = builder_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::Value* totals = llvm::IRBuilder<>(&entry, entry.begin())
                            .CreateAlloca(type, builder_.getInt64(region_.accumulators.size()), "totals");
  uint64_t number = 0;
  for (auto& [name, accumulator] : region_.accumulators) {
    TC_CHECK(accumulator.value->getType() == type, "of the accumulators of statement '", statement_->name,
             "'");
    accumulator.total = builder_.CreateGEP(type, totals, builder_.getInt64(number++));
  }
  // The first of the outermost loop's blocks continues from the initial values and the last ends in
  // registers, so that n blocks cost n - 1 stores and loads of the totals.
  const TileLoop& outermost = tile_->loops[position];
  region_.outer_blocks = outermost.kind == TileLoop::Kind::Serial && outermost.sum_block > 0 &&
                         outermost.extent > outermost.sum_block;
  if (!region_.outer_blocks) {
    store_totals();
    return;
  }
  // Elements in memory hold the sums of earlier K-blocks. If the terms of the first block were added to
  // these one by one, each would be rounded to their magnitude.
  region_.from_zero = kernel_.buffers[static_cast<size_t>(statement_->write.buffer)].scope != Scope::Register;
  if (!region_.from_zero) return;
  for (auto& [name, accumulator] : region_.accumulators)
    accumulator.value = llvm::Constant::getNullValue(type);
}

void TileEmitter::store_total(Accumulator& accumulator, llvm::Value* total) {
  builder_.CreateStore(total, accumulator.total, true);
  accumulator.value = llvm::Constant::getNullValue(total->getType());
}

void TileEmitter::store_totals() {
  region_.in_blocks = true;
  for (auto& [name, accumulator] : region_.accumulators) store_total(accumulator, accumulator.value);
}

llvm::Value* TileEmitter::with_total(const Accumulator& accumulator) {
  llvm::Value* total = builder_.CreateLoad(accumulator.value->getType(), accumulator.total, true);
  const auto* constant = llvm::dyn_cast<llvm::Constant>(accumulator.value);
  return constant != nullptr && constant->isNullValue() ? total
                                                        : builder_.CreateFAdd(total, accumulator.value);
}

void TileEmitter::end_block() {
  for (auto& [name, accumulator] : region_.accumulators) store_total(accumulator, with_total(accumulator));
}

void TileEmitter::full_blocks(size_t position, const SerialBounds& bounds, Interval trips, int64_t block) {
  const int64_t unroll = std::max(1, tile_->loops[position].unroll);
  const int64_t blocks = (trips.high - trips.low + 1) / block;
  if (blocks == 0) return;
  if (blocks == 1) {
    known_trips(position, bounds, trips);
    end_block();
    return;
  }
  const KernelContext::LoopHead head{"block", context_.i64(trips.low), context_.i64(trips.high + 1 - block),
                                     block, false};
  context_.loop(head, {}, [&](llvm::Value* first, llvm::BasicBlock*, const std::vector<llvm::Value*>&) {
    llvm::Value* last = context_.add(first, context_.i64(block - unroll));
    serial_trips(position, bounds, {first, last, {trips.low, trips.high + 1 - unroll}, unroll, false});
    end_block();
    return std::vector<llvm::Value*>{};
  });
}

void TileEmitter::sum_in_blocks(size_t position, const SerialBounds& bounds, Interval trips) {
  const int64_t unroll = std::max(1, tile_->loops[position].unroll);
  const int64_t block = std::max(unroll, tile_->loops[position].sum_block / unroll * unroll);
  if (region_.outer_blocks && trips.high - trips.low >= block) {
    known_trips(position, bounds, {trips.low, trips.low + block - 1});
    store_totals();
    trips.low += block;
  }
  // Some trips are left after the full blocks; of the outermost loop's blocks the last one is left, too.
  const int64_t count = trips.high - trips.low + 1;
  const int64_t full = (region_.outer_blocks ? std::max<int64_t>(count - 1, 0) : count) / block * block;
  full_blocks(position, bounds, {trips.low, trips.low + full - 1}, block);
  trips.low += full;
  if (trips.low > trips.high) return;
  known_trips(position, bounds, trips);
  if (!region_.outer_blocks) end_block();
}

}  // namespace tc
