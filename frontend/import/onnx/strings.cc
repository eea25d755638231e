#include "frontend/import/onnx/strings.h"

#include <algorithm>
#include <set>

#include "frontend/import/onnx/class_names.h"
#include "frontend/import/onnx/input_shapes.h"
#include "frontend/import/onnx/known_operators.h"
#include "frontend/import/onnx/model_file.h"
#include "frontend/import/onnx/string_shapes.h"
#include "frontend/import/onnx/tensor_reader.h"

namespace tc {
namespace {

constexpr int32_t kString = 8;  // of TensorProto.DataType
constexpr const char* kLearning = "ai.onnx.ml";

bool of_strings(const tc_onnx::TypeProto& type) {
  if (type.has_sequence_type()) return of_strings(type.sequence_type().elem_type());
  if (type.has_optional_type()) return of_strings(type.optional_type().elem_type());
  return type.tensor_type().elem_type() == kString;
}

// Whether the type is a sequence of maps. onnx.proto has no field for maps: they are sequences whose elements
// are of no type that it knows.
bool of_maps(const tc_onnx::TypeProto& type) {
  const tc_onnx::TypeProto& each = type.sequence_type().elem_type();
  return type.has_sequence_type() && !each.has_tensor_type() && !each.has_sequence_type() &&
         !each.has_optional_type();
}

const tc_onnx::AttributeProto* find_attribute(const tc_onnx::NodeProto& node, const std::string& name) {
  for (const auto& each : node.attribute()) {
    if (each.name() == name) return &each;
  }
  return nullptr;
}

bool is_string_tensor(const tc_onnx::NodeProto& node, const std::string& attribute) {
  const tc_onnx::AttributeProto* found = find_attribute(node, attribute);
  return found && found->has_t() && found->t().data_type() == kString;
}

bool decodes_images(const tc_onnx::NodeProto& node) {
  return is_default_domain(node.domain()) && node.op_type() == "ImageDecoder";
}

// Whether a node, whatever its inputs are, works on strings, gives maps or decodes images.
bool is_of_strings(const tc_onnx::NodeProto& node) {
  static const std::set<std::string> all = {"StringConcat", "StringSplit", "StringNormalizer",
                                            "RegexFullMatch"};
  const std::string& type = node.op_type();
  if (node.domain() == kLearning) {
    if (type == "ZipMap" || gives_class_names(node)) return true;
    if (type != "LabelEncoder") return false;
    return find_attribute(node, "keys_strings") || find_attribute(node, "values_strings") ||
           is_string_tensor(node, "keys_tensor") || is_string_tensor(node, "values_tensor");
  }
  if (!is_default_domain(node.domain())) return false;
  if (decodes_images(node)) return true;
  if (type == "Constant" && (find_attribute(node, "value_string") || find_attribute(node, "value_strings")))
    return true;
  const tc_onnx::AttributeProto* to = find_attribute(node, "to");
  if (type == "Cast" && to && to->i() == kString) return true;
  const auto& attributes = node.attribute();
  return all.count(type) || std::any_of(attributes.begin(), attributes.end(), [](const auto& each) {
           return each.has_t() && each.t().data_type() == kString;
         });
}

// The first thing that the graph does and compiled code cannot do, and where; empty where there is none.
std::string first_strings(const tc_onnx::GraphProto& graph) {
  for (const auto& input : graph.input()) {
    if (of_strings(input.type())) return text("works on strings (input '", input.name(), "')");
  }
  for (const auto& tensor : graph.initializer()) {
    if (tensor.data_type() == kString) return text("works on strings (tensor '", tensor.name(), "')");
  }
  for (const auto& node : graph.node()) {
    if (is_of_strings(node))
      return text(decodes_images(node) ? "decodes images (node '" : "works on strings (node '",
                  node_name(node), "')");
    for (const auto& attribute : node.attribute()) {
      const std::string inside = attribute.has_g() ? first_strings(attribute.g()) : "";
      if (!inside.empty()) return inside;
    }
  }
  return "";
}

// Every name that the nodes of a subgraph read.
void collect_reads(const tc_onnx::GraphProto& graph, std::vector<std::string>& reads) {
  for (const auto& node : graph.node()) {
    reads.insert(reads.end(), node.input().begin(), node.input().end());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) collect_reads(attribute.g(), reads);
    }
  }
  for (const auto& output : graph.output()) reads.push_back(output.name());
}

