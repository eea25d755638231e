#include "codegen/llvm/emit/open_extent_tails.h"

#include <algorithm>

namespace tc {
namespace {

// The constraint in terms of the tile's loops and outer variables only.
Affine expanded(const Affine& constraint, const TileStatement& tile, const std::set<std::string>& outer) {
  std::map<std::string, Affine> iterators;
  for (const auto& [name, affine] : tile.iterators) {
    const bool is_loop = std::any_of(tile.loops.begin(), tile.loops.end(),
                                     [&](const TileLoop& loop) { return loop.name == name; });
    if (!is_loop && outer.count(name) == 0) iterators.insert({name, affine});
  }
  return constraint.substitute(iterators);
}

// The unrolled loops and the lanes of a statement that one constraint `last - loop >= 0` ends, where `last` is
// known when the leaf begins. Constraints of other kinds may restrict them further.
std::vector<OpenTail::End> ends_of(const Kernel& kernel, const TileStatement& tile,
                                   const std::set<std::string>& outer) {
  std::vector<OpenTail::End> result;
  for (size_t l = 0; l < tile.loops.size(); ++l) {
    const TileLoop& loop = tile.loops[l];
    if (loop.kind != TileLoop::Kind::Unroll && loop.kind != TileLoop::Kind::Vector) continue;
    std::vector<OpenTail::End> found;
    for (size_t i = 0; i < tile.constraints.size(); ++i) {
      const Affine constraint = expanded(tile.constraints[i], tile, outer);
      if (constraint.coefficient(loop.name) != -1) continue;
      const Affine last = constraint + Affine::variable(loop.name);
      if (std::all_of(last.terms().begin(), last.terms().end(),
                      [&](const auto& term) { return outer.count(term.first) > 0; }))
        found.push_back({l, i, last});
    }
    if (found.size() != 1) continue;
    const bool open =
        std::any_of(kernel.parameters.begin(), kernel.parameters.end(),
                    [&](const Parameter& each) { return found[0].last.coefficient(each.name) != 0; });
    if (open) result.push_back(found[0]);
  }
  return result;
}

}  // namespace

LoopNode OpenTail::part(const std::string& first, int64_t count) const {
  LoopNode result = *leaf;
  for (size_t i = 0; i < result.statements.size(); ++i) {
    TileStatement& tile = result.statements[i];
    TileLoop& loop = tile.loops[ends[i].loop];
    tile.constraints.erase(tile.constraints.begin() + static_cast<std::ptrdiff_t>(ends[i].constraint));
    loop.extent = count;
    loop.kind = TileLoop::Kind::Unroll;
    const std::map<std::string, Affine> moved = {
        {loop.name, Affine::variable(loop.name) + Affine::variable(first)}};
    for (auto& [name, affine] : tile.iterators) affine = affine.substitute(moved);
    for (Affine& constraint : tile.constraints) constraint = constraint.substitute(moved);
  }
  return result;
}

std::optional<OpenTail> open_tail(const Kernel& kernel, const LoopNode& leaf,
                                  const std::set<std::string>& outer) {
  std::vector<std::vector<OpenTail::End>> ends;
  for (const TileStatement& tile : leaf.statements) {
    if (std::any_of(tile.loops.begin(), tile.loops.end(),
                    [](const TileLoop& loop) { return loop.kind == TileLoop::Kind::Matrix; })) {
      return std::nullopt;
    }
    ends.push_back(ends_of(kernel, tile, outer));
  }
  for (const OpenTail::End& first : ends.at(0)) {
    OpenTail result{&leaf, {}, leaf.statements[0].loops[first.loop].extent, first.last};
    for (size_t i = 0; i < ends.size(); ++i) {
      const auto same = std::find_if(ends[i].begin(), ends[i].end(), [&](const OpenTail::End& each) {
        return each.last == first.last && leaf.statements[i].loops[each.loop].extent == result.copies;
      });
      if (same != ends[i].end()) result.ends.push_back(*same);
    }
    bool unrolled = false;
    for (size_t i = 0; i < result.ends.size(); ++i)
      unrolled = unrolled || leaf.statements[i].loops[result.ends[i].loop].kind == TileLoop::Kind::Unroll;
    if (result.ends.size() == ends.size() && result.copies > 1 && unrolled) return result;
  }
  return std::nullopt;
}

}  // namespace tc
