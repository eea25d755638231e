// How a reduction's iterators are divided: vectors of a tile, panels of constants and their K-blocks.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/target/narrow_product.h"
#include "scheduler/cost/calibration.h"
#include "scheduler/default/plan.h"

namespace tc {
namespace {

constexpr double kMinUses = 32;  // uses of a panel with which K-blocks pay

// Divides a panel that would fill the second cache into K-blocks: their loop is outside of all loops but the
// one over panels.
std::optional<Division> divide_panel(const ReductionFacts& facts, const IteratorPlan& plan,
                                     const ReductionKnobs& knobs) {
  const auto cache = static_cast<double>(facts.target().l2_bytes);
  const bool otherwise = knobs.sum_block != 0 || knobs.outer_order != 0 || knobs.outer_block != 0 ||
                         knobs.outside != 0 || knobs.separate_epilogue == 1;
  if (otherwise || plan.panels.empty() || plan.panel_count < 2 * facts.reduction().builder.threads())
    return std::nullopt;
  const std::string panels = plan.strips.empty() ? plan.panels : plan.strips.front().name;  // not yet divided
  double panel = 0, uses = 1;
  std::string longest;
  for (const Access& load : loads_of(facts.sum())) {
    if (!facts.packable(load) || !depends_on(load, panels)) continue;
    panel = facts.bytes_of(load) / static_cast<double>(plan.panel_count);
    for (const Iterator& iterator : facts.sum().iterators) {
      const int64_t extent = facts.extent(iterator.name, 0);
      if (extent == 0) return std::nullopt;
      if (!depends_on(load, iterator.name)) uses *= static_cast<double>(extent);
      if (facts.is_output(iterator.name) || !depends_on(load, iterator.name)) continue;
      if (longest.empty() || extent > facts.extent(longest, 0)) longest = iterator.name;
    }
  }
  const double sums = facts.bytes_of(facts.sum().write) / static_cast<double>(plan.panel_count);
  if (longest.empty() || panel < calibration::kLargePanel * cache ||
      sums > calibration::kWaitingSums * cache || uses < kMinUses)
    return std::nullopt;
  const int64_t extent = facts.extent(longest, 1);
  const auto parts = static_cast<int64_t>(std::ceil(panel / (calibration::kBlockOfPanel * cache)));
  int64_t part = (extent + parts - 1) / parts;
  while (extent % part != 0) --part;
  if (2 * part * parts < extent) return std::nullopt;
  return Division{longest, part, facts.reduction().fresh(longest + "p"), longest};
}

// Divides the longest loop that sums into blocks; windows along the columns are not divided.
Division divide_sum(const ReductionFacts& facts, const std::string& columns, int64_t block) {
  std::string longest;
  int64_t most = block;
  for (const std::string& name : facts.reductions()) {
    const int64_t extent = facts.extent(name, 0);
    if (facts.is_window(name, columns) || extent <= most) continue;
    most = extent;
    longest = name;
  }
  if (longest.empty()) throw NotApplicable{"no sum as long as two blocks"};
  return {longest, block, facts.reduction().fresh(longest + "b"), longest};
}

// Divides the iterator over products of bytes such that an inner one counts the products that are added
// together.
void divide_byte_iterator(const ReductionFacts& facts, IteratorPlan& plan) {
  const auto found = facts.byte_iterator(plan.lane);
  if (!found) return;
  const int64_t products = byte_products(facts.target());
  int64_t extent = facts.extent(*found, 0);
  for (const Division& each : plan.strips) {
    if (each.name == *found) extent = each.size;  // the inner part of a divided iterator keeps its name
  }
  if (extent % products != 0) return;
  plan.bytes = *found;
  if (extent == products) return;
  plan.bytes = facts.reduction().fresh(*found + "m");
  plan.strips.push_back({*found, products, facts.reduction().fresh(*found + "q"), plan.bytes});
}

// Vectors of a tile, at most `most`: where the number of all vectors is symbolic, as many as divide it, so
// that all tiles have the same number.
int64_t vectors_of(const ReductionFacts& facts, const std::string& vectors, int64_t most) {
  for (const Iterator& iterator : facts.sum().iterators) {
    if (iterator.name != vectors || iterator.extent.is_constant()) continue;
    while (!iterator.extent.is_multiple_of(most)) --most;
  }
  return most;
}

}  // namespace

IteratorPlan plan_iterators(const ReductionFacts& facts, const Choice& choice, const LaneLayout& layout,
                            const ReductionKnobs& knobs) {
  const Affine& index = facts.sum().write.index[layout.dimension].affine;
  IteratorPlan plan;
  plan.dimension = layout.dimension;
  plan.lane = layout.lane;
  plan.panels = outer_part(index);
  const int64_t blocks = plan.panels.empty() ? 1 : facts.extent(plan.panels, kAssumedSymbolic);
  plan.vector_count = vectors_of(facts, plan.panels, std::min(choice.tile.vectors, blocks));
  plan.panel_count = (blocks + plan.vector_count - 1) / plan.vector_count;
  if (plan.vector_count > 1 && plan.vector_count == blocks && index.terms().size() > 1) {
    // The tile takes all vectors of a group, so the iterator over groups counts the tiles.
    for (const auto& [name, coefficient] : index.terms()) {
      if (name != plan.panels) plan.group = name;
    }
    plan.vectors = std::exchange(plan.panels, "");
  } else if (plan.vector_count > 1) {
    const std::string outer = facts.reduction().fresh(plan.panels + "t"),
                      inner = facts.reduction().fresh(plan.panels + "n");
    plan.strips.push_back({plan.panels, plan.vector_count, outer, inner});
    plan.panels = outer;
    plan.vectors = inner;
  }
  if (const auto division = divide_panel(facts, plan, knobs)) {
    plan.strips.push_back(*division);
    plan.panel_part = division->outer;
  }
  if (knobs.sum_block != 0) plan.strips.push_back(divide_sum(facts, choice.columns, knobs.sum_block));
  divide_byte_iterator(facts, plan);
  return plan;
}

}  // namespace tc
