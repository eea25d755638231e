// ai.onnx.ml's LabelEncoder from numbers to numbers; where either are strings, the host runs it
// (frontend/tc/host_operators.py).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "ir/ops/classifier.h"

namespace tc {
namespace {

constexpr int64_t kMaxLabels = 1 << 20;
constexpr int64_t kLargestTable = 1 << 22;  // largest table indexed by integer keys
constexpr int64_t kMaxCompared = 1 << 14;   // most keys that an element is compared with

// A number without rounding: doubles cannot represent all 64-bit integers.
struct Label {
  bool whole = false;
  int64_t integer = 0;
  double number = 0;
};

std::vector<Label> labels_of(const Node& node, const std::string& kind) {
  std::vector<Label> labels;
  if (has_attribute(node, kind + "_int64s")) {
    for (int64_t each : ints_attribute(node, kind + "_int64s"))
      labels.push_back({true, each, static_cast<double>(each)});
  } else if (has_attribute(node, kind + "_floats")) {
    for (double each : floats_attribute(node, kind + "_floats")) labels.push_back({false, 0, each});
  } else if (has_attribute(node, kind + "_tensor")) {
    const TensorPtr tensor = tensor_attribute(node, kind + "_tensor");
    if (tensor->count() > kMaxLabels)
      fail(ErrorKind::Unsupported, node.origin.str(), ": attribute '", kind, "_tensor' has ", tensor->count(),
           " elements, over the limit of ", kMaxLabels);
    for (int64_t i = 0; i < tensor->count(); ++i)
      labels.push_back(
          {!is_float(tensor->dtype), is_float(tensor->dtype) ? 0 : tensor->as_int(i), tensor->as_double(i)});
  } else {
    fail(ErrorKind::Model, node.origin.str(), " lacks attribute '", kind, "_int64s'");
  }
  return labels;
}

DType result_type(const Node& node) {
  if (has_attribute(node, "values_int64s")) return DType::I64;
  if (has_attribute(node, "values_floats")) return DType::F32;
  if (has_attribute(node, "values_tensor")) return tensor_attribute(node, "values_tensor")->dtype;
  fail(ErrorKind::Model, node.origin.str(), " lacks attribute 'values_int64s'");
}

struct Encoding {
  std::vector<Label> keys, values;  // the last of equal keys counts
  Label otherwise;
  DType type = DType::I64;
};

Encoding encoding_of(const Node& node) {
  Encoding encoding{labels_of(node, "keys"), labels_of(node, "values"), {}, result_type(node)};
  if (encoding.keys.size() != encoding.values.size() || encoding.keys.empty()) {
    fail(ErrorKind::Model, node.origin.str(), " has ", encoding.keys.size(), " keys and ",
         encoding.values.size(), " values; each key needs one value");
  }
  if (has_attribute(node, "default_tensor") && tensor_attribute(node, "default_tensor")->count() == 1) {
    const TensorPtr tensor = tensor_attribute(node, "default_tensor");
    encoding.otherwise = {!is_float(tensor->dtype), is_float(tensor->dtype) ? 0 : tensor->as_int(0),
                          tensor->as_double(0)};
  } else if (is_float(encoding.type)) {
    encoding.otherwise = {false, 0, float_attribute(node, "default_float")};
  } else {
    const int64_t otherwise = int_attribute(node, "default_int64");
    encoding.otherwise = {true, otherwise, static_cast<double>(otherwise)};
  }
  return encoding;
}

TensorPtr values_tensor(DType type, const std::vector<Label>& values) {
  auto tensor = std::make_shared<Tensor>(type, std::vector<int64_t>{static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].whole) tensor->set_int(static_cast<int64_t>(i), values[i].integer);
    else tensor->set(static_cast<int64_t>(i), values[i].number);
  }
  return tensor;
}

void infer_encoder(InferContext& context) {
  const Encoding encoding = encoding_of(context.node());
  context.set_output(0, encoding.type, context.shape(0));
}

// Looks values up in a table that is indexed by the key minus the least key; the default comes last.
ValueId by_table(NodeBuilder& build, ValueId input, const Encoding& encoding, int64_t least, int64_t count) {
  std::vector<Label> table(static_cast<size_t>(count) + 1, encoding.otherwise);
  for (size_t i = 0; i < encoding.keys.size(); ++i)
    table[static_cast<size_t>(encoding.keys[i].integer - least)] = encoding.values[i];
  const ValueId wide = build.cast(input, DType::I64);
  const ValueId place = build.add("Sub", {wide, build.integer(DType::I64, least)});
  const ValueId outside =
      build.add("Or", {build.add("Less", {wide, build.integer(DType::I64, least)}),
                       build.add("Greater", {wide, build.integer(DType::I64, least + count - 1)})});
  const ValueId known = build.add("Where", {outside, build.integer(DType::I64, count), place});
  return build.add("Gather", {build.constant(values_tensor(encoding.type, table)), known},
                   {{"axis", int64_t{0}}});
}

// Each element is compared with all keys.
ValueId by_comparing(NodeBuilder& build, ValueId input, const Encoding& encoding) {
  const DType type = build.dtype(input);
  std::vector<Label> keys, values;
  Label of_nan = encoding.otherwise;
  bool has_nan = false;
  // From the end, so that the last of equal keys is found first.
  for (size_t i = encoding.keys.size(); i-- > 0;) {
    if (std::isnan(encoding.keys[i].number)) {
      if (!has_nan) of_nan = encoding.values[i];
      has_nan = true;
      continue;
    }
    keys.push_back(encoding.keys[i]);
    values.push_back(encoding.values[i]);
  }
  const auto one = [&](const Label& label) {
    return label.whole ? build.integer(encoding.type, label.integer)
                       : build.number(encoding.type, label.number);
  };
  ValueId result = kNoValue;
  if (keys.empty()) {
    result = build.add("Expand", {one(encoding.otherwise)}, {{"shape", build.shape(input)}});
  } else {
    const ValueId apart = build.add("Unsqueeze", {input}, {{"axes", std::vector<int64_t>{-1}}});
    const ValueId equal =
        build.cast(build.add("Equal", {apart, build.constant(values_tensor(type, keys))}), DType::F32);
    const ValueId place = build.add("ArgMax", {equal}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}});
    const ValueId found =
        build.add("ReduceMax", {equal}, {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{0}}});
    const ValueId value = build.add("Gather", {build.constant(values_tensor(encoding.type, values)), place},
                                    {{"axis", int64_t{0}}});
    result = build.add("Where", {build.add("Greater", {found, build.number(DType::F32, 0)}), value,
                                 one(encoding.otherwise)});
  }
  return has_nan ? build.add("Where", {build.add("IsNaN", {input}), one(of_nan), result}) : result;
}

