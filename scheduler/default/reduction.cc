#include "scheduler/default/reduction.h"

#include <algorithm>
#include <cmath>

#include "ir/weight_pairs.h"
#include "scheduler/default/write.h"

namespace tc {

std::string str(const PlannedReduction& planned) {
  return in_words(planned.choice) + "\n" + (planned.iterators ? str(*planned.iterators) : "") +
         str(planned.loops);
}

PreparedReduction::PreparedReduction(const TraceBuilder& start, bool least_error, double tolerance)
    : reduction_(prepare_reduction(start)), choices_(choices_of(facts())) {
  reduction_.least_error = least_error;
  reduction_.tolerance = tolerance;
  for (size_t i = 0; i < choices_.size(); ++i) {
    TileChoice& tile = choices_[i].choice.tile;
    tile = choose_tile(choices_[i].problem, start.target());
    tile.cycles *= choices_[i].preference;
    if (tile.cycles < INFINITY) by_cycles_.push_back(i);
  }
  if (by_cycles_.empty()) throw NotApplicable{"no iterator to vectorise"};
  std::stable_sort(by_cycles_.begin(), by_cycles_.end(), [&](size_t a, size_t b) {
    return choices_[a].choice.tile.cycles < choices_[b].choice.tile.cycles;
  });
}

PlannedReduction PreparedReduction::plan(const ReductionChoice& which, const ReductionKnobs& knobs) const {
  Choice choice = with_tile(facts(), which);
  if (knobs.vectors > 0) choice.tile.vectors = knobs.vectors;
  if (knobs.columns > 0) choice.tile.columns = knobs.columns;
  ReductionKernel reduction = reduction_;
  const ReductionFacts facts(reduction);  // a view: reflects the lines applied so far
  std::optional<IteratorPlan> iterators;
  LoopPlan loops;
  if (choice.over_reduction) {
    loops = plan_partial_sums(facts, choice, knobs);
  } else if (choice.open) {
    loops = plan_open_lanes(facts, choice, knobs);
  } else {
    const bool words = pays_in_words(facts, choice, knobs);
    if (words) choice.tile.vectors = kValuesInWords;
    const auto pairs = pays_in_pairs(facts, which, choice, knobs);
    if (pairs) {
      choice.tile = pairs->tile;
      choice.lanes = pairs->lanes;
    }
    const LaneLayout layout = lay_out_lanes(reduction, choice);
    iterators = plan_iterators(facts, choice, layout, knobs);
    write(reduction, *iterators);
    for (const std::string& line : constant_packings(facts, *iterators, choice, knobs))
      reduction.builder.attempt(line);
    if (pairs && iterators->vector_count == kValuesInPair)
      reduction.builder.attempt("algorithm ", reduction.sum, " pairs ", iterators->vectors, " ",
                                pairs->steps);
    if (words && iterators->vector_count == kValuesInWords)
      reduction.builder.attempt("algorithm ", reduction.sum, " int21 ", iterators->vectors);
    loops = plan_tile_loops(facts, *iterators, choice, knobs);
  }
  write(reduction, loops, choice.lanes);
  reduction.builder.parallelise(knobs.parallel);
  return {choice, iterators, loops, reduction.builder};
}

TraceBuilder PreparedReduction::apply(ReductionKnobs& knobs, std::vector<std::string>* refused) const {
  if (knobs.choice > static_cast<int64_t>(choices_.size())) throw NotApplicable{"no such choice"};
  if (knobs.choice > 0) return plan(choices_[static_cast<size_t>(knobs.choice - 1)], knobs).result;
  NotApplicable last;
  for (const size_t i : by_cycles_) {
    try {
      TraceBuilder result = plan(choices_[i], knobs).result;
      knobs.choice = static_cast<int64_t>(i) + 1;
      return result;
    } catch (const NotApplicable& refusal) {
      last = refusal;
      if (refused != nullptr) refused->push_back(in_words(choices_[i].choice) + ": " + refusal.why);
    }
  }
  throw last;
}

}  // namespace tc
