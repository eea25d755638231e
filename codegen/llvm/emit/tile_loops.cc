// Serial loops of a leaf's statements: bounds, unrolled copies, and trips some of whose lanes do not exist.
#include <algorithm>

#include "codegen/llvm/emit/tile_emitter.h"
#include "ir/error.h"
#include "ir/tile.h"

namespace tc {
namespace {

LoopExprPtr to_loop_expr(const Affine& affine) {
  std::vector<LoopExprPtr> terms = {loop_constant(affine.constant())};
  for (const auto& [name, coefficient] : affine.terms()) {
    terms.push_back(loop_expr(LoopExpr::Kind::Mul, {loop_variable(name), loop_constant(coefficient)}));
  }
  return terms.size() == 1 ? terms[0] : loop_expr(LoopExpr::Kind::Add, std::move(terms));
}

}  // namespace

TileEmitter::SerialBounds TileEmitter::serial_bounds(const TileLoop& loop, const Constraints& pending) const {
  SerialBounds result;
  std::vector<LoopExprPtr> lowers = {loop_constant(0)};
  const auto divided = [](const Affine& affine, int64_t divisor) {
    if (divisor == 1) return to_loop_expr(affine);
    return loop_expr(LoopExpr::Kind::FloorDiv, {to_loop_expr(affine), loop_constant(divisor)});
  };
  const Affine last = loop.symbolic_extent - 1;
  std::vector<LoopExprPtr> uppers = {loop.extent >= 0 ? loop_constant(loop.extent - 1)
                                                      : divided(last, loop.symbolic_divisor)};
  if (loop.symbolic_divisor > 1)
    result.bounds.push_back(last - Affine::variable(loop.name, loop.symbolic_divisor));
  for (const Affine& constraint : pending) {
    const int64_t coefficient = constraint.coefficient(loop.name);
    const Affine others = constraint - Affine::variable(loop.name, coefficient);
    if (coefficient == 0 || !is_fixed(others)) {
      result.rest.push_back(constraint);
      continue;
    }
    result.bounds.push_back(constraint);
    if (coefficient > 0) {
      lowers.push_back(divided(Affine(coefficient - 1) - others, coefficient));
    } else {
      uppers.push_back(divided(others, -coefficient));
    }
  }
  auto fold = [](LoopExpr::Kind kind, const std::vector<LoopExprPtr>& parts) {
    return parts.size() == 1 ? parts[0] : loop_expr(kind, parts);
  };
  result.lower = fold(LoopExpr::Kind::Max, lowers);
  result.upper = fold(LoopExpr::Kind::Min, uppers);
  result.low = range_of(*result.lower, context_.ranges);
  result.high = range_of(*result.upper, context_.ranges);
  return result;
}

void TileEmitter::serial_copy(size_t position, const SerialBounds& bounds, const Affine& value,
                              bool ends_block) {
  const TileLoop& loop = tile_->loops[position];
  const size_t known = known_.size();
  values_[loop.name] = value;
  for (const Affine& bound : bounds.bounds) known_.push_back(with_values(bound));
  loaded_.emplace_back();
  nest(position + 1, bounds.rest);
  if (region_.in_blocks) add_waiting_products();
  if (!ends_block && fills_registers()) end_step();
  loaded_.pop_back();
  known_.resize(known);
  values_.erase(loop.name);
}

llvm::Value* TileEmitter::serial_trips(size_t position, const SerialBounds& bounds, const Trips& trips) {
  const TileLoop& loop = tile_->loops[position];
  add_waiting_products();
  std::vector<std::string> names;
  std::vector<llvm::Value*> carried;
  for (const auto& [name, accumulator] : region_.accumulators) {
    names.push_back(name);
    carried.push_back(accumulator.value);
  }
  const std::string variable = text(loop.name, "#", ++names_);
  const auto result = context_.loop(
      {loop.name.substr(1), trips.first, trips.last, trips.copies, trips.may_be_empty, trips.range}, carried,
      [&](llvm::Value* value, llvm::BasicBlock* header, const std::vector<llvm::Value*>& current) {
        context_.variables[variable] = value;
        context_.ranges[variable] = trips.range;
        levels_.push_back({header, {}});
        variable_level_[variable] = static_cast<int>(levels_.size()) - 1;
        variable_step_[variable] = trips.copies;
        for (size_t i = 0; i < names.size(); ++i) region_.accumulators[names[i]].value = current[i];
        if (levels_.size() == 2) prefetch_stores(variable, trips);
        for (int64_t i = 0; i < trips.copies; ++i) {
          serial_copy(position, bounds, Affine::variable(variable) + Affine(i), i + 1 == trips.copies);
        }
        add_waiting_products();
        std::vector<llvm::Value*> next;
        for (const std::string& name : names) next.push_back(region_.accumulators[name].value);
        levels_.pop_back();
        variable_level_.erase(variable);
        variable_step_.erase(variable);
        context_.variables.erase(variable);
        context_.ranges.erase(variable);
        return next;
      });
  for (size_t i = 0; i < names.size(); ++i) region_.accumulators[names[i]].value = result.carried[i];
  return result.next;
}

int64_t TileEmitter::last_whole_trip(size_t position, const SerialBounds& bounds, Interval trips) const {
  constexpr int64_t kMaxPartial = 1;  // such trips are emitted one by one
  int64_t last = trips.high;
  for (const Affine& constraint : bounds.rest) {
    const int64_t coefficient = constraint.coefficient(tile_->loops[position].name),
                  step = constraint.coefficient(lane_);
    const Affine others = constraint - Affine::variable(tile_->loops[position].name, coefficient) -
                          Affine::variable(lane_, step);
    if (lanes_ == 1 || coefficient >= 0 || step == 0 || !others.is_constant()) continue;
    const int64_t worst = others.constant() + std::min<int64_t>(step * (lanes_ - 1), 0);
    if (worst >= 0) last = std::min(last, worst / -coefficient);
  }
  return trips.high - last <= kMaxPartial ? last : trips.high;
}

void TileEmitter::known_trips(size_t position, const SerialBounds& bounds, Interval trips) {
  const int64_t unroll = std::max(1, tile_->loops[position].unroll);
  const int64_t groups = (last_whole_trip(position, bounds, trips) - trips.low + 1) / unroll;
  int64_t next = trips.low;
  if (groups > 1) {
    const int64_t last = trips.low + (groups - 1) * unroll;
    serial_trips(position, bounds,
                 {context_.i64(trips.low), context_.i64(last), {trips.low, last}, unroll, false});
    next = last + unroll;
  }
  for (; next <= trips.high; ++next) serial_copy(position, bounds, Affine(next), false);
}

std::pair<Affine, Affine> TileEmitter::over_copies(const Affine& affine) const {
  std::map<std::string, Affine> least, most;
  for (const TileLoop& loop : tile_->loops) {
    const int64_t step = affine.coefficient(loop.name);
    if (step == 0 || loop.kind == TileLoop::Kind::Serial) continue;
    (step < 0 ? least : most)[loop.name] = Affine(loop.extent - 1);
    (step < 0 ? most : least)[loop.name] = Affine(0);
  }
  return {affine.substitute(least), affine.substitute(most)};
}

bool TileEmitter::divide_trips(size_t position, const SerialBounds& bounds) {
  constexpr int64_t kMinPart = 4;  // of all trips: fewer are not worth a loop of their own
  const TileLoop& loop = tile_->loops[position];
  SerialBounds whole = bounds, partial = bounds;
  std::vector<LoopExprPtr> last_whole = {bounds.upper}, last = {bounds.upper};
  whole.rest.clear();
  for (const Affine& constraint : bounds.rest) {
    const int64_t step = -constraint.coefficient(loop.name);
    const auto [least, most] = over_copies(constraint + Affine::variable(loop.name, step));
    const int64_t apart = range_of(most - least, context_.ranges).high;
    const bool ends =
        step > 0 && apart > 0 && is_fixed(least) && is_fixed(most) &&
        (loop.extent < 0 || (!least.is_constant() && (apart / step + 1) * kMinPart <= loop.extent));
    if (!ends) {
      whole.rest.push_back(constraint);
      continue;
    }
    const auto divided = [&](const Affine& affine) {
      return loop_expr(LoopExpr::Kind::FloorDiv, {to_loop_expr(affine), loop_constant(step)});
    };
    last_whole.push_back(divided(least));
    last.push_back(divided(most));
  }
  if (last.size() == 1) return false;
  whole.upper = loop_expr(LoopExpr::Kind::Min, last_whole);
  whole.high = range_of(*whole.upper, context_.ranges);
  if (whole.high.high >= whole.low.low) unknown_trips(position, whole);
  partial.lower = loop_expr(LoopExpr::Kind::Max,
                            {bounds.lower, loop_expr(LoopExpr::Kind::Add, {whole.upper, loop_constant(1)})});
  partial.low = range_of(*partial.lower, context_.ranges);
  partial.upper = loop_expr(LoopExpr::Kind::Min, last);
  partial.high = range_of(*partial.upper, context_.ranges);
  serial_trips(position, partial,
               {context_.value_of(*partial.lower),
                context_.value_of(*partial.upper),
                {partial.low.low, partial.high.high},
                1,
                true});
  return true;
}

void TileEmitter::unknown_trips(size_t position, const SerialBounds& bounds) {
  if (divide_trips(position, bounds)) return;
  const int64_t unroll = std::max(1, tile_->loops[position].unroll);
  const Interval low = bounds.low, high = bounds.high;
  llvm::Value* first = context_.value_of(*bounds.lower);
  llvm::Value* last = context_.value_of(*bounds.upper);
  if (unroll == 1) {
    serial_trips(position, bounds, {first, last, {low.low, high.high}, 1, high.low < low.high});
    return;
  }
  llvm::Value* last_group = builder_.CreateNSWSub(last, context_.i64(unroll - 1));
  if (high.high - (unroll - 1) >= low.low) {
    first = serial_trips(
        position, bounds,
        {first, last_group, {low.low, high.high - (unroll - 1)}, unroll, high.low - (unroll - 1) < low.high});
  }
  serial_trips(position, bounds, {first, last, {low.low, high.high}, 1, true});
}

void TileEmitter::serial_loop(size_t position, const Constraints& pending) {
  const SerialBounds bounds = serial_bounds(tile_->loops[position], pending);
  if (bounds.low.low > bounds.high.high) return;
  const bool known = bounds.low.low == bounds.low.high && bounds.high.low == bounds.high.high;
  // The sums of the outermost loop's first block are stored as totals, not added. That would overwrite the
  // totals of an inner loop's blocks, so that the mark of inner loops is ignored.
  const bool counts = region_.outer_blocks ? position == region_position_ : region_.in_blocks;
  const bool blocks = counts && tile_->loops[position].sum_block > 0;
  const Interval trips{bounds.low.low, bounds.high.high};
  if (known && blocks) {
    sum_in_blocks(position, bounds, trips);
  } else if (known && divide_trips(position, bounds)) {
    return;
  } else if (known) {
    known_trips(position, bounds, trips);
  } else {
    unknown_trips(position, bounds);
    if (blocks && !region_.outer_blocks) end_block();
  }
}

}  // namespace tc