std::vector<std::string> reads_of(const tc_onnx::NodeProto& node) {
  std::vector<std::string> reads(node.input().begin(), node.input().end());
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) collect_reads(attribute.g(), reads);
  }
  return reads;
}

void check_text(const std::string& bytes, const std::string& where) {
  if (!is_utf8(bytes))
    fail(ErrorKind::Model, where, " holds the string '", bytes.substr(0, 64), "', which is not UTF-8");
}

Strings read_strings(const tc_onnx::TensorProto& proto, const std::string& where) {
  Strings result;
  result.shape.assign(proto.dims().begin(), proto.dims().end());
  if (result.shape.size() > 16)
    fail(ErrorKind::Model, where, " has ", result.shape.size(), " dimensions; at most 16 are allowed");
  int64_t count = 0;
  try {
    count = checked_count(result.shape);
  } catch (const Error& error) {
    fail(ErrorKind::Model, where, ": ", error.what());
  }
  if (count != proto.string_data_size()) {
    fail(ErrorKind::Model, where, ": its shape needs ", count, " elements but string_data holds ",
         proto.string_data_size());
  }
  for (const std::string& each : proto.string_data()) {
    check_text(each, where);
    result.values.push_back(each);
  }
  return result;
}

class Split {
 public:
  Split(const Source& source, const ImportOptions& options)
      : source_(source),
        folders_(source.folder),
        options_(options),
        model_(numbered_model(source)),
        graph_(model_.graph()),
        opsets_(opsets_of(model_.opset_import())),
        shapes_(graph_, source.name, options) {}

  HostProgram run() {
    program_.model = graph_.name();
    read_ports();
    for (const auto& tensor : graph_.initializer()) {
      initializers_[tensor.name()] = &tensor;
      define(tensor.name(), {tensor.data_type() == kString, Side::Host, std::nullopt, known_shape(tensor)});
    }
    for (const auto& node : graph_.node()) place(node);
    give_outputs();
    make_rest();
    return std::move(program_);
  }

 private:
  static tc_onnx::ModelProto numbered_model(const Source& source) {
    tc_onnx::ModelProto model = parse_model_file(source.bytes, source.name, source.known_files);
    number_class_names(*model.mutable_graph());
    return model;
  }

  // Where a value is computed: on the host before the compiled part, in the compiled part, or on the host
  // after it.
  enum class Side { Host, Compiled, After };
  struct Known {
    bool strings = false;
    Side side = Side::Host;
    std::optional<DType> dtype;  // of numbers that the host's program computes
    std::optional<Shape> shape;
  };

  static std::optional<Shape> known_shape(const tc_onnx::TensorProto& tensor) {
    Shape shape;
    for (int64_t size : tensor.dims()) shape.push_back(std::max<int64_t>(size, 0));
    return shape;
  }

  void define(const std::string& name, Known known) {
    if (!name.empty()) known_[name] = std::move(known);
  }

  const Known* find(const std::string& name) const {
    const auto found = known_.find(name);
    return found == known_.end() ? nullptr : &found->second;
  }

  int opset_of(const tc_onnx::NodeProto& node) const {
    const auto version = opsets_.find(is_default_domain(node.domain()) ? "" : node.domain());
    return version == opsets_.end() ? 1 : version->second;
  }

  std::string who(const tc_onnx::NodeProto& node) const {
    return Origin{source_.name, node_name(node), full_type(node), opset_of(node)}.str();
  }

