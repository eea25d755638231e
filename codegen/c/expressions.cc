// Expressions of a leaf's statements, and the memory they read and write, as expressions of C.
#include <algorithm>

#include "codegen/c/tile_state.h"
#include "codegen/c/spelling.h"
#include "ir/error.h"
#include "ir/prefetch.h"

namespace tc::c {
namespace {

// By how many bits a shift moves integers, where that is one number below their own.
std::optional<int64_t> shifted_bits(const Expr& expr) {
  if (expr.binary != BinaryOp::Shl && expr.binary != BinaryOp::Shr) return std::nullopt;
  const Expr& bits = *expr.operands[1];
  const bool is_known =
      bits.kind == Expr::Kind::Const && bits.integer >= 0 && bits.integer < 8 * int64_t{size_of(expr.dtype)};
  return is_known ? std::optional(bits.integer) : std::nullopt;
}

// An i32 as i64.
bool is_widened(const Expr& expr) {
  return expr.kind == Expr::Kind::Cast && expr.dtype == DType::I64 && expr.operands[0]->dtype == DType::I32;
}

// The product, if the expression is 32 bits of a product of two i32 from a number of bits on, which is at
// most 32; else null.
const Expr* shifted_product(const Expr& expr) {
  if (expr.kind != Expr::Kind::Cast || expr.dtype != DType::I32) return nullptr;
  const Expr& shift = *expr.operands[0];
  if (shift.kind != Expr::Kind::Binary || shift.dtype != DType::I64 || shift.binary != BinaryOp::Shr)
    return nullptr;
  const auto bits = shifted_bits(shift);
  const Expr& product = *shift.operands[0];
  const bool is_product = product.kind == Expr::Kind::Binary && product.binary == BinaryOp::Mul &&
                          is_widened(*product.operands[0]) && is_widened(*product.operands[1]);
  return bits && *bits <= 32 && is_product ? &product : nullptr;
}

}  // namespace

Expressions::Expressions(TileState& state, Registers& registers)
    : state_(state),
      registers_(registers),
      memory_(state, [this](const ExprPtr& expr, const std::string& mask) { return evaluate(expr, mask); }) {}

void Expressions::count(const ExprPtr& expr) {
  if (++uses_[expr.get()] > 1) return;
  for (const ExprPtr& operand : expr->operands) count(operand);
  for (const Subscript& subscript : expr->access.index) {
    if (subscript.dynamic != nullptr) count(subscript.dynamic);
  }
}

void Expressions::begin_instance(const ExprPtr& value) {
  evaluated_.clear();
  uses_.clear();
  count(value);
}

std::string Expressions::spread(DType dtype, const Value& value) {
  if (value.vector || state_.lanes == 1) return value.text;
  state_.functions().use_type(dtype, state_.lanes);
  return state_.functions().splat(dtype, state_.lanes, value.text);
}

// Expressions that are used more than once, and long ones, get a name.
Value Expressions::named(const ExprPtr& expr, const Value& value) {
  constexpr size_t kLongest = 70;
  if (uses_[expr.get()] < 2 && value.text.size() < kLongest) return value;
  return {state_.lines.named(value.vector ? vector_type(expr->dtype, state_.lanes) : value_type(expr->dtype),
                             "t", value.text),
          value.vector};
}

Value Expressions::evaluate(const ExprPtr& expr, const std::string& mask) {
  const auto key = std::make_pair(expr.get(), mask);
  const auto found = evaluated_.find(key);
  if (found != evaluated_.end()) return found->second;
  const Value value = named(expr, compute(expr, mask));
  evaluated_[key] = value;
  return value;
}

std::optional<Affine> Expressions::as_affine(const ExprPtr& expr) const {
  if (expr->kind == Expr::Kind::Index) return expr->affine.substitute(state_.iterators);
  if (expr->kind == Expr::Kind::Const && expr->dtype == DType::I64) return Affine(expr->integer);
  if (expr->kind == Expr::Kind::Binary && expr->dtype == DType::I64 &&
      (expr->binary == BinaryOp::Add || expr->binary == BinaryOp::Sub)) {
    const auto a = as_affine(expr->operands[0]), b = as_affine(expr->operands[1]);
    constexpr int64_t kLargest = int64_t{1} << 53;  // sums of larger numbers may wrap
    const auto is_small = [](const std::optional<Affine>& each) {
      return each && each->constant() < kLargest && each->constant() > -kLargest;
    };
    if (is_small(a) && is_small(b)) return expr->binary == BinaryOp::Add ? *a + *b : *a - *b;
  }
  return std::nullopt;
}

Value Expressions::affine_value(const Affine& affine) {
  const int64_t step = state_.lane_step(affine);
  const std::string base = state_.hoisted(state_.without_lane(affine));
  if (step == 0) return {text("(int64_t)(", base, ")"), false};
  state_.functions().use_type(DType::I64, state_.lanes);
  return {state_.functions().ramp(state_.lanes, base, step), true};
}

Value Expressions::compare(const Expr& expr, const std::string& mask) {
  const auto left = as_affine(expr.operands[0]), right = as_affine(expr.operands[1]);
  if (left && right) {
    const Affine difference = *left - *right;
    Affine at_least;
    bool decided = true;
    switch (expr.binary) {
      case BinaryOp::Ge: at_least = difference; break;
      case BinaryOp::Gt: at_least = difference - 1; break;
      case BinaryOp::Le: at_least = difference * -1; break;
      case BinaryOp::Lt: at_least = difference * -1 - 1; break;
      default: decided = false;
    }
    if (decided) {
      if (proves_nonnegative(at_least, state_.context.ranges, state_.known)) return {"1", false};
      if (refutes_nonnegative(at_least, state_.context.ranges)) return {"0", false};
      if (state_.lane_step(at_least) != 0) return {state_.lane_mask(at_least), true};
      return {"(" + state_.context.condition(at_least) + ")", false};
    }
  }
  const DType dtype = expr.operands[0]->dtype;
  const Value a = evaluate(expr.operands[0], mask), b = evaluate(expr.operands[1], mask);
  const bool vector = a.vector || b.vector;
  if (!vector) return {state_.functions().binary(expr.binary, dtype, 1, a.text, b.text), false};
  return {state_.functions().binary(expr.binary, dtype, state_.lanes, spread(dtype, a), spread(dtype, b)),
          true};
}

// Only the chosen side is evaluated, so that loads of the other, which may be out of range, are not
// executed.
Value Expressions::select(const Expr& expr, const std::string& mask) {
  const Value condition = evaluate(expr.operands[0], mask);
  if (condition.text == "1" || condition.text == "0")
    return evaluate(expr.operands[condition.text == "1" ? 1 : 2], mask);
  Functions& functions = state_.functions();
  if (condition.vector) {
    const std::string where =
        state_.lines.named(vector_type(DType::Bool, state_.lanes), "where", condition.text);
    const auto side = [&](const ExprPtr& operand, bool holds) {
      bool loads = false;
      for_each_load(operand, [&](const Expr&) { loads = true; });
      if (!loads) return evaluate(operand, mask);
      return evaluate(
          operand,
          state_.both(mask, holds ? where : functions.unary(UnaryOp::Not, DType::Bool, state_.lanes, where)));
    };
    const std::string a = spread(expr.dtype, side(expr.operands[1], true)),
                      b = spread(expr.dtype, side(expr.operands[2], false));
    return {functions.select(expr.dtype, state_.lanes, where, a, b), true};
  }
  Value sides[2];
  std::string lines[2];
  const auto known = evaluated_;
  for (size_t i = 0; i < 2; ++i) {
    lines[i] = state_.lines.captured([&] { sides[i] = evaluate(expr.operands[1 + i], mask); });
    // Names that one side has declared are not visible after it.
    if (!lines[i].empty()) evaluated_ = known;
  }
  evaluated_ = known;
  const bool vector = sides[0].vector || sides[1].vector;
  for (Value& side : sides) side.text = vector ? spread(expr.dtype, side) : side.text;
  const std::string type = vector ? vector_type(expr.dtype, state_.lanes) : value_type(expr.dtype);
  if (lines[0].empty() && lines[1].empty())
    return {text("(", condition.text, " ? ", sides[0].text, " : ", sides[1].text, ")"), vector};
  if (vector) functions.use_type(expr.dtype, state_.lanes);
  const std::string result = state_.lines.variable(type, "chosen");
  state_.lines.add(text("if (", condition.text, ") {\n",
                        indented(lines[0] + result + " = " + sides[0].text + ";\n", 1), "} else {\n",
                        indented(lines[1] + result + " = " + sides[1].text + ";\n", 1), "}"));
  return {result, vector};
}

Value Expressions::compute(const ExprPtr& pointer, const std::string& mask) {
  const Expr& expr = *pointer;
  Functions& functions = state_.functions();
  switch (expr.kind) {
    case Expr::Kind::Const: return {literal(expr), false};
    case Expr::Kind::Load:
      if (state_.context.buffer(expr.access.buffer).scope == Scope::Register)
        return registers_.read(registers_.key_of(expr.access));
      return memory_.load(expr.access, expr.dtype, mask);
    case Expr::Kind::Index: return affine_value(expr.affine.substitute(state_.iterators));
    case Expr::Kind::Unary: {
      const Value a = evaluate(expr.operands[0], mask);
      return {functions.unary(expr.unary, expr.operands[0]->dtype, a.vector ? state_.lanes : 1, a.text),
              a.vector};
    }
    case Expr::Kind::Cast: {
      if (const Expr* product = shifted_product(expr);
          product != nullptr && has_vectors(state_.lanes) && state_.lanes > 2) {
        const Value x = evaluate(product->operands[0]->operands[0], mask),
                    y = evaluate(product->operands[1]->operands[0], mask);
        if (x.vector || y.vector)
          return {multiply_shift(functions, state_.lanes, spread(DType::I32, x), spread(DType::I32, y),
                                 *shifted_bits(*expr.operands[0])),
                  true};
      }
      const Value a = evaluate(expr.operands[0], mask);
      return {functions.cast(expr.operands[0]->dtype, expr.dtype, a.vector ? state_.lanes : 1, a.text),
              a.vector};
    }
    case Expr::Kind::Binary: {
      if (expr.binary >= BinaryOp::Eq && expr.binary <= BinaryOp::Ge) return compare(expr, mask);
      if (expr.dtype == DType::I64) {
        if (const auto affine = as_affine(pointer)) return affine_value(*affine);
      }
      const DType dtype = expr.operands[0]->dtype;
      const Value a = evaluate(expr.operands[0], mask), b = evaluate(expr.operands[1], mask);
      if (!a.vector && !b.vector) return {functions.binary(expr.binary, dtype, 1, a.text, b.text), false};
      if (const auto bits = shifted_bits(expr); bits && a.vector)
        return {shift(functions, expr.binary, dtype, state_.lanes, a.text, *bits), true};
      return {functions.binary(expr.binary, dtype, state_.lanes, spread(dtype, a), spread(dtype, b)), true};
    }
    case Expr::Kind::Select: return select(expr, mask);
  }
  fail(ErrorKind::Internal, "internal error: expression of an unknown kind");
}

Memory::Place Memory::place_of(const Access& access, const std::string& mask) {
  const BufferNames& slot = state_.context.buffers[static_cast<size_t>(access.buffer)];
  TC_CHECK(access.index.size() == slot.stride.size(), "in an access of '", slot.name, "'");
  Affine elements;
  std::vector<std::string> first, step;  // terms
  int64_t lane_step = 0;
  std::string lanes;
  Functions& functions = state_.functions();
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Affine affine = access.index[d].affine.substitute(state_.iterators),
                 scalar = state_.without_lane(affine);
    const std::string& symbolic = slot.symbolic_stride[d];
    if (symbolic.empty()) {
      elements = elements + scalar * slot.stride[d];
      lane_step += state_.lane_step(affine) * slot.stride[d];
    } else {
      if (scalar != Affine(0)) first.push_back(text(symbolic, " * (", state_.hoisted(scalar), ")"));
      if (state_.lane_step(affine) != 0) step.push_back(text(state_.lane_step(affine), " * ", symbolic));
    }
    if (access.index[d].dynamic == nullptr) continue;
    const Value dynamic = evaluate_(access.index[d].dynamic, mask);
    const std::string stride = symbolic.empty() ? text(slot.stride[d]) : symbolic;
    if (!dynamic.vector) {
      first.push_back(text("(ptrdiff_t)", dynamic.text, stride == "1" ? "" : " * " + stride));
      continue;
    }
    std::string places = dynamic.text;
    if (stride != "1")
      places = functions.binary(BinaryOp::Mul, DType::I64, state_.lanes, places,
                                functions.splat(DType::I64, state_.lanes, stride));
    lanes = lanes.empty() ? places : functions.binary(BinaryOp::Add, DType::I64, state_.lanes, lanes, places);
  }
  Place place;
  place.first = state_.hoisted(elements);
  if (place.first == "0" && !first.empty()) place.first.clear();
  for (const std::string& term : first) place.first += (place.first.empty() ? "" : " + ") + term;
  if (lane_step != 0) step.insert(step.begin(), text(lane_step));
  for (const std::string& term : step) place.step += (place.step.empty() ? "" : " + ") + term;
  if (!lanes.empty() && !place.step.empty()) {
    const std::string ramp =
        functions.binary(BinaryOp::Mul, DType::I64, state_.lanes, functions.ramp(state_.lanes, "0", 1),
                         functions.splat(DType::I64, state_.lanes, place.step));
    lanes = functions.binary(BinaryOp::Add, DType::I64, state_.lanes, lanes, ramp);
  }
  place.lanes = lanes;
  if (first.empty() && lanes.empty()) place.elements = elements;
  place.key =
      text(slot.name, "[", place.first, "] ", state_.lanes, " ", place.step, " ", place.lanes, " ", mask);
  return place;
}

