#include "frontend/import/onnx/sequences.h"

#include <algorithm>
#include <set>

#include "frontend/import/onnx/outputs.h"
#include "frontend/import/onnx/tensor_reader.h"
#include "ir/error.h"
#include "ir/ops/depends_on_data.h"
#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 31;

// The form that the options give for an input which is no tensor. For an optional they may give the shape of
// its tensor instead.
std::optional<InputForm> form_of(const tc_onnx::ValueInfoProto& input, PortKind kind,
                                 const ImportOptions& options) {
  const auto form = options.forms.find(input.name());
  if (form != options.forms.end()) return form->second;
  const auto shape = options.input_shapes.find(input.name());
  if (shape == options.input_shapes.end()) return std::nullopt;
  // An empty list also stands for a sequence without tensors.
  if (holds_sequence(kind) && shape->second.empty()) return InputForm();
  if (kind != PortKind::Optional) return std::nullopt;
  return InputForm{true, {shape->second}};
}

const tc_onnx::AttributeProto* find_attribute(const tc_onnx::NodeProto& node, const std::string& name) {
  for (const auto& each : node.attribute()) {
    if (each.name() == name) return &each;
  }
  return nullptr;
}

// One node whose operator acts on sequences or optionals.
class SequenceOperator {
 public:
  SequenceOperator(const tc_onnx::NodeProto& proto, NameScope& scope, int depth, NodeImporter& importer)
      : proto_(proto),
        scope_(scope),
        depth_(depth),
        importer_(importer),
        node_(importer.described(proto, scope)),
        who_(node_.origin.str()) {}

  void run();

 private:
  Graph& graph() { return *scope_.graph; }
  [[noreturn]] void refuse(ErrorKind kind, const std::string& why) const { fail(kind, who_, " ", why); }

  // --- operands ---
  bool has(int i) const { return i < proto_.input_size() && !proto_.input(i).empty(); }
  const std::string& input_name(int i) const;
  ValueId tensor(int i) { return importer_.resolve(input_name(i), scope_, who_); }
  Binding binding(int i) { return binding_of(importer_, input_name(i), scope_, who_); }
  Composite sequence(int i);
  int64_t integer(const std::string& attribute, int64_t fallback) const;
  std::vector<int64_t> known_integers(int i, const std::string& what);
  // A position among `count`; negative ones count from the end.
  int64_t position(int i, int64_t count);
  void check_type(const Composite& sequence, ValueId value);

  // --- results ---
  void give(const Binding& binding, int output = 0);
  void give_constant(DType dtype, int64_t value);
  std::vector<ValueId> made(const std::string& op_type, std::vector<ValueId> inputs,
                            std::map<std::string, int64_t> attributes, std::vector<std::string> outputs) {
    return import_made(importer_, {op_type, std::move(inputs), std::move(attributes), std::move(outputs)},
                       proto_, scope_, depth_);
  }

  // --- operators ---
  void construct();
  void insert();
  void erase();
  void at();
  void length() { give_constant(DType::I64, static_cast<int64_t>(sequence(0).values.size())); }
  void split();
  std::vector<int64_t> split_sizes(int64_t size);
  std::vector<ValueId> parts(ValueId data, int64_t axis, const std::vector<int64_t>& sizes,
                             const std::vector<std::string>& names);
  void join();
  void map();
  void optional();
  void has_element();
  void get_element();

  struct Operator {
    const char* name;
    int since;
    void (SequenceOperator::*run)();
  };
  static const std::vector<Operator>& operators();
  friend bool tc::is_sequence_operator(const std::string&, const std::string&, int);

  const tc_onnx::NodeProto& proto_;
  NameScope& scope_;
  int depth_;
  NodeImporter& importer_;
  Node node_;
  std::string who_;
};

const std::vector<SequenceOperator::Operator>& SequenceOperator::operators() {
  static const std::vector<Operator> all = {{"SequenceConstruct", 11, &SequenceOperator::construct},
                                            {"SequenceEmpty", 11, &SequenceOperator::construct},
                                            {"SequenceInsert", 11, &SequenceOperator::insert},
                                            {"SequenceErase", 11, &SequenceOperator::erase},
                                            {"SequenceAt", 11, &SequenceOperator::at},
                                            {"SequenceLength", 11, &SequenceOperator::length},
                                            {"SplitToSequence", 11, &SequenceOperator::split},
                                            {"ConcatFromSequence", 11, &SequenceOperator::join},
                                            {"SequenceMap", 17, &SequenceOperator::map},
                                            {"Optional", 15, &SequenceOperator::optional},
                                            {"OptionalHasElement", 15, &SequenceOperator::has_element},
                                            {"OptionalGetElement", 15, &SequenceOperator::get_element}};
  return all;
}

