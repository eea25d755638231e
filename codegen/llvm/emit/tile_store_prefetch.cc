// Prefetches the cache lines that a leaf stores while its sum is computed: a store to a line that is in no
// cache would block the memory port.
#include <algorithm>
#include <set>
#include <vector>

#include "codegen/llvm/emit/tile_emitter.h"
#include "ir/error.h"

namespace tc {

namespace {

constexpr size_t kMaxCopies = 64, kMaxRuns = 4;

// The values of the statement's iterators in lane 0 of each copy of its unrolled loops; nothing where it has
// other loops.
std::vector<std::map<std::string, Affine>> copies_of(const TileStatement& tile) {
  std::vector<std::map<std::string, Affine>> copies = {{}};
  for (const TileLoop& loop : tile.loops) {
    if (loop.kind == TileLoop::Kind::Vector) continue;
    if (loop.kind != TileLoop::Kind::Unroll || loop.extent < 1 ||
        copies.size() * static_cast<size_t>(loop.extent) > kMaxCopies)
      return {};
    std::vector<std::map<std::string, Affine>> more;
    for (const auto& copy : copies) {
      for (int64_t i = 0; i < loop.extent; ++i) {
        more.push_back(copy);
        more.back()[loop.name] = Affine(i);
      }
    }
    copies = std::move(more);
  }
  for (auto& copy : copies) {
    std::map<std::string, Affine> iterators = tile.iterators;
    for (auto& [name, affine] : iterators) affine = affine.substitute(copy);
    copy = std::move(iterators);
  }
  return copies;
}

}  // namespace

// The bytes that a statement stores as contiguous vectors, joined to runs; nothing where they are not known.
std::vector<TileEmitter::StoredRun> TileEmitter::stored_runs(const TileStatement& tile) const {
  const Access& write = kernel_.statements[static_cast<size_t>(tile.statement)].write;
  const auto buffer = static_cast<size_t>(write.buffer);
  if (kernel_.buffers[buffer].scope == Scope::Register) return {};
  const BufferSlot& slot = context_.buffers[buffer];
  // Smaller buffers stay in the second-level cache, for which stores do not wait.
  if (spanned_bytes(slot, kernel_.buffers[buffer]).value_or(0) <= context_.compiler.target().l2_bytes / 2)
    return {};
  const int64_t element = size_of(kernel_.buffers[buffer].dtype);
  const bool has_lanes = !tile.loops.empty() && tile.loops.back().kind == TileLoop::Kind::Vector;
  std::set<std::pair<int64_t, int64_t>> vectors;  // first byte and end of each, counted from `base`
  Affine base;
  for (const auto& iterators : copies_of(tile)) {
    Affine bytes;
    for (size_t d = 0; d < write.index.size(); ++d) {
      if (write.index[d].dynamic != nullptr || slot.symbolic_stride[d] != nullptr) return {};
      bytes = bytes + write.index[d].affine.substitute(iterators) * slot.stride[d];
    }
    int64_t lanes = 1;
    if (has_lanes) {
      lanes = tile.loops.back().extent;
      if (bytes.coefficient(tile.loops.back().name) != element) return {};
      bytes = bytes - Affine::variable(tile.loops.back().name, element);
    }
    if (vectors.empty()) base = bytes - Affine(bytes.constant());
    if (!(bytes - base).is_constant()) return {};
    const int64_t first = bytes.constant();
    vectors.insert({first, first + element * lanes});
  }
  std::vector<StoredRun> runs;
  for (const auto& [first, end] : vectors) {
    if (runs.empty() || first > runs.back().end)
      runs.push_back({write.buffer, base + Affine(first), first, first});
    runs.back().end = std::max(runs.back().end, end);
  }
  return runs;
}

// Prefetches, in each trip of the outermost loop of a sum, a share of the lines that statements after the
// sum store. They are spread over the trips, since few lines can be in flight at a time.
void TileEmitter::prefetch_stores(const std::string& variable, const Trips& trips) {
  // Rounded up: where a trip's first value is not known, the last trip may lie between two multiples of the
  // copies.
  const int64_t count = (trips.range.high - trips.range.low + trips.copies - 1) / trips.copies + 1;
  for (const StoredRun& run : runs_stored_after_sum()) {
    const int64_t lines = (run.end - run.first + kLineBytes - 1) / kLineBytes,
                  each = (lines + count - 1) / count;
    // Not for a long sum: its stores take little of the time, and the prefetches would be more than three
    // times as many as lines.
    if (each * count > 3 * lines || each * kLineBytes % trips.copies != 0) continue;
    const Affine moved =
        (Affine::variable(variable) - Affine(trips.range.low)) * (each * kLineBytes / trips.copies);
    prefetch_lines(run, each * count, each, moved);
  }
}

// The same for a sum without loops. Not where it computes one result after the other, whose stores come one
// at a time.
void TileEmitter::prefetch_all_stores() {
  if (tile_->loops.empty() || statement_->reduction == Reduction::None) return;
  const auto is_loop = [](const TileLoop& loop) {
    return loop.kind == TileLoop::Kind::Serial &&
           (loop.extent < 0 || loop.extent / std::max(1, loop.unroll) > 1);
  };
  if (std::any_of(tile_->loops.begin(), tile_->loops.end(), is_loop)) return;
  const auto innermost = std::find_if(tile_->loops.rbegin(), tile_->loops.rend(), [](const TileLoop& loop) {
    return loop.kind != TileLoop::Kind::Vector;
  });
  const bool in_turn =
      innermost != tile_->loops.rend() &&
      std::none_of(statement_->write.index.begin(), statement_->write.index.end(),
                   [&](const Subscript& subscript) {
                     return subscript.affine.substitute(tile_->iterators).coefficient(innermost->name) != 0;
                   });
  if (in_turn) return;
  for (const StoredRun& run : runs_stored_after_sum()) {
    const int64_t lines = (run.end - run.first + kLineBytes - 1) / kLineBytes;
    prefetch_lines(run, lines, lines, {});
  }
}

std::vector<TileEmitter::StoredRun> TileEmitter::runs_stored_after_sum() const {
  const Target& target = context_.compiler.target();
  if (target.out_of_order() || !target.prefetch_by_loads || !region_.active) return {};
  std::vector<StoredRun> runs;
  for (size_t i = next_statement_; i < leaf_.statements.size(); ++i) {
    for (const StoredRun& run : stored_runs(leaf_.statements[i])) runs.push_back(run);
  }
  return runs.size() > kMaxRuns ? std::vector<StoredRun>() : runs;
}

// Prefetches `count` of the run's `all` lines, from `moved` bytes after its start on.
void TileEmitter::prefetch_lines(const StoredRun& run, int64_t all, int64_t count, const Affine& moved) {
  const auto buffer = static_cast<size_t>(run.buffer);
  const BufferSlot& slot = context_.buffers[buffer];
  const int64_t last = *spanned_bytes(slot, kernel_.buffers[buffer]) - 1 - (all - 1) * kLineBytes;
  if (last < 0) return;
  llvm::Value* place = at_level(0, text("stored ", run.buffer, " ", run.start.str()), [&]() -> llvm::Value* {
    llvm::Value* own = builder_.CreatePtrAdd(slot.pointer, context_.value_of(run.start));
    // No prefetch may leave the buffer: where the last one would, all of them read its first lines.
    const Affine room = Affine(last) - run.start;
    if (proves_nonnegative(room, context_.ranges, {})) return own;
    return builder_.CreateSelect(condition(room), own, slot.pointer);
  });
  if (!moved.terms().empty()) place = builder_.CreatePtrAdd(place, context_.value_of(moved));
  for (int64_t i = 0; i < count; ++i) {
    load_line(builder_.CreatePtrAdd(place, context_.i64(i * kLineBytes)));
  }
}

}  // namespace tc
