// Blocked summation: the terms of a block of a sum are added up from zero, then to the total of the blocks before.
#include <algorithm>

#include "codegen/tile_emitter.h"
#include "ir/error.h"

namespace tc {

// Totals are in memory, stored and loaded as if another thread could see them (volatile): taken for values by LLVM, they
// would want the registers that accumulators fill.

void TileEmitter::begin_blocks(size_t position) {
  if (statement_->reduction != Reduction::Sum || region_.lane_partial || region_.accumulators.empty()) return;
  const bool blocks = std::any_of(tile_->loops.begin() + static_cast<std::ptrdiff_t>(position), tile_->loops.end(),
                                  [](const TileLoop& loop) { return loop.sum_block > 0; });
  if (!blocks || reads_itself()) return;
  llvm::Type* type = region_.accumulators.begin()->second.value->getType();
  llvm::BasicBlock& entry = builder_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::Value* totals = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(type, builder_.getInt64(region_.accumulators.size()), "totals");
  uint64_t number = 0;
  for (auto& [name, accumulator] : region_.accumulators) {
    TC_CHECK(accumulator.value->getType() == type, "of the accumulators of statement '", statement_->name, "'");
    accumulator.total = builder_.CreateGEP(type, totals, builder_.getInt64(number++));
  }
  // Of two blocks the first goes on from the values before and the second ends in registers: one store and one load.
  const TileLoop& outermost = tile_->loops[position];
  region_.two_blocks = outermost.kind == TileLoop::Kind::Serial && outermost.extent > outermost.sum_block &&
                       outermost.extent <= 2 * outermost.sum_block;
  if (!region_.two_blocks) store_totals();
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
  return constant != nullptr && constant->isNullValue() ? total : builder_.CreateFAdd(total, accumulator.value);
}

void TileEmitter::end_block() {
  for (auto& [name, accumulator] : region_.accumulators) store_total(accumulator, with_total(accumulator));
}

void TileEmitter::sum_in_blocks(size_t position, const SerialBounds& bounds, Interval trips) {
  const int64_t unroll = std::max(1, tile_->loops[position].unroll);
  const int64_t block = std::max(unroll, tile_->loops[position].sum_block / unroll * unroll);
  const int64_t blocks = (trips.high - trips.low + 1) / block;
  if (region_.two_blocks) {
    if (trips.high - trips.low >= block) {
      known_trips(position, bounds, {trips.low, trips.low + block - 1});
      store_totals();
      trips.low += block;
    }
    known_trips(position, bounds, trips);
    return;
  }
  if (blocks > 1) {
    const int64_t next = trips.low + blocks * block;
    const KernelContext::LoopHead head{"block", context_.i64(trips.low), context_.i64(next - block), block, false};
    context_.loop(head, {}, [&](llvm::Value* first, llvm::BasicBlock*, const std::vector<llvm::Value*>&) {
      llvm::Value* last = context_.add(first, context_.i64(block - unroll));
      serial_trips(position, bounds, {first, last, {trips.low, next - unroll}, unroll, false});
      end_block();
      return std::vector<llvm::Value*>{};
    });
    trips.low = next;
  } else if (blocks == 1 && trips.high - trips.low >= block) {
    known_trips(position, bounds, {trips.low, trips.low + block - 1});
    end_block();
    trips.low += block;
  }
  if (trips.low > trips.high) return;
  known_trips(position, bounds, trips);
  end_block();
}

}  // namespace tc