void SequenceOperator::run() {
  for (const Operator& each : operators()) {
    if (each.name == proto_.op_type()) return (this->*each.run)();
  }
  // Identity of a sequence or an optional.
  give(binding(0));
}

const std::string& SequenceOperator::input_name(int i) const {
  if (!has(i)) refuse(ErrorKind::Model, text("lacks input ", i));
  return proto_.input(i);
}

Composite SequenceOperator::sequence(int i) {
  const Composite* found = find_composite(input_name(i), scope_);
  if (!found) {
    tensor(i);  // throws its own error where there is no tensor
    refuse(ErrorKind::Model, text("takes a sequence, but '", proto_.input(i), "' is a tensor"));
  }
  if (found->kind != PortKind::Sequence) {
    refuse(ErrorKind::Model,
           text("takes a sequence, but '", proto_.input(i), "' is an ", name_of(found->kind)));
  }
  return *found;
}

int64_t SequenceOperator::integer(const std::string& name, int64_t fallback) const {
  return node_.attributes.count(name) ? unchecked_attribute<int64_t>(node_, name) : fallback;
}

std::vector<int64_t> SequenceOperator::known_integers(int i, const std::string& what) {
  const ValueId id = tensor(i);
  const Value& value = graph()[id];
  const std::optional<std::vector<Dim>> elements = known_elements(value);
  if (!elements ||
      std::any_of(elements->begin(), elements->end(), [](const Dim& dim) { return !dim.is_constant(); })) {
    if (is_float(value.dtype))
      refuse(ErrorKind::Model,
             text("takes ", what, " of integers, but '", proto_.input(i), "' is ", name_of(value.dtype)));
    throw DependsOnData(node_, graph(), id, what);
  }
  std::vector<int64_t> result;
  for (const Dim& dim : *elements) result.push_back(dim.constant());
  return result;
}

int64_t SequenceOperator::position(int i, int64_t count) {
  const std::vector<int64_t> known = known_integers(i, "position");
  if (known.size() != 1)
    refuse(ErrorKind::Model,
           text("takes one position, but '", proto_.input(i), "' has ", known.size(), " numbers"));
  if (known[0] < -count || known[0] >= count) {
    refuse(ErrorKind::Model,
           text("has position ", known[0], ", which is not among the ", count, " of its sequence"));
  }
  return known[0] < 0 ? known[0] + count : known[0];
}

void SequenceOperator::check_type(const Composite& sequence, ValueId value) {
  if (sequence.values.empty() || graph()[sequence.values[0]].dtype == graph()[value].dtype) return;
  refuse(ErrorKind::Model, text("puts ", name_of(graph()[value].dtype), " into a sequence of ",
                                name_of(graph()[sequence.values[0]].dtype)));
}

void SequenceOperator::give(const Binding& binding, int output) {
  if (proto_.output_size() <= output) return;
  const Composite* composite = std::get_if<Composite>(&binding);
  if (composite && static_cast<int64_t>(composite->values.size()) > kMaxTensors) {
    refuse(ErrorKind::Unsupported, text("makes a sequence of ", composite->values.size(),
                                        " tensors; at most ", kMaxTensors, " are supported"));
  }
  importer_.define(proto_.output(output), binding, scope_);
}

void SequenceOperator::give_constant(DType dtype, int64_t value) {
  if (proto_.output_size() == 0) return;
  auto tensor = std::make_shared<Tensor>(dtype, std::vector<int64_t>{});
  tensor->set_int(0, value);
  give(graph().add_constant(proto_.output(0), tensor));
}

void SequenceOperator::construct() {
  Composite result;
  for (int i = 0; i < proto_.input_size(); ++i) {
    const ValueId value = tensor(i);
    check_type(result, value);
    result.values.push_back(value);
  }
  give(result);
}

void SequenceOperator::insert() {
  Composite result = sequence(0);
  const ValueId value = tensor(1);
  check_type(result, value);
  const int64_t count = static_cast<int64_t>(result.values.size());
  // The position after the last tensor is allowed as well; negative positions count from the last tensor.
  int64_t at = count;
  if (has(2)) {
    const std::vector<int64_t> known = known_integers(2, "position");
    if (known.size() != 1 || known[0] != count) at = position(2, count);
  }
  result.values.insert(result.values.begin() + at, value);
  give(result);
}

