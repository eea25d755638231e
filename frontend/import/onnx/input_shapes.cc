// The shapes of a model's inputs: what the file says, with the sizes and symbols that the options give.
#include "frontend/import/onnx/input_shapes.h"

#include <algorithm>
#include <set>

#include "frontend/import/onnx/model_file.h"
#include "frontend/import/onnx/sequences.h"
#include "frontend/import/onnx/strings.h"
#include "frontend/import/onnx/tensor_reader.h"
#include "ir/error.h"

namespace tc {
namespace {

constexpr int64_t kLargestSymbol = int64_t{1} << 31;

std::string symbol_name(const std::string& given, const std::string& input, int axis) {
  std::string name;
  for (char c : given == "?" || given == "None" || given == "-1" ? std::string() : given) {
    name += isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  }
  if (name.empty()) {
    for (char c : input) name += isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
    name += text("_", axis);
  }
  if (isdigit(static_cast<unsigned char>(name[0]))) name = "_" + name;
  return name;
}

}  // namespace

Dim InputShapes::file_dim(const tc_onnx::TensorShapeProto::Dimension& dim, const std::string& input,
                          int axis) const {
  if (dim.has_dim_value() && dim.dim_value() > 0) {
    if (dim.dim_value() > (int64_t{1} << 40)) {
      fail(ErrorKind::Model, "input '", input, "' of ", file_name_, ": axis ", axis, " has size ",
           dim.dim_value());
    }
    return dim.dim_value();
  }
  if (dim.has_dim_value() && dim.dim_value() == 0 && !dim.has_dim_param()) return 0;
  return Dim::symbol(symbol_name(dim.dim_param(), input, axis));
}

const std::vector<int64_t>* InputShapes::given_shape(const std::string& input) const {
  const auto constant = options_.constants.find(input);
  if (constant != options_.constants.end()) return &constant->second->shape;
  const auto shape = options_.input_shapes.find(input);
  return shape == options_.input_shapes.end() ? nullptr : &shape->second;
}

InputShapes::InputShapes(const tc_onnx::GraphProto& graph, const std::string& file_name,
                         const ImportOptions& options)
    : file_name_(file_name), options_(options) {
  const std::set<std::string> initializers = constants_of(graph, file_name, options);
  std::set<std::string> inputs;
  for (const auto& [name, value] : options_.symbols) bound_[name] = Dim(value);
  for (const auto& input : graph.input()) {
    if (initializers.count(input.name())) continue;
    inputs.insert(input.name());
    const std::vector<int64_t>* given = given_shape(input.name());
    if (!given) continue;
    const auto& shape = input.type().tensor_type().shape();
    if (input.type().tensor_type().has_shape() && shape.dim_size() != static_cast<int>(given->size())) {
      fail(ErrorKind::Shape, "input '", input.name(), "' of ", file_name_, " has ", shape.dim_size(),
           " dimensions, but the shape given for it has ", given->size());
    }
    for (int axis = 0; axis < shape.dim_size(); ++axis) {
      const int64_t size = (*given)[static_cast<size_t>(axis)];
      if (size < 0) continue;
      const Dim dim = file_dim(shape.dim(axis), input.name(), axis);
      if (dim.is_symbol()) {
        auto [found, fresh] = bound_.try_emplace(dim.str(), Dim(size));
        if (!fresh && found->second != Dim(size)) {
          fail(ErrorKind::Shape, "input '", input.name(), "' of ", file_name_, ": symbol '", dim.str(),
               "' is ", size, " on axis ", axis, " but ", found->second.str(), " elsewhere");
        }
      } else if (dim != Dim(size)) {
        fail(ErrorKind::Shape, "input '", input.name(), "' of ", file_name_, ": axis ", axis, " is ",
             dim.str(), " in the model, but ", size, " is given");
      }
    }
  }
  for (const auto& input : graph.input()) bind_by_form(input);
  find_ranges(graph, inputs);
  for (const auto& [name, value] : options_.constants) {
    if (inputs.count(name)) continue;
    fail(ErrorKind::Shape, "a constant is given for '", name, "', which is no input of ", file_name_);
  }
  for (const auto& [name, shape] : options_.input_shapes) {
    if (inputs.count(name) || ranges_.count(name)) continue;
    std::string all;
    for (const std::string& input : inputs) all += text(all.empty() ? "'" : ", '", input, "'");
    fail(ErrorKind::Shape, "a shape is given for '", name, "', which is no input of ", file_name_,
         "; its inputs are ", all);
  }
  find_caches(graph);
}

void InputShapes::fail_unknown_symbol(const std::string& name, int64_t size, bool is_input,
                                      const std::set<std::string>& symbols) const {
  std::string known;
  for (const std::string& symbol : symbols) known += text(known.empty() ? "'" : ", '", symbol, "'");
  fail(ErrorKind::Shape, "the size ", size, " is given for '", name,
       "', which is no symbol of the inputs of ", file_name_, "; ",
       known.empty() ? "it has none" : "its symbols are " + known,
       is_input ? text("; the shape of the input '", name, "' of one dimension is (", size,
                       ",), on the command line ", name, "=", size, ",")
                : "");
}

// Two numbers that are given for a symbol of the inputs are its range.
void InputShapes::find_ranges(const tc_onnx::GraphProto& graph, const std::set<std::string>& inputs) {
  std::set<std::string> symbols;
  for (const auto& input : graph.input()) {
    const auto& shape = tensor_type_of(input.type()).shape();
    for (int axis = 0; inputs.count(input.name()) && axis < shape.dim_size(); ++axis)
      file_dim(shape.dim(axis), input.name(), axis).collect_symbols(symbols);
  }
  for (const auto& [name, size] : options_.symbols) {
    if (!symbols.count(name)) fail_unknown_symbol(name, size, inputs.count(name) > 0, symbols);
  }
  for (const auto& [name, given] : options_.input_shapes) {
    if (inputs.count(name) || !symbols.count(name)) continue;
    if (given.size() != 2) {
      fail(ErrorKind::Shape, "symbol '", name, "' of ", file_name_, " is given ", given.size(),
           " numbers; give one, or the least and the largest size as (1, 512)");
    }
    const int64_t least = given[0] < 0 ? 1 : given[0], largest = given[1] < 0 ? kLargestSymbol : given[1];
    if (least > largest || largest > kLargestSymbol) {
      fail(ErrorKind::Shape, "symbol '", name, "' of ", file_name_, " is given the range ", least, " to ",
           largest, "; it has to begin below its end, which is at most ", kLargestSymbol);
    }
    const auto known = bound_.find(name);
    if (known != bound_.end() && (known->second.constant() < least || known->second.constant() > largest)) {
      fail(ErrorKind::Shape, "symbol '", name, "' of ", file_name_, " is ", known->second.str(),
           ", but is given the range ", least, " to ", largest);
    }
    if (least == largest) bound_.try_emplace(name, Dim(least));
    ranges_[name] = {least, largest};
  }
}

namespace {

// For operators that append new elements to a cache: which operands are caches, and along which axis they
// grow.
struct CacheOperands {
  std::vector<int> operands;
  int axis;
};
const std::map<std::pair<std::string, std::string>, CacheOperands> kCaches = {
    {{"", "Attention"}, {{4, 5}, 2}},
    {{"com.microsoft", "Attention"}, {{4}, 3}},
    {{"com.microsoft", "GroupQueryAttention"}, {{3, 4}, 2}},
    {{"com.microsoft", "MultiHeadAttention"}, {{6, 7}, 2}},
};

// The operands to which the node joins something else, and the axis; a negative axis counts from the end.
CacheOperands joined_operands(const tc_onnx::NodeProto& node) {
  const auto row = kCaches.find({node.domain() == "ai.onnx" ? "" : node.domain(), node.op_type()});
  if (row != kCaches.end()) return row->second;
  if (node.op_type() != "Concat" || !node.domain().empty() || node.input_size() < 2) return {{}, 0};
  CacheOperands all{{}, 1};  // the default of the first opsets
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == "axis") all.axis = static_cast<int>(std::clamp<int64_t>(attribute.i(), -16, 16));
  }
  for (int i = 0; i < node.input_size(); ++i) all.operands.push_back(i);
  return all;
}

}  // namespace

