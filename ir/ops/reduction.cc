// Reductions over axes, arg-extrema, running sums, the largest k.
#include <algorithm>
#include <cmath>
#include <set>

#include "ir/ops/equation.h"
#include "ir/ops/selection.h"

namespace tc {
namespace {

// A reduction row: what is combined, and what is computed from the total.
struct ReductionRow {
  const char* name;
  Reduction reduction;
  const char* before;  // formula of the element a
  const char* after;   // formula of the total a and the element count `count`
  const char* doc;
};

const ReductionRow kRows[] = {
    {"ReduceSum", Reduction::Sum, "a", "a", "Sum over axes."},
    {"ReduceMean", Reduction::Sum, "a", "a / count", "Mean over axes."},
    {"ReduceMax", Reduction::Max, "a", "a", "Largest element over axes."},
    {"ReduceMin", Reduction::Min, "a", "a", "Smallest element over axes."},
    {"ReduceProd", Reduction::Product, "a", "a", "Product over axes."},
    {"ReduceL1", Reduction::Sum, "abs(a)", "a", "Sum of magnitudes over axes."},
    {"ReduceL2", Reduction::Sum, "a * a", "sqrt(a)", "Root of the sum of squares over axes."},
    {"ReduceLogSum", Reduction::Sum, "a", "log(a)", "Logarithm of the sum over axes."},
    {"ReduceSumSquare", Reduction::Sum, "a * a", "a", "Sum of squares over axes."},
};

std::set<int64_t> reduced_axes(const Node& node, int64_t rank) {
  std::set<int64_t> axes;
  const bool given = has_attribute(node, "axes");
  if (given) {
    for (int64_t axis : ints_attribute(node, "axes")) axes.insert(axis < 0 ? axis + rank : axis);
  }
  if (axes.empty() && !int_attribute(node, "noop_with_empty_axes")) {
    for (int64_t i = 0; i < rank; ++i) axes.insert(i);
  }
  return axes;
}

Shape reduced_shape(const Shape& shape, const std::set<int64_t>& axes, bool keep) {
  Shape result;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!axes.count(static_cast<int64_t>(i))) result.push_back(shape[i]);
    else if (keep) result.push_back(Dim(1));
  }
  return result;
}

void infer_reduction(InferContext& context, Reduction reduction, const std::string& name) {
  const Shape& shape = context.shape(0);
  const auto axes = reduced_axes(context.node(), context.rank(0));
  context.set_output(0, context.dtype(0),
                     reduced_shape(shape, axes, int_attribute(context.node(), "keepdims") != 0));
  auto elements = context.elements(0);
  const bool plain =
      name == "ReduceSum" || name == "ReduceProd" || name == "ReduceMax" || name == "ReduceMin";
  if (!plain || !elements || elements->empty() || context.rank(0) != 1 || axes.empty()) return;
  Dim total = (*elements)[0];
  for (size_t i = 1; i < elements->size(); ++i) {
    const Dim& next = (*elements)[i];
    total = reduction == Reduction::Sum       ? total + next
            : reduction == Reduction::Product ? total * next
            : reduction == Reduction::Max     ? max(total, next)
                                              : min(total, next);
  }
  context.set_elements(0, {total});
}

// Loops over the kept axes outside and the reduced ones inside.
struct ReducedAxes {
  std::vector<Iterator> outer, inner;
  std::vector<Affine> input, output;
  Dim count = 1;
};

ReducedAxes loops_over(LowerContext& context, const Shape& shape, const std::set<int64_t>& axes, bool keep) {
  ReducedAxes loops;
  auto space = context.space("i", shape);
  loops.input = space.position;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool inside = axes.count(static_cast<int64_t>(i)) > 0;
    for (const Iterator& iterator : space.iterators) {
      if (iterator.name == space.position[i].as_variable())
        (inside ? loops.inner : loops.outer).push_back(iterator);
    }
    if (inside) loops.count = loops.count * shape[i];
    if (!inside) loops.output.push_back(space.position[i]);
    else if (keep) loops.output.push_back(Affine(0));
  }
  return loops;
}