void Memory::prefetch(const Access& access, const Affine& elements) {
  for (const Prefetch& wanted : state_.prefetches) {
    if (wanted.statement != state_.tile->statement || wanted.buffer != access.buffer) continue;
    const BufferNames& slot = state_.context.buffers[static_cast<size_t>(access.buffer)];
    const int64_t element = size_of(state_.context.buffer(access.buffer).dtype);
    std::vector<int64_t> strides;
    for (const int64_t stride : slot.stride) strides.push_back(stride * element);
    const std::optional<Affine> bytes =
        line_ahead(wanted, *state_.tile, access, strides, elements * element, element);
    if (!bytes) return;
    const std::string line = text("TC_PREFETCH(", slot.name, ", ", state_.hoisted(*bytes), ");");
    if (state_.lines.loaded(line) != nullptr) continue;
    state_.lines.add(line);
    state_.lines.remember(line, {});
  }
}

Value Memory::load(const Access& access, DType dtype, const std::string& mask) {
  const Place place = place_of(access, mask);
  const std::string& buffer = state_.context.buffers[static_cast<size_t>(access.buffer)].name;
  const bool is_kept = state_.written.count(access.buffer) == 0;
  if (is_kept) {
    if (const Value* known = state_.lines.loaded(place.key)) return *known;
  }
  Functions& functions = state_.functions();
  Value value;
  value.vector = !place.step.empty() || !place.lanes.empty();
  const std::string address = text("&", buffer, "[", place.first, "]");
  if (!value.vector) {
    value.text = text(buffer, "[", place.first, "]");
    if (dtype == DType::Bool) value.text = "(" + value.text + " != 0)";
    if (!mask.empty())
      value.text = text("(", functions.any(state_.lanes, mask), " ? ", value.text, " : ",
                        is_float(dtype) && !is_storage(dtype) ? literal(dtype, 0.0) : "0", ")");
  } else if (place.lanes.empty() && place.step == "1" && mask.empty()) {
    value.text = functions.load(dtype, state_.lanes, address);
  } else {
    value.text = functions.load(dtype, state_.lanes, address, {place.step, place.lanes, mask});
  }
  if (!is_kept) return value;
  value.text = state_.lines.named(value.vector ? vector_type(dtype, state_.lanes) : value_type(dtype),
                                  buffer + "_at", value.text);
  state_.lines.remember(place.key, value);
  // Single elements of constants are few.
  const bool is_one = !value.vector && state_.context.buffer(access.buffer).scope == Scope::Constant;
  if (place.elements && mask.empty() && !is_one && (!value.vector || place.step == "1"))
    prefetch(access, *place.elements);
  return value;
}

