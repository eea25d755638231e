// Prefetches the data ahead of a leaf's loads: by an instruction, or by loads whose results nothing uses.

#include <iterator>
#include <optional>
#include <vector>

#include "codegen/llvm/opaque_value.h"
#include "codegen/llvm/role_metadata.h"
#include "codegen/llvm/emit/tile_emitter.h"
#include "ir/error.h"
#include "ir/prefetch.h"

namespace tc {

std::optional<int64_t> spanned_bytes(const BufferSlot& slot, const Buffer& buffer) {
  int64_t size = size_of(buffer.dtype);
  for (size_t d = 0; d < slot.stride.size(); ++d) {
    if (!buffer.shape[d].is_constant() || slot.symbolic_stride[d] != nullptr) return std::nullopt;
    size += (buffer.shape[d].constant() - 1) * slot.stride[d];
  }
  return size;
}

void TileEmitter::prefetch(const Access& access, const Address& address, CacheLevel level) {
  const int64_t element = size_of(kernel_.buffers[static_cast<size_t>(access.buffer)].dtype);
  if (leaf_.prefetches.empty() || address.dynamic != nullptr || !address.symbolic.empty()) return;
  for (const Prefetch& wanted : leaf_.prefetches) {
    if (wanted.statement != tile_->statement || wanted.buffer != access.buffer) continue;
    const std::optional<Affine> bytes =
        line_ahead(wanted, *tile_, access, context_.buffers[static_cast<size_t>(access.buffer)].stride,
                   address.bytes, element);
    if (!bytes) return;
    Address ahead = address;
    ahead.bytes = *bytes;
    if (!prefetched_.insert(text(wanted.buffer, " ", ahead.bytes.str())).second) continue;
    if (context_.compiler.target().prefetch_by_loads) {
      // Where there are several shares, the first may begin before the part that this trip reads.
      const bool after = wanted.shares == 1 && wanted.ahead * element >= kLineBytes;
      if (after || range_of(ahead.bytes, context_.ranges).low >= 0) prefetch_by_load(ahead);
      continue;
    }
    constexpr int kRead = 0, kData = 1;
    set_role(
        builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {builder_.getPtrTy()},
                                 {pointer(ahead), builder_.getInt32(kRead),
                                  builder_.getInt32(static_cast<uint32_t>(level)), builder_.getInt32(kData)}),
        Role::Prefetch);
  }
}

void TileEmitter::load_line(llvm::Value* place) {
  set_role(builder_.CreateLoad(builder_.getInt8Ty(), place, /*isVolatile=*/true), Role::Prefetch);
}

// Prefetches a cache line on machines without an instruction for it, by loading a byte into the register
// that is always zero, for which nothing waits. Such a load must not leave the buffer. Addresses before the
// current trip's part are inside of it; where the next trip's part may pass the end, the start of the buffer
// is read instead.
void TileEmitter::prefetch_by_load(const Address& ahead) {
  constexpr int64_t kReach = 2048;  // bytes that a load's immediate offset reaches
  const BufferSlot& slot = context_.buffers[static_cast<size_t>(ahead.buffer)];
  const std::optional<int64_t> size = spanned_bytes(slot, kernel_.buffers[static_cast<size_t>(ahead.buffer)]);
  if (!size) return;
  const Affine outer = terms_of_level(ahead.bytes, 0, variable_level_);
  const int64_t constant = ahead.bytes.constant(), page = constant - ((constant % kReach) + kReach) % kReach;
  const Affine inner = ahead.bytes - outer - constant;
  const Interval range = range_of(inner, context_.ranges);
  if (range.low < 0 || range.high > *size - kReach) return;
  llvm::Value* place =
      at_level(0, text("prefetched ", ahead.buffer, " ", (outer + page).str()), [&]() -> llvm::Value* {
        llvm::Value* part = builder_.CreatePtrAdd(slot.pointer, context_.value_of(outer + page));
        const Affine room = Affine(*size - kReach - range.high) - outer - page;
        // Without `known_`: it may not hold where the same address is used again.
        if (proves_nonnegative(room, context_.ranges, {})) return part;
        return builder_.CreateSelect(condition(room), part, slot.pointer);
      });
  if (!inner.terms().empty()) {
    place = at_level(level_of(inner),
                     text("prefetched ", ahead.buffer, " ", (outer + page).str(), " + ", inner.str()),
                     [&] { return builder_.CreatePtrAdd(place, context_.value_of(inner)); });
  }
  load_line(builder_.CreatePtrAdd(place, context_.i64(constant - page)));
}

// A constant that LLVM does not see as one.
llvm::Value* TileEmitter::hidden(llvm::Constant* constant) {
  return builder_.CreateCall(hidden_identity(constant->getType()), {constant});
}