  HostPort port_of(const tc_onnx::ValueInfoProto& info, const std::string& what) const {
    const std::string where = text(what, " '", info.name(), "' of ", source_.name);
    check_text(info.name(), where);
    if (what == "output" && of_maps(info.type())) return {info.name(), std::nullopt, std::nullopt, true};
    if (!info.type().has_tensor_type()) {
      fail(ErrorKind::Unsupported, where,
           " is no tensor, and the model has strings; sequences and optionals are not supported beside them");
    }
    HostPort port{info.name(), std::nullopt, shapes_.declared(info)};
    const auto given = options_.input_shapes.find(info.name());
    if (!port.shape && given != options_.input_shapes.end()) port.shape = shape_of(given->second);
    if (info.type().tensor_type().elem_type() != kString)
      port.dtype = dtype_of_onnx(info.type().tensor_type().elem_type(), where);
    return port;
  }

  void read_ports() {
    std::set<std::string> constants;
    for (const auto& tensor : graph_.initializer()) constants.insert(tensor.name());
    for (const auto& input : graph_.input()) {
      if (constants.count(input.name())) continue;
      program_.inputs.push_back(port_of(input, "input"));
      inputs_[input.name()] = &input;
      define(input.name(), {!program_.inputs.back().dtype, Side::Host, program_.inputs.back().dtype,
                            program_.inputs.back().shape});
    }
    for (const auto& output : graph_.output()) program_.outputs.push_back(port_of(output, "output"));
  }

  void place(const tc_onnx::NodeProto& node) {
    bool strings = is_of_strings(node), after = false, host = true;
    for (const std::string& name : reads_of(node)) {
      const Known* known = find(name);
      if (!known) continue;
      strings = strings || known->strings;
      after = after || known->side == Side::After;
      host = host && known->side == Side::Host;
    }
    for (const auto& attribute : node.attribute()) {
      const std::string inside = attribute.has_g() ? first_strings(attribute.g()) : "";
      if (inside.empty()) continue;
      fail(ErrorKind::Unsupported, who(node), " has a subgraph that ", inside,
           ", which is supported outside of subgraphs only");
    }
    if (strings) return place_on_host(node, host);
    if (after) {
      fail(ErrorKind::Unsupported, who(node),
           " reads what is computed from strings that a compiled part gives; "
           "operators on strings run before everything that is compiled or after it");
    }
    const bool constant = is_default_domain(node.domain()) && node.op_type() == "Constant";
    for (const std::string& name : node.output()) {
      define(name, {false, constant ? Side::Host : Side::Compiled, std::nullopt, std::nullopt});
      if (constant) constants_[name] = &node;
    }
    compiled_.push_back(&node);
  }

  void place_on_host(const tc_onnx::NodeProto& node, bool host) {
    HostNode made{node.op_type(),
                  who(node),
                  opset_of(node),
                  {node.input().begin(), node.input().end()},
                  {node.output().begin(), node.output().end()},
                  {},
                  std::nullopt};
    if (!is_host_operator(node)) {
      fail(ErrorKind::Unsupported, made.who, " works on strings; on these there are ", host_operators());
    }
    for (const auto& attribute : node.attribute())
      made.attributes[attribute.name()] = value_of(attribute, made.who);
    if (node.op_type() == "Constant") return define_constant(node, made);
    std::vector<std::optional<Shape>> shapes;
    for (const std::string& name : node.input()) {
      need_constant(name);
      const Known* known = find(name);
      if (!known && !name.empty())
        fail(ErrorKind::Model, made.who, " reads tensor '", name,
             "', which no earlier node, input or initializer defines");
      shapes.push_back(known ? known->shape : std::nullopt);
    }
    for (int i = 0; i < node.output_size(); ++i) {
      const StringResult result = result_of(node, i, shapes);
      define(node.output(i), {!result.dtype, host ? Side::Host : Side::After, result.dtype, result.shape});
      made_.insert(node.output(i));
      if (i == 0) made.result = result.dtype;
    }
    (host ? program_.before : program_.after).push_back(std::move(made));
  }

