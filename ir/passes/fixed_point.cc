// Brings sums of quantised numbers to their result's scale without floats, as in TensorFlow Lite's reference
// kernels.
//
// Let V be an integer and r its unit, so that it represents V * r. V * r / scale is computed as V *
// multiplier * 2^(exponent - 31), with a multiplier of 31 bits: the product of 64 bits is rounded once, ties
// upwards, as in TensorFlow Lite's fully connected layers. An activation that follows and only clamps narrows
// the range of the result. frontend/tc/tflite/operators/quantised.py describes the same for files of
// TensorFlow Lite.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "ir/ops/rows.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"
#include "ir/passes/quantised.h"

namespace tc {
namespace {

constexpr double kHalfRange = 2147483648.0;  // 2^31
constexpr int kExtraBits = 20;               // of an addition's operands, so that rounding them loses less

// An i32 value and its unit, the real number that 1 represents: one unit, or one for each channel.
struct Whole {
  ValueId number = kNoValue;
  std::vector<double> units;
  std::vector<int64_t> shape;  // shape in which the units broadcast
  double most = 0;             // upper bound of its magnitude
  Origin by;                   // the node of the file that computes it
};

struct Multiplier {
  int64_t integer = 0;
  int exponent = 0;  // real = integer * 2^(exponent - 31)
};

// Nothing where the number is out of range.
std::optional<Multiplier> multiplier_of(double real) {
  int exponent = 0;
  auto integer = static_cast<int64_t>(std::floor(std::frexp(real, &exponent) * kHalfRange + 0.5));
  if (integer == int64_t{1} << 31) {
    integer /= 2;
    ++exponent;
  }
  if (exponent > 30) return std::nullopt;
  return exponent < -30 ? Multiplier{} : Multiplier{integer, exponent};
}

TensorPtr integers(DType type, const std::vector<int64_t>& shape, const std::vector<int64_t>& numbers) {
  const bool one =
      std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == numbers[0]; });
  auto tensor = std::make_shared<Tensor>(type, one ? std::vector<int64_t>() : shape);
  for (int64_t i = 0; i < tensor->count(); ++i) tensor->set_int(i, numbers[static_cast<size_t>(i)]);
  return tensor;
}

// An i32: the whole number times real numbers, rounded once, ties upwards; nothing where these are out of
// range.
std::optional<ValueId> rescaled(NodeBuilder& build, const Whole& whole, const std::vector<double>& reals) {
  if (std::all_of(reals.begin(), reals.end(), [](double real) { return real == 1; })) return whole.number;
  std::vector<int64_t> factors, halves, shifts;
  double largest = 0;
  for (const double real : reals) {
    const auto found = multiplier_of(real);
    if (!found) return std::nullopt;
    factors.push_back(found->integer);
    shifts.push_back(31 - found->exponent);
    halves.push_back((int64_t{1} << shifts.back()) >> 1);
    largest = std::max(largest, whole.most * real);
  }
  auto constant = [&](const std::vector<int64_t>& numbers) {
    return build.constant(integers(DType::I64, whole.shape, numbers));
  };
  ValueId value = build.add("Mul", {build.cast(whole.number, DType::I64), constant(factors)});
  value = build.add("Add", {value, constant(halves)});
  value = build.add("BitShift", {value, constant(shifts)}, {{"direction", std::string("RIGHT")}});
  // Results that do not fit 32 bits are clamped to a value far outside the range of any stored type.
  constexpr int64_t kEnd = int64_t{1} << 30;
  if (largest >= static_cast<double>(kEnd) - 1) {
    value = build.add("Min", {build.add("Max", {value, build.integer(DType::I64, -kEnd)}),
                              build.integer(DType::I64, kEnd)});
  }
  return build.cast(value, DType::I32);
}

class FixedPoint {
 public:
  explicit FixedPoint(Graph& graph)
      : graph_(graph), producers_(graph.producers()), consumers_(graph.consumers()) {}