std::vector<Node> expand_encoder(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Encoding encoding = encoding_of(node);
  const ValueId input = node.inputs[0];
  const bool whole =
      std::all_of(encoding.keys.begin(), encoding.keys.end(), [](const Label& key) { return key.whole; });
  if (is_integer(build.dtype(input)) && whole) {
    const auto [least, most] =
        std::minmax_element(encoding.keys.begin(), encoding.keys.end(),
                            [](const Label& a, const Label& b) { return a.integer < b.integer; });
    const uint64_t span = static_cast<uint64_t>(most->integer) - static_cast<uint64_t>(least->integer);
    if (span < static_cast<uint64_t>(kLargestTable) && span <= 1024 + 16 * encoding.keys.size()) {
      build.give(0, by_table(build, input, encoding, least->integer, static_cast<int64_t>(span) + 1));
      return build.take();
    }
  }
  if (static_cast<int64_t>(encoding.keys.size()) > kMaxCompared) {
    fail(ErrorKind::Unsupported, node.origin.str(), " has ", encoding.keys.size(),
         " keys that are no integers close to each other; at most ", kMaxCompared, " are supported");
  }
  build.give(0, by_comparing(build, input, encoding));
  return build.take();
}

}  // namespace

void register_label_encoder(OpTable& table) {
  const std::vector<int64_t> ints;
  const std::vector<double> floats;
  const std::vector<std::string> words;
  OpRow row = ml_row("LabelEncoder", "The value that a table has for each element, or a default.",
                     infer_encoder, expand_encoder);
  row.onnx = {{"LabelEncoder", 2, nullptr, "ai.onnx.ml"}};
  row.types = {{kWideNumbers, {0}}};
  row.attributes = {
      {"keys_int64s", ints},          {"keys_floats", floats},   {"keys_tensor", TensorPtr()},
      {"values_int64s", ints},        {"values_floats", floats}, {"values_tensor", TensorPtr()},
      {"default_int64", int64_t{-1}}, {"default_float", -0.0},   {"default_string", std::string("_Unused")},
      {"default_tensor", TensorPtr()}};
  table.add(std::move(row));
}

}  // namespace tc
