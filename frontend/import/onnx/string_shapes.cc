#include "frontend/import/onnx/string_shapes.h"

#include <algorithm>

#include "frontend/import/onnx/model_file.h"
#include "frontend/import/onnx/tensor_reader.h"
#include "ir/error.h"

namespace tc {
namespace {

constexpr int32_t kString = 8;  // in TensorProto.DataType
const char* const kHostOperators[] = {
    "StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "Equal",     "Cast",
    "Concat",       "Constant",    "Flatten",          "Gather",         "Identity",  "Reshape",
    "Shape",        "Size",        "Squeeze",          "Transpose",      "Unsqueeze", "Where"};
constexpr const char* kImages = "ImageDecoder";  // on the host, though it takes no strings
const char* const kLearningOperators[] = {"ArrayFeatureExtractor", "LabelEncoder", "OneHotEncoder", "ZipMap"};

const tc_onnx::AttributeProto* find_attribute(const tc_onnx::NodeProto& node, const std::string& name) {
  for (const auto& each : node.attribute()) {
    if (each.name() == name) return &each;
  }
  return nullptr;
}

bool gives_grey(const tc_onnx::NodeProto& node) {
  const tc_onnx::AttributeProto* format = find_attribute(node, "pixel_format");
  return format && format->s() == "Grayscale";
}

// A symbol for a size that is known only in a run.
Dim open_size(const tc_onnx::NodeProto& node, int output, size_t axis) {
  std::string name;
  for (char c : node.output(output)) name += isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return Dim::symbol(text("_", name, "_", axis));
}

std::optional<Shape> broadcast(const tc_onnx::NodeProto& node, int output,
                               const std::vector<std::optional<Shape>>& shapes) {
  Shape result;
  for (const std::optional<Shape>& shape : shapes) {
    if (!shape) return std::nullopt;
    if (shape->size() > result.size()) result.insert(result.begin(), shape->size() - result.size(), Dim(1));
    for (size_t i = 0; i < shape->size(); ++i) {
      Dim& known = result[result.size() - shape->size() + i];
      const Dim& other = (*shape)[i];
      if (known == Dim(1)) known = other;
      else if (other != Dim(1) && other != known) known = open_size(node, output, i);
    }
  }
  return result;
}

// The element type of a LabelEncoder's result; nothing for strings.
std::optional<DType> label_type(const tc_onnx::NodeProto& node) {
  if (find_attribute(node, "values_int64s")) return DType::I64;
  if (find_attribute(node, "values_floats")) return DType::F32;
  const tc_onnx::AttributeProto* values = find_attribute(node, "values_tensor");
  if (!values || values->t().data_type() == kString) return std::nullopt;
  return dtype_of_onnx(values->t().data_type(),
                       text("attribute 'values_tensor' of node '", node.name(), "'"));
}

StringResult learning_result(const tc_onnx::NodeProto& node, const std::optional<Shape>& shape) {
  if (node.op_type() == "LabelEncoder") return {label_type(node), shape};
  if (node.op_type() == "ZipMap") return {};
  if (node.op_type() == "ArrayFeatureExtractor") {
    StringResult result{std::nullopt, shape};
    if (result.shape && result.shape->size() == 1) result.shape->insert(result.shape->begin(), Dim(1));
    if (result.shape && !result.shape->empty())
      result.shape->back() = open_size(node, 0, result.shape->size() - 1);
    return result;
  }
  StringResult result{DType::F32, shape};
  const tc_onnx::AttributeProto* categories = find_attribute(node, "cats_strings");
  if (result.shape) result.shape->push_back(categories ? categories->strings_size() : 0);
  return result;
}

// The shape of the result of an operator that is not elementwise.
std::optional<Shape> moved_shape(const tc_onnx::NodeProto& node, int output,
                                 const std::vector<std::optional<Shape>>& shapes) {
  const std::string& type = node.op_type();
  if (shapes.empty() || !shapes[0]) return std::nullopt;
  Shape shape = *shapes[0];
  if (type == "StringSplit" && output == 0) {
    shape.push_back(open_size(node, output, shape.size()));
  } else if (type == "StringNormalizer" && !shape.empty()) {
    shape.back() = open_size(node, output, shape.size() - 1);
  } else if (type == "Concat") {
    // The sizes along the joined axis are not added up here; the run knows the sum.
    for (size_t i = 0; i < shape.size(); ++i) shape[i] = open_size(node, output, i);
  } else if (type == "Shape") {
    return Shape{static_cast<int64_t>(shape.size())};
  } else if (type == "Size") {
    return Shape{};
  } else if (type == "Flatten") {
    return Shape{open_size(node, output, 0), open_size(node, output, 1)};
  } else if (type == "Reshape" || type == "Gather" || type == "Squeeze" || type == "Unsqueeze" ||
             type == "Transpose") {
    return std::nullopt;
  }
  return shape;
}

}  // namespace

bool is_host_operator(const tc_onnx::NodeProto& node) {
  const auto known = [&](const auto& all) {
    return std::find(std::begin(all), std::end(all), node.op_type()) != std::end(all);
  };
  if (node.domain() == "ai.onnx.ml") return known(kLearningOperators);
  return is_default_domain(node.domain()) && (node.op_type() == kImages || known(kHostOperators));
}

std::string host_operators() {
  std::string list;
  for (const char* name : kHostOperators) list += text(list.empty() ? "" : ", ", name);
  for (const char* name : kLearningOperators) list += text(", ai.onnx.ml::", name);
  return list;
}

StringResult result_of(const tc_onnx::NodeProto& node, int output,
                       const std::vector<std::optional<Shape>>& shapes) {
  const std::string& type = node.op_type();
  if (!is_default_domain(node.domain()))
    return learning_result(node, shapes.empty() ? std::nullopt : shapes[0]);
  if (type == kImages)
    return {DType::U8,
            Shape{open_size(node, output, 0), open_size(node, output, 1), Dim(gives_grey(node) ? 1 : 3)}};
  if (type == "StringConcat" || type == "Where") return {std::nullopt, broadcast(node, output, shapes)};
  if (type == "Equal") return {DType::Bool, broadcast(node, output, shapes)};
  const std::optional<Shape> shape = moved_shape(node, output, shapes);
  if (type == "RegexFullMatch") return {DType::Bool, shape};
  if (type == "Shape" || type == "Size" || (type == "StringSplit" && output == 1)) return {DType::I64, shape};
  if (type == "Cast") {
    const tc_onnx::AttributeProto* to = find_attribute(node, "to");
    if (!to || to->i() == kString) return {std::nullopt, shape};
    return {dtype_of_onnx(static_cast<int32_t>(std::clamp<int64_t>(to->i(), 0, 1 << 20)),
                          text("attribute 'to' of node '", node.name(), "'")),
            shape};
  }
  return {std::nullopt, shape};
}

}  // namespace tc