void Memory::store(const Access& access, DType dtype, const Value& value, const std::string& mask) {
  const Place place = place_of(access, mask);
  const std::string& buffer = state_.context.buffers[static_cast<size_t>(access.buffer)].name;
  Functions& functions = state_.functions();
  const std::string address = text("&", buffer, "[", place.first, "]");
  const bool moves = !place.step.empty() || !place.lanes.empty();
  if (!moves) {
    // All lanes have the same address: of a vector, the value of the last active lane remains.
    if (value.vector) {
      state_.lines.add(functions.store(dtype, state_.lanes, address, value.text, {"0", "", mask}) + ";");
      return;
    }
    const std::string line =
        text(buffer, "[", place.first,
             "] = ", dtype == DType::Bool ? "(uint8_t)" + ("(" + value.text + ")") : value.text, ";");
    if (mask.empty()) return state_.lines.add(line);
    return state_.lines.add(text("if (", functions.any(state_.lanes, mask), ") {\n  ", line, "\n}"));
  }
  const std::string lanes = value.vector ? value.text : functions.splat(dtype, state_.lanes, value.text);
  if (place.lanes.empty() && place.step == "1" && mask.empty()) {
    state_.lines.add(functions.store(dtype, state_.lanes, address, lanes) + ";");
  } else {
    state_.lines.add(functions.store(dtype, state_.lanes, address, lanes, {place.step, place.lanes, mask}) +
                     ";");
  }
}

}  // namespace tc::c