void SequenceOperator::erase() {
  Composite result = sequence(0);
  const int64_t count = static_cast<int64_t>(result.values.size());
  if (count == 0) refuse(ErrorKind::Model, "takes a tensor from an empty sequence");
  result.values.erase(result.values.begin() + (has(1) ? position(1, count) : count - 1));
  give(result);
}

void SequenceOperator::at() {
  const Composite from = sequence(0);
  if (from.values.empty()) refuse(ErrorKind::Model, "takes a tensor from an empty sequence");
  give(from.values[static_cast<size_t>(position(1, static_cast<int64_t>(from.values.size())))]);
}

// The sizes of the parts into which `size` elements are split.
std::vector<int64_t> SequenceOperator::split_sizes(int64_t size) {
  std::vector<int64_t> sizes;
  const bool listed = has(1) && graph()[tensor(1)].shape->size() == 1;
  if (listed) {
    sizes = known_integers(1, "split");
    int64_t left = size;
    for (int64_t each : sizes) left = each < 0 || each > left ? -1 : left - each;
    if (left != 0)
      refuse(ErrorKind::Model, text("splits ", size, " elements into parts whose sizes do not fit"));
    return sizes;
  }
  const std::vector<int64_t> known = has(1) ? known_integers(1, "split") : std::vector<int64_t>{1};
  if (known.size() != 1 || known[0] < 1) refuse(ErrorKind::Model, "splits into parts of no element");
  if (size / known[0] >= kMaxTensors) {
    refuse(ErrorKind::Unsupported, text("splits ", size, " elements into parts of ", known[0], "; at most ",
                                        kMaxTensors, " parts are supported"));
  }
  for (int64_t left = size; left > 0; left -= known[0]) sizes.push_back(std::min(left, known[0]));
  return sizes;
}

// Splits as Split of opset 11 does, with the sizes as an attribute: the content of an operand is known only
// for short lists.
std::vector<ValueId> SequenceOperator::parts(ValueId data, int64_t axis, const std::vector<int64_t>& sizes,
                                             const std::vector<std::string>& names) {
  static const Opsets opsets = {{"", 11}};
  NameScope inner{scope_.graph, &scope_, {}, nullptr, &opsets, {}};
  tc_onnx::NodeProto node;
  node.set_op_type("Split");
  node.set_name(node_.origin.node);
  node.set_source(proto_.op_type());
  inner.names["data"] = data;
  node.add_input("data");
  for (const auto& [name, values] :
       std::map<std::string, std::vector<int64_t>>{{"axis", {axis}}, {"split", sizes}}) {
    tc_onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(name == "axis" ? tc_onnx::AttributeProto::INT : tc_onnx::AttributeProto::INTS);
    if (name == "axis") attribute.set_i(axis);
    else attribute.mutable_ints()->Add(values.begin(), values.end());
  }
  for (const std::string& name : names) node.add_output(name);
  spend(scope_, proto_.output(0), kSpentByValue * static_cast<int64_t>(names.size()));
  importer_.import_node(node, inner, depth_);
  std::vector<ValueId> values;
  for (const std::string& name : names) values.push_back(inner.names.at(name));
  return values;
}

void SequenceOperator::split() {
  const ValueId data = tensor(0);
  const Shape shape = *graph()[data].shape;
  const int64_t rank = static_cast<int64_t>(shape.size()), given = integer("axis", 0);
  if (given < -rank || given >= rank)
    refuse(ErrorKind::Model, text("splits along axis ", given, " of ", rank, " axes"));
  const int64_t axis = given < 0 ? given + rank : given;
  const Dim& size = shape[static_cast<size_t>(axis)];
  if (!size.is_constant()) {
    refuse(ErrorKind::Unsupported,
           text("splits axis ", axis, ", whose size '", size.str(),
                "' is not known, so that the number of tensors is not", how_to_bind(graph(), {size})));
  }
  const std::vector<int64_t> sizes = split_sizes(size.constant());
  Composite result;
  result.values.resize(sizes.size());
  if (!sizes.empty() && proto_.output_size() > 0) {
    const std::vector<std::string> names =
        value_names({proto_.output(0), PortKind::Sequence, true, static_cast<int64_t>(sizes.size())});
    result.values = parts(data, axis, sizes, names);
    if (!has(1) && integer("keepdims", 1) == 0) {
      const ValueId axes = constant_integers(graph(), "axes", {axis});
      for (size_t i = 0; i < names.size(); ++i)
        result.values[i] = made("Squeeze", {result.values[i], axes}, {}, {names[i]})[0];
    }
  }
  give(result);
}