  void define_constant(const tc_onnx::NodeProto& node, const HostNode& made) {
    if (made.attributes.size() != 1 || node.output_size() != 1)
      fail(ErrorKind::Model, made.who, " must have one value and one output");
    const HostAttribute& value = made.attributes.begin()->second;
    Strings strings;
    if (const auto* one = std::get_if<std::string>(&value)) strings.values = {*one};
    else if (const auto* all = std::get_if<Strings>(&value)) strings = *all;
    else if (const auto* list = std::get_if<std::vector<std::string>>(&value))
      strings = {{static_cast<int64_t>(list->size())}, *list};
    else fail(ErrorKind::Model, made.who, " must have one value and one output");
    define(node.output(0), {true, Side::Host, std::nullopt, shape_of(strings.shape)});
    program_.constants[node.output(0)] = std::move(strings);
  }

  HostAttribute value_of(const tc_onnx::AttributeProto& attribute, const std::string& where) const {
    using Type = tc_onnx::AttributeProto;
    switch (kind_of(attribute)) {
      case Type::INT: return static_cast<int64_t>(attribute.i());
      case Type::FLOAT: return static_cast<double>(attribute.f());
      case Type::INTS: return std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end());
      case Type::FLOATS: return std::vector<double>(attribute.floats().begin(), attribute.floats().end());
      case Type::STRING: check_text(attribute.s(), where); return attribute.s();
      case Type::STRINGS:
        for (const std::string& each : attribute.strings()) check_text(each, where);
        return std::vector<std::string>(attribute.strings().begin(), attribute.strings().end());
      case Type::TENSOR:
        if (attribute.t().data_type() == kString) return read_strings(attribute.t(), where);
        return read_tensor(attribute.t(), folders_, source_.name);
      default:
        fail(ErrorKind::Unsupported, where, ": attribute '", attribute.name(),
             "' has a kind that is not supported");
    }
  }

  // Notes a constant of the model that the host's program reads.
  void need_constant(const std::string& name) {
    if (program_.constants.count(name)) return;
    const auto tensor = initializers_.find(name);
    if (tensor != initializers_.end()) {
      const tc_onnx::TensorProto& proto = *tensor->second;
      if (proto.data_type() == kString)
        program_.constants[name] = read_strings(proto, text("tensor '", name, "' of ", source_.name));
      else program_.constants[name] = read_tensor(proto, folders_, source_.name);
      return;
    }
    const auto node = constants_.find(name);
    if (node == constants_.end()) return;
    for (const auto& attribute : node->second->attribute()) {
      const HostAttribute value = value_of(attribute, who(*node->second));
      if (const auto* data = std::get_if<TensorPtr>(&value)) program_.constants[name] = *data;
      else if (const auto* one = std::get_if<int64_t>(&value))
        program_.constants[name] = integers({}, {*one});
      else if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
        program_.constants[name] = integers({static_cast<int64_t>(list->size())}, *list);
      else
        fail(ErrorKind::Unsupported, who(*node->second), ": attribute '", attribute.name(),
             "' has a kind that is not supported");
    }
  }

  static TensorPtr integers(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
    auto tensor = std::make_shared<Tensor>(DType::I64, std::move(shape));
    for (size_t i = 0; i < values.size(); ++i) tensor->set_int(static_cast<int64_t>(i), values[i]);
    return tensor;
  }

  void give_outputs() {
    for (const HostPort& port : program_.outputs) {
      const Known* known = find(port.name);
      if (!known)
        fail(ErrorKind::Model, "'", source_.name, "': output '", port.name, "' reads tensor '", port.name,
             "', which no earlier node, input or initializer defines");
      need_constant(port.name);
      if (known->side == Side::Compiled) wanted_.push_back(port.name);
    }
    for (const HostNode& node : program_.after) {
      for (const std::string& name : node.inputs) {
        const Known* known = find(name);
        if (known && known->side == Side::Compiled) wanted_.push_back(name);
      }
    }
  }

  // The model without the host's program: numbers that the program computes become inputs, and compiled
  // values that it reads become outputs.
  void make_rest() {
    if (wanted_.empty()) return;
    tc_onnx::GraphProto rest;
    rest.set_name(graph_.name());
    std::set<std::string> taken;
    for (const tc_onnx::NodeProto* node : compiled_) {
      for (const std::string& name : reads_of(*node)) {
        if (taken.insert(name).second) add_operand(rest, name);
      }
      *rest.add_node() = *node;
    }
    std::set<std::string> given;
    for (const std::string& name : wanted_) {
      if (!given.insert(name).second) continue;
      tc_onnx::ValueInfoProto& output = *rest.add_output();
      output.set_name(name);
      // A placeholder: the compiled part tells the real type.
      output.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_number_of(DType::F32));
    }
    model_.mutable_graph()->Swap(&rest);
    Source source{"", source_.name, source_.folder, nullptr};
    if (!model_.SerializeToString(&source.bytes))
      fail(ErrorKind::Unsupported, "'", source_.name, "' has strings and more than 2 GB of constants");
    program_.rest = std::move(source);
  }

  void add_operand(tc_onnx::GraphProto& rest, const std::string& name) {
    const auto tensor = initializers_.find(name);
    if (tensor != initializers_.end()) {
      *rest.add_initializer() = *tensor->second;
      return;
    }
    const auto input = inputs_.find(name);
    if (input != inputs_.end()) {
      *rest.add_input() = *input->second;
      return;
    }
    if (!made_.count(name)) return;
    const Known& known = *find(name);
    if (!known.shape || !known.dtype) {
      fail(ErrorKind::Unsupported, "tensor '", name, "' of ", source_.name,
           " is computed from strings, and its ", known.dtype ? "number of dimensions" : "type",
           " is not known, for which the rest would be compiled");
    }
    tc_onnx::ValueInfoProto& info = *rest.add_input();
    info.set_name(name);
    info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_number_of(*known.dtype));
    tc_onnx::TensorShapeProto& shape = *info.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (const Dim& dim : *known.shape) {
      if (dim.is_constant()) shape.add_dim()->set_dim_value(dim.constant());
      else if (dim.is_symbol()) shape.add_dim()->set_dim_param(dim.str());
      else shape.add_dim();
    }
  }

  const Source& source_;
  const DataFolders folders_;
  const ImportOptions& options_;
  tc_onnx::ModelProto model_;
  const tc_onnx::GraphProto& graph_;
  Opsets opsets_;
  InputShapes shapes_;
  HostProgram program_;
  std::map<std::string, Known> known_;
  std::map<std::string, const tc_onnx::TensorProto*> initializers_;
  std::map<std::string, const tc_onnx::ValueInfoProto*> inputs_;
  std::map<std::string, const tc_onnx::NodeProto*> constants_;  // that are numbers
  std::set<std::string> made_;                                  // names that the host's program computes
  std::vector<const tc_onnx::NodeProto*> compiled_;
  std::vector<std::string> wanted_;  // outputs that the compiled part has to give
};

}  // namespace

HasStrings::HasStrings(const std::string& file_name, const std::string& what)
    : Error(ErrorKind::Unsupported,
            text("'", file_name, "' ", what,
                 ", which no compiled code does; tc.compile makes a "
                 "module that runs such operators in Python, before what is compiled and after it")) {}

void refuse_strings(const tc_onnx::GraphProto& graph, const std::string& file_name) {
  const std::string what = first_strings(graph);
  if (!what.empty()) throw HasStrings(file_name, what);
}

HostProgram split_strings(const Source& source, const ImportOptions& options) {
  return Split(source, options).run();
}

}  // namespace tc