  void run() {
    old_ = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (size_t i = 0; i < old_.size(); ++i) {
      std::optional<std::vector<Node>> made;
      if (old_[i].op->traits.quantisation == OpTraits::Quantisation::Quantize) made = requantised(i);
      if (!made) graph_.nodes.push_back(old_[i]);
      else
        for (Node& each : *made) graph_.nodes.push_back(std::move(each));
    }
    for (ArithmeticNote& note : graph_.arithmetic) note.fixed_point = done_.count({note.node, note.op}) > 0;
  }

 private:
  const Node* maker(ValueId id) const {
    const int node = id == kNoValue ? -1 : producers_[static_cast<size_t>(id)];
    return node < 0 ? nullptr : &old_[static_cast<size_t>(node)];
  }
  // The node that computes the value, if the value has only one reader; else null.
  const Node* own(ValueId id) const { return only_reader(graph_, consumers_, id) < 0 ? nullptr : maker(id); }
  const TensorPtr& constant_of(const Node& node, size_t input) const {
    return graph_[node.inputs[input]].constant;
  }

  // The range of the stored integers, which cut() narrows if `id` is the result of a clamp; `id` then becomes
  // the clamp's operand.
  struct Ends {
    double low, high;  // in steps, without the zero point
  };
  bool cut(ValueId& id, const Dequantised& to, Ends& ends) const {
    const Node* node = own(id);
    if (node == nullptr) return false;
    std::optional<double> low, high;
    if (node->op->name == "Relu") {
      low = 0;
    } else if (node->op->name == "Clip") {
      for (size_t i : {size_t{1}, size_t{2}}) {
        const char* name = i == 1 ? "min" : "max";
        std::optional<double>& end = i == 1 ? low : high;
        const bool given = input_given(*node, static_cast<int>(i));
        if (given) end = scalar_of(graph_, node->inputs[i]);
        else if (has_attribute(*node, name)) end = float_attribute(*node, name);
        if (given && !end) return false;
      }
      if (low && high && *low > *high) return false;
    } else {
      return false;
    }
    // Rounded as by QuantizeLinear, so that clamping after rounding equals clamping before it.
    auto steps = [&](double number) {
      return std::nearbyint(static_cast<double>(static_cast<float>(number) / to.scale(0)));
    };
    if (low) ends.low = std::clamp(steps(*low), ends.low, ends.high);
    if (high) ends.high = std::clamp(steps(*high), ends.low, ends.high);
    id = node->inputs[0];
    return true;
  }

  // --- what integers a float is made of ---

  // A dequantised number as an i32, with its zero point subtracted.
  std::optional<Whole> number(NodeBuilder& build, ValueId id) const {
    const Node* node = maker(id);
    const auto from = node ? dequantised_by(graph_, *node) : std::nullopt;
    if (!from || !from->is_scalar() || !from->is_byte(graph_)) return std::nullopt;
    ValueId value = build.cast(from->number, DType::I32);
    if (from->zero(0) != 0) value = build.add("Sub", {value, build.integer(DType::I32, from->zero(0))});
    return Whole{value, {static_cast<double>(from->scale(0))}, {}, 255, node->origin};
  }

  // Upper bound of a sum of bytes that a mean divides, from the count of bytes in each result.
  double most_of_mean(const Node& node) const {
    double covered = 255;
    if (node.op->elementwise || node.inputs.size() != 1) return kHalfRange;
    const Node* before = maker(node.inputs[0]);
    const bool widened = before != nullptr && before->op->elementwise &&
                         before->inputs.size() == 1;  // a cast of the bytes, where the row takes one type
    const DType of = graph_[widened ? before->inputs[0] : node.inputs[0]].dtype;
    if (of != DType::I8 && of != DType::U8) return kHalfRange;
    if (node.op->attribute("kernel_shape") != nullptr) {
      for (const int64_t size : ints_attribute(node, "kernel_shape")) covered *= static_cast<double>(size);
      return std::min(covered, kHalfRange);
    }
    const Shape &in = *graph_[node.inputs[0]].shape, &out = *graph_[node.outputs[0]].shape;
    const bool known = is_constant(in) && is_constant(out) && element_count(out).constant() > 0 &&
                       element_count(out) != element_count(in);
    if (!known) return kHalfRange;
    return std::min(covered * static_cast<double>(element_count(in).constant()) /
                        static_cast<double>(element_count(out).constant()),
                    kHalfRange);
  }