void SequenceOperator::join() {
  std::vector<ValueId> values = sequence(0).values;
  if (values.empty()) refuse(ErrorKind::Model, "joins the tensors of an empty sequence");
  if (!node_.attributes.count("axis")) refuse(ErrorKind::Model, "lacks attribute 'axis'");
  if (proto_.output_size() == 0) return;
  const int64_t axis = integer("axis", 0);
  if (integer("new_axis", 0) != 0) {
    const ValueId axes = constant_integers(graph(), "axes", {axis});
    for (ValueId& value : values) value = made("Unsqueeze", {value, axes}, {}, {graph()[value].name})[0];
  }
  give(made("Concat", values, {{"axis", axis}}, {proto_.output(0)})[0]);
}

void SequenceOperator::map() {
  const tc_onnx::AttributeProto* body = find_attribute(proto_, "body");
  if (!body || !body->has_g()) refuse(ErrorKind::Model, "lacks attribute 'body'");
  const size_t count = sequence(0).values.size();
  std::vector<Binding> given;
  for (int i = 0; i < proto_.input_size(); ++i) {
    given.push_back(binding(i));
    const Composite* each = std::get_if<Composite>(&given.back());
    if (!each) continue;
    if (sequence(i).values.size() != count) {
      refuse(ErrorKind::Model, text("maps sequences of ", count, " and ", each->values.size(),
                                    " tensors; they must have as many"));
    }
  }
  const tc_onnx::GraphProto& graph = body->g();
  if (graph.input_size() != proto_.input_size() || graph.output_size() < proto_.output_size()) {
    refuse(ErrorKind::Model, text("has a body of ", graph.input_size(), " inputs and ", graph.output_size(),
                                  " outputs, which do not fit its own"));
  }
  std::vector<Composite> results(static_cast<size_t>(proto_.output_size()));
  for (size_t at = 0; at < count; ++at) {
    NameScope inner{scope_.graph, &scope_, {}, nullptr, scope_.opsets, scope_.function_attributes};
    for (size_t i = 0; i < given.size(); ++i) {
      const Composite* each = std::get_if<Composite>(&given[i]);
      inner.names[graph.input(static_cast<int>(i)).name()] =
          each ? each->values[at] : std::get<ValueId>(given[i]);
    }
    importer_.import_repeated(graph, inner, depth_ + 1);
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].values.push_back(importer_.resolve(graph.output(static_cast<int>(i)).name(), inner, who_));
    }
  }
  for (size_t i = 0; i < results.size(); ++i) give(results[i], static_cast<int>(i));
}

void SequenceOperator::optional() {
  Composite result{PortKind::Optional, true, {}};
  if (has(0)) {
    const Binding given = binding(0);
    const Composite* composite = std::get_if<Composite>(&given);
    if (composite && composite->kind != PortKind::Sequence)
      refuse(ErrorKind::Unsupported, "makes an optional of an optional, which is not supported");
    if (composite) result = {PortKind::OptionalSequence, true, composite->values};
    else result.values = {std::get<ValueId>(given)};
  } else {
    const tc_onnx::AttributeProto* type = find_attribute(proto_, "type");
    if (!type || !type->has_tp()) refuse(ErrorKind::Model, "has neither an input nor attribute 'type'");
    if (holds_sequence(kind_of_type(type->tp(), who_))) result.kind = PortKind::OptionalSequence;
    result.present = false;
  }
  give(result);
}

void SequenceOperator::has_element() {
  bool present = false;
  if (has(0)) {
    const Binding given = binding(0);
    const Composite* composite = std::get_if<Composite>(&given);
    present = !composite || composite->present;
  }
  give_constant(DType::Bool, present);
}

void SequenceOperator::get_element() {
  const Binding given = binding(0);
  const Composite* composite = std::get_if<Composite>(&given);
  if (!composite || composite->kind == PortKind::Sequence) return give(given);
  if (!composite->present) {
    // A Shape error, because this may be in a branch that no run takes: an impossible branch is not refused.
    refuse(ErrorKind::Shape, text("takes what optional '", proto_.input(0), "' has, but it is empty"));
  }
  if (composite->kind == PortKind::OptionalSequence)
    return give(Composite{PortKind::Sequence, true, composite->values});
  give(composite->values.at(0));
}

}  // namespace

PortKind kind_of_type(const tc_onnx::TypeProto& type, const std::string& who) {
  if (type.has_sequence_type() && type.sequence_type().elem_type().has_tensor_type())
    return PortKind::Sequence;
  if (type.has_optional_type()) {
    const tc_onnx::TypeProto& inner = type.optional_type().elem_type();
    if (inner.has_tensor_type()) return PortKind::Optional;
    if (inner.has_sequence_type() && inner.sequence_type().elem_type().has_tensor_type())
      return PortKind::OptionalSequence;
  }
  if (!type.has_tensor_type()) {
    fail(
        ErrorKind::Unsupported, who,
        " is neither a tensor nor a sequence or an optional of tensors; maps, sparse tensors and nested sequences are "
        "not supported");
  }
  return PortKind::Tensor;
}

