// Serial loops of a leaf's statements: bounds, copies, trips some of whose lanes do not exist, and sums in
// blocks.
#include <algorithm>

#include "codegen/c/tile_writer.h"
#include "ir/tile.h"
#include "ir/error.h"

namespace tc::c {
namespace {

LoopExprPtr to_loop_expr(const Affine& affine) {
  std::vector<LoopExprPtr> terms;
  for (const auto& [name, coefficient] : affine.terms()) {
    terms.push_back(coefficient == 1
                        ? loop_variable(name)
                        : loop_expr(LoopExpr::Kind::Mul, {loop_variable(name), loop_constant(coefficient)}));
  }
  if (affine.constant() != 0 || terms.empty()) terms.push_back(loop_constant(affine.constant()));
  return terms.size() == 1 ? terms[0] : loop_expr(LoopExpr::Kind::Add, std::move(terms));
}

}  // namespace

TileWriter::Bounds TileWriter::bounds_of(const TileLoop& loop, const Constraints& pending) const {
  Bounds result;
  std::vector<LoopExprPtr> lowers = {loop_constant(0)};
  std::vector<LoopExprPtr> uppers = {loop.extent >= 0 ? loop_constant(loop.extent - 1)
                                                      : to_loop_expr(loop.symbolic_extent - 1)};
  for (const Affine& constraint : pending) {
    const int64_t coefficient = constraint.coefficient(loop.name);
    const Affine others = constraint - Affine::variable(loop.name, coefficient);
    if (coefficient == 0 || !is_fixed(others)) {
      result.rest.push_back(constraint);
      continue;
    }
    result.bounds.push_back(constraint);
    const auto divided = [](const Affine& affine, int64_t divisor) {
      if (divisor == 1) return to_loop_expr(affine);
      return loop_expr(LoopExpr::Kind::FloorDiv, {to_loop_expr(affine), loop_constant(divisor)});
    };
    if (coefficient > 0) lowers.push_back(divided(Affine(coefficient - 1) - others, coefficient));
    else uppers.push_back(divided(others, -coefficient));
  }
  const auto fold = [](LoopExpr::Kind kind, const std::vector<LoopExprPtr>& parts) {
    return parts.size() == 1 ? parts[0] : loop_expr(kind, parts);
  };
  result.lower = fold(LoopExpr::Kind::Max, lowers);
  result.upper = fold(LoopExpr::Kind::Min, uppers);
  result.low = range_of(*result.lower, state_.context.ranges);
  result.high = range_of(*result.upper, state_.context.ranges);
  return result;
}

void TileWriter::copy(size_t position, const Bounds& bounds, const Affine& value) {
  const std::string& name = state_.tile->loops[position].name;
  const size_t known = state_.known.size();
  state_.values[name] = value;
  for (const Affine& bound : bounds.bounds) state_.known.push_back(state_.with_values(bound));
  nest(position + 1, bounds.rest);
  state_.known.resize(known);
  state_.values.erase(name);
}

void TileWriter::trips(size_t position, const Bounds& bounds, const std::string& first,
                       const std::string& last, Interval range) {
  const TileLoop& loop = state_.tile->loops[position];
  const std::string name = state_.context.names.fresh(loop.name.substr(1)), variable = loop.name + "#" + name;
  constexpr size_t kManySums = 8;  // that keep a core busy without unrolling
  if (loop.unroll > 1 && region_.active && region_.accumulators.size() < kManySums)
    state_.lines.add(tc::text("TC_UNROLL(", loop.unroll, ")"));
  state_.lines.loop(
      tc::text("for (ptrdiff_t ", name, " = ", first, "; ", name, " <= ", last, "; ++", name, ")"), [&] {
        state_.context.variables[variable] = name;
        state_.context.ranges[variable] = range;
        state_.variable_level[variable] = state_.lines.level();
        copy(position, bounds, Affine::variable(variable));
        state_.variable_level.erase(variable);
        state_.context.variables.erase(variable);
        state_.context.ranges.erase(variable);
      });
}

// The last trip all of whose lanes exist, where so few trips follow that they are written one by one.
int64_t TileWriter::last_whole_trip(size_t position, const Bounds& bounds, Interval range) const {
  constexpr int64_t kMaxPartial = 1;
  const std::string& name = state_.tile->loops[position].name;
  int64_t last = range.high;
  for (const Affine& constraint : bounds.rest) {
    const int64_t coefficient = constraint.coefficient(name), step = state_.lane_step(constraint);
    const Affine others =
        constraint - Affine::variable(name, coefficient) - Affine::variable(state_.lane, step);
    if (state_.lanes == 1 || coefficient >= 0 || step == 0 || !others.is_constant()) continue;
    const int64_t worst = others.constant() + std::min<int64_t>(step * (state_.lanes - 1), 0);
    if (worst >= 0) last = std::min(last, worst / -coefficient);
  }
  return range.high - last <= kMaxPartial ? last : range.high;
}

void TileWriter::known_trips(size_t position, const Bounds& bounds, Interval range) {
  const int64_t unroll = std::max(1, state_.tile->loops[position].unroll);
  int64_t next = range.low;
  const int64_t last = last_whole_trip(position, bounds, range);
  if ((last - range.low + 1) / unroll > 1) {
    trips(position, bounds, tc::text(range.low), tc::text(last), {range.low, last});
    next = last + 1;
  }
  for (; next <= range.high; ++next) copy(position, bounds, Affine(next));
}

// For a symbolic extent, writes the trips whose lanes all exist and those after them as two loops, so that
// only the second has masks.
bool TileWriter::divide_trips(size_t position, const Bounds& bounds) {
  const TileLoop& loop = state_.tile->loops[position];
  if (loop.extent >= 0 || state_.lanes == 1) return false;
  Bounds whole = bounds;
  std::vector<LoopExprPtr> uppers = {bounds.upper};
  whole.rest.clear();
  for (const Affine& constraint : bounds.rest) {
    const int64_t coefficient = constraint.coefficient(loop.name), step = state_.lane_step(constraint);
    const Affine others =
        constraint - Affine::variable(loop.name, coefficient) - Affine::variable(state_.lane, step);
    if (coefficient >= 0 || step == 0 || !is_fixed(others)) {
      whole.rest.push_back(constraint);
      continue;
    }
    // This holds in all lanes of these trips.
    whole.bounds.push_back(constraint.substitute({{state_.lane, Affine(step < 0 ? state_.lanes - 1 : 0)}}));
    const Affine worst = others + Affine(step < 0 ? step * (state_.lanes - 1) : 0);
    uppers.push_back(loop_expr(LoopExpr::Kind::FloorDiv, {to_loop_expr(worst), loop_constant(-coefficient)}));
  }
  if (uppers.size() == 1) return false;
  whole.upper = loop_expr(LoopExpr::Kind::Min, uppers);
  const Ranges& ranges = state_.context.ranges;
  whole.high = range_of(*whole.upper, ranges);
  if (whole.high.high >= whole.low.low) {
    trips(position, whole, state_.context.value_of(*whole.lower), state_.context.value_of(*whole.upper),
          {whole.low.low, whole.high.high});
  }
  const LoopExprPtr begin = loop_expr(
      LoopExpr::Kind::Max, {bounds.lower, loop_expr(LoopExpr::Kind::Add, {whole.upper, loop_constant(1)})});
  trips(position, bounds, state_.context.value_of(*begin), state_.context.value_of(*bounds.upper),
        {range_of(*begin, ranges).low, bounds.high.high});
  return true;
}

void TileWriter::serial_loop(size_t position, const Constraints& pending) {
  const Bounds bounds = bounds_of(state_.tile->loops[position], pending);
  if (bounds.low.low > bounds.high.high) return;
  const Interval range{bounds.low.low, bounds.high.high};
  const bool known = bounds.low.low == bounds.low.high && bounds.high.low == bounds.high.high;
  const bool in_blocks = region_.in_blocks && state_.tile->loops[position].sum_block > 0;
  if (known && in_blocks) {
    blocks(position, bounds, range);
  } else if (known) {
    known_trips(position, bounds, range);
  } else if (!divide_trips(position, bounds)) {
    trips(position, bounds, state_.context.value_of(*bounds.lower), state_.context.value_of(*bounds.upper),
          range);
  }
  if (!known && in_blocks) end_block();
}

// Writes blocks of `sum_block` trips: the sum of each begins at zero and is added to the totals.
void TileWriter::blocks(size_t position, const Bounds& bounds, Interval range) {
  const int64_t unroll = std::max(1, state_.tile->loops[position].unroll);
  const int64_t block = std::max(unroll, state_.tile->loops[position].sum_block / unroll * unroll);
  const int64_t full = (last_whole_trip(position, bounds, range) - range.low + 1) / block;
  if (full > 1) {
    const std::string first = state_.context.names.fresh("block");
    state_.lines.loop(tc::text("for (ptrdiff_t ", first, " = ", range.low, "; ", first,
                               " <= ", range.low + (full - 1) * block, "; ", first, " += ", block, ")"),
                      [&] {
                        trips(position, bounds, first, tc::text(first, " + ", block - 1),
                              {range.low, range.low + full * block - 1});
                        end_block();
                      });
    range.low += full * block;
  }
  for (; range.low <= range.high; range.low += block) {
    known_trips(position, bounds, {range.low, std::min(range.high, range.low + block - 1)});
    end_block();
  }
}

void TileWriter::end_block() {
  const DType dtype = written_type();
  for (auto& [name, accumulator] : region_.accumulators) {
    const int lanes = lanes_of(region_, accumulator);
    state_.lines.add(tc::text(
        accumulator.total, " = ",
        state_.functions().binary(BinaryOp::Add, dtype, lanes, accumulator.total, accumulator.variable),
        ";"));
    state_.lines.add(tc::text(accumulator.variable, " = ",
                              state_.functions().splat(dtype, lanes, literal(dtype, 0.0)), ";"));
  }
}

}  // namespace tc::c
