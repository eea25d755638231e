// Statements of a leaf and their loop nests.
#include "codegen/c/tile_writer.h"

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "ir/tile.h"

namespace tc::c {
namespace {

constexpr size_t kNever = std::numeric_limits<size_t>::max();

// Turns the four loops of a matrix product into plain ones: copies along the rows, serial loops over the
// depth, lanes along the columns. Other statements with matrix loops set accumulators: they, too, get lanes
// along the columns.
void without_matrices(std::vector<TileLoop>& loops) {
  constexpr size_t kProduct = 4;
  const size_t count = static_cast<size_t>(std::count_if(
      loops.begin(), loops.end(), [](const TileLoop& loop) { return loop.kind == TileLoop::Kind::Matrix; }));
  if (count == kProduct)
    std::rotate(loops.end() - 3, loops.end() - 2, loops.end());  // columns after groups and packed elements
  size_t number = 0;
  for (TileLoop& loop : loops) {
    if (loop.kind != TileLoop::Kind::Matrix) continue;
    ++number;
    const bool is_depth = count == kProduct && (number == 2 || number == 3);
    loop.kind = number == count ? TileLoop::Kind::Vector
                : is_depth      ? TileLoop::Kind::Serial
                                : TileLoop::Kind::Unroll;
  }
}

// Turns unrolled loops into serial ones, the outermost first, where there would be too many copies in the
// source. Statements that write registers keep theirs.
void limit_copies(std::vector<TileLoop>& loops) {
  constexpr int64_t kMost = 64;
  int64_t copies = 1;
  for (const TileLoop& loop : loops) {
    const bool is_short =
        loop.kind == TileLoop::Kind::Serial && loop.extent > 0 && loop.extent < 2 * std::max(1, loop.unroll);
    if (loop.kind == TileLoop::Kind::Unroll || is_short) copies *= loop.extent;
  }
  for (TileLoop& loop : loops) {
    if (copies <= kMost || loop.kind != TileLoop::Kind::Unroll || loop.extent < 2) continue;
    loop.kind = TileLoop::Kind::Serial;
    copies /= loop.extent;
  }
}

}  // namespace

std::string tile_text(KernelContext& context, const LoopNode& leaf, std::vector<Affine> assumed) {
  return TileWriter(context, leaf, std::move(assumed)).text();
}

TileWriter::TileWriter(KernelContext& context, const LoopNode& leaf, std::vector<Affine> assumed)
    : state_(context, std::move(assumed)), leaf_(leaf), registers_(state_), expressions_(state_, registers_) {
  state_.prefetches = leaf.prefetches;
  for (const TileStatement& tile : leaf.statements) {
    TC_CHECK(tile.statement >= 0 && tile.statement < static_cast<int>(context.kernel.statements.size()),
             "in a leaf of kernel '", context.kernel.name, "'");
    const int buffer = context.kernel.statements[static_cast<size_t>(tile.statement)].write.buffer;
    if (context.buffer(buffer).scope != Scope::Register) state_.written.insert(buffer);
  }
}

std::string TileWriter::text() {
  for (const TileStatement& tile : leaf_.statements) statement(tile);
  return state_.lines.finish();
}

void TileWriter::statement(const TileStatement& original) {
  std::set<std::string> outer;
  for (const auto& [name, value] : state_.context.variables) outer.insert(name);
  const Access& write = state_.kernel.statements[static_cast<size_t>(original.statement)].write;
  TileStatement plain = original;
  without_matrices(plain.loops);
  if (state_.context.buffer(write.buffer).scope != Scope::Register) limit_copies(plain.loops);
  const TileStatement tile = with_loop_names(std::move(plain), outer);
  Ranges& ranges = state_.context.ranges;
  state_.tile = &tile;
  state_.statement = &state_.kernel.statements[static_cast<size_t>(tile.statement)];
  state_.values.clear();
  state_.lane.clear();
  state_.lanes = 1;
  const auto forget = [&] {
    for (const TileLoop& loop : tile.loops) ranges.erase(loop.name);
    state_.tile = nullptr;
  };
  for (size_t i = 0; i < tile.loops.size(); ++i) {
    const TileLoop& loop = tile.loops[i];
    const int64_t last = last_trip(loop, ranges);
    if (last < 0) return forget();  // no instances
    ranges[loop.name] = {0, last};
    if (loop.kind != TileLoop::Kind::Vector) continue;
    TC_CHECK(i + 1 == tile.loops.size(), "the vector loop is the innermost, in statement '",
             state_.statement->name, "'");
    state_.lane = loop.name;
    state_.lanes = static_cast<int>(loop.extent);
  }
  Constraints constraints = tile.constraints;
  // A quotient is not affine, so that this constraint excludes the trips past it.
  for (const TileLoop& loop : tile.loops) {
    if (loop.symbolic_divisor > 1)
      constraints.push_back(loop.symbolic_extent - 1 - Affine::variable(loop.name, loop.symbolic_divisor));
  }
  region_ = Region();
  region_position_ = accumulation_start(state_.kernel, tile).value_or(kNever);
  state_.lines.add("/* " + in_comment(state_.statement->name) + " */");
  nest(0, constraints);
  forget();
}

bool TileWriter::simplify(Constraints& pending) const {
  Constraints kept;
  for (const Affine& constraint : pending) {
    const Affine affine = state_.with_values(constraint);
    if (proves_nonnegative(affine, state_.context.ranges, state_.known)) continue;
    if (refutes_nonnegative(affine, state_.context.ranges)) return false;
    kept.push_back(affine);
  }
  pending = std::move(kept);
  return true;
}

void TileWriter::nest(size_t position, Constraints pending) {
  if (!simplify(pending)) return;
  const std::vector<TileLoop>& loops = state_.tile->loops;
  if (position == 0 || (position < loops.size() && loops[position].kind == TileLoop::Kind::Serial)) {
    Constraints fixed, open;
    for (const Affine& constraint : pending) (is_fixed(constraint) ? fixed : open).push_back(constraint);
    if (!fixed.empty()) return branch_on(fixed, [&] { nest(position, open); });
  }
  if (position == region_position_ && !region_.active) {
    begin_region(position, pending);
    if (position == region_position_) {
      if (!region_.accumulators.empty()) {
        nest(position, pending);
        end_region();
      }
      region_ = Region();
      return;
    }
  }
  if (position == loops.size()) {
    instance(pending);
    return;
  }
  const TileLoop& loop = loops[position];
  switch (loop.kind) {
    case TileLoop::Kind::Vector: nest(position + 1, pending); break;
    case TileLoop::Kind::Unroll:
      if (sum_bytes(position, pending)) break;
      for (int64_t i = 0; i < loop.extent; ++i) {
        state_.values[loop.name] = Affine(i);
        nest(position + 1, pending);
      }
      state_.values.erase(loop.name);
      break;
    case TileLoop::Kind::Serial: serial_loop(position, pending); break;
    case TileLoop::Kind::Matrix:
      fail(ErrorKind::Internal, "internal error: a matrix loop outside of a product");
  }
}

void TileWriter::branch_on(const Constraints& constraints, const std::function<void()>& body) {
  if (constraints.empty()) return body();
  std::string all;
  for (const Affine& constraint : constraints)
    all += (all.empty() ? "" : " && ") + state_.context.condition(constraint);
  const size_t known = state_.known.size();
  state_.known.insert(state_.known.end(), constraints.begin(), constraints.end());
  state_.lines.block("if (" + all + ")", body);
  state_.known.resize(known);
}

void TileWriter::instance(const Constraints& pending) {
  Constraints scalar, lanes;
  state_.divide(pending, scalar, lanes);
  branch_on(scalar, [&] {
    state_.bind_iterators();
    expressions_.begin_instance(state_.statement->value);
    if (region_.active) accumulate_instance(lanes);
    else store_instance(lanes);
  });
}

void TileWriter::store_instance(const Constraints& lanes) {
  const std::string mask = state_.mask_of(lanes);
  const Statement& statement = *state_.statement;
  Value value = expressions_.evaluate(statement.value, mask);
  if (statement.reduction != Reduction::None) {
    const Value before = expressions_.memory().load(statement.write, written_type(), mask);
    const bool vector = value.vector || before.vector;
    const std::string a = vector ? expressions_.spread(written_type(), before) : before.text;
    const std::string b = vector ? expressions_.spread(written_type(), value) : value.text;
    value = {state_.functions().combine(statement.reduction, written_type(), vector ? state_.lanes : 1, a, b),
             vector};
  }
  expressions_.memory().store(statement.write, written_type(), value, mask);
}

std::string TileWriter::shaped_like(const Accumulator& accumulator, DType dtype, const Value& value) {
  const bool vector = lanes_of(region_, accumulator) > 1;
  TC_CHECK(vector || !value.vector, "in statement '", state_.statement->name,
           "': lanes write one register element");
  return vector ? expressions_.spread(dtype, value) : value.text;
}

// `next` in the lanes where the constraints hold, elsewhere the accumulator's present value.
std::string TileWriter::selected(const Accumulator& accumulator, const Constraints& needed,
                                 const std::string& next) {
  const std::string mask = state_.mask_of(needed);
  return mask.empty()
             ? next
             : state_.functions().select(written_type(), state_.lanes, mask, next, accumulator.variable);
}

void TileWriter::accumulate_instance(const Constraints& lanes) {
  Accumulator& accumulator = region_.accumulators.at(accumulator_key());
  Constraints needed;
  for (const Affine& constraint : lanes) {
    if (accumulator.exists_where.count(constraint.str()) == 0) needed.push_back(constraint);
  }
  const std::string mask = state_.mask_of(lanes);
  const Statement& statement = *state_.statement;
  const DType dtype = written_type();
  const int count = lanes_of(region_, accumulator);
  std::string next;
  const bool is_product = statement.reduction == Reduction::Sum && is_float(dtype) &&
                          statement.value->kind == Expr::Kind::Binary &&
                          statement.value->binary == BinaryOp::Mul;
  if (statement.reduction == Reduction::None) {
    next = shaped_like(accumulator, dtype, expressions_.evaluate(statement.value, mask));
    if (accumulator.fresh || lanes.empty()) {
      accumulator.exists_where.clear();
      for (const Affine& constraint : lanes) accumulator.exists_where.insert(constraint.str());
      if (accumulator.element.buffer >= 0)
        registers_.valid_where(accumulator.element) = accumulator.exists_where;
      accumulator.fresh = false;
      needed.clear();
    }
  } else if (is_product) {
    Value a = expressions_.evaluate(statement.value->operands[0], mask),
          b = expressions_.evaluate(statement.value->operands[1], mask);
    if (a.vector) std::swap(a, b);
    Functions& functions = state_.functions();
    next = a.vector || count == 1 || !b.vector
               ? functions.multiply_add(dtype, count, shaped_like(accumulator, dtype, a),
                                        shaped_like(accumulator, dtype, b), accumulator.variable)
               : functions.axpy(dtype, count, a.text, b.text, accumulator.variable);
  } else {
    const Value value = expressions_.evaluate(statement.value, mask);
    next = state_.functions().combine(statement.reduction, dtype, count, accumulator.variable,
                                      shaped_like(accumulator, dtype, value));
  }
  if (count > 1) state_.functions().use_type(dtype, count);
  state_.lines.add(tc::text(accumulator.variable, " = ", selected(accumulator, needed, next), ";"));
}

}  // namespace tc::c
