// The tables of Resize for axes whose sizes are known only at run time: nodes compute what is otherwise
// computed while the model is read.
#include "ir/ops/resize_tables.h"

#include <cmath>

#include "ir/error.h"
#include "ir/ops/selection.h"

namespace tc {
namespace {

// Arithmetic on tensors of float64.
class Arithmetic {
 public:
  explicit Arithmetic(NodeBuilder& build) : build_(build) {}
  ValueId number(double value) { return build_.number(DType::F64, value); }
  ValueId size(const Dim& size) { return build_.cast(value_of(build_, size), DType::F64); }
  ValueId add(ValueId a, ValueId b) { return build_.add("Add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return build_.add("Sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return build_.add("Mul", {a, b}); }
  ValueId div(ValueId a, ValueId b) { return build_.add("Div", {a, b}); }
  ValueId max(ValueId a, ValueId b) { return build_.add("Max", {a, b}); }
  ValueId min(ValueId a, ValueId b) { return build_.add("Min", {a, b}); }
  ValueId unary(const char* op, ValueId a) { return build_.add(op, {a}); }

 private:
  NodeBuilder& build_;
};

// Positions in the operand of the result's elements `x`, as in source_position() of resize.cc.
ValueId positions(Arithmetic& on, const ResizedAxis& axis, ValueId x) {
  const ValueId in = on.size(axis.in), one = on.number(1), half = on.number(0.5);
  const ValueId out = on.size(axis.out);
  const ValueId scale = axis.scale ? on.number(*axis.scale) : on.div(out, in);
  const ValueId centre = on.sub(on.div(on.add(x, half), scale), half);
  if (axis.coordinates == "asymmetric") return on.div(x, scale);
  if (axis.coordinates == "tf_half_pixel_for_nn") return on.div(on.add(x, half), scale);
  if (axis.coordinates == "align_corners") {
    // With only one element, x is 0.
    return on.div(on.mul(x, on.sub(in, one)), on.max(on.sub(on.mul(scale, in), one), on.number(1e-9)));
  }
  if (axis.coordinates == "pytorch_half_pixel") {
    const ValueId several = on.min(on.sub(out, one), one);  // 0 for one element, whose position is -0.5
    return on.sub(on.mul(on.add(centre, half), several), half);
  }
  if (axis.coordinates == "half_pixel_symmetric") {
    const ValueId from_centre =
        on.div(on.sub(on.add(on.mul(on.number(2), x), one), out), on.mul(on.number(2), scale));
    return on.add(on.mul(on.sub(in, one), half), from_centre);
  }
  return centre;
}

ValueId nearest(Arithmetic& on, const std::string& how, ValueId at) {
  if (how == "floor") return on.unary("Floor", at);
  if (how == "ceil") return on.unary("Ceil", at);
  const ValueId half = on.number(0.5);
  return how == "round_prefer_ceil" ? on.unary("Floor", on.add(at, half))
                                    : on.unary("Ceil", on.sub(at, half));
}

// As cubic_weight() of resize.cc.
ValueId cubic(Arithmetic& on, NodeBuilder& build, ValueId distance, double a) {
  const ValueId d = on.unary("Abs", distance), one = on.number(1), two = on.number(2);
  const ValueId close =
      on.add(on.mul(on.mul(on.sub(on.mul(on.number(a + 2), d), on.number(a + 3)), d), d), one);
  const ValueId far = on.sub(
      on.mul(on.add(on.mul(on.sub(on.mul(on.number(a), d), on.number(5 * a)), d), on.number(8 * a)), d),
      on.number(4 * a));
  const ValueId beyond = build.add("Where", {build.add("Less", {d, two}), far, on.number(0)});
  return build.add("Where", {build.add("LessOrEqual", {d, one}), close, beyond});
}

}  // namespace

ResizeTables computed_tables(NodeBuilder& build, const ResizedAxis& axis) {
  Arithmetic on(build);
  const ValueId column =
      build.add("Reshape", {build.cast(numbers_to(build, axis.out), DType::F64)},
                {{"shape", std::vector<Dim>{axis.out, Dim(1)}}, {"allowzero", int64_t{1}}});
  const ValueId at = positions(on, axis, column), last = on.sub(on.size(axis.in), on.number(1));
  auto inside = [&](ValueId index) {
    return build.cast(on.max(on.min(index, last), on.number(0)), DType::I64);
  };
  if (axis.mode == "nearest") {
    const ValueId index = inside(nearest(on, axis.nearest, at));
    return {index, build.cast(on.add(on.mul(at, on.number(0)), on.number(1)), DType::F32)};
  }
  const bool is_cubic = axis.mode == "cubic";
  const std::vector<double> taps = is_cubic ? std::vector<double>{-1, 0, 1, 2} : std::vector<double>{0, 1};
  const ValueId row = build.constant(number_tensor(DType::F64, {1, static_cast<int64_t>(taps.size())}, taps));
  const ValueId base = on.sub(on.unary("Ceil", at), on.number(1));
  const ValueId distance = on.sub(row, on.sub(at, base)), index = on.add(base, row);
  ValueId weight = is_cubic ? cubic(on, build, distance, axis.cubic)
                            : on.max(on.sub(on.number(1), on.unary("Abs", distance)), on.number(0));
  if (axis.exclude_outside) {
    weight = build.add("Where", {build.add("Less", {index, on.number(0)}), on.number(0), weight});
    weight = build.add("Where", {build.add("Less", {last, index}), on.number(0), weight});
    weight = on.div(weight, build.add("ReduceSum", {weight},
                                      {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}}));
  }
  return {inside(index), build.cast(weight, DType::F32)};
}

}  // namespace tc