void InputShapes::find_caches(const tc_onnx::GraphProto& graph) {
  std::map<std::string, const tc_onnx::TensorShapeProto*> shapes;
  for (const auto& input : graph.input()) {
    if (input.type().tensor_type().has_shape()) shapes[input.name()] = &input.type().tensor_type().shape();
  }
  for (const auto& node : graph.node()) {
    const CacheOperands joined = joined_operands(node);
    for (int operand : joined.operands) {
      const auto found = operand < node.input_size() ? shapes.find(node.input(operand)) : shapes.end();
      if (found == shapes.end()) continue;
      const int axis = joined.axis < 0 ? joined.axis + found->second->dim_size() : joined.axis;
      if (axis < 0 || axis >= found->second->dim_size()) continue;
      const Dim size = file_dim(found->second->dim(axis), found->first, axis);
      if (size.is_symbol() && !bound_.count(size.str())) ranges_.try_emplace(size.str(), 0, kLargestSymbol);
    }
  }
}

void InputShapes::bind_by_form(const tc_onnx::ValueInfoProto& input) {
  const auto form = options_.forms.find(input.name());
  if (form == options_.forms.end() || input.type().has_tensor_type()) return;
  const tc_onnx::TensorShapeProto& declared = tensor_type_of(input.type()).shape();
  for (int axis = 0; axis < declared.dim_size(); ++axis) {
    const Dim dim = file_dim(declared.dim(axis), input.name(), axis);
    std::set<int64_t> sizes;
    for (const std::vector<int64_t>& shape : form->second.shapes) {
      sizes.insert(declared.dim_size() == static_cast<int>(shape.size()) ? shape[static_cast<size_t>(axis)]
                                                                         : -1);
    }
    if (dim.is_symbol() && sizes.size() == 1 && *sizes.begin() >= 0)
      bound_.try_emplace(dim.str(), Dim(*sizes.begin()));
  }
}

