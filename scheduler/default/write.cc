#include "scheduler/default/write.h"

#include <algorithm>

namespace tc {
namespace {

// Stores the constants that a statement of the epilogue reads by block and lane in the same blocks as the
// accumulators.
void pad_constants_of(ReductionKernel& reduction, const std::string& tail, int64_t lanes) {
  const ReductionFacts facts(reduction);
  bool again = true;
  while (again) {
    again = false;
    const Statement& statement = reduction.builder.statement(tail);
    std::string lane;  // the iterator of the lanes
    for (const Access& load : loads_of(statement)) {
      if (load.buffer == facts.sum().write.buffer) lane = outer_part(load.index.back().affine);
    }
    if (lane.empty()) return;
    for (const Access& load : loads_of(statement)) {
      if (!facts.is_constant(load)) continue;
      for (size_t d = 0; d < load.index.size() && !again; ++d) {
        const Affine& index = load.index[d].affine;
        if (index.coefficient(lane) != 1 || index.as_variable() == lane) continue;
        again = reduction.builder.attempt("layout ", facts.buffer(load).name, " ", d, " ", lanes);
      }
      if (again) break;
    }
  }
}

// The iterator of the statement that runs along the lanes of the accumulators.
std::string lane_of(const ReductionKernel& reduction, const std::string& name) {
  const Statement& statement = reduction.builder.statement(name);
  const int accumulators = reduction.statement().write.buffer;
  if (statement.write.buffer == accumulators) return outer_part(statement.write.index.back().affine);
  for (const Access& load : loads_of(statement)) {
    if (load.buffer == accumulators) return outer_part(load.index.back().affine);
  }
  // The statement reads what an earlier one of the epilogue wrote: lanes run along the innermost iterator of
  // its write.
  for (const Iterator& iterator : statement.iterators) {
    if (element_stride(reduction.builder.kernel(), statement.write, iterator.name) == 1) return iterator.name;
  }
  return "";
}

// The initialisation and the statements of the epilogue.
std::vector<std::string> results_of(const ReductionKernel& reduction) {
  std::vector<std::string> result = {reduction.init};
  result.insert(result.end(), reduction.epilogue.begin(), reduction.epilogue.end());
  return result;
}

// Writes the loops of an initialisation or epilogue: vectors of `lanes` along the iterator `lane`; with
// `unroll`, all other loops become copies.
void write_copies(ReductionKernel& reduction, const std::string& name, const std::string& lane, int64_t lanes,
                  bool unroll) {
  TraceBuilder& builder = reduction.builder;
  std::vector<std::string> order;
  std::string last;
  for (const TraceBuilder::Loop& loop : builder.own_loops(name)) {
    if (loop.iterator != lane || !last.empty()) {
      order.push_back(loop.name);
      continue;
    }
    last = loop.name;
    if (!loop.extent || *loop.extent <= lanes) continue;
    // In an epilogue that reads nothing in blocks, the loop runs over all of a tile's vectors, but each
    // register holds one vector of what it reads.
    builder.apply("split ", last, " ", lanes, " as ", last, "_v ", last);
    order.push_back(last + "_v");
  }
  if (!last.empty()) order.push_back(last);
  if (order.size() > 1) builder.apply("order", joined(order));
  for (const std::string& loop : order) {
    if (loop == last) builder.apply("vectorize ", loop);
    else if (unroll) builder.apply("unroll ", loop);
  }
}

// Writes the loops of an input's copy: lanes along what is contiguous in the input; the vectors are
// transposed in registers.
void write_packing(ReductionKernel& reduction, const std::string& packed, int64_t lanes) {
  TraceBuilder& builder = reduction.builder;
  const Statement& copy = builder.statement(packed);
  const std::string lane = lane_of(reduction, packed);
  const Access load = loads_of(copy).front();
  std::string along, lane_loop;
  for (const Iterator& iterator : copy.iterators) {
    const bool fills_lanes = extent_or(copy, iterator.name, 0) >= lanes;
    if (iterator.name != lane && fills_lanes && element_stride(builder.kernel(), load, iterator.name) == 1)
      along = iterator.name;
  }
  // Vectors of a length that only the machine knows are not transposed.
  if (along.empty() || builder.target().vector_bits == 0 || builder.target().scalable) {
    write_copies(reduction, packed, lane, lanes, false);
    return;
  }
  std::vector<std::string> order;
  for (const TraceBuilder::Loop& loop : builder.own_loops(packed)) {
    if (loop.iterator == lane) lane_loop = loop.name;
    else if (loop.iterator != along) order.push_back(loop.name);
  }
  const std::string row = packed + "_" + along;
  builder.apply("split ", row, " ", lanes, " as ", row, "_o ", row, "_i");
  order.insert(order.end(), {row + "_o", lane_loop, row + "_i"});
  builder.apply("order", joined(order));
  builder.apply("unroll ", lane_loop);
  builder.apply("vectorize ", row, "_i");
}

void write_split(TraceBuilder& builder, const Division& split) {
  builder.apply("split ", split.name, " ", split.size, " as ", split.outer, " ", split.inner);
}

// Moves the statements other than the sum to where the plan has them, and writes their own loops there.
void write_neighbours(ReductionKernel& reduction, const LoopPlan& plan, const std::string& packed,
                      const std::string& packed_at, int64_t lanes) {
  TraceBuilder& builder = reduction.builder;
  if (plan.epilogue == Epilogue::OfScalars || plan.epilogue == Epilogue::OfVectors) {
    if (!plan.tile.empty())
      builder.apply("compute_at ", reduction.init, joined(reduction.epilogue), " at ", plan.tile);
    if (plan.epilogue == Epilogue::OfScalars) return unroll_results(reduction);
    for (const std::string& name : results_of(reduction)) {
      const std::string lane = same_result(ReductionFacts(reduction), builder.statement(name), plan.columns);
      write_copies(reduction, name, lane, lanes, true);
    }
    return;
  }
  if (!plan.init_at.empty()) builder.apply("compute_at ", reduction.init, " at ", plan.init_at);
  if (!plan.epilogue_at.empty())
    builder.apply("compute_at", joined(reduction.epilogue), " at ", plan.epilogue_at);
  if (!packed.empty()) {
    builder.apply("compute_at ", packed, " at ", packed_at);
    write_packing(reduction, packed, lanes);
  }
  write_copies(reduction, reduction.init, lane_of(reduction, reduction.init), lanes,
               plan.epilogue != Epilogue::AfterSums);
  for (const std::string& name : reduction.epilogue)
    write_copies(reduction, name, lane_of(reduction, name), lanes, plan.epilogue == Epilogue::InTile);
}

}  // namespace

void unroll_results(ReductionKernel& reduction) {
  for (const std::string& name : results_of(reduction)) {
    for (const TraceBuilder::Loop& each : reduction.builder.own_loops(name))
      reduction.builder.apply("unroll ", each.name);
  }
}

void vectorize_results(ReductionKernel& reduction) {
  for (const std::string& name : results_of(reduction)) {
    const std::vector<TraceBuilder::Loop> loops = reduction.builder.own_loops(name);
    for (const TraceBuilder::Loop& each : loops)
      reduction.builder.apply(&each == &loops.back() ? "vectorize " : "unroll ", each.name);
  }
}

LaneLayout lay_out_lanes(ReductionKernel& reduction, const Choice& choice) {
  const ReductionFacts facts(reduction);
  const int64_t extent = facts.extent(choice.vector, choice.lanes);
  LaneLayout layout{*facts.dimension_of(choice.vector), choice.vector};
  if (const BlockedDim* blocked = facts.blocked_dim(facts.sum().write, layout.dimension)) {
    layout.dimension = blocked->outer;
  } else {
    reduction.builder.apply("layout ", facts.buffer(facts.sum().write).name, " ", layout.dimension, " ",
                            choice.lanes);
    layout.lane = outer_part(facts.sum().write.index.back().affine);
  }
  if (extent % choice.lanes == 0) return layout;
  for (const std::string& tail : reduction.epilogue) pad_constants_of(reduction, tail, choice.lanes);
  return layout;
}

void write(ReductionKernel& reduction, const IteratorPlan& plan) {
  for (const Division& each : plan.strips) {
    reduction.builder.apply("strip ", reduction.sum, "_", each.name, " ", each.size, " as ", each.outer, " ",
                            each.inner);
  }
}

void write(ReductionKernel& reduction, const LoopPlan& plan, int64_t lanes) {
  TraceBuilder& builder = reduction.builder;
  std::string packed, packed_at;  // the statement that copies an input, and the loop that holds it
  for (const LoopPlan::InputCopy& each : plan.packings) {
    if (!builder.attempt("pack ", each.buffer, " :", joined(each.iterators))) continue;
    packed = builder.kernel().statements.front().name;
    packed_at = each.at;
    break;
  }
  for (const Division& each : plan.splits) write_split(builder, each);
  if (plan.order.size() > 1) builder.apply("order", joined(plan.order));
  if (plan.held) write_split(builder, *plan.held);
  write_neighbours(reduction, plan, packed, packed_at, lanes);
  builder.apply("register_tile ", plan.tile.empty() ? "root" : plan.tile);
  builder.apply("vectorize ", plan.lanes);
  for (const LoopPlan::Unrolling& each : plan.unrolled) {
    builder.apply("unroll ", each.loop, each.copies > 0 ? text(" ", each.copies) : "");
  }
  if (plan.blocks) builder.apply("sum_blocks ", plan.blocks->loop, " ", plan.blocks->copies);
  for (const std::string& loop : plan.isolated) builder.apply("isolate ", loop);
  if (!plan.widened.empty()) builder.apply("widen ", plan.widened);
  for (const LoopPlan::Prefetch& each : plan.prefetched)
    builder.attempt("prefetch ", each.buffer, " ", each.loop);
}

}  // namespace tc