  // An upper bound of the magnitude of an i32 sum.
  double most_of(ValueId id) const {
    const Node* node = maker(id);
    if (node == nullptr) return kHalfRange;
    if (node->op->kind == OpRow::Kind::View) return most_of(node->inputs[0]);
    if (node->op->traits.binary == BinaryOp::Add && constant_of(*node, 1) &&
        graph_[node->inputs[1]].dtype == DType::I32) {
      double added = 0;
      const Tensor& numbers = *constant_of(*node, 1);
      for (int64_t i = 0; i < numbers.count(); ++i) added = std::max(added, std::abs(numbers.as_double(i)));
      return std::min(most_of(node->inputs[0]) + added, kHalfRange);
    }
    if (node->op->traits.contraction == OpTraits::Contraction::None) return most_of_mean(*node);
    if (node->inputs.size() < 2) return kHalfRange;
    const Shape& weights = *graph_[node->inputs[1]].shape;
    if (!is_constant(weights) || weights.empty()) return kHalfRange;
    using Contraction = OpTraits::Contraction;
    const Contraction kind = node->op->traits.contraction;
    const Dim& filters = kind == Contraction::Product
                             ? weights.back()
                             : weights[kind == Contraction::TransposedConvolution ? 1 : 0];
    const auto channels = static_cast<double>(filters.constant());
    return std::min(static_cast<double>(element_count(weights).constant()) / channels * 255 * 128,
                    kHalfRange);
  }

  // An integer sum times a constant, to which another constant may be added, which is converted to an
  // integer.
  std::optional<Whole> sum(NodeBuilder& build, ValueId id) const {
    const Node* node = own(id);
    TensorPtr added;
    if (node != nullptr && node->op->traits.binary == BinaryOp::Add && constant_of(*node, 1)) {
      added = constant_of(*node, 1);
      node = own(node->inputs[0]);
    }
    if (node == nullptr || node->op->traits.binary != BinaryOp::Mul || !constant_of(*node, 1))
      return std::nullopt;
    const Tensor& scale = *constant_of(*node, 1);
    const Node* real = own(node->inputs[0]);
    if (real == nullptr || real->inputs.size() != 1 || !real->op->elementwise ||
        graph_[real->inputs[0]].dtype != DType::I32)
      return std::nullopt;
    Whole whole{real->inputs[0], {}, scale.shape, most_of(real->inputs[0]), node->origin};
    for (int64_t i = 0; i < scale.count(); ++i) whole.units.push_back(scale.as_double(i));
    if (std::any_of(whole.units.begin(), whole.units.end(),
                    [](double unit) { return !std::isfinite(unit) || unit <= 0; }))
      return std::nullopt;
    if (!added) return whole;
    // The added constant is rounded in units of the sums, which are much smaller than a step of the result.
    const bool wide = added->count() > scale.count();
    if (added->count() != scale.count() && added->count() != 1 && scale.count() != 1) return std::nullopt;
    std::vector<int64_t> numbers;
    double largest = 0;
    for (int64_t i = 0; i < std::max(added->count(), scale.count()); ++i) {
      const double steps = std::nearbyint(added->as_double(added->count() == 1 ? 0 : i) /
                                          scale.as_double(scale.count() == 1 ? 0 : i));
      largest = std::max(largest, std::abs(steps));
      if (!(largest + whole.most < kHalfRange)) return std::nullopt;
      numbers.push_back(static_cast<int64_t>(steps));
    }
    whole.number = build.add(
        "Add",
        {whole.number, build.constant(integers(DType::I32, wide ? added->shape : scale.shape, numbers))});
    whole.most += largest;
    return whole;
  }