Shape InputShapes::shape_of(Graph& graph, const tc_onnx::ValueInfoProto& input) const {
  const auto& type = input.type().tensor_type();
  Shape shape;
  if (!type.has_shape()) {
    const std::vector<int64_t>* given = given_shape(input.name());
    if (!given) {
      fail(ErrorKind::Shape, "input '", input.name(), "' of ", file_name_,
           " has no shape; give one with shapes={'", input.name(), "': (…)}");
    }
    return tc::shape_of(*given);
  }
  if (type.shape().dim_size() > 16) {
    fail(ErrorKind::Model, "input '", input.name(), "' of ", file_name_, " has ", type.shape().dim_size(),
         " dimensions; at most 16 are allowed");
  }
  for (int axis = 0; axis < type.shape().dim_size(); ++axis) {
    Dim dim = file_dim(type.shape().dim(axis), input.name(), axis).substitute(bound_);
    std::set<std::string> names;
    dim.collect_symbols(names);
    for (const std::string& name : names) {
      const auto range = ranges_.find(name);
      graph.symbols[name] = range == ranges_.end() ? std::pair(int64_t{1}, kLargestSymbol) : range->second;
    }
    shape.push_back(dim);
  }
  return shape;
}

std::optional<Shape> InputShapes::declared(const tc_onnx::ValueInfoProto& port) const {
  const auto& type = port.type().tensor_type();
  if (!type.has_shape() || type.shape().dim_size() > 16) return std::nullopt;
  Shape shape;
  for (int axis = 0; axis < type.shape().dim_size(); ++axis) {
    shape.push_back(file_dim(type.shape().dim(axis), port.name(), axis).substitute(bound_));
  }
  return shape;
}

std::set<std::string> constants_of(const tc_onnx::GraphProto& graph, const std::string& file_name,
                                   const ImportOptions& options) {
  std::set<std::string> constants, inputs, open;
  for (const auto& input : graph.input()) inputs.insert(input.name());
  for (const auto& tensor : graph.initializer()) {
    (options.open_initializers.count(tensor.name()) && inputs.count(tensor.name()) ? open : constants)
        .insert(tensor.name());
  }
  for (const std::string& name : options.open_initializers) {
    if (open.count(name)) continue;
    std::string both;
    for (const std::string& each : constants)
      both += inputs.count(each) ? text(both.empty() ? "'" : ", '", each, "'") : "";
    fail(ErrorKind::Shape, "open_initializers: '", name, "' is no input of ", file_name,
         " that has an initializer too; ", both.empty() ? "it has none" : "those are " + both);
  }
  return constants;
}

Signature declared_signature(const tc_onnx::GraphProto& graph, const std::string& file_name,
                             const ImportOptions& options) {
  refuse_strings(graph, file_name);
  const InputShapes shapes(graph, file_name, options);
  std::set<std::string> bound = constants_of(graph, file_name, options);
  for (const auto& [name, value] : options.constants) bound.insert(name);
  Signature signature;
  signature.model = graph.name();
  for (const bool input : {true, false}) {
    for (const auto& port : input ? graph.input() : graph.output()) {
      if (input && bound.count(port.name())) continue;
      const std::string who = text(input ? "input '" : "output '", port.name(), "' of ", file_name);
      const PortKind kind = kind_of_type(port.type(), who);
      if (!is_utf8(port.name())) fail(ErrorKind::Model, who, " has a name that is not UTF-8");
      const DType dtype = dtype_of_onnx(tensor_type_of(port.type()).elem_type(), who);
      (input ? signature.inputs : signature.outputs)
          .push_back(
              {port.name(), dtype, kind == PortKind::Tensor ? shapes.declared(port) : std::nullopt, kind});
    }
  }
  return signature;
}

}  // namespace tc
