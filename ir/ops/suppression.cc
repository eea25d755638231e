// Non-maximum suppression: drops boxes that overlap better ones.
#include <cmath>

#include "ir/ops/selection.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// --- corners -------------------------------------------------------------------------------------

void infer_corners(InferContext& context) {
  const Shape& boxes = context.shape(0);
  const Shape& chosen = context.shape(1);
  if (boxes.size() != 3 || chosen.size() != 3 || boxes[2] != Dim(4) || boxes[0] != chosen[0]) {
    context.error("boxes of shape ", str(boxes), " and choices of shape ", str(chosen),
                  " do not fit together");
  }
  context.set_output(0, context.dtype(0), {chosen[0], chosen[1], Dim(4), chosen[2]});
}

// The least y and x, then the largest y and x, of the chosen boxes.
void lower_corners(LowerContext& context) {
  const Shape& boxes = context.shape(0);
  const Shape& chosen = context.shape(1);
  const bool centred = int_attribute(context.node(), "center_point_box") != 0;
  const DType type = LowerContext::compute_type(context.dtype(0));
  auto space = context.space("i", chosen);
  ExprPtr last = index_value(context.dim(boxes[1]) - Affine(1)), zero = int_constant(DType::I64, 0);
  ExprPtr box = binary(BinaryOp::Max, binary(BinaryOp::Min, context.read(1, space.position), last), zero);
  auto part = [&](int64_t k) {
    return context.read(
        0, std::vector<Subscript>{{space.position[0], nullptr}, {Affine(0), box}, {Affine(k), nullptr}});
  };
  for (int64_t corner = 0; corner < 4; ++corner) {
    const bool largest = corner >= 2;
    const int64_t axis = corner % 2;  // 0: y, 1: x
    ExprPtr value;
    if (centred) {
      // x, y of the centre, width, height
      ExprPtr half = binary(BinaryOp::Mul, part(axis == 0 ? 3 : 2), constant(type, 0.5));
      value = binary(largest ? BinaryOp::Add : BinaryOp::Sub, part(axis == 0 ? 1 : 0), half);
    } else {
      value = binary(largest ? BinaryOp::Max : BinaryOp::Min, part(axis), part(axis + 2));
    }
    context.assign("corner", space.iterators, context.output(0),
                   {space.position[0], space.position[1], Affine(corner), space.position[2]}, value);
  }
}

// --- suppression ---------------------------------------------------------------------------------

void infer_suppress(InferContext& context) {
  const Shape& corners = context.shape(0);
  if (corners.size() != 4 || corners[2] != Dim(4) || context.shape(1) != Shape{corners[0], corners[1]}) {
    context.error("corners of shape ", str(corners), " and counts of shape ", str(context.shape(1)),
                  " do not fit together");
  }
  context.set_output(0, DType::Bool, {corners[0], corners[1], corners[3]});
}

// In the order of the boxes, each box that is still kept suppresses those after it that it overlaps by more
// than the threshold.
void lower_suppress(LowerContext& context) {
  const Shape& corners = context.shape(0);
  const DType type = LowerContext::compute_type(context.dtype(0));
  const Affine b = Affine::variable("b"), c = Affine::variable("c"), i = Affine::variable("i"),
               j = Affine::variable("j");
  const Iterator batch{"b", context.dim(corners[0])}, kind{"c", context.dim(corners[1])};
  const Iterator better{"i", context.dim(corners[3])}, worse{"j", context.dim(corners[3])};
  const int out = context.output(0);
  ExprPtr given = binary(BinaryOp::Lt, index_value(j), context.read(1, {b, c}));
  context.assign("left_out", {batch, kind, worse}, out, {b, c, j}, unary(UnaryOp::Not, given));

  auto corner = [&](const Affine& box, int64_t k) { return context.read(0, {b, c, Affine(k), box}); };
  auto side = [&](const Affine& box, int64_t axis) {
    return binary(BinaryOp::Sub, corner(box, axis + 2), corner(box, axis));
  };
  auto area = [&](const Affine& box) { return binary(BinaryOp::Mul, side(box, 0), side(box, 1)); };
  auto common = [&](int64_t axis) {
    ExprPtr end = binary(BinaryOp::Min, corner(i, axis + 2), corner(j, axis + 2));
    return binary(BinaryOp::Max,
                  binary(BinaryOp::Sub, end, binary(BinaryOp::Max, corner(i, axis), corner(j, axis))),
                  constant(type, 0));
  };
  ExprPtr intersection = binary(BinaryOp::Mul, common(0), common(1));
  ExprPtr both = binary(BinaryOp::Sub, binary(BinaryOp::Add, area(i), area(j)), intersection);
  ExprPtr threshold = cast(type, context.read(2, std::vector<Affine>(context.shape(2).size(), Affine(0))));
  // Boxes with no area overlap nothing.
  ExprPtr solid = binary(BinaryOp::And, binary(BinaryOp::Gt, area(i), constant(type, 0)),
                         binary(BinaryOp::Gt, area(j), constant(type, 0)));
  ExprPtr overlaps = binary(BinaryOp::And, solid,
                            binary(BinaryOp::Gt, binary(BinaryOp::Div, intersection, both), threshold));
  overlaps = binary(BinaryOp::And, overlaps, binary(BinaryOp::Gt, intersection, constant(type, 0)));
  ExprPtr taken = binary(BinaryOp::And, unary(UnaryOp::Not, context.read_buffer(out, {b, c, i})), overlaps);
  context.assign("suppress", {batch, kind, better, worse}, out, {b, c, j},
                 binary(BinaryOp::Or, context.read_buffer(out, {b, c, j}), taken), {j - i - Affine(1)});
}

