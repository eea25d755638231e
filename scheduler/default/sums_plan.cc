// A reduction with lanes along what it sums up: the loops of partial sums.
#include <algorithm>

#include "scheduler/default/plan.h"

namespace tc {
namespace {

// Rows of a tile, in addition to its columns: as many as leave half of the registers for what is loaded, up
// to 4.
int64_t rows_of_tile(const ReductionFacts& facts, const std::string& rows, int64_t columns,
                     const ReductionKnobs& knobs) {
  if (rows.empty()) return 1;
  const int64_t room = std::max<int64_t>(1, facts.target().vector_registers / 2);
  const int64_t wanted =
      knobs.rows > 0 ? knobs.rows : std::clamp<int64_t>(room / std::max<int64_t>(1, columns * 2), 1, 4);
  return std::min(wanted, facts.extent(rows, kAssumedSymbolic));
}

// Whether each row reads again what the columns read, from beyond the first cache: then the loop over tiles
// of columns goes around the one over rows. Where the number of columns is open, there may be many.
bool rereads_columns(const ReductionFacts& facts, const std::string& columns, const std::string& rows) {
  if (columns.empty() || rows.empty()) return false;
  for (const Access& load : loads_of(facts.sum())) {
    if (!depends_on(load, columns) || depends_on(load, rows)) continue;
    if (facts.extent(columns, 0) == 0) return true;
    auto bytes = static_cast<double>(size_of(facts.buffer(load).dtype));
    for (const Iterator& iterator : facts.sum().iterators) {
      const bool read = iterator.name == columns || !facts.is_output(iterator.name);
      if (read && depends_on(load, iterator.name))
        bytes *= static_cast<double>(facts.extent(iterator.name, kAssumedSymbolic));
    }
    if (bytes > static_cast<double>(facts.target().l1_bytes) / 2) return true;
  }
  return false;
}

}  // namespace

LoopPlan plan_partial_sums(const ReductionFacts& facts, const Choice& choice, const ReductionKnobs& knobs) {
  auto loop = [&](const std::string& iterator) { return facts.reduction().sum + "_" + iterator; };
  LoopPlan plan;
  plan.epilogue = Epilogue::OfScalars;
  if (sums_fill_vectors(facts, choice) && choice.tile.columns % choice.lanes == 0) {
    plan.epilogue = Epilogue::OfVectors;
    plan.columns = choice.columns;
  }
  plan.lanes = loop(choice.vector);
  std::string parts;  // the loop over vectors of what is summed up
  const int64_t extent = facts.extent(choice.vector, 1), lanes = std::min(choice.lanes, extent);
  if (extent > lanes) {
    parts = loop(choice.vector) + "_o";
    plan.lanes = loop(choice.vector) + "_i";
    plan.splits.push_back({loop(choice.vector), lanes, parts, plan.lanes});
  }
  std::string rows;  // the innermost output other than the columns
  for (const std::string& name : facts.outputs()) {
    if (name != choice.columns) rows = name;
  }
  const int64_t columns = choice.columns.empty() ? 1 : choice.tile.columns;
  const int64_t row_count = rows_of_tile(facts, rows, columns, knobs);
  std::vector<std::string> inside;
  for (const std::string& name : facts.outputs()) {
    const int64_t size = name == choice.columns ? columns : name == rows ? row_count : 1;
    if (size > 1) {
      plan.splits.push_back({loop(name), size, loop(name) + "_o", loop(name) + "_i"});
      inside.push_back(loop(name) + "_i");
    }
    plan.order.push_back(size > 1 ? loop(name) + "_o" : loop(name));
  }
  if (plan.epilogue == Epilogue::OfVectors && rereads_columns(facts, choice.columns, rows)) {
    const auto place = std::find(plan.order.begin(), plan.order.end(), loop(choice.columns) + "_o");
    const auto row = std::find_if(plan.order.begin(), plan.order.end(), [&](const std::string& name) {
      return name == loop(rows) || name == loop(rows) + "_o";
    });
    if (row < place) std::rotate(row, place, place + 1);
  }
  plan.order = moved(plan.order, knobs.outer_order);
  const std::string around = plan.order.empty() ? "" : plan.order.back();
  plan.tile = plan.init_at = plan.epilogue_at = around;
  for (const std::string& name : moved(facts.reduction_order("", choice.columns), knobs.sum_order)) {
    if (name != choice.vector) plan.order.push_back(loop(name));
  }
  if (!parts.empty()) plan.order.push_back(parts);
  plan.order.insert(plan.order.end(), inside.begin(), inside.end());
  plan.order.push_back(plan.lanes);
  for (const std::string& name : inside) plan.unrolled.push_back({name, 0});
  const DType type = facts.buffer(facts.sum().write).dtype;
  if (!parts.empty() && facts.sum().reduction == Reduction::Sum && is_float(type)) {
    const auto block = block_of_long_sum({{parts, choice.vector, true, (extent + lanes - 1) / lanes}});
    if (block) plan.blocks = LoopPlan::Unrolling{block->loop, block->trips};
  }
  if (knobs.unroll > 1 && !parts.empty()) plan.unrolled.push_back({parts, knobs.unroll});
  if (knobs.isolate != 0) return plan;
  // A loop that is not divided has no trips with conditions.
  const bool divided = plan.epilogue != Epilogue::OfVectors || around != loop(rows);
  if (!around.empty() && divided) plan.isolated.push_back(around);
  for (const std::string& name : inside) {
    const std::string other = name.substr(0, name.size() - 1) + "o";
    if (other != around) plan.isolated.push_back(other);
  }
  return plan;
}

}  // namespace tc