void lower_reduction(LowerContext& context, const ReductionRow& entry) {
  const Shape& shape = context.shape(0);
  const Node& node = context.node();
  const auto axes = reduced_axes(node, static_cast<int64_t>(shape.size()));
  const ReducedAxes loops = loops_over(context, shape, axes, int_attribute(node, "keepdims") != 0);
  const DType type = LowerContext::compute_type(context.dtype(0));
  Reduction reduction = entry.reduction;
  if (type == DType::Bool) reduction = reduction == Reduction::Max ? Reduction::Or : Reduction::And;
  ExprPtr element =
      build_formula(*parse_formula(entry.before), {{"a", context.read(0, loops.input)}}, {}, type);
  const std::string after = entry.after;
  const int total =
      after == "a" ? context.output(0) : context.local("total", type, *context.output_value(0).shape);
  context.reduce("total", {loops.outer, loops.inner}, total, loops.output, reduction, element);
  if (total == context.output(0)) return;
  ExprPtr sum = context.read_buffer(total, loops.output);
  ExprPtr result;
  if (after == "a / count" && is_float(type) && loops.count.is_constant()) {
    result = binary(BinaryOp::Mul, sum, constant(type, 1.0 / static_cast<double>(loops.count.constant())));
  } else {
    ExprPtr count = cast(type, index_value(context.dim(loops.count)));
    result = build_formula(*parse_formula(after), {{"a", sum}, {"count", count}}, {}, type);
  }
  context.assign("result", loops.outer, context.output(0), loops.output, result);
}

// log(sum(exp(x))) with the largest element subtracted first. The maximum may ignore NaN, because an element
// that is NaN makes the sum NaN.
void lower_log_sum_exp(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const Node& node = context.node();
  const auto axes = reduced_axes(node, static_cast<int64_t>(shape.size()));
  const ReducedAxes loops = loops_over(context, shape, axes, int_attribute(node, "keepdims") != 0);
  const DType type = LowerContext::compute_type(context.dtype(0));
  const Shape& out = *context.output_value(0).shape;
  const int largest = context.local("largest", type, out), total = context.local("total", type, out);
  ExprPtr x = context.read(0, loops.input);
  context.reduce("maximum", {loops.outer, loops.inner}, largest, loops.output, Reduction::MaxNumber, x);
  ExprPtr m = context.read_buffer(largest, loops.output);
  // An infinite maximum would make differences NaN.
  ExprPtr shift = select(unary(UnaryOp::IsInf, m), constant(type, 0), m);
  context.reduce("total", {loops.outer, loops.inner}, total, loops.output, Reduction::Sum,
                 unary(UnaryOp::Exp, binary(BinaryOp::Sub, x, shift)));
  ExprPtr result =
      binary(BinaryOp::Add, unary(UnaryOp::Log, context.read_buffer(total, loops.output)), shift);
  context.assign("result", loops.outer, context.output(0), loops.output, result);
}

OpRow reduction_row(const std::string& name, const std::string& doc) {
  OpRow row;
  row.name = name;
  row.category = "reduction";
  row.traits.row_program = true;
  row.doc = doc;
  row.onnx = {{name, 1, input_to_ints(1, "axes")}};
  row.maximum_inputs = 2;
  row.attributes = {{"axes", std::vector<int64_t>(), false, "", axis_of(0)},
                    {"keepdims", int64_t{1}},
                    {"noop_with_empty_axes", int64_t{0}}};
  const bool extremum = name == "ReduceMax" || name == "ReduceMin";
  const bool real = name == "ReduceL2" || name.rfind("ReduceLog", 0) == 0;
  row.types = {{real ? kFloats : extremum ? kAnyType : kNumbers, {0}}};
  return row;
}