// --- NonMaxSuppression ---------------------------------------------------------------------------

void normalize_suppression(Graph& graph, Node& node) {
  const Shape& scores = *graph[node.inputs.at(1)].shape;
  if (scores.size() != 3)
    fail(ErrorKind::Shape, node.origin.str(), ": the scores have shape ", str(scores), "; rank 3 is needed");
  Dim most = scores[2];
  if (input_given(node, 2)) {
    const auto limit = known_elements(graph[node.inputs[2]]);
    if (limit && limit->size() == 1 && (*limit)[0].is_constant())
      most = min(most, Dim(std::max<int64_t>((*limit)[0].constant(), 0)));
  }
  add_size(graph, node, scores[0] * scores[1] * most);
}

void infer_suppression(InferContext& context) {
  const Shape& boxes = context.shape(0);
  const Shape& scores = context.shape(1);
  const std::string unfit =
      text("boxes of shape ", str(boxes), " and scores of shape ", str(scores), " do not fit together");
  if (boxes.size() != 3 || scores.size() != 3) context.error(unfit);
  need_equal(context, boxes[2], Dim(4), unfit);
  need_equal(context, boxes[0], scores[0], unfit);
  need_equal(context, boxes[1], scores[2], unfit);
  for (int i = 2; i < 5; ++i) need_one_element(context, i);
  context.set_output(0, DType::I64, {infer_size(context), Dim(3)});
}

// One element as a scalar.
ValueId scalar(NodeBuilder& build, ValueId value) {
  return build.add("Reshape", {value}, {{"shape", std::vector<Dim>{}}});
}

