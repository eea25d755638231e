// ONNX files to the graph IR. The file may be hostile: every size is checked before it is used.
#include "frontend/import/onnx/importer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "frontend/import/onnx/canonical_node.h"
#include "frontend/import/onnx/computed_sizes.h"
#include "frontend/import/onnx/constant_value.h"
#include "frontend/import/onnx/deciding_inputs.h"
#include "frontend/import/onnx/description.h"
#include "frontend/import/onnx/flex_attention.h"
#include "frontend/import/onnx/input_shapes.h"
#include "frontend/import/onnx/known_operators.h"
#include "frontend/import/onnx/model_file.h"
#include "frontend/import/onnx/onnx.pb.h"
#include "frontend/import/onnx/outputs.h"
#include "frontend/import/onnx/refusals.h"
#include "frontend/import/onnx/scan_forms.h"
#include "frontend/import/onnx/scope.h"
#include "frontend/import/onnx/sequences.h"
#include "frontend/import/onnx/strings.h"
#include "frontend/import/onnx/subgraphs.h"
#include "frontend/import/onnx/tensor_reader.h"
#include "frontend/import/onnx/unrolled_loop.h"
#include "frontend/import/origins.h"
#include "ir/error.h"
#include "ir/held_constants.h"
#include "ir/interrupt.h"
#include "ir/names.h"
#include "ir/ops/depends_on_data.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

constexpr size_t kLongestName = 64 << 10;
constexpr int kLowestOpset = 1;
// The most nodes that are imported for the iterations of unrolled loops: each takes about a millisecond to
// compile.
constexpr int64_t kMaxRepeated = 1 << 12;
// The most nodes that are imported again because their loops change sizes.
constexpr int64_t kMaxImportedAgain = 1 << 15;
// The most changes to the operands of one node by which a run can compute or check their sizes.
constexpr int kMaxChanges = 64;

void set_ranges(Graph& graph, const ModelDescription& description) {
  for (const auto& [symbol, range] : description.ranges()) {
    const auto found = graph.symbols.find(symbol);
    if (found == graph.symbols.end()) continue;  // bound to a number
    found->second.first = std::max(found->second.first, range.first);
    found->second.second = std::min(found->second.second, range.second);
  }
}

// One model being imported.
class OnnxImporter final : public NodeImporter {
 public:
  // `model` is the message of `source` or of its description; the importer moves the tensors out of it.
  OnnxImporter(tc_onnx::ModelProto& model, const Source& source, const ImportOptions& options)
      : model_(model),
        file_name_(source.name),
        folders_(source.folder, options.data_folders),
        description_(source.description),
        options_(options),
        limit_{source.name, options.max_nodes},
        opsets_(opsets_of(model.opset_import())),
        functions_(functions_of(model, source.name)) {
    // Files of the first two versions of the format have operators of opset 1 and do not say so.
    if (model.opset_import_size() == 0 && model.ir_version() > 0 && model.ir_version() < 3) opsets_[""] = 1;
  }

  // Operators without a row, in order of appearance, each node once.
  std::vector<ImportProblem> unsupported() {
    check_opset();
    refuse_strings(model_.graph(), file_name_);
    return unknown_operators(model_.graph(), opsets_, functions_, limit_);
  }

  Graph run() {
    std::vector<ImportProblem> problems = unsupported();
    if (!problems.empty()) fail(ErrorKind::Unsupported, describe(problems, file_name_));
    return known_run();
  }

