// Determinants, by elimination with pivots: a Scan in which every step eliminates one column of the matrices.
#include <memory>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

constexpr int64_t kLargestOrder = 1024;

void infer_det(InferContext& context) {
  require_float(context);
  const Shape& shape = context.shape(0);
  const size_t rank = shape.size();
  const std::string unfit = text("the input has shape ", str(shape), "; square matrices are needed");
  if (rank < 2) context.error(unfit);
  need_equal(context, shape[rank - 1], shape[rank - 2], unfit);
  need_number(context, shape.back(), "the order of the matrices");
  if (shape.back().constant() > kLargestOrder)
    context.unsupported("matrices of order ", shape.back().str(), " are over the limit of ", kLargestOrder);
  context.set_output(0, context.dtype(0), {shape.begin(), shape.end() - 2});
}

// One step on matrices [b, n, n] and the product [b] of the pivots so far. The first column's largest element
// is the pivot; the rest of its column is eliminated, and the remaining matrix moves up and to the left and
// is padded with zeros.
class Elimination {
 public:
  Elimination(Graph& outer, const Node& node, const Dim& batch, int64_t order, DType type)
      : body_(std::make_shared<Graph>()), order_(order), type_(type) {
    body_->name = "Det";
    body_->symbols = outer.symbols;
    build_ = std::make_unique<NodeBuilder>(*body_, node);
    matrices_ = formal("matrices", {batch, Dim(order), Dim(order)}, type);
    product_ = formal("product", {batch}, type);
    formal("step", {}, type);
  }

  GraphPtr body() {
    const ValueId first_column = part(matrices_, 2, 0, 1);
    const ValueId place = build_->add("ArgMax", {build_->add("Abs", {first_column})},
                                      {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}});
    const ValueId rows = build_->constant(counted());
    const ValueId is_pivot = build_->add("Equal", {rows, place});
    const ValueId pivot_row =
        build_->add("ReduceSum", {build_->add("Where", {is_pivot, matrices_, number(0)})},
                    {{"axes", std::vector<int64_t>{1}}});
    const ValueId pivot = part(pivot_row, 2, 0, 1);
    const ValueId stays = build_->add("Equal", {place, build_->constant(int_tensor({}, {0}))});
    const ValueId sign = build_->add("Where", {stays, number(1), number(-1)});
    const ValueId factor =
        build_->add("Squeeze", {build_->add("Mul", {pivot, sign})}, {{"axes", std::vector<int64_t>{1, 2}}});
    const ValueId next_product = build_->add("Mul", {product_, factor});
    // The pivot's row is replaced by the first row, which would otherwise be lost.
    const ValueId swapped = build_->add("Where", {is_pivot, part(matrices_, 1, 0, 1), matrices_});
    const ValueId lower = part(swapped, 1, 1, order_);
    const ValueId is_zero = build_->add("Equal", {pivot, number(0)});
    const ValueId divisor = build_->add("Where", {is_zero, number(1), pivot});
    const ValueId multiples = build_->add("Div", {part(lower, 2, 0, 1), divisor});
    const ValueId removed = build_->add("Mul", {multiples, part(pivot_row, 2, 1, order_)});
    const ValueId left = build_->add("Sub", {part(lower, 2, 1, order_), removed});
    const ValueId next = build_->add("Pad", {left}, {{"pads", std::vector<int64_t>{0, 0, 0, 0, 1, 1}}});
    body_->outputs = {next, next_product};
    body_->nodes = build_->take();
    return body_;
  }

 private:
  ValueId formal(const char* name, const Shape& shape, DType type) {
    const ValueId id = body_->add_value(name, type, shape);
    body_->inputs.push_back(id);
    return id;
  }
  ValueId number(double value) { return build_->number(type_, value); }
  ValueId part(ValueId value, int64_t axis, int64_t start, int64_t end) {
    return build_->add("Slice", {value},
                       {{"starts", std::vector<int64_t>{start}},
                        {"ends", std::vector<int64_t>{end}},
                        {"axes", std::vector<int64_t>{axis}}});
  }
  TensorPtr counted() const {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < order_; ++i) numbers.push_back(i);
    return int_tensor({1, order_, 1}, numbers);
  }

  GraphPtr body_;
  std::unique_ptr<NodeBuilder> build_;
  int64_t order_;
  DType type_;
  ValueId matrices_ = kNoValue, product_ = kNoValue;
};

std::vector<Node> expand_det(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  ValueId matrices = node.inputs[0];
  const DType type = build.dtype(matrices), computed = LowerContext::compute_type(type);
  const std::map<std::string, Attribute> back = {{"to", std::string(name_of(type))}};
  if (computed != type) matrices = build.add("Cast", {matrices}, {{"to", std::string(name_of(computed))}});
  const Shape shape = build.shape(matrices), out(shape.begin(), shape.end() - 2);
  const int64_t order = shape.back().constant();
  const Dim batch = element_count(out);
  auto reshape = [&](ValueId value, const Shape& to) {
    return build.add("Reshape", {value}, {{"shape", std::vector<Dim>(to)}, {"allowzero", int64_t{1}}});
  };
  auto filled = [&](const Shape& to, double value) {
    return build.add("ConstantOfShape", {},
                     {{"shape", std::vector<Dim>(to)}, {"value", number_tensor(computed, {1}, {value})}});
  };
  ValueId product = filled({batch}, 1);
  if (order > 1) {
    Elimination step(graph, node, batch, order, computed);
    const std::vector<ValueId> states = build.add_many(
        "Scan", {reshape(matrices, {batch, Dim(order), Dim(order)}), product, filled({Dim(order)}, 0)}, 2,
        {{"body", step.body()}, {"num_scan_inputs", int64_t{1}}});
    product = states[1];
  } else if (order == 1) {
    product = reshape(matrices, {batch});
  }
  build.add_to("Cast", {reshape(product, out)}, {node.outputs[0]}, back);
  return build.take();
}

}  // namespace

void register_determinant_ops(OpTable& table) {
  OpRow row;
  row.name = "Det";
  row.kind = OpRow::Kind::Expand;
  row.category = "linear algebra";
  row.doc = "Determinants of square matrices.";
  row.onnx = {{"Det", 11}};
  row.infer = infer_det;
  row.expand = expand_det;
  table.add(std::move(row));
}

}  // namespace tc