// The boxes whose scores pass the threshold, sorted by score in each class, without those that better ones
// suppress, limited to the requested number.
std::vector<Node> expand_suppression(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const ValueId scores = node.inputs[1];
  const Shape shape = build.shape(scores);
  const DType type = build.dtype(scores);
  ValueId passes;
  if (input_given(node, 4)) {
    passes = build.add("Greater", {scores, build.cast(scalar(build, node.inputs[4]), type)});
  } else {
    passes = build.add("Equal", {scores, scores});  // all but NaN
  }
  // Moves the passing boxes of each class to the front, in rows as long as the longest one needs.
  const ValueId flags = build.cast(passes, DType::I64);
  const ValueId counts =
      build.add("ReduceSum", {flags}, {{"axes", std::vector<int64_t>{2}}, {"keepdims", int64_t{0}}});
  const ValueId most =
      build.add("ReduceMax", {counts}, {{"axes", std::vector<int64_t>{0, 1}}, {"keepdims", int64_t{0}}});
  const Dim length = build.size(build.add("Max", {most, build.integer(DType::I64, 0)}), shape[2]);
  const ValueId before = build.add("CumSum", {flags}, {{"axis", int64_t{2}}, {"exclusive", int64_t{1}}});
  const ValueId numbers = build.add("Expand", {numbers_to(build, shape[2])}, {{"shape", shape}});
  const Shape row = {shape[0], shape[1], length};
  const ValueId places =
      build.add("ScatterElements", {zeros(build, {shape[0], shape[1], length + Dim(1)}), before, numbers},
                {{"axis", int64_t{2}}});
  const ValueId candidates = build.add("Slice", {places},
                                       {{"starts", std::vector<Dim>{Dim(0)}},
                                        {"ends", std::vector<Dim>{length}},
                                        {"axes", std::vector<int64_t>{2}}});
  // The best come first; the rows' padding comes last.
  const ValueId limits =
      build.add("Reshape", {counts},
                {{"shape", std::vector<Dim>{shape[0], shape[1], Dim(1)}}, {"allowzero", int64_t{1}}});
  const ValueId given = build.add("Less", {numbers_to(build, length), limits});
  const ValueId found = build.add("GatherElements", {scores, candidates}, {{"axis", int64_t{2}}});
  const ValueId keys = build.add("Where", {given, found, build.number(type, -INFINITY)});
  const ValueId order = sorted_order(build, keys, true);
  const ValueId sorted = build.add("GatherElements", {candidates, order}, {{"axis", int64_t{2}}});
  const ValueId corners = build.add("BoxCorners", {node.inputs[0], sorted},
                                    {{"center_point_box", int_attribute(node, "center_point_box")}});
  const ValueId threshold = input_given(node, 3) ? build.cast(node.inputs[3], type) : build.number(type, 0);
  const ValueId kept = build.add("Not", {build.add("Suppress", {corners, counts, threshold})});
  const ValueId better =
      build.add("CumSum", {build.cast(kept, DType::I64)}, {{"axis", int64_t{2}}, {"exclusive", int64_t{1}}});
  const ValueId asked = input_given(node, 2) ? build.cast(scalar(build, node.inputs[2]), DType::I64)
                                             : build.integer(DType::I64, 0);
  const ValueId chosen = build.add("And", {kept, build.add("Less", {better, asked})});

  const ValueId positions = chosen_positions(build, node, flat_view(build, chosen));
  const Dim size = build.shape(positions)[0];
  const ValueId where = build.add("Unravel", {positions}, {{"shape", row}});
  const ValueId classes = build.add("Slice", {where},
                                    {{"starts", std::vector<Dim>{Dim(0)}},
                                     {"ends", std::vector<Dim>{Dim(2)}},
                                     {"axes", std::vector<int64_t>{0}}});
  const ValueId box = build.add("Gather", {flat_view(build, sorted), positions}, {{"axis", int64_t{0}}});
  const ValueId boxes =
      build.add("Reshape", {box}, {{"shape", std::vector<Dim>{Dim(1), size}}, {"allowzero", int64_t{1}}});
  const ValueId all = build.add("Concat", {classes, boxes}, {{"axis", int64_t{0}}});
  if (output_wanted(node, 0))
    build.add_to("Transpose", {all}, {node.outputs[0]}, {{"perm", std::vector<int64_t>{1, 0}}});
  return build.take();
}

}  // namespace

void register_suppression_ops(OpTable& table) {
  OpRow corners;
  corners.name = "BoxCorners";
  corners.category = "selection";
  corners.doc = "The least and the largest coordinates of chosen boxes.";
  corners.minimum_inputs = corners.maximum_inputs = 2;
  corners.types = {{kFloats, {0}}, {kIndices, {1}}};
  corners.attributes = {{"center_point_box", int64_t{0}, false, "", from_to(0, 1)}};
  corners.infer = infer_corners;
  corners.lower = lower_corners;
  table.add(std::move(corners));

  OpRow suppress;
  suppress.name = "Suppress";
  suppress.category = "selection";
  suppress.doc =
      "Whether a box is left out: it comes after the count of its row, or one before it that is not left out overlaps it by more than a threshold.";
  suppress.minimum_inputs = suppress.maximum_inputs = 3;
  suppress.types = {{kFloats, {0, 2}}, {kIndices, {1}}};
  suppress.infer = infer_suppress;
  suppress.lower = lower_suppress;
  table.add(std::move(suppress));

  OpRow row;
  row.name = "NonMaxSuppression";
  row.kind = OpRow::Kind::Expand;
  row.category = "selection";
  row.doc =
      "The boxes of each class with the best scores, without those that overlap better ones, as batch, class and box.";
  row.onnx = {{"NonMaxSuppression", 10, normalize_suppression}};
  row.minimum_inputs = 2;
  row.maximum_inputs = 5;
  row.outputs = 2;
  row.types = {{kFloats, {0, 1}}, {kIndices, {2}}, {kFloats, {3}}, {kFloats, {4}}};
  row.attributes = {
      {"center_point_box", int64_t{0}, false, "", from_to(0, 1)},
      {"symbol", std::string(), true, "the size that the last output holds; the importer adds both"}};
  row.infer = infer_suppression;
  row.expand = expand_suppression;
  table.add(std::move(row));
}

}  // namespace tc
