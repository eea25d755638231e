// Levels and register elements of a leaf.
#include "codegen/c/tile_state.h"

#include <algorithm>

#include "ir/error.h"

namespace tc::c {

void TileState::bind_iterators() {
  iterators.clear();
  for (const auto& [name, affine] : tile->iterators) iterators[name] = with_values(affine);
}

// Scalar conditions branch around the instance; those of lanes mask it, after a branch on whether any lane is
// left.
void TileState::divide(const std::vector<Affine>& pending, std::vector<Affine>& scalar,
                       std::vector<Affine>& of_lanes) const {
  for (const Affine& constraint : pending) {
    const int64_t step = lane_step(constraint);
    if (step == 0) {
      scalar.push_back(constraint);
      continue;
    }
    of_lanes.push_back(constraint);
    const Affine best = constraint.substitute({{lane, Affine(step > 0 ? lanes - 1 : 0)}});
    if (!proves_nonnegative(best, context.ranges, known)) scalar.push_back(best);
  }
}

int TileState::level_of(const Affine& affine) const {
  int level = 0;
  for (const auto& [name, coefficient] : affine.terms()) {
    const auto found = variable_level.find(name);
    if (found != variable_level.end()) level = std::max(level, found->second);
  }
  return level;
}

std::string TileState::hoisted(const Affine& affine) {
  std::string sum;
  const Affine folded = fold_single_values(affine, context.ranges);
  for (int level = 0; level <= level_of(folded); ++level) {
    Affine part;
    for (const auto& [name, coefficient] : folded.terms()) {
      if (level_of(Affine::variable(name)) == level) part = part + Affine::variable(name, coefficient);
    }
    if (part.terms().empty()) continue;
    const std::string value = context.value_of(part);
    sum = lines.at_level(
        level, "at", sum.empty() ? value : sum + (value[0] == '-' ? " - " + value.substr(1) : " + " + value));
  }
  const int64_t constant = folded.constant();
  if (sum.empty()) return text(constant);
  return constant == 0 ? sum : text(sum, constant < 0 ? " - " : " + ", constant < 0 ? -constant : constant);
}

std::string TileState::lane_mask(const Affine& constraint) {
  const std::string mask =
      functions().at_least_zero(lanes, hoisted(without_lane(constraint)), lane_step(constraint));
  if (const Value* known = lines.loaded(mask)) return known->text;
  const std::string name = lines.named(vector_type(DType::Bool, lanes), "mask", mask);
  lines.remember(mask, {name, true});
  return name;
}

std::string TileState::mask_of(const std::vector<Affine>& constraints) {
  std::string mask;
  for (const Affine& constraint : constraints) {
    if (lane_step(constraint) != 0) mask = both(mask, lane_mask(constraint));
  }
  return mask;
}

std::string TileState::both(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return a + b;
  const std::string mask = functions().binary(BinaryOp::And, DType::Bool, lanes, a, b);
  if (const Value* known = lines.loaded(mask)) return known->text;
  const std::string name = lines.named(vector_type(DType::Bool, lanes), "mask", mask);
  lines.remember(mask, {name, true});
  return name;
}

ElementKey Registers::key_of(const Access& access) const {
  ElementKey key;
  key.buffer = access.buffer;
  bool moves = false;
  for (const Subscript& subscript : access.index) {
    const Affine affine = subscript.affine.substitute(state_.iterators);
    TC_CHECK(subscript.dynamic == nullptr, "in an access of a register by statement '",
             state_.statement->name, "'");
    for (const auto& [name, coefficient] : affine.terms()) {
      TC_CHECK(name[0] != '%' || name == state_.lane, "in statement '", state_.statement->name, "': loop '",
               name, "' moves along a register buffer");
    }
    key.index.push_back(affine.constant());
    key.step.push_back(state_.lane_step(affine));
    moves |= key.step.back() != 0;
  }
  key.lanes = moves ? state_.lanes : 1;
  return key;
}

std::string Registers::holder(const ElementKey& key) const {
  const auto found = variables_.find(key);
  return found == variables_.end() ? "" : found->second;
}

std::vector<int64_t> Registers::index_of(const ElementKey& key, int lane) const {
  std::vector<int64_t> index = key.index;
  for (size_t d = 0; d < index.size(); ++d) index[d] += lane * key.step[d];
  return index;
}

std::string Registers::place_of(int buffer, const std::vector<int64_t>& index) const {
  for (const auto& [key, name] : variables_) {
    if (key.buffer != buffer || key.index.size() != index.size()) continue;
    for (int lane = 0; lane < key.lanes; ++lane) {
      if (index_of(key, lane) == index)
        return state_.functions().lane(state_.context.buffer(buffer).dtype, key.lanes, name, lane);
    }
  }
  return "";
}

// True is -1 in a lane and 1 in a scalar.
std::string Registers::scalar_of(DType dtype, const std::string& place) {
  return dtype == DType::Bool ? "(" + place + " != 0)" : place;
}

void Registers::assign(DType dtype, const std::string& place, const std::string& scalar) {
  const bool is_lane = place.rfind("TC_", 0) == 0;
  state_.lines.add(text(place, " = ", dtype == DType::Bool && is_lane ? "-" + scalar : scalar, ";"));
}

std::string Registers::make(const ElementKey& key) {
  if (const std::string known = holder(key); !known.empty()) return known;
  for (int lane = 0; lane < key.lanes; ++lane) {
    if (!place_of(key.buffer, index_of(key, lane)).empty()) return "";
  }
  const Buffer& buffer = state_.context.buffer(key.buffer);
  std::string wish = buffer.name;
  for (size_t d = 0; d < key.index.size(); ++d) {
    const bool single = buffer.shape[d].is_constant() && buffer.shape[d].constant() == 1;
    if (!single)
      wish += text("_", key.index[d] < 0 ? "m" : "", key.index[d] < 0 ? -key.index[d] : key.index[d]);
  }
  state_.functions().use_type(buffer.dtype, key.lanes);
  return variables_[key] = state_.lines.variable(vector_type(buffer.dtype, key.lanes), wish);
}

Value Registers::read(const ElementKey& key) {
  if (const std::string known = holder(key); !known.empty()) return {known, key.lanes > 1};
  // The elements are held in another arrangement: they are copied lane by lane.
  const Buffer& buffer = state_.context.buffer(key.buffer);
  const auto element = [&](int lane) {
    const std::string place = place_of(key.buffer, index_of(key, lane));
    TC_CHECK(!place.empty(), "in statement '", state_.statement->name, "': register buffer '", buffer.name,
             "' is read before it is written");
    return place;
  };
  if (key.lanes == 1) return {scalar_of(buffer.dtype, element(0)), false};
  state_.functions().use_type(buffer.dtype, key.lanes);
  const std::string name =
      state_.lines.variable(vector_type(buffer.dtype, key.lanes), buffer.name + "_lanes");
  for (int lane = 0; lane < key.lanes; ++lane) {
    assign(buffer.dtype, state_.functions().lane(buffer.dtype, key.lanes, name, lane),
           scalar_of(buffer.dtype, element(lane)));
  }
  return {name, true};
}

void Registers::write(const ElementKey& key, const std::string& value) {
  if (const std::string known = make(key); !known.empty()) {
    if (known != value) state_.lines.add(text(known, " = ", value, ";"));
    return;
  }
  const DType dtype = state_.context.buffer(key.buffer).dtype;
  const std::string name = state_.lines.named(vector_type(dtype, key.lanes), "lanes", value);
  for (int lane = 0; lane < key.lanes; ++lane) {
    std::string place = place_of(key.buffer, index_of(key, lane));
    if (place.empty()) {
      ElementKey single{key.buffer, index_of(key, lane), std::vector<int64_t>(key.index.size(), 0), 1};
      place = make(single);
    }
    assign(dtype, place, scalar_of(dtype, state_.functions().lane(dtype, key.lanes, name, lane)));
  }
}

}  // namespace tc::c