  // All nodes that are refused, and why.
  std::vector<ImportProblem> refusals() {
    Refusals refused(model_.graph(), unsupported());
    refusals_ = &refused;
    try {
      known_run();
    } catch (const NotChecked&) {  // an output of the model is the result of a refused node
    } catch (const NeedsForms&) {  // no refusal: a version is compiled for each form
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Unsupported && error.kind() != ErrorKind::Shape) throw;
      if (refused.none()) refused.add({"", "", 0, error.what()});
    }
    return refused.take();
  }

 private:
  Graph known_run() {
    require_forms(model_.graph(), file_name_, options_);
    Graph graph;
    // The artefact's bytes never depend on the name of the file; errors take that from `origin`.
    graph.name = model_.graph().name().empty() || model_.graph().name().size() > kLongestName
                     ? "model"
                     : checked_name(model_.graph().name());
    inputs_.emplace(model_.graph(), file_name_, options_);
    root_ = &graph;
    NameScope scope{&graph, nullptr, {}, nullptr, &opsets_, {}};
    scope.spent = &spent_;
    if (description_) {
      for (const auto& [name, data] : description_->tensors())
        note_bytes_read(static_cast<int64_t>(data->bytes.size()));
      for (const auto& [name, data] : description_->tensors())
        scope.names[name] = graph.add_constant(checked_name(name), data);
    }
    import_graph(model_.graph(), scope, nullptr, 0, model_.mutable_graph());
    if (options_.notes && !model_.note().empty()) options_.notes->push_back(model_.note());
    if (description_) set_ranges(graph, *description_);
    name_outputs(graph, file_name_, scope.forms);
    const bool tensors = std::all_of(scope.forms.begin(), scope.forms.end(),
                                     [](const OutputForm& form) { return form.kind == PortKind::Tensor; });
    if (!tensors && options_.output_forms) *options_.output_forms = scope.forms;
    return graph;
  }

 public:
  // --- what parts of the importer in other files ask of it (scope.h) ------------------------------

  ValueId resolve(const std::string& name, NameScope& scope, const std::string& who) override {
    const ValueId id = find_value(name, scope);
    if (id != kNoValue) return id;
    if (const Composite* composite = find_composite(name, scope)) {
      fail(ErrorKind::Model, "'", file_name_, "': ", who, " takes a tensor, but '", name, "' is ",
           composite->kind == PortKind::Sequence ? "a " : "an ", name_of(composite->kind));
    }
    if (refusals_ && refusals_->hides(name)) throw NotChecked();
    fail(ErrorKind::Model, "'", file_name_, "': ", who, " reads tensor '", name,
         "', which no earlier node, input or initializer defines");
  }

  void define(const std::string& name, const Binding& binding, NameScope& scope) override {
    if (name.empty()) return;
    checked_name(name);
    const auto* composite = std::get_if<Composite>(&binding);
    if (composite) spend(scope, name, static_cast<int64_t>(composite->values.size()));
    const bool fresh =
        composite
            ? !scope.names.count(name) && scope.composites.emplace(name, *composite).second
            : !scope.composites.count(name) && scope.names.emplace(name, std::get<ValueId>(binding)).second;
    if (!fresh) fail(ErrorKind::Model, "'", file_name_, "' defines tensor '", name, "' twice");
  }

  Node described(const tc_onnx::NodeProto& proto, const NameScope& scope) const override {
    Node node;
    node.origin = origin_of(proto, scope);
    for (const auto& attribute : proto.attribute()) {
      if (!attribute.has_g() && !attribute.has_tp()) add_attribute(node, attribute, scope);
    }
    return node;
  }

  void import_node(const tc_onnx::NodeProto& proto, NameScope& scope, int depth) override {
    interruption_point();
    if (++imported_ > limit_.most) limit_.refuse("");
    if (depth > kDeepestSubgraph) fail(ErrorKind::Model, "'", file_name_, "' nests too deep");
    if (repeating_ && ++repeated_ > kMaxRepeated) {
      fail(ErrorKind::Unsupported, origin_of(proto, scope).str(),
           " is in a loop over sequences, whose iterations are compiled one by one; more than ", kMaxRepeated,
           " nodes come of that");
    }
    if (again_ && ++imported_again_ > kMaxImportedAgain) {
      fail(ErrorKind::Unsupported, origin_of(proto, scope).str(),
           " is in loops whose iterations change the sizes of states, which takes more than ",
           kMaxImportedAgain, " nodes; give the states of loops inside of others one size");
    }
    for (const std::string& name : proto.output()) checked_name(name);
    if (const auto* function = called_function(functions_, proto))
      return import_function(*function, proto, scope, depth);
    if (is_default_domain(proto.domain()) && proto.op_type() == "Constant")
      return import_constant(proto, scope);
    const std::string domain = is_default_domain(proto.domain()) ? "" : proto.domain();
    if (acts_on_names(proto, domain, scope)) return import_sequence_operator(proto, scope, depth, *this);
    if (domain.empty() && proto.op_type() == "Loop" && needs_unrolling(proto, scope))
      return unroll_loop(proto, scope, depth, *this);
    if (is_flex_attention(proto)) return import_flex_attention(proto, scope, depth, *this);
    if (is_other_scan(proto, opset_of(proto, scope))) return import_other_scan(proto, scope, depth, *this);

    Node node;
    node.origin = origin_of(proto, scope);
    const OnnxName* form = nullptr;
    node.op = find_onnx_op(domain, proto.op_type(), std::max(1, opset_of(proto, scope)), &form);
    if (refusals_ && !node.op) throw NotChecked();
    TC_CHECK(node.op && form);
    const std::string who = node.origin.str();
    for (const std::string& name : proto.input())
      node.inputs.push_back(name.empty() ? kNoValue : resolve(name, scope, who));
    while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();

    if (inline_branch(proto, node, scope, depth, *this)) return;
    for (const auto& attribute : proto.attribute()) {
      if (!attribute.has_g()) add_attribute(node, attribute, scope);
    }
    const std::vector<OutputForm> forms = import_subgraphs(proto, node, scope, depth, *this);
    finish_node(std::move(node), *form, value_names(proto, forms), scope);
    define_outputs(proto, forms, scope, *this);
  }

  void import_body(const tc_onnx::GraphProto& proto, NameScope& scope, const std::vector<FormalInput>& formal,
                   int depth, bool again) override {
    again_ += again ? 1 : 0;
    const std::shared_ptr<void> done(nullptr, [&](void*) { again_ -= again ? 1 : 0; });
    import_graph(proto, scope, &formal, depth);
  }

  // Imports a body's constants and nodes into the current graph, in a scope of their own.
  void import_inline(const tc_onnx::GraphProto& body, NameScope& scope, int depth) override {
    for (const auto& tensor : body.initializer()) {
      scope.names[tensor.name()] =
          scope.graph->add_constant(tensor.name(), read_tensor(tensor, folders_, file_name_));
    }
    for (const auto& node : body.node()) import_node(node, scope, depth);
  }

  void import_repeated(const tc_onnx::GraphProto& body, NameScope& scope, int depth) override {
    ++repeating_;
    const std::shared_ptr<void> done(nullptr, [this](void*) { --repeating_; });
    import_inline(body, scope, depth);
  }

 private:
  void check_opset() const {
    if (!opsets_.count("")) {
      if (model_.opset_import_size() > 0) return;
      fail(ErrorKind::Model, "'", file_name_,
           "' declares no opset version (it is cut short, perhaps); "
           "export it again with opset ",
           kLowestOpset, " or later");
    }
    const int version = opsets_.at("");
    if (version < kLowestOpset) {
      fail(ErrorKind::Unsupported, "'", file_name_, "' uses opset ", version, "; opset ", kLowestOpset,
           " and later are supported; export it again");
    }
  }

  // --- graphs ----------------------------------------------------------------------------------

  const std::string& checked_name(const std::string& name) const {
    if (name.size() > kLongestName)
      fail(ErrorKind::Model, "'", file_name_, "' has a name of ", name.size(), " bytes");
    if (!is_utf8(name)) {
      fail(ErrorKind::Model, "'", file_name_, "' has the name '", name,
           "', which is not UTF-8; rename it, or export the model again");
    }
    // Artefacts store names as C strings.
    if (name.find('\0') != std::string::npos) {
      fail(ErrorKind::Model, "'", file_name_, "' has the name '", name,
           "', with a 0 in it; rename it, or export the model again");
    }
    return name;
  }

  // `spent` is the same graph where it is imported only once: its tensors and nodes are freed as they are
  // read.
  void import_graph(const tc_onnx::GraphProto& proto, NameScope& scope,
                    const std::vector<FormalInput>* formal, int depth, tc_onnx::GraphProto* spent = nullptr) {
    Graph& graph = *scope.graph;
    const IndexedNames names(graph);
    SizesOfValues outside = std::exchange(sizes_, {});
    auto sized_outside = std::exchange(sized_, {});
    const std::shared_ptr<void> leave(nullptr, [&](void*) {
      sizes_ = std::move(outside);
      sized_ = std::move(sized_outside);
    });
    std::set<std::string> initializers;
    for (int i = 0; i < proto.initializer_size(); ++i) {
      const tc_onnx::TensorProto& tensor = proto.initializer(i);
      TensorPtr data = read_tensor(tensor, folders_, file_name_);
      if (!formal && options_.open_initializers.count(tensor.name())) {
        if (options_.defaults) options_.defaults->emplace(tensor.name(), std::move(data));
        continue;
      }
      const ValueId id = graph.add_constant(checked_name(tensor.name()), data);
      if (!scope.names.emplace(tensor.name(), id).second) {
        fail(ErrorKind::Model, "'", file_name_, "' defines tensor '", tensor.name(), "' twice");
      }
      initializers.insert(tensor.name());
      if (spent) tc_onnx::TensorProto().Swap(spent->mutable_initializer(i));
    }
    size_t position = 0;
    for (const auto& input : proto.input()) {
      if (initializers.count(input.name())) continue;
      ValueId id;
      if (formal) {
        if (position >= formal->size()) {
          fail(ErrorKind::Model, "'", file_name_, "': subgraph '", proto.name(),
               "' has more inputs than its node gives it");
        }
        id = graph.fresh_value(checked_name(input.name()), (*formal)[position].dtype,
                               (*formal)[position].shape);
      } else {
        if (!input.type().has_tensor_type()) {
          checked_name(input.name());
          define(input.name(), composite_input(graph, input, file_name_, options_), scope);
          continue;
        }
        const DType dtype = dtype_of_onnx(input.type().tensor_type().elem_type(),
                                          text("input '", input.name(), "' of ", file_name_));
        if (bind_constant(graph, input, dtype, scope)) continue;
        id = graph.fresh_value(checked_name(input.name()), dtype, inputs_->shape_of(graph, input));
      }
      ++position;
      graph.inputs.push_back(id);
      if (!scope.names.emplace(input.name(), id).second) {
        fail(ErrorKind::Model, "'", file_name_, "' defines input '", input.name(), "' twice");
      }
    }
    for (int i = 0; i < proto.node_size(); ++i) {
      if (refusals_ && depth == 0) import_or_refuse(proto.node(i), scope);
      else import_told(proto.node(i), scope, depth);
      if (spent) tc_onnx::NodeProto().Swap(spent->mutable_node(i));
    }
    for (const auto& output : proto.output()) {
      scope.forms.push_back(
          add_output(graph, output.name(),
                     binding_of(*this, output.name(), scope, text("output '", output.name(), "'"))));
    }
  }

  // Imports a node. Where an operand depends on data, the error tells the inputs from which it is computed.
  void import_told(const tc_onnx::NodeProto& proto, NameScope& scope, int depth) {
    try {
      import_node(proto, scope, depth);
    } catch (const DependsOnData& error) {
      tell_inputs(error, scope);
    }
  }

  // Imports a node of the model's graph. Where it is refused, its results are as declared, or hidden.
  void import_or_refuse(const tc_onnx::NodeProto& proto, NameScope& scope) {
    const bool certain = !refusals_->rests_on_them(proto);
    try {
      return import_told(proto, scope, 0);
    } catch (const NotChecked&) {
    } catch (const NeedsForms&) {
    } catch (const DependsOnData& error) {
      if (error.inputs().empty())
        refusals_->add(proto, opset_of(proto, scope), error);  // otherwise versions can be compiled
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Unsupported && error.kind() != ErrorKind::Shape) throw;
      if (error.kind() == ErrorKind::Unsupported || certain)
        refusals_->add(proto, opset_of(proto, scope), error);
    }
    refusals_->stand_in(proto, scope, *inputs_, file_name_);
  }

  // Throws the error again with the model's inputs from which the operand is computed, if it depends on
  // nothing else and they are few numbers.
  [[noreturn]] void tell_inputs(const DependsOnData& error, const NameScope& scope) const {
    if (!error.inputs().empty()) throw error;
    std::vector<std::string> names = deciding_inputs(*root_, error, scope, /*numbers_only=*/false);
    if (names.empty()) throw Error(error);  // no inputs decide it, so a caller cannot give their values
    throw DependsOnData(error, std::move(names));
  }

  // Makes an input that the options fix to a value a constant.
  bool bind_constant(Graph& graph, const tc_onnx::ValueInfoProto& input, DType dtype, NameScope& scope) {
    const auto fixed = options_.constants.find(input.name());
    if (fixed == options_.constants.end()) return false;
    const Tensor& tensor = *fixed->second;
    const Shape shape =
        input.type().tensor_type().has_shape() ? inputs_->shape_of(graph, input) : shape_of(tensor.shape);
    if (tensor.dtype != dtype || tensor.shape.size() != shape.size() ||
        (is_constant(shape) && constant_shape(shape) != tensor.shape)) {
      fail(ErrorKind::Shape, "input '", input.name(), "' of ", file_name_, " is ", name_of(dtype),
           tc::str(shape), ", but the constant given for it is ", name_of(tensor.dtype),
           tc::str(shape_of(tensor.shape)));
    }
    scope.names.emplace(input.name(), graph.add_constant(input.name(), fixed->second));
    return true;
  }

  Origin origin_of(const tc_onnx::NodeProto& node, const NameScope& scope) const {
    Origin origin;
    origin.file = file_name_;
    origin.node = checked_name(node_name(node));
    origin.op_type = node.source().empty() ? full_type(node) : checked_name(node.source());
    if (node.source().empty()) origin.opset = opset_of(node, scope);
    return origin;
  }

  static int opset_of(const tc_onnx::NodeProto& node, const NameScope& scope) {
    const auto version = scope.opsets->find(is_default_domain(node.domain()) ? "" : node.domain());
    return version == scope.opsets->end() ? 1 : version->second;
  }

  // Whether the node makes no graph node: operators on sequences and optionals, and Identity of these.
  static bool acts_on_names(const tc_onnx::NodeProto& proto, const std::string& domain, NameScope& scope) {
    if (is_sequence_operator(domain, proto.op_type(), opset_of(proto, scope))) return true;
    return domain.empty() && proto.op_type() == "Identity" && proto.input_size() > 0 &&
           find_composite(proto.input(0), scope);
  }

  // Brings the node to the form that its row knows. Where the sizes of its results, or whether its operands
  // have the sizes that it needs, is known only in a run, adds nodes before it that compute or check that.
  void make_canonical(Node& node, const OnnxName& form, NameScope& scope) {
    Graph& graph = *scope.graph;
    for (int changes = 0;; ++changes) {
      Node canonical = node;
      const auto symbols = graph.data_symbols;
      try {
        tc::make_canonical(graph, canonical, form);
        node = std::move(canonical);
        return;
      } catch (const DependsOnData& error) {
        const bool sizes =
            error.decides_sizes() && deciding_inputs(*root_, error, scope, /*numbers_only=*/true).empty();
        if (changes == kMaxChanges || !sizes) throw;
        if (!resolve_shape(graph, node, error.operand(), sizes_) &&
            !know_elements(graph, node, error.operand(), sizes_))
          throw;
      } catch (const UnprovedSizes& error) {
        graph.data_symbols = symbols;  // drops the symbols of this failed attempt
        if (changes == kMaxChanges || !make_equal(graph, node, error.left(), error.right())) throw;
      }
    }
  }

  void finish_node(Node node, const OnnxName& form, const std::vector<std::string>& outputs,
                   NameScope& scope) {
    Graph& graph = *scope.graph;
    // All outputs have to exist while the node is brought to its canonical form and inferred.
    for (const std::string& name : outputs) {
      node.outputs.push_back(name.empty() ? kNoValue : graph.fresh_value(name, DType::F32));
    }
    while (!node.outputs.empty() && node.outputs.back() == kNoValue) node.outputs.pop_back();
    // Passes read the shape of a node's first output. Only operators that are expanded into others may leave
    // it out.
    const bool lacks_first =
        !node.outputs.empty() && node.outputs[0] == kNoValue && node.op->kind != OpRow::Kind::Expand;
    if (lacks_first) node.outputs[0] = graph.fresh_value("unnamed", DType::F32);
    const std::vector<ValueId> given = node.outputs;
    const bool sized = node.op->attribute("symbol") != nullptr;
    if (sized && define_as_before(node, outputs, scope)) return;
    const Node as_given = sized ? node : Node();
    make_canonical(node, form, scope);
    if (sized) sized_.emplace_back(as_given, node.outputs);
    // A node may have more outputs, for sizes: a loop between those of the file, other nodes after them.
    for (size_t i = 0; i < std::min(outputs.size(), node.outputs.size()); ++i) {
      const bool stays = i < given.size() &&
                         std::find(node.outputs.begin(), node.outputs.end(), given[i]) != node.outputs.end();
      const ValueId output = stays ? given[i] : node.outputs[i];
      if (output != kNoValue && !outputs[i].empty()) define(outputs[i], output, scope);
    }
    if (!compute_while_importing(graph, node)) graph.nodes.push_back(std::move(node));
  }

  // Reuses the results of an earlier equal node that computes sizes. With separate symbols nothing would
  // prove that the sizes are equal. (PyTorch's exporter writes a NonZero for each use of a mask.)
  bool define_as_before(const Node& node, const std::vector<std::string>& outputs, NameScope& scope) {
    for (const auto& [other, results] : sized_) {
      if (other.op != node.op || other.inputs != node.inputs || other.attributes != node.attributes ||
          other.origin.opset != node.origin.opset)
        continue;
      bool all = outputs.size() <= results.size();
      for (size_t i = 0; all && i < outputs.size(); ++i) all = outputs[i].empty() || results[i] != kNoValue;
      if (!all) continue;
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (!outputs[i].empty()) define(outputs[i], results[i], scope);
      }
      return true;
    }
    return false;
  }

  // --- attributes, constants, functions --------------------------------------------------------

  void add_attribute(Node& node, const tc_onnx::AttributeProto& given, const NameScope& scope) const {
    const tc_onnx::AttributeProto* proto = &given;
    if (!given.ref_attr_name().empty()) {
      const auto found = scope.function_attributes.find(given.ref_attr_name());
      if (found == scope.function_attributes.end()) return;
      proto = &found->second;
    }
    std::optional<Attribute> value = attribute_value(*proto, folders_, file_name_);
    if (!value)
      fail(ErrorKind::Unsupported, node.origin.str(), ": attribute '", given.name(),
           "' has a kind that is not supported");
    node.attributes[given.name()] = std::move(*value);
  }

  void import_constant(const tc_onnx::NodeProto& proto, NameScope& scope) {
    Node node;
    node.origin = origin_of(proto, scope);
    for (const auto& attribute : proto.attribute()) add_attribute(node, attribute, scope);
    if (node.attributes.size() != 1 || proto.output_size() != 1) {
      fail(ErrorKind::Model, node.origin.str(), " must have one value and one output");
    }
    const ValueId id =
        scope.graph->add_constant(proto.output(0), tensor_of(node, node.attributes.begin()->second));
    define(proto.output(0), id, scope);
  }

  // Imports a function's body in place of the call, with its own names.
  void import_function(const tc_onnx::FunctionProto& function, const tc_onnx::NodeProto& proto,
                       NameScope& scope, int depth) {
    const Opsets opsets = opsets_of(function.opset_import());
    NameScope inner{scope.graph, nullptr, {}, nullptr, &opsets, {}};
    inner.spent = &spent_;
    for (const auto& attribute : function.attribute_proto())
      inner.function_attributes[attribute.name()] = attribute;
    for (const auto& attribute : proto.attribute()) {
      tc_onnx::AttributeProto value = attribute;
      if (!attribute.ref_attr_name().empty()) {
        const auto found = scope.function_attributes.find(attribute.ref_attr_name());
        if (found == scope.function_attributes.end()) continue;
        value = found->second;
      }
      inner.function_attributes[attribute.name()] = value;
    }
    for (int i = 0; i < function.input_size() && i < proto.input_size(); ++i) {
      if (proto.input(i).empty()) continue;
      const Binding binding = binding_of(*this, proto.input(i), scope, text("node '", node_name(proto), "'"));
      if (const auto* composite = std::get_if<Composite>(&binding))
        inner.composites[function.input(i)] = *composite;
      else inner.names[function.input(i)] = std::get<ValueId>(binding);
    }
    for (const auto& node : function.node()) import_function_node(node, inner, depth + 1);
    for (int i = 0; i < function.output_size() && i < proto.output_size(); ++i) {
      if (!proto.output(i).empty())
        define(proto.output(i), binding_of(*this, function.output(i), inner, "a function"), scope);
    }
  }

  // Inputs of a function that the call leaves out are left out in its body.
  void import_function_node(const tc_onnx::NodeProto& node, NameScope& scope, int depth) {
    tc_onnx::NodeProto copy = node;
    for (std::string& name : *copy.mutable_input()) {
      if (!name.empty() && find_value(name, scope) == kNoValue && !find_composite(name, scope)) name.clear();
    }
    import_node(copy, scope, depth);
  }

  tc_onnx::ModelProto& model_;
  std::string file_name_;
  DataFolders folders_;
  std::shared_ptr<const ModelDescription> description_;  // null for a file
  const ImportOptions& options_;
  const NodeLimit limit_;
  Opsets opsets_;
  Functions functions_;
  std::optional<InputShapes> inputs_;
  const Graph* root_ = nullptr;   // the model's graph while it is being imported
  Refusals* refusals_ = nullptr;  // null unless all refusals are collected
  int repeating_ = 0;             // depth in bodies of unrolled loops
  int64_t repeated_ = 0;
  int again_ = 0;               // depth in bodies that were imported before
  int64_t imported_again_ = 0;  // nodes
  int64_t imported_ = 0;        // nodes
  int64_t spent_ = 0;           // how much of kMaxSpent is used
  SizesOfValues sizes_;         // of the current graph
  std::vector<std::pair<Node, std::vector<ValueId>>>
      sized_;  // the graph's nodes, as in the file, that compute sizes, with their results
};

tc_onnx::ModelProto message_of(const Source& source) {
  return source.description ? source.description->proto()
                            : parse_model_file(source.bytes, source.name, source.known_files);
}

Graph import_onnx(Source source, const ImportOptions& options) {
  tc_onnx::ModelProto model = message_of(source);
  source.bytes = std::string();
  return OnnxImporter(model, source, options).run();
}

std::vector<ImportProblem> check_onnx(const Source& source, const ImportOptions& options) {
  tc_onnx::ModelProto model = message_of(source);
  return OnnxImporter(model, source, options).refusals();
}

}  // namespace

Signature signature_of_onnx(const Source& source, const ImportOptions& options) {
  return declared_signature(message_of(source).graph(), source.name, options);
}

Importer onnx_importer() {
  return {"ONNX",     {".onnx"},        0, "", {"open_initializers", "data_folders"}, import_onnx,
          check_onnx, signature_of_onnx};
}

}  // namespace tc
