#include "frontend/import/onnx/class_names.h"

#include <algorithm>
#include <set>
#include <string>

namespace tc {
namespace {

const char* const kNames = "classlabels_strings";

tc_onnx::AttributeProto& add_attribute(tc_onnx::NodeProto& node, const char* name,
                                       tc_onnx::AttributeProto::AttributeType type) {
  tc_onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

// The node with numbers instead of names, and the encoder that turns the numbers back into names.
std::pair<tc_onnx::NodeProto, tc_onnx::NodeProto> numbered(const tc_onnx::NodeProto& node,
                                                           const std::string& number) {
  tc_onnx::NodeProto classifier = node, encoder;
  auto& attributes = *classifier.mutable_attribute();
  const auto names = std::find_if(attributes.begin(), attributes.end(),
                                  [](const auto& each) { return each.name() == kNames; });
  encoder.set_name(node.name().empty() ? node.output(0) : node.name());
  encoder.set_domain(node.domain());
  encoder.set_op_type("LabelEncoder");
  encoder.add_input(number);
  encoder.add_output(node.output(0));
  tc_onnx::AttributeProto& values =
      add_attribute(encoder, "values_strings", tc_onnx::AttributeProto::STRINGS);
  *values.mutable_strings() = names->strings();
  tc_onnx::AttributeProto& keys = add_attribute(encoder, "keys_int64s", tc_onnx::AttributeProto::INTS);
  for (int i = 0; i < values.strings_size(); ++i) keys.add_ints(i);
  attributes.erase(names);
  tc_onnx::AttributeProto& labels = add_attribute(
      classifier, node.op_type() == "TreeEnsembleClassifier" ? "classlabels_int64s" : "classlabels_ints",
      tc_onnx::AttributeProto::INTS);
  *labels.mutable_ints() = keys.ints();
  classifier.set_output(0, number);
  return {std::move(classifier), std::move(encoder)};
}

}  // namespace

bool gives_class_names(const tc_onnx::NodeProto& node) {
  static const std::set<std::string> classifiers = {"LinearClassifier", "SVMClassifier",
                                                    "TreeEnsembleClassifier"};
  if (node.domain() != "ai.onnx.ml" || classifiers.count(node.op_type()) == 0) return false;
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [](const auto& each) { return each.name() == kNames && each.strings_size() > 0; });
}

void number_class_names(tc_onnx::GraphProto& graph) {
  std::set<std::string> taken;
  for (const auto& node : graph.node()) taken.insert(node.output().begin(), node.output().end());
  google::protobuf::RepeatedPtrField<tc_onnx::NodeProto> nodes;
  for (tc_onnx::NodeProto& node : *graph.mutable_node()) {
    if (!gives_class_names(node) || node.output_size() == 0 || node.output(0).empty()) {
      nodes.Add()->Swap(&node);
      continue;
    }
    std::string number = node.output(0) + "_number";
    while (!taken.insert(number).second) number += "_";
    auto [classifier, encoder] = numbered(node, number);
    *nodes.Add() = std::move(classifier);
    *nodes.Add() = std::move(encoder);
  }
  graph.mutable_node()->Swap(&nodes);
}

}  // namespace tc
