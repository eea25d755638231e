// A product with lanes along an output whose size is known only when it runs: a layout in blocks needs whole
// blocks, so loops divide the output into panels instead, and what each panel reads is copied beforehand.
//
//   scores[m, n] += q[m, k] * keys[n, k]
//     ->  for each panel of n: keys of the panel transposed; for each tile of m: the sums
#include "scheduler/default/plan.h"

namespace tc {
namespace {

// Steps of the innermost loop that sums, in one trip: a few, as a tile of many sums has many instructions.
constexpr int64_t kSteps = 4;

}  // namespace

LoopPlan plan_open_lanes(const ReductionFacts& facts, const Choice& choice, const ReductionKnobs& knobs) {
  if (knobs.rows > 1 || knobs.sum_block != 0 || knobs.windows != 0 || knobs.outer_block != 0 ||
      knobs.outer_order != 0 || knobs.outside != 0 || knobs.separate_epilogue == 2)
    throw NotApplicable{"lanes along an output of open size"};
  const auto loop = [&](const std::string& iterator) { return facts.reduction().sum + "_" + iterator; };
  LoopPlan plan;
  std::vector<std::string> iterators;  // from the outermost to the innermost
  for (const std::string& name : facts.outputs()) {
    if (name == choice.vector || name == choice.columns) continue;
    iterators.push_back(name);
    plan.order.push_back(loop(name));
  }
  const std::string lane = loop(choice.vector), column = loop(choice.columns), panels = lane + "_o",
                    tiles = column + "_o";
  plan.order.insert(plan.order.end(), {panels, tiles});
  plan.lanes = lane + "_i";
  std::vector<std::string> inside = {column + "_i"};
  if (choice.tile.vectors > 1) {
    plan.splits.push_back({lane, choice.tile.vectors * choice.lanes, panels, lane + "_p"});
    plan.splits.push_back({lane + "_p", choice.lanes, lane + "_v", plan.lanes});
    inside.push_back(lane + "_v");
  } else {
    plan.splits.push_back({lane, choice.lanes, panels, plan.lanes});
  }
  plan.splits.push_back({column, choice.tile.columns, tiles, column + "_i"});
  plan.tile = plan.init_at = plan.epilogue_at = tiles;
  const std::vector<std::string> sums =
      moved(facts.reduction_order(choice.vector, choice.columns), knobs.sum_order);
  for (const std::string& name : sums) plan.order.push_back(loop(name));
  plan.order.insert(plan.order.end(), inside.begin(), inside.end());
  plan.order.push_back(plan.lanes);
  for (const std::string& name : inside) plan.unrolled.push_back({name, 0});
  const int64_t steps = knobs.unroll > 0 ? knobs.unroll : kSteps;
  if (steps > 1 && facts.extent(sums.back(), steps) >= steps)
    plan.unrolled.push_back({loop(sums.back()), steps});
  iterators.insert(iterators.end(), sums.begin(), sums.end());
  iterators.push_back(choice.vector);
  for (const Access& load : loads_of(facts.sum())) {
    if (facts.is_packable_input(load, choice.vector, choice.columns))
      plan.packings.push_back(copy_of_input(facts, load, iterators, panels));
  }
  // Where a slanted edge decides which results there are, as of the scores of a causal attention, no range of
  // panels and tiles is free of conditions: each tile asks for itself.
  if (knobs.isolate == 0 && facts.sum().constraints.empty()) plan.isolated = {panels, tiles};
  return plan;
}

}  // namespace tc
