// Where the blocks of the arena lie: offsets from lifetimes, decided while compiling.
#include "frontend/pipeline/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace tc {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool meet(const LiveBlock& a, const LiveBlock& b) { return a.first <= b.last && b.first <= a.last; }

// Offset of the smallest gap that holds `bytes` between the placed blocks that live together with
// `block`; the end of the last one where no gap does.
int64_t best_offset(const LiveBlock& block, int64_t bytes, const std::vector<LiveBlock*>& placed) {
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (const LiveBlock* other : placed) {
    if (meet(block, *other)) {
      int64_t begin = other->offset.constant();
      taken.emplace_back(begin, begin + aligned(other->bytes.constant()));
    }
  }
  std::sort(taken.begin(), taken.end());
  int64_t end = 0, best = -1, best_gap = 0;
  for (auto [begin, finish] : taken) {
    int64_t gap = begin - end;
    if (gap >= bytes && (best < 0 || gap < best_gap)) {
      best = end;
      best_gap = gap;
    }
    end = std::max(end, finish);
  }
  return best >= 0 ? best : end;
}

}  // namespace

Dim plan_memory(std::vector<LiveBlock>& blocks) {
  std::vector<LiveBlock*> constant, symbolic;
  for (LiveBlock& block : blocks) {
    (block.bytes.is_constant() ? constant : symbolic).push_back(&block);
  }
  std::stable_sort(constant.begin(), constant.end(), [](const LiveBlock* a, const LiveBlock* b) {
    return a->scratch != b->scratch ? b->scratch : a->bytes.constant() > b->bytes.constant();
  });
  std::vector<LiveBlock*> placed;
  int64_t end = 0;
  for (LiveBlock* block : constant) {
    int64_t bytes = aligned(block->bytes.constant());
    int64_t offset = best_offset(*block, bytes, placed);
    block->offset = offset;
    placed.push_back(block);
    end = std::max(end, offset + bytes);
  }

  struct Slot {
    Dim bytes;
    std::vector<LiveBlock*> tenants;
  };
  std::vector<Slot> slots;
  std::vector<size_t> slot_of;
  for (LiveBlock* block : symbolic) {
    size_t chosen = slots.size();
    for (size_t s = 0; s < slots.size(); ++s) {
      bool free = std::none_of(slots[s].tenants.begin(), slots[s].tenants.end(),
                               [&](const LiveBlock* other) { return meet(*block, *other); });
      // Equal sizes share without waste; else the first free slot grows.
      if (free && (chosen == slots.size() || slots[s].bytes == block->bytes)) chosen = s;
    }
    if (chosen == slots.size()) slots.push_back({block->bytes, {}});
    if (!(slots[chosen].bytes == block->bytes)) {
      slots[chosen].bytes = max(slots[chosen].bytes, block->bytes);
    }
    slots[chosen].tenants.push_back(block);
    slot_of.push_back(chosen);
  }
  Dim at = end;
  for (Slot& slot : slots) {
    for (LiveBlock* tenant : slot.tenants) tenant->offset = at;
    at = at + ceil_div(slot.bytes, Dim(kAlignment)) * Dim(kAlignment);
  }
  return at;
}

}  // namespace tc