// --- arg-extrema ---------------------------------------------------------------------------------

void infer_arg(InferContext& context) {
  const int64_t axis = context.axis(int_attribute(context.node(), "axis"), context.rank(0));
  context.set_output(0, DType::I64,
                     reduced_shape(context.shape(0), {axis}, int_attribute(context.node(), "keepdims") != 0));
}

void lower_arg(LowerContext& context, Reduction reduction) {
  const Shape& shape = context.shape(0);
  const Node& node = context.node();
  int64_t axis = int_attribute(node, "axis");
  if (axis < 0) axis += static_cast<int64_t>(shape.size());
  const ReducedAxes loops = loops_over(context, shape, {axis}, int_attribute(node, "keepdims") != 0);
  const DType type = LowerContext::compute_type(context.dtype(0));
  const int best = context.local("best", type, *context.output_value(0).shape);
  ExprPtr x = context.read(0, loops.input);
  context.reduce("best", {loops.outer, loops.inner}, best, loops.output, reduction, x);
  const bool last = int_attribute(node, "select_last_index") != 0;
  ExprPtr found = binary(BinaryOp::Eq, x, context.read_buffer(best, loops.output));
  // The extremum of numbers with a NaN among them is NaN, which is equal to no element.
  if (is_float(type)) found = binary(BinaryOp::Or, found, unary(UnaryOp::IsNan, x));
  ExprPtr index =
      select(found, index_value(loops.input[axis]), int_constant(DType::I64, last ? -1 : INT64_MAX));
  context.reduce("where", {loops.outer, loops.inner}, context.output(0), loops.output,
                 last ? Reduction::Max : Reduction::Min, index);
}

// --- running sums --------------------------------------------------------------------------------

void axis_to_attribute(Graph& graph, Node& node) {
  input_to_ints(1, "axis")(graph, node);
  auto found = node.attributes.find("axis");
  if (found != node.attributes.end() && std::holds_alternative<std::vector<int64_t>>(found->second)) {
    const auto ints = std::get<std::vector<int64_t>>(found->second);
    if (ints.size() != 1)
      fail(ErrorKind::Shape, node.origin.str(), ": one axis is needed, ", ints.size(), " are given");
    found->second = ints[0];
  }
}

// Each element combines the result before it with its own operand or, if exclusive, with the previous
// operand.
void lower_cumulative(LowerContext& context, Reduction reduction) {
  const Shape& shape = context.shape(0);
  const Node& node = context.node();
  int64_t axis = int_attribute(node, "axis");
  if (axis < 0) axis += static_cast<int64_t>(shape.size());
  const bool exclusive = int_attribute(node, "exclusive") != 0, reverse = int_attribute(node, "reverse") != 0;
  const DType stored = context.dtype(0), type = LowerContext::compute_type(stored);
  const int total = type == stored ? context.output(0) : context.local("total", type, shape);
  auto space = context.space("i", shape);
  const Affine step = space.position[axis];
  // The position of the element that is `back` steps before this one.
  auto place = [&](int64_t back) {
    std::vector<Affine> at = space.position;
    at[axis] = reverse ? context.dim(shape[axis]) - Affine(1) - step + Affine(back) : step - Affine(back);
    return at;
  };
  const ExprPtr x = context.read_buffer(context.input(0), place(exclusive ? 1 : 0));
  const ExprPtr first = exclusive ? identity(reduction, type) : x;
  if (shape[axis] == Dim(1)) {
    context.assign("first", space.iterators, context.output(0), space.position, first);
    return;
  }
  context.assign("first", space.iterators, total, place(0), first, {Affine(0) - step});
  const BinaryOp op = reduction == Reduction::Sum ? BinaryOp::Add : BinaryOp::Mul;
  context.assign("next", space.iterators, total, place(0),
                 binary(op, context.read_buffer(total, place(1)), x), {step - Affine(1)});
  if (type != stored)
    context.assign("store", space.iterators, context.output(0), space.position,
                   context.read_buffer(total, space.position));
}

