// Maps sampled at positions that are data, by tables of indices and weights.
#include "ir/ops/taps.h"

namespace tc {
namespace {

constexpr int64_t kMaxInLine = 8;  // the most combinations of taps that are unrolled

std::vector<Affine> entry(const TableSpace& space, int64_t tap) {
  std::vector<Affine> result = {Affine(tap)};
  result.insert(result.end(), space.position.begin(), space.position.end());
  return result;
}

int table_of(LowerContext& context, const TableSpace& space, const char* name, int64_t taps, DType type) {
  Shape shape = {Dim(taps)};
  shape.insert(shape.end(), space.shape.begin(), space.shape.end());
  return context.local(name, type, shape);
}

// The sum over all combinations of taps, unrolled.
ExprPtr sum_in_line(LowerContext& context, const std::vector<Subscript>& leading,
                    const std::vector<SampledAxis>& axes, int64_t combinations) {
  ExprPtr sum;
  for (int64_t combination = 0; combination < combinations; ++combination) {
    std::vector<Affine> taps;
    int64_t rest = combination;
    for (const SampledAxis& axis : axes) {
      taps.push_back(rest % axis.taps);
      rest /= axis.taps;
    }
    ExprPtr value = tap_value(context, leading, axes, taps);
    sum = sum ? binary(BinaryOp::Add, sum, value) : value;
  }
  return sum;
}

}  // namespace

ExprPtr float_extent(LowerContext& context, const Dim& size, DType type) {
  if (size.is_constant()) return constant(type, static_cast<double>(size.constant()));
  return cast(type, index_value(context.dim(size)));
}

SampledAxis make_axis(LowerContext& context, const TableSpace& space, int64_t taps, DType type, bool zeros) {
  SampledAxis axis;
  axis.taps = taps;
  axis.marked = zeros;
  axis.index = table_of(context, space, "at", taps, DType::I64);
  if (taps > 1) axis.weight = table_of(context, space, "weight", taps, type);
  return axis;
}

void store_index(LowerContext& context, const TableSpace& space, const SampledAxis& axis, int64_t tap,
                 ExprPtr at, const Dim& size) {
  const ExprPtr zero = int_constant(DType::I64, 0), last = index_value(context.dim(size) - Affine(1));
  ExprPtr stored = binary(BinaryOp::Max, binary(BinaryOp::Min, at, last), zero);
  if (axis.marked) {
    const ExprPtr outside =
        binary(BinaryOp::Or, binary(BinaryOp::Lt, at, zero), binary(BinaryOp::Gt, at, last));
    stored = select(outside, int_constant(DType::I64, -1), stored);
  }
  context.assign("at", space.iterators, axis.index, entry(space, tap), stored);
}

void store_weight(LowerContext& context, const TableSpace& space, const SampledAxis& axis, int64_t tap,
                  ExprPtr weight) {
  context.assign("weight", space.iterators, axis.weight, entry(space, tap), weight);
}

SampledAxis linear_axis(LowerContext& context, const TableSpace& space, int coordinates, const Dim& size,
                        bool zeros) {
  const DType type = context.kernel().buffers[coordinates].dtype;
  SampledAxis axis = make_axis(context, space, 2, type, zeros);
  const ExprPtr x = context.read_buffer(coordinates, space.position);
  const ExprPtr below = unary(UnaryOp::Floor, x), part = binary(BinaryOp::Sub, x, below);
  for (int64_t tap : {0, 1}) {
    const ExprPtr at = tap == 0 ? below : binary(BinaryOp::Add, below, constant(type, 1));
    // A NaN is outside of the map, but as an integer it would be 0.
    const ExprPtr whole =
        zeros ? select(unary(UnaryOp::IsNan, x), int_constant(DType::I64, -1), cast(DType::I64, at))
              : cast(DType::I64, at);
    store_index(context, space, axis, tap, whole, size);
    store_weight(context, space, axis, tap, tap == 0 ? binary(BinaryOp::Sub, constant(type, 1), part) : part);
  }
  axis.position = space.position;
  return axis;
}

ExprPtr tap_value(LowerContext& context, std::vector<Subscript> leading, const std::vector<SampledAxis>& axes,
                  const std::vector<Affine>& taps) {
  const DType type = LowerContext::compute_type(context.dtype(0));
  ExprPtr weight, outside;
  for (size_t i = 0; i < axes.size(); ++i) {
    std::vector<Affine> where = {taps[i]};
    where.insert(where.end(), axes[i].position.begin(), axes[i].position.end());
    ExprPtr at = context.read_buffer(axes[i].index, where);
    if (axes[i].marked) {
      const ExprPtr zero = int_constant(DType::I64, 0), here = binary(BinaryOp::Lt, at, zero);
      outside = outside ? binary(BinaryOp::Or, outside, here) : here;
      at = binary(BinaryOp::Max, at, zero);
    }
    leading.push_back({Affine(0), at});
    if (axes[i].weight < 0) continue;
    ExprPtr w = context.read_buffer(axes[i].weight, where);
    if (w->dtype != type) w = cast(type, w);
    weight = weight ? binary(BinaryOp::Mul, weight, w) : w;
  }
  ExprPtr value = context.read(0, std::move(leading));
  if (weight) value = binary(BinaryOp::Mul, value, weight);
  if (!outside) return value;
  return select(outside, is_float(type) ? constant(type, 0) : int_constant(type, 0), value);
}

void lower_samples(LowerContext& context, const SampleLoops& loops, const std::vector<SampledAxis>& axes,
                   int target) {
  int64_t combinations = 1;
  for (const SampledAxis& axis : axes) combinations *= axis.taps;
  ExprPtr result;
  if (combinations <= kMaxInLine) {
    result = sum_in_line(context, loops.leading, axes, combinations);
  } else {
    std::vector<Iterator> inner;
    std::vector<Affine> taps;
    for (size_t i = 0; i < axes.size(); ++i) {
      inner.push_back({text("t", i), Affine(axes[i].taps)});
      taps.push_back(Affine::variable(inner.back().name));
    }
    const int sum = context.local("sum", LowerContext::compute_type(context.dtype(0)), loops.shape);
    context.reduce("sample", {loops.iterators, inner}, sum, loops.position, Reduction::Sum,
                   tap_value(context, loops.leading, axes, taps));
    result = context.read_buffer(sum, loops.position);
  }
  if (loops.factor) result = binary(BinaryOp::Mul, result, loops.factor);
  context.assign("store", loops.iterators, target, loops.position, result);
}

}  // namespace tc
