// Where the blocks of the arena lie: offsets from lifetimes, decided while compiling.
#include "frontend/pipeline/memory_plan.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>

namespace tc {
namespace {

constexpr int64_t kAlignment = 64;
// Comparing each block with all others takes 0.1 s for so many blocks. Where there are more, they are placed
// in the order in which their lives begin, which wastes a little memory.
constexpr size_t kMaxCompared = 4096;
// So many orders of placing the blocks are tried at most, fewer where there are many blocks.
constexpr size_t kMaxAttempts = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool live_together(const LiveBlock& a, const LiveBlock& b) { return a.first <= b.last && b.first <= a.last; }

// Offset of the smallest gap that holds `bytes` between those placed blocks that are in use at the same time
// as `block`; the end of the last one where no gap does.
int64_t best_offset(const LiveBlock& block, int64_t bytes, const std::vector<LiveBlock*>& placed) {
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (const LiveBlock* other : placed) {
    if (live_together(block, *other)) {
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

// Free memory between blocks. take() gives the smallest free part that is large enough.
class FreeParts {
 public:
  int64_t take(int64_t bytes) {
    const auto fits = by_size_.lower_bound({bytes, 0});
    if (fits == by_size_.end()) {
      // Extends the free part at the end, if there is one.
      int64_t begin = end_;
      if (!by_offset_.empty() && std::prev(by_offset_.end())->second == end_) {
        begin = std::prev(by_offset_.end())->first;
        erase(begin, end_);
      }
      end_ = begin + bytes;
      return begin;
    }
    const auto [size, begin] = *fits;
    erase(begin, begin + size);
    if (size > bytes) insert(begin + bytes, begin + size);
    return begin;
  }

  void give(int64_t begin, int64_t bytes) {
    int64_t end = begin + bytes;
    const auto next = by_offset_.find(end);
    if (next != by_offset_.end()) {
      end = next->second;
      erase(next->first, end);
    }
    const auto after = by_offset_.lower_bound(begin);
    if (after != by_offset_.begin() && std::prev(after)->second == begin) {
      const int64_t first = std::prev(after)->first;
      erase(first, begin);
      begin = first;
    }
    insert(begin, end);
  }

  int64_t end() const { return end_; }

 private:
  void insert(int64_t begin, int64_t end) {
    by_offset_[begin] = end;
    by_size_.insert({end - begin, begin});
  }
  void erase(int64_t begin, int64_t end) {
    by_offset_.erase(begin);
    by_size_.erase({end - begin, begin});
  }

  int64_t end_ = 0;
  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;  // (size, offset)
};

// Calls begin(block) for each block in the order in which their lives begin (where several begin at the same
// step, the largest first), and finish(block) before begin() of the first block whose life begins after this
// one's end.
void in_order_of_lives(std::vector<LiveBlock*> blocks, const std::function<int64_t(const LiveBlock&)>& size,
                       const std::function<void(LiveBlock&)>& begin,
                       const std::function<void(LiveBlock&)>& finish) {
  std::stable_sort(blocks.begin(), blocks.end(), [&](const LiveBlock* a, const LiveBlock* b) {
    return a->first != b->first ? a->first < b->first : size(*a) > size(*b);
  });
  std::multimap<int, LiveBlock*> live;  // by their ends
  for (LiveBlock* block : blocks) {
    while (!live.empty() && live.begin()->first < block->first) {
      finish(*live.begin()->second);
      live.erase(live.begin());
    }
    begin(*block);
    live.emplace(block->last, block);
  }
}

// Gives many blocks of constant size their offsets, and returns where they end.
int64_t place_by_lives(const std::vector<LiveBlock*>& blocks) {
  FreeParts parts;
  const auto size = [](const LiveBlock& block) { return aligned(block.bytes.constant()); };
  in_order_of_lives(
      blocks, size, [&](LiveBlock& block) { block.offset = size(block) == 0 ? 0 : parts.take(size(block)); },
      [&](LiveBlock& block) {
        if (size(block) > 0) parts.give(block.offset.constant(), size(block));
      });
  return parts.end();
}

// The same for many blocks of symbolic size, from `begin` on: a block takes the place of one of equal size
// that is no longer in use.
Dim place_symbolic_by_lives(const std::vector<LiveBlock*>& blocks, Dim begin) {
  std::map<std::string, std::vector<Dim>> dead;  // offsets, by size
  in_order_of_lives(
      blocks, [](const LiveBlock&) { return 0; },
      [&](LiveBlock& block) {
        std::vector<Dim>& places = dead[block.bytes.str()];
        if (places.empty()) {
          block.offset = begin;
          begin = begin + ceil_div(block.bytes, Dim(kAlignment)) * Dim(kAlignment);
        } else {
          block.offset = places.back();
          places.pop_back();
        }
      },
      [&](LiveBlock& block) { dead[block.bytes.str()].push_back(block.offset); });
  return begin;
}

// Places the blocks in this order, each where it fits best among those placed already, which it extends;
// returns where they end.
int64_t place_in_order(const std::vector<LiveBlock*>& blocks, std::vector<LiveBlock*>& placed) {
  int64_t end = 0;
  for (LiveBlock* block : blocks) {
    int64_t bytes = aligned(block->bytes.constant());
    int64_t offset = best_offset(*block, bytes, placed);
    block->offset = offset;
    placed.push_back(block);
    end = std::max(end, offset + bytes);
  }
  return end;
}

// The most bytes that are in use at one step: no placement takes less.
int64_t most_in_use(const std::vector<LiveBlock*>& blocks) {
  int64_t most = 0;
  for (const LiveBlock* at : blocks) {
    int64_t bytes = 0;
    for (const LiveBlock* other : blocks) {
      if (other->first <= at->first && at->first <= other->last) bytes += aligned(other->bytes.constant());
    }
    most = std::max(most, bytes);
  }
  return most;
}

// Places the blocks, largest first. Where that takes more than the fullest step needs, the block that ends
// last is placed first instead, again and again, and the best of these placements is taken.
int64_t place_values(std::vector<LiveBlock*> blocks) {
  const int64_t least = most_in_use(blocks);
  const auto place = [&] {
    std::vector<LiveBlock*> placed;
    return place_in_order(blocks, placed);
  };
  int64_t best = place();
  std::vector<LiveBlock*> best_order = blocks;
  const size_t attempts =
      std::min(kMaxAttempts, kMaxCompared * kMaxCompared / (blocks.size() * blocks.size() + 1));
  for (size_t attempt = 0; attempt < attempts && best > least; ++attempt) {
    const auto end_of = [](const LiveBlock* block) {
      return block->offset.constant() + aligned(block->bytes.constant());
    };
    const auto last = std::max_element(blocks.begin(), blocks.end(),
                                       [&](LiveBlock* a, LiveBlock* b) { return end_of(a) < end_of(b); });
    std::rotate(blocks.begin(), last, last + 1);
    const int64_t end = place();
    if (end >= best) continue;
    best = end;
    best_order = blocks;
  }
  blocks = std::move(best_order);
  return place();
}

// Places values first, and then scratch memory in what they leave; returns where all end.
int64_t place_by_size(std::vector<LiveBlock*> blocks) {
  std::stable_sort(blocks.begin(), blocks.end(), [](const LiveBlock* a, const LiveBlock* b) {
    return a->scratch != b->scratch ? b->scratch : a->bytes.constant() > b->bytes.constant();
  });
  const auto scratch =
      std::find_if(blocks.begin(), blocks.end(), [](const LiveBlock* block) { return block->scratch; });
  std::vector<LiveBlock*> placed(blocks.begin(), scratch);
  const int64_t end = place_values(placed);
  return std::max(end, place_in_order({scratch, blocks.end()}, placed));
}

// Places the blocks of symbolic size, from `begin` on, in slots that hold one block at a time; returns where
// they end.
Dim place_in_slots(const std::vector<LiveBlock*>& blocks, int64_t begin) {
  struct Slot {
    Dim bytes;
    std::vector<LiveBlock*> tenants;
  };
  std::vector<Slot> slots;
  for (LiveBlock* block : blocks) {
    size_t chosen = slots.size();
    for (size_t s = 0; s < slots.size(); ++s) {
      bool free = std::none_of(slots[s].tenants.begin(), slots[s].tenants.end(),
                               [&](const LiveBlock* other) { return live_together(*block, *other); });
      // Equal sizes share without waste; else the first free slot grows.
      if (free && (chosen == slots.size() || slots[s].bytes == block->bytes)) chosen = s;
    }
    if (chosen == slots.size()) slots.push_back({block->bytes, {}});
    if (!(slots[chosen].bytes == block->bytes)) {
      slots[chosen].bytes = max(slots[chosen].bytes, block->bytes);
    }
    slots[chosen].tenants.push_back(block);
  }
  Dim at = begin;
  for (Slot& slot : slots) {
    for (LiveBlock* tenant : slot.tenants) tenant->offset = at;
    at = at + ceil_div(slot.bytes, Dim(kAlignment)) * Dim(kAlignment);
  }
  return at;
}

}  // namespace

Dim plan_memory(std::vector<LiveBlock>& blocks) {
  std::vector<LiveBlock*> constant, symbolic;
  for (LiveBlock& block : blocks) {
    (block.bytes.is_constant() ? constant : symbolic).push_back(&block);
  }
  const int64_t end = constant.size() > kMaxCompared ? place_by_lives(constant) : place_by_size(constant);
  return symbolic.size() > kMaxCompared ? place_symbolic_by_lives(symbolic, end)
                                        : place_in_slots(symbolic, end);
}

}  // namespace tc