// Lanes that are far apart each read a cache line of their own, and a strided load would wait for their
// elements one after the other. Prefetches, for each lane, the line after the one in which the next trip's
// part begins: trips that move by less than a line reach it later.
void TileEmitter::prefetch_lanes(const Access& access, const Address& address) {
  const Target& target = context_.compiler.target();
  if (target.out_of_order() || !target.prefetch_by_loads || address.lane_bytes < kLineBytes) return;
  if (address.dynamic != nullptr || address.dynamic_lanes != nullptr || !address.symbolic.empty() ||
      !address.symbolic_lane.empty())
    return;
  const BufferSlot& slot = context_.buffers[static_cast<size_t>(access.buffer)];
  const std::optional<int64_t> size =
      spanned_bytes(slot, kernel_.buffers[static_cast<size_t>(access.buffer)]);
  if (!size) return;
  for (const Prefetch& wanted : leaf_.prefetches) {
    if (wanted.statement != tile_->statement || wanted.buffer != access.buffer || wanted.shares != 1)
      continue;
    const int64_t element = size_of(kernel_.buffers[static_cast<size_t>(access.buffer)].dtype);
    std::optional<Affine> first = line_ahead(wanted, *tile_, access, slot.stride, address.bytes, element);
    if (!first) return;
    first = *first + Affine(kLineBytes - 1);
    const Affine outer = terms_of_level(*first, 0, variable_level_);
    if (!(*first - outer).terms().empty() || range_of(*first, context_.ranges).low < 0) continue;
    const std::string key = text("prefetched lanes ", access.buffer, " ", first->str());
    if (!prefetched_.insert(key).second) continue;
    llvm::Value* place = at_level(0, key, [&]() -> llvm::Value* {
      llvm::Value* part = builder_.CreatePtrAdd(slot.pointer, context_.value_of(*first));
      // No prefetch may leave the buffer: where the last lane's would, all of them read its first elements.
      const Affine room = Affine(*size - 1 - address.lane_bytes * (lanes_ - 1)) - *first;
      if (proves_nonnegative(room, context_.ranges, {})) return part;
      return builder_.CreateSelect(condition(room), part, slot.pointer);
    });
    // Keeps the step in a register, so that each address is the previous one plus the step: as many
    // constants as lanes would not fit the registers.
    llvm::Value* step = at_level(0, text("step of lanes ", address.lane_bytes),
                                 [&] { return hidden(context_.i64(address.lane_bytes)); });
    std::vector<llvm::Value*> lines = {place};
    while (std::ssize(lines) < lanes_) lines.push_back(builder_.CreatePtrAdd(lines.back(), step));
    // Emitted in reverse, since order_instructions places the last prefetch of the code first.
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) load_line(*line);
  }
}

// On an in-order core each trip of a sum's loop begins by waiting for the cache lines of the rows along
// which it moves: prefetches those of the next trip during this one. The last trip prefetches its own again,
// so that none leaves the buffer.
void TileEmitter::prefetch_next_trip(const Access& access, const Address& address) {
  const Target& target = context_.compiler.target();
  if (target.out_of_order() || !target.prefetch_by_loads || address.dynamic != nullptr ||
      !address.symbolic.empty())
    return;
  for (const Prefetch& each : leaf_.prefetches) {
    if (each.statement == tile_->statement && each.buffer == access.buffer)
      return;  // the schedule says what to prefetch
  }
  const auto buffer = static_cast<size_t>(access.buffer);
  if (spanned_bytes(context_.buffers[buffer], kernel_.buffers[buffer]).value_or(0) <= target.l2_bytes) return;
  std::string trip;
  int level = 0;
  int64_t step = 0;
  for (const auto& [name, coefficient] : address.bytes.terms()) {
    const auto found = variable_level_.find(name);
    if (found == variable_level_.end() || found->second <= level) continue;
    level = found->second;
    trip = name;
    step = coefficient * variable_step_.at(name);
  }
  if (step < kLineBytes) return;
  const int64_t constant = address.bytes.constant();
  Address start = address;
  start.bytes = start.bytes - Affine(constant);
  const std::string rows = text("next trip ", access.buffer, " ", start.bytes.str());
  if (!prefetched_
           .insert(text(rows, " ",
                        constant >= 0 ? constant / kLineBytes : (constant - kLineBytes + 1) / kLineBytes))
           .second)
    return;
  llvm::Value* place = at_level(level, rows, [&]() -> llvm::Value* {
    const int64_t last = range_of(Affine::variable(trip), context_.ranges).high - variable_step_.at(trip);
    const Affine more = Affine(last) - Affine::variable(trip);
    llvm::Value* ahead = at_level(level, "next of " + trip + text(" ", step), [&] {
      return builder_.CreateSelect(condition(more), context_.i64(step), context_.i64(0));
    });
    return builder_.CreatePtrAdd(pointer(start), ahead);
  });
  load_line(builder_.CreatePtrAdd(place, context_.i64(constant)));
}

}  // namespace tc
