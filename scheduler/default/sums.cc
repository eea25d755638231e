// A reduction with lanes along what it sums: partial sums.
#include "scheduler/default/reduction.h"

#include <algorithm>

namespace tc {

void ReductionScheduler::schedule_over_reduction() {
  const std::string vector = choice_.vector;
  auto loop = [&](const std::string& iterator) { return macc_ + "_" + iterator; };
  const int64_t extent = extent_or(macc(), vector, 1);
  // The vector counts outputs of one more iterator as its copies.
  std::string rows = "";
  for (const std::string& name : outputs()) {
    if (name != choice_.columns) rows = name;
  }
  const int64_t lanes = std::min(choice_.lanes, extent);
  const bool whole = extent <= lanes;
  std::string inner = loop(vector), outer;
  if (!whole) {
    outer = loop(vector) + "_o";
    inner = loop(vector) + "_i";
    b_.apply("split ", loop(vector), " ", lanes, " as ", outer, " ", inner);
  }
  std::vector<std::string> order, inside;
  auto tile = [&](const std::string& name, int64_t size) {
    b_.apply("split ", loop(name), " ", size, " as ", loop(name), "_o ", loop(name), "_i");
    inside.push_back(loop(name) + "_i");
  };
  const int64_t columns = choice_.columns.empty() ? 1 : choice_.tile.columns;
  int64_t row_copies = 1;
  if (!rows.empty()) {
    const int64_t room = std::max<int64_t>(1, b_.target().vector_registers / 2);
    row_copies = std::clamp<int64_t>(room / std::max<int64_t>(1, columns * 2), 1, 4);
    if (knobs_.rows > 0) row_copies = knobs_.rows;
    row_copies = std::min(row_copies, extent_or(macc(), rows, kAssumedSymbolic));
  }
  for (const std::string& name : outputs()) {
    if (name == choice_.columns && columns > 1) tile(name, columns);
    else if (name == rows && row_copies > 1) tile(name, row_copies);
    const bool tiled = !inside.empty() && inside.back() == loop(name) + "_i";
    order.push_back(tiled ? loop(name) + "_o" : loop(name));
  }
  order = moved(order, knobs_.outer_order);
  const std::string around = order.empty() ? "" : order.back();
  for (const std::string& name : moved(reduction_order(""), knobs_.sum_order)) {
    if (name != vector) order.push_back(loop(name));
  }
  if (!outer.empty()) order.push_back(outer);
  order.insert(order.end(), inside.begin(), inside.end());
  order.push_back(inner);
  if (order.size() > 1) b_.apply("order", joined(order));
  if (!around.empty()) b_.apply("compute_at ", init_, joined(tails_), " at ", around);
  auto scalar = [&](const std::string& name) {
    for (const TraceBuilder::Loop& each : b_.own_loops(name)) b_.apply("unroll ", each.name);
  };
  scalar(init_);
  for (const std::string& name : tails_) scalar(name);
  b_.apply("register_tile ", around.empty() ? "root" : around);
  b_.apply("vectorize ", inner);
  for (const std::string& name : inside) b_.apply("unroll ", name);
  if (knobs_.unroll > 1 && !outer.empty()) b_.apply("unroll ", outer, " ", knobs_.unroll);
  if (knobs_.isolate != 0) return;
  if (!around.empty()) b_.apply("isolate ", around);
  for (const std::string& name : inside) {
    const std::string other = name.substr(0, name.size() - 1) + "o";
    if (other != around) b_.apply("isolate ", other);
  }
}

}  // namespace tc