OpRow cumulative_maximum_row() {
  OpRow row = onnx_row("reduction", {"CumMax", 1, nullptr, "tc"},
                       "Largest element so far, along the last axis.", {1, 1}, {});
  row.equation = "O[...,i] = max(O[...,i-1], X[...,i])";
  row.types = {{kNumbers}};
  return row;
}

OpRow distances_row() {
  OpRow row = onnx_row("reduction", {"CDist", 1, nullptr, "com.microsoft"},
                       "Sums of the squared differences of all pairs of rows.", {2, 2},
                       {{"metric", std::string("sqeuclidean"), false, "", one_of({"sqeuclidean"})}});
  row.equation = "D[i,j] += (A[i,k] - B[j,k]) * (A[i,k] - B[j,k])";
  row.types = {{kFloats}};
  return row;
}

// --- the largest k -------------------------------------------------------------------------------

void infer_top_k(InferContext& context) {
  const int64_t axis = context.axis(int_attribute(context.node(), "axis"), context.rank(0));
  const std::vector<Dim> k = dims_attribute(context.node(), "k");
  if (k.size() != 1) context.error("k has ", k.size(), " numbers");
  Shape shape = context.shape(0);
  if (k[0].is_constant() && shape[axis].is_constant() && k[0].constant() > shape[axis].constant()) {
    context.error("k is ", k[0].str(), " but axis ", axis, " has ", shape[axis].str(), " elements");
  }
  if (k[0].is_constant()) {
    require_not_negative(context, shape[axis] - k[0], text("axis ", axis, " of ", str(shape)));
  } else {
    context.require_at_most(
        k[0], shape[axis],
        text("k is ", k[0].str(), " but axis ", axis, " has ", shape[axis].str(), " elements"));
  }
  shape[axis] = k[0];
  context.set_output(0, context.dtype(0), shape);
  context.set_output(1, DType::I64, shape);
}

// A k that a node computes becomes a data symbol, bounded by the extent of the axis.
void computed_k(Graph& graph, Node& node) {
  if (!input_given(node, 1) || known_elements(graph[node.inputs[1]]) || !is_computed(graph, node.inputs[1]))
    return;
  const Shape shape = *graph[node.inputs[0]].shape;
  const int64_t rank = static_cast<int64_t>(shape.size());
  int64_t axis = has_attribute(node, "axis") ? unchecked_attribute<int64_t>(node, "axis") : -1;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || element_count(*graph[node.inputs[1]].shape) != Dim(1)) return;
  NodeBuilder build(graph, node);
  const ValueId k = build.add("Reshape", {node.inputs[1]}, {{"shape", std::vector<Dim>{}}});
  node.attributes["k"] =
      std::vector<Dim>{build.size(build.cast(k, DType::I64), shape[static_cast<size_t>(axis)])};
  node.inputs.resize(1);
  for (Node& made : build.take()) graph.nodes.push_back(std::move(made));
}

// Longer rows are sorted.
constexpr int64_t kLongestCounted = 1024;