const tc_onnx::TypeProto::Tensor& tensor_type_of(const tc_onnx::TypeProto& type) {
  const tc_onnx::TypeProto& inner = type.has_optional_type() ? type.optional_type().elem_type() : type;
  return inner.has_sequence_type() ? inner.sequence_type().elem_type().tensor_type() : inner.tensor_type();
}

bool is_sequence_operator(const std::string& domain, const std::string& op_type, int opset) {
  if (!is_default_domain(domain)) return false;
  const auto& all = SequenceOperator::operators();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& each) { return each.name == op_type && opset >= each.since; });
}

void import_sequence_operator(const tc_onnx::NodeProto& node, NameScope& scope, int depth,
                              NodeImporter& importer) {
  SequenceOperator(node, scope, depth, importer).run();
}

void require_forms(const tc_onnx::GraphProto& graph, const std::string& file_name,
                   const ImportOptions& options) {
  std::vector<std::string> missing;
  std::string list;
  std::set<std::string> composites, constants;
  for (const auto& tensor : graph.initializer()) constants.insert(tensor.name());
  for (const auto& input : graph.input()) {
    if (constants.count(input.name())) continue;
    const PortKind kind = kind_of_type(input.type(), text("input '", input.name(), "' of ", file_name));
    if (kind == PortKind::Tensor) continue;
    composites.insert(input.name());
    if (form_of(input, kind, options)) continue;
    missing.push_back(input.name());
    list += text(list.empty() ? "'" : ", '", input.name(), "' (", name_of(kind), ")");
  }
  for (const auto& [name, form] : options.forms) {
    if (composites.count(name)) continue;
    fail(ErrorKind::Shape, "shapes of tensors are given for '", name,
         "', which is neither a sequence nor an optional among the inputs of ", file_name);
  }
  if (missing.empty()) return;
  throw NeedsForms(text("the structure of ", file_name,
                        " depends on how many tensors of which shapes there are in its inputs ", list,
                        "; give them with shapes={'", missing[0], "': [(…), …]}, None for an empty optional"),
                   missing);
}

Composite composite_input(Graph& graph, const tc_onnx::ValueInfoProto& input, const std::string& file_name,
                          const ImportOptions& options) {
  const std::string who = text("input '", input.name(), "' of ", file_name);
  const PortKind kind = kind_of_type(input.type(), who);
  const InputForm form = form_of(input, kind, options).value();
  const DType dtype = dtype_of_onnx(tensor_type_of(input.type()).elem_type(), who);
  Composite result{kind, form.present || kind == PortKind::Sequence, {}};
  const int64_t count = static_cast<int64_t>(form.shapes.size());
  if (count > kMaxTensors)
    fail(ErrorKind::Unsupported, who, " is given ", count, " tensors; at most ", kMaxTensors,
         " are supported");
  if (kind != PortKind::OptionalSequence && form.present != (kind == PortKind::Sequence || count == 1)) {
    fail(ErrorKind::Shape, who,
         kind == PortKind::Sequence ? text(" is a sequence, which cannot be left out")
                                    : text(" is one tensor or none, but is given the shapes of ", count));
  }
  // The shapes that the file declares are ignored: writers declare one shape for tensors that have several.
  const std::vector<std::string> names = value_names({input.name(), kind, true, count});
  for (size_t i = 0; i < names.size(); ++i) {
    Shape shape;
    for (int64_t size : form.shapes[i]) {
      if (size > kLargestSize) fail(ErrorKind::Shape, who, " is given the size ", size);
      if (size >= 0) {
        shape.push_back(size);
        continue;
      }
      std::string symbol;
      for (char c : input.name()) symbol += isalnum(static_cast<unsigned char>(c)) ? c : '_';
      symbol = text("_", symbol, "_", i, "_", shape.size());
      graph.symbols[symbol] = {1, kLargestSize};
      shape.push_back(Dim::symbol(symbol));
    }
    if (shape.size() > 16)
      fail(ErrorKind::Shape, who, " is given a shape of ", shape.size(),
           " dimensions; at most 16 are allowed");
    result.values.push_back(graph.fresh_value(names[i], dtype, shape));
    graph.inputs.push_back(result.values.back());
  }
  return result;
}

}  // namespace tc
