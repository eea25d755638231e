// The accumulators that a statement's reduction loops carry.
#include <algorithm>

#include "codegen/c/tile_writer.h"
#include "ir/error.h"
#include "ir/tile.h"

namespace tc::c {
int TileWriter::lanes_of(const Region& region, const Accumulator& accumulator) const {
  const bool is_register = accumulator.element.buffer >= 0;
  return is_register && !region.lane_partial ? accumulator.element.lanes : state_.lanes;
}

// What identifies an accumulator among the copies of the statement.
std::string TileWriter::accumulator_key() const {
  std::string key;
  for (const Subscript& subscript : state_.statement->write.index)
    key += subscript.affine.substitute(state_.iterators).str() + ";";
  return key;
}

void TileWriter::collect_accumulators(size_t position, Constraints pending) {
  if (!simplify(pending)) return;
  if (position < state_.tile->loops.size()) {
    const TileLoop& loop = state_.tile->loops[position];
    if (loop.kind != TileLoop::Kind::Unroll) return collect_accumulators(position + 1, pending);
    for (int64_t i = 0; i < loop.extent; ++i) {
      state_.values[loop.name] = Affine(i);
      collect_accumulators(position + 1, pending);
    }
    state_.values.erase(loop.name);
    return;
  }
  state_.bind_iterators();
  std::map<std::string, Affine> existence;
  for (const Affine& constraint : pending) {
    if (state_.lane_step(constraint) != 0 && region_.lane_partial) continue;
    if (is_fixed(state_.without_lane(constraint))) existence[constraint.str()] = constraint;
  }
  const auto [place, added] = region_.accumulators.insert({accumulator_key(), {}});
  Accumulator& accumulator = place->second;
  if (added) {
    accumulator.copy_values = state_.values;
    for (const auto& [name, constraint] : existence) accumulator.existence.push_back(constraint);
    return;
  }
  const auto gone = [&](const Affine& constraint) { return existence.count(constraint.str()) == 0; };
  accumulator.existence.erase(
      std::remove_if(accumulator.existence.begin(), accumulator.existence.end(), gone),
      accumulator.existence.end());
}

bool TileWriter::accumulators_are_disjoint() const {
  std::vector<std::vector<Affine>> writes;
  for (const auto& [name, accumulator] : region_.accumulators) {
    std::vector<Affine> index;
    for (const Subscript& subscript : state_.statement->write.index) {
      index.push_back(
          subscript.affine.substitute(state_.tile->iterators).substitute(accumulator.copy_values));
    }
    writes.push_back(std::move(index));
  }
  return are_disjoint(writes, state_.lane, state_.lanes);
}

void TileWriter::begin_region(size_t position, const Constraints& pending) {
  const Access& write = state_.statement->write;
  const Buffer& buffer = state_.context.buffer(write.buffer);
  const bool lanes_move =
      std::any_of(write.index.begin(), write.index.end(), [&](const Subscript& subscript) {
        return state_.lane_step(subscript.affine.substitute(state_.tile->iterators)) != 0;
      });
  region_ = Region();
  region_.active = true;
  region_.lane_partial = state_.lanes > 1 && !lanes_move && state_.statement->reduction != Reduction::None;
  collect_accumulators(position, pending);
  if (buffer.scope != Scope::Register && !accumulators_are_disjoint()) {
    // Copies may write the same element: each instance loads and stores its own.
    region_ = Region();
    TC_CHECK(position < state_.tile->loops.size(), "in statement '", state_.statement->name, "'");
    region_position_ = state_.tile->loops.size();
    return;
  }
  const bool in_blocks =
      state_.statement->reduction == Reduction::Sum && is_float(buffer.dtype) &&
      !reads_itself(*state_.statement) &&
      std::any_of(state_.tile->loops.begin() + static_cast<std::ptrdiff_t>(position),
                  state_.tile->loops.end(), [](const TileLoop& loop) { return loop.sum_block > 0; });
  const auto saved_values = state_.values;
  for (auto& [name, accumulator] : region_.accumulators) {
    state_.values = accumulator.copy_values;
    state_.bind_iterators();
    begin_accumulator(accumulator);
  }
  state_.values = saved_values;
  state_.iterators.clear();
  if (!in_blocks) return;
  region_.in_blocks = true;
  for (auto& [name, accumulator] : region_.accumulators) {
    const int lanes = lanes_of(region_, accumulator);
    accumulator.total = state_.lines.variable(vector_type(buffer.dtype, lanes), "total");
    state_.lines.add(tc::text(accumulator.total, " = ", accumulator.variable, ";"));
    state_.lines.add(tc::text(accumulator.variable, " = ",
                              state_.functions().splat(buffer.dtype, lanes, literal(buffer.dtype, 0.0)),
                              ";"));
  }
}

void TileWriter::begin_accumulator(Accumulator& accumulator) {
  const Access& write = state_.statement->write;
  const Buffer& buffer = state_.context.buffer(write.buffer);
  Functions& functions = state_.functions();
  const bool is_register = buffer.scope == Scope::Register;
  if (is_register) accumulator.element = registers_.key_of(write);
  const int lanes = lanes_of(region_, accumulator);
  const std::string type = vector_type(buffer.dtype, lanes);
  functions.use_type(buffer.dtype, lanes);
  if (region_.lane_partial) {
    accumulator.variable = state_.lines.variable(type, buffer.name + "_part");
    const ExprPtr start = identity(state_.statement->reduction, buffer.dtype);
    state_.lines.add(
        tc::text(accumulator.variable, " = ", functions.splat(buffer.dtype, lanes, literal(*start)), ";"));
    return;
  }
  if (is_register) {
    accumulator.fresh = !registers_.has(write.buffer, accumulator.element.index);
    TC_CHECK(!accumulator.fresh || state_.statement->reduction == Reduction::None, "in statement '",
             state_.statement->name, "': register buffer '", buffer.name,
             "' is accumulated before it is written");
    // The elements' own variable, where they have or can get one together; else a new one into which they
    // are copied.
    accumulator.variable = registers_.make(accumulator.element);
    if (!accumulator.fresh) accumulator.exists_where = registers_.valid_where(accumulator.element);
    if (!accumulator.variable.empty()) return;
    accumulator.variable = state_.lines.variable(type, buffer.name + "_moved");
    const bool all = !accumulator.fresh;
    if (all)
      state_.lines.add(tc::text(accumulator.variable, " = ", registers_.read(accumulator.element).text, ";"));
    return;
  }
  for (const Affine& constraint : accumulator.existence) accumulator.exists_where.insert(constraint.str());
  Constraints scalar, masked;
  for (const Affine& constraint : accumulator.existence)
    (state_.lane_step(constraint) != 0 ? masked : scalar).push_back(constraint);
  accumulator.variable = state_.lines.variable(type, buffer.name + "_sum");
  branch_on(scalar, [&] {
    const Value value = expressions_.memory().load(write, buffer.dtype, state_.mask_of(masked));
    state_.lines.add(tc::text(accumulator.variable, " = ", expressions_.spread(buffer.dtype, value), ";"));
  });
}

void TileWriter::end_region() {
  const Region done = std::move(region_);
  region_ = Region();
  const auto saved_values = state_.values;
  for (const auto& [name, accumulator] : done.accumulators) {
    state_.values = accumulator.copy_values;
    state_.bind_iterators();
    end_accumulator(done, accumulator);
  }
  state_.values = saved_values;
  state_.iterators.clear();
}

void TileWriter::end_accumulator(const Region& done, const Accumulator& accumulator) {
  const Access& write = state_.statement->write;
  const Buffer& buffer = state_.context.buffer(write.buffer);
  Functions& functions = state_.functions();
  const Reduction reduction = state_.statement->reduction;
  const int lanes = lanes_of(done, accumulator);
  std::string value = accumulator.variable;
  if (done.in_blocks) value = functions.binary(BinaryOp::Add, buffer.dtype, lanes, accumulator.total, value);
  if (done.lane_partial) value = functions.reduce(reduction, buffer.dtype, lanes, value);
  if (buffer.scope == Scope::Register) {
    if (done.lane_partial)
      value = functions.combine(reduction, buffer.dtype, 1, registers_.read(accumulator.element).text, value);
    registers_.write(accumulator.element, value);
    return;
  }
  Constraints scalar, masked;
  for (const Affine& constraint : accumulator.existence)
    (state_.lane_step(constraint) != 0 ? masked : scalar).push_back(constraint);
  branch_on(scalar, [&] {
    const std::string mask = state_.mask_of(masked);
    Value result{value, lanes > 1 && !done.lane_partial};
    if (done.lane_partial) {
      const Value old = expressions_.memory().load(write, buffer.dtype, mask);
      result.text = functions.combine(reduction, buffer.dtype, 1, old.text, value);
    }
    expressions_.memory().store(write, buffer.dtype, result, mask);
  });
}

}  // namespace tc::c
