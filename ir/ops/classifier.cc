#include "ir/ops/classifier.h"

#include <cmath>

namespace tc {
namespace {

ValueId label_of(NodeBuilder& build, const Node& node, ValueId place) {
  const std::vector<int64_t> labels = class_labels(node);
  return build.add("Gather",
                   {build.constant(int_tensor({static_cast<int64_t>(labels.size())}, labels)), place},
                   {{"axis", int64_t{0}}});
}

}  // namespace

const std::vector<std::string> kPostTransforms = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"};

void add_label_attributes(OpRow& row) {
  row.attributes.push_back({"classlabels_int64s", std::vector<int64_t>()});
  row.attributes.push_back(
      {"classlabels_ints", std::vector<int64_t>(), false, "the name in LinearClassifier and SVMClassifier"});
  row.attributes.push_back({"classlabels_strings", std::vector<std::string>()});
}

std::vector<int64_t> class_labels(const Node& node) {
  for (const char* name : {"classlabels_int64s", "classlabels_ints"}) {
    if (!has_attribute(node, name)) continue;
    const std::vector<int64_t> labels = ints_attribute(node, name);
    if (!labels.empty()) return labels;
  }
  fail(ErrorKind::Model, node.origin.str(), " lacks attribute 'classlabels_int64s'");
}

ValueId post_transformed(NodeBuilder& build, ValueId scores, const std::string& transform) {
  const std::map<std::string, Attribute> axis = {{"axis", int64_t{1}}};
  if (transform == "SOFTMAX") return build.add("Softmax", {scores}, axis);
  if (transform == "LOGISTIC") return build.add("Sigmoid", {scores});
  if (transform != "SOFTMAX_ZERO") return scores;
  const DType type = build.dtype(scores);
  const ValueId zero = build.number(type, 0), none = build.add("Equal", {scores, zero});
  const ValueId least = build.number(type, -INFINITY);
  const ValueId soft = build.add("Softmax", {build.add("Where", {none, least, scores})}, axis);
  return build.add("Where", {none, zero, soft});
}

void give_classes(NodeBuilder& build, const Node& node, ValueId raw, ValueId scores) {
  const ValueId place = build.add("ArgMax", {raw}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  build.give(0, label_of(build, node, place));
  build.give(1, build.cast(scores, DType::F32));
}

void give_two_classes(NodeBuilder& build, const Node& node, ValueId raw, const TwoClasses& how) {
  const DType type = build.dtype(raw);
  const ValueId over = build.add("Greater", {raw, build.number(type, how.probability ? 0.5 : 0)});
  const ValueId place =
      build.add("Squeeze", {build.cast(over, DType::I64)}, {{"axes", std::vector<int64_t>{1}}});
  build.give(0, label_of(build, node, place));
  ValueId other = how.complement ? build.add("Sub", {build.number(type, 1), raw}) : build.add("Neg", {raw});
  ValueId own = raw;
  if (!how.complement && how.transform == "LOGISTIC") {
    other = build.add("Sigmoid", {other});
    own = build.add("Sigmoid", {own});
  }
  build.give(1, build.cast(build.add("Concat", {other, own}, {{"axis", int64_t{1}}}), DType::F32));
}

}  // namespace tc
