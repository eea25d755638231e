#include "frontend/import/onnx/description.h"

#include "frontend/import/onnx/tensor_reader.h"
#include "ir/error.h"

namespace tc {
namespace {

void set_value(tc_onnx::AttributeProto& proto, const DescribedAttribute& value) {
  using Type = tc_onnx::AttributeProto;
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    proto.set_type(Type::INT);
    proto.set_i(*integer);
  } else if (const auto* number = std::get_if<double>(&value)) {
    proto.set_type(Type::FLOAT);
    proto.set_f(static_cast<float>(*number));
  } else if (const auto* words = std::get_if<std::string>(&value)) {
    proto.set_type(Type::STRING);
    proto.set_s(*words);
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    proto.set_type(Type::INTS);
    proto.mutable_ints()->Add(integers->begin(), integers->end());
  } else if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    proto.set_type(Type::FLOATS);
    for (double each : *numbers) proto.add_floats(static_cast<float>(each));
  } else {
    proto.set_type(Type::STRINGS);
    for (const std::string& each : std::get<std::vector<std::string>>(value)) proto.add_strings(each);
  }
}

void set_domain_version(tc_onnx::ModelProto& model, const std::string& domain, int version) {
  auto& import = *model.add_opset_import();
  import.set_domain(domain);
  import.set_version(version);
}

}  // namespace

void GraphDescription::add_input(const std::string& name, DType dtype,
                                 const std::vector<DescribedSize>& sizes) {
  auto& input = *proto_.add_input();
  input.set_name(name);
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx_number_of(dtype));
  auto& shape = *type.mutable_shape();  // a shape of rank 0 where there are no sizes
  for (const DescribedSize& size : sizes) {
    auto& dim = *shape.add_dim();
    if (const auto* number = std::get_if<int64_t>(&size)) dim.set_dim_value(*number);
    else dim.set_dim_param(std::get<std::string>(size));
  }
}

void GraphDescription::add_formal(const std::string& name) { proto_.add_input()->set_name(name); }

void GraphDescription::add_node(const DescribedNode& node) {
  auto& proto = *proto_.add_node();
  proto.set_op_type(node.op);
  proto.set_domain(node.domain);
  proto.set_name(node.name);
  proto.set_source(node.source);
  for (const std::string& each : node.inputs) proto.add_input(each);
  for (const std::string& each : node.outputs) proto.add_output(each);
  for (const auto& [name, value] : node.attributes) {
    auto& attribute = *proto.add_attribute();
    attribute.set_name(name);
    set_value(attribute, value);
  }
  for (const auto& [name, graph] : node.graphs) {
    auto& attribute = *proto.add_attribute();
    attribute.set_name(name);
    attribute.set_type(tc_onnx::AttributeProto::GRAPH);
    *attribute.mutable_g() = graph->proto();
  }
}

void GraphDescription::add_output(const std::string& name, DType dtype) {
  auto& output = *proto_.add_output();
  output.set_name(name);
  output.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_number_of(dtype));
}

void ModelDescription::add_constant(const std::string& name, TensorPtr data) {
  TC_CHECK(tensors_.emplace(name, std::move(data)).second, "constant ", name, " is there already");
}

void ModelDescription::set_range(const std::string& symbol, int64_t minimum, int64_t maximum) {
  ranges_[symbol] = {minimum, maximum};
}

tc_onnx::ModelProto ModelDescription::proto() const {
  tc_onnx::ModelProto model;
  *model.mutable_graph() = graph_->proto();
  set_domain_version(model, "", kDescribedOpset);
  set_domain_version(model, "ai.onnx.ml", 5);
  set_domain_version(model, "com.microsoft", 1);
  return model;
}

}  // namespace tc