  // Two dequantised numbers, added or multiplied.
  std::optional<Whole> two(NodeBuilder& build, ValueId id) const {
    const Node* node = own(id);
    const auto op = node ? node->op->traits.binary : std::nullopt;
    if (!op || (*op != BinaryOp::Add && *op != BinaryOp::Sub && *op != BinaryOp::Mul)) return std::nullopt;
    auto a = number(build, node->inputs[0]), b = number(build, node->inputs[1]);
    if (!a || !b) return std::nullopt;
    if (*op == BinaryOp::Mul) {
      return Whole{build.add("Mul", {a->number, b->number}),
                   {a->units[0] * b->units[0]},
                   {},
                   255.0 * 255,
                   node->origin};
    }
    const double twice = 2 * std::max(a->units[0], b->units[0]), most = 255.0 * (1 << kExtraBits);
    for (auto* each : {&a, &b}) {
      const Whole wide{
          build.add("Mul", {(*each)->number, build.integer(DType::I32, 1 << kExtraBits)}), {}, {}, most, {}};
      const auto part = rescaled(build, wide, {(*each)->units[0] / twice});
      if (!part) return std::nullopt;
      (*each)->number = *part;
    }
    return Whole{build.add(node->op->name, {a->number, b->number}),
                 {twice / (1 << kExtraBits)},
                 {},
                 most,
                 node->origin};
  }

  std::optional<std::vector<Node>> requantised(size_t index) {
    const Node& node = old_[index];
    const auto to = quantisation_of(graph_, node);
    if (!to || !to->is_scalar() || !to->is_byte(graph_) || !string_attribute(node, "precision").empty())
      return std::nullopt;
    const DType type = graph_[node.outputs[0]].dtype;
    const auto zero = static_cast<double>(to->zero(0));
    Ends ends{(is_signed(type) ? -128 : 0) - zero, (is_signed(type) ? 127 : 255) - zero};
    ValueId id = node.inputs[0];
    std::vector<Origin> cuts;
    for (ValueId before = id; cut(id, *to, ends); before = id) cuts.push_back(maker(before)->origin);
    std::optional<std::vector<Node>> made;
    for (const auto form : {&FixedPoint::sum, &FixedPoint::two, &FixedPoint::number}) {
      NodeBuilder build(graph_, node);
      const auto whole = (this->*form)(build, id);
      if (!whole) continue;
      std::vector<double> reals;
      for (const double unit : whole->units) reals.push_back(unit / static_cast<double>(to->scale(0)));
      const auto steps = rescaled(build, *whole, reals);
      if (!steps) return std::nullopt;
      const auto integer = [&](double number) {
        return build.integer(DType::I32, static_cast<int64_t>(number));
      };
      ValueId value = build.add("Min", {build.add("Max", {*steps, integer(ends.low)}), integer(ends.high)});
      if (zero != 0) value = build.add("Add", {value, integer(zero)});
      build.add_to("Cast", {value}, {node.outputs[0]}, {{"to", std::string(name_of(type))}});
      cuts.push_back(whole->by);
      for (const Origin& origin : cuts) done_.insert({origin.node, origin.op_type});
      made = build.take();
      break;
    }
    return made;
  }

  Graph& graph_;
  std::vector<Node> old_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> consumers_;
  std::set<std::pair<std::string, std::string>> done_;  // nodes of the file
};

}  // namespace

void fixed_point(Graph& graph) {
  FixedPoint(graph).run();
  // Dequantisations whose results are no longer read must go, because they would count as readers of the
  // integers.
  dead_code(graph);
}

}  // namespace tc