// Each element's rank is the number of elements before it in the order; the sorted row is scattered
// by rank, and its first k are the result. NaN counts as infinity, so that ranks are a permutation.
void lower_top_k(LowerContext& context) {
  const Node& node = context.node();
  const Shape& shape = context.shape(0);
  int64_t axis = int_attribute(node, "axis");
  if (axis < 0) axis += static_cast<int64_t>(shape.size());
  const bool largest = int_attribute(node, "largest") != 0;
  auto space = context.space("i", shape);
  const DType type = LowerContext::compute_type(context.dtype(0));
  int key = context.input(0);
  if (is_float(type)) {
    key = context.local("key", type, shape);
    const ExprPtr x = context.read_buffer(context.input(0), space.position);
    context.assign("order", space.iterators, key, space.position,
                   select(unary(UnaryOp::IsNan, x), constant(type, INFINITY), x));
  }
  const int rank = context.local("rank", DType::I64, shape);
  std::vector<Affine> other = space.position;
  other[axis] = Affine::variable("k");
  ExprPtr mine = context.read_buffer(key, space.position), theirs = context.read_buffer(key, other);
  ExprPtr first = binary(largest ? BinaryOp::Gt : BinaryOp::Lt, theirs, mine);
  ExprPtr earlier = binary(BinaryOp::Lt, index_value(other[axis]), index_value(space.position[axis]));
  ExprPtr before =
      binary(BinaryOp::Or, first, binary(BinaryOp::And, binary(BinaryOp::Eq, theirs, mine), earlier));
  context.reduce("rank", {space.iterators, {{"k", context.dim(shape[axis])}}}, rank, space.position,
                 Reduction::Sum, cast(DType::I64, before));
  const Shape& out = *context.output_value(context.output(0) >= 0 ? 0 : 1).shape;
  auto result = context.space("o", out);
  for (int i : {0, 1}) {
    if (context.output(i) < 0) continue;
    const int sorted = context.local("sorted", i == 0 ? type : DType::I64, shape);
    Statement scatter;
    scatter.name = "sort";
    scatter.iterators = space.iterators;
    scatter.write.buffer = sorted;
    for (size_t d = 0; d < shape.size(); ++d) scatter.write.index.push_back({space.position[d], nullptr});
    ExprPtr place = context.read_buffer(rank, space.position);
    scatter.write.index[axis] = {Affine(0), place};
    scatter.value =
        i == 0 ? context.read_buffer(context.input(0), space.position) : index_value(space.position[axis]);
    // The scatter writes every place, but only the data guarantee it, so the buffer is initialised.
    context.assign("clear", space.iterators, sorted, space.position, constant(i == 0 ? type : DType::I64, 0));
    context.add(std::move(scatter));
    context.assign("store", result.iterators, context.output(i), result.position,
                   context.read_buffer(sorted, result.position));
  }
}

// Long rows are sorted; in short ones it is cheaper to count for each element those before it.
std::vector<Node> expand_top_k(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Shape shape = build.shape(node.inputs[0]);
  const int64_t rank = static_cast<int64_t>(shape.size());
  int64_t axis = int_attribute(node, "axis");
  if (axis < 0) axis += rank;
  if (dim_range(shape[axis], graph).high <= kLongestCounted) return {};
  std::vector<int64_t> order;  // the axis last; this is its own inverse
  for (int64_t i = 0; i < rank; ++i) order.push_back(i);
  std::swap(order[axis], order.back());
  const bool moved = axis != rank - 1;
  const ValueId data = moved ? build.add("Transpose", {node.inputs[0]}, {{"perm", order}}) : node.inputs[0];
  const ValueId sorted = sorted_order(build, data, int_attribute(node, "largest") != 0);
  const Dim k = dims_attribute(node, "k")[0];
  ValueId best = build.add("Slice", {sorted},
                           {{"starts", std::vector<Dim>{Dim(0)}},
                            {"ends", std::vector<Dim>{k}},
                            {"axes", std::vector<int64_t>{rank - 1}}});
  Shape kept = build.shape(best);
  if (kept.back() != k) {
    // A slice would accept fewer elements than k; TopK checks that there are k, so this view must.
    kept.back() = k;
    best = build.add("Reshape", {best}, {{"shape", std::vector<Dim>(kept)}, {"allowzero", int64_t{1}}});
  }
  auto give = [&](size_t output, ValueId value) {
    if (moved) value = build.add("Transpose", {value}, {{"perm", order}});
    build.give(output, value);
  };
  if (output_wanted(node, 0)) give(0, build.add("GatherElements", {data, best}, {{"axis", rank - 1}}));
  if (output_wanted(node, 1)) give(1, best);
  return build.take();
}

}  // namespace

void register_reduction_ops(OpTable& table) {
  for (const ReductionRow& entry : kRows) {
    OpRow row = reduction_row(entry.name, entry.doc);
    row.equation = text("T[i] ", name_of(entry.reduction), "= ", entry.before, "; O[i] = ", entry.after);
    const Reduction reduction = entry.reduction;
    const std::string name = entry.name;
    row.infer = [reduction, name](InferContext& context) { infer_reduction(context, reduction, name); };
    row.lower = [entry](LowerContext& context) { lower_reduction(context, entry); };
    if (name == "ReduceMean") row.traits.of_bytes = "ReduceSum";
    table.add(std::move(row));
  }
  OpRow log_sum_exp = reduction_row("ReduceLogSumExp", "Logarithm of the sum of exponentials over axes.");
  log_sum_exp.infer = [](InferContext& context) {
    infer_reduction(context, Reduction::Sum, "ReduceLogSumExp");
  };
  log_sum_exp.lower = lower_log_sum_exp;
  table.add(std::move(log_sum_exp));

  for (const bool maximum : {true, false}) {
    OpRow row;
    row.name = maximum ? "ArgMax" : "ArgMin";
    row.category = "reduction";
    row.traits.row_program = true;
    row.doc = maximum ? "Index of the largest element along an axis."
                      : "Index of the smallest element along an axis.";
    row.onnx = {{row.name, 1}};
    row.attributes = {{"axis", int64_t{0}, false, "", axis_of(0)},
                      {"keepdims", int64_t{1}},
                      {"select_last_index", int64_t{0}}};
    row.types = {{kNumbers}};
    row.infer = infer_arg;
    row.lower = [maximum](LowerContext& context) {
      lower_arg(context, maximum ? Reduction::Max : Reduction::Min);
    };
    table.add(std::move(row));
  }
  for (const bool sum : {true, false}) {
    OpRow row;
    row.name = sum ? "CumSum" : "CumProd";
    row.category = "reduction";
    row.doc = sum ? "Running sums along an axis." : "Running products along an axis.";
    row.equation = sum ? "O[i] = O[i-1] + X[i]" : "O[i] = O[i-1] * X[i]";
    row.onnx = {{row.name, 11, axis_to_attribute}};
    row.maximum_inputs = 2;
    row.attributes = {
        {"axis", int64_t{0}, false, "", axis_of(0)}, {"exclusive", int64_t{0}}, {"reverse", int64_t{0}}};
    row.types = {{kNumbers, {0}}};
    row.infer = infer_same;
    row.lower = [sum](LowerContext& context) {
      lower_cumulative(context, sum ? Reduction::Sum : Reduction::Product);
    };
    table.add(std::move(row));
  }
  table.add(cumulative_maximum_row());
  table.add(distances_row());
  OpRow top;
  top.name = "TopK";
  top.category = "reduction";
  top.traits.row_program = true;
  top.doc = "The k largest (or smallest) elements along an axis, in order, with their indices.";
  auto old_k = [](Graph&, Node& node) {
    if (!has_attribute(node, "k"))
      fail(ErrorKind::Model, node.origin.str(), " lacks attribute 'k', which TopK needs");
    node.attributes["k"] = std::vector<int64_t>{unchecked_attribute<int64_t>(node, "k")};
  };
  top.onnx = {{"TopK", 1, old_k}, {"TopK", 10, all_of({computed_k, input_to_dims(1, "k")})}};
  top.maximum_inputs = 2;
  top.outputs = 2;
  top.types = {{kNumbers, {0}}};
  top.attributes = {{"axis", int64_t{-1}, false, "", axis_of(0)},
                    {"k", std::vector<int64_t>(), false, "", at_least(0)},
                    {"largest", int64_t{1}},
                    {"sorted", int64_t{1}}};
  top.infer = infer_top_k;
  top.lower = lower_top_k;
  top.expand = expand_top_k;
  table.add(std::move(top));
}

}  // namespace tc
