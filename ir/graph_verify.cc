// The verifier of graphs: ids, order, single definition, types and shapes.
#include <set>

#include "ir/error.h"
#include "ir/graph.h"
#include "ir/ops/op.h"

namespace tc {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.values.size(), false) {}

  void run() {
    std::set<std::string> names;
    for (const Value& value : graph_.values) {
      require(names.insert(value.name).second, "value '", value.name, "' has a name that is taken");
      check_constant(value);
    }
    for (ValueId id : graph_.inputs) define(id, "an input");
    for (const auto& [outer, id] : graph_.captures) define(id, "a capture");
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      if (graph_.values[i].constant) defined_[i] = true;
    }
    for (const Node& node : graph_.nodes) check_node(node);
    node_ = nullptr;
    check_sizes();
    for (ValueId id : graph_.outputs) {
      require(is_value(id), "an output refers to value ", id, ", which does not exist");
      require(is_defined(id), "output '", graph_[id].name, "' is never defined");
    }
    check_inference();
  }

 private:
  template <class... Parts>
  void require(bool condition, const Parts&... parts) const {
    if (condition) return;
    std::string where = text("graph '", graph_.name, "'");
    if (node_) where += ", " + node_->origin.str();
    fail(ErrorKind::Internal, where, ": ", parts...);
  }

  bool is_value(ValueId id) const { return id >= 0 && id < static_cast<ValueId>(graph_.values.size()); }
  bool is_defined(ValueId id) const { return defined_[static_cast<size_t>(id)]; }

  void define(ValueId id, const char* what) {
    require(is_value(id), what, " refers to value ", id, ", which does not exist");
    require(!is_defined(id), "value '", graph_[id].name, "' is defined twice");
    defined_[static_cast<size_t>(id)] = true;
  }

  void check_constant(const Value& value) const {
    if (!value.constant) return;
    const Tensor& data = *value.constant;
    require(data.dtype == value.dtype, "constant '", value.name, "' of type ", name_of(value.dtype),
            " has data of type ", name_of(data.dtype));
    require(!value.shape || *value.shape == shape_of(data.shape), "constant '", value.name,
            "' has data of shape ", str(shape_of(data.shape)));
    require(data.count() == checked_count(data.shape), "constant '", value.name, "' has ", data.count(),
            " elements of data");
  }

  // The known element of each data symbol's source is that symbol.
  void check_sizes() const {
    for (const auto& [name, symbol] : graph_.data_symbols) {
      require(!graph_.symbols.count(name), "size '", name, "' is a symbol of the inputs too");
      require(is_value(symbol.source), "size '", name, "' refers to value ", symbol.source,
              ", which does not exist");
      require(is_defined(symbol.source), "size '", name, "' is of value '", graph_[symbol.source].name,
              "', which is never defined");
      const Value& source = graph_[symbol.source];
      require(source.dtype == DType::I64 && source.elements &&
                  *source.elements == std::vector<Dim>{Dim::symbol(name)},
              "value '", source.name, "' does not hold size '", name, "'");
    }
  }

  // Every size that the node mentions is computed before the node.
  void check_mentions(const Node& node) const {
    if (graph_.data_symbols.empty()) return;
    for (const std::string& name : mentioned_symbols(graph_, node)) {
      const auto symbol = graph_.data_symbols.find(name);
      if (symbol == graph_.data_symbols.end() || !is_value(symbol->second.source)) continue;
      require(is_defined(symbol->second.source), "size '", name, "' is mentioned before '",
              graph_[symbol->second.source].name, "' gives it");
    }
  }

  void check_node(const Node& node) {
    node_ = &node;
    require(node.op != nullptr, "the node has no op");
    const OpRow& op = *node.op;
    auto inputs = static_cast<int>(node.inputs.size());
    bool has_subgraphs = false;
    for (const auto& [name, attribute] : node.attributes) {
      const GraphPtr* subgraph = std::get_if<GraphPtr>(&attribute);
      if (!subgraph) continue;
      has_subgraphs = true;
      require(*subgraph != nullptr, "subgraph '", name, "' is missing");
      Verifier(**subgraph).run();
    }
    // Captures follow the formal inputs of a node with subgraphs.
    require(inputs >= op.minimum_inputs &&
                (op.maximum_inputs < 0 || has_subgraphs || inputs <= op.maximum_inputs),
            "op ", op.name, " does not take ", inputs, " inputs");
    require(op.outputs < 0 || static_cast<int>(node.outputs.size()) <= op.outputs, "op ", op.name,
            " does not have ", node.outputs.size(), " outputs");
    for (ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      require(is_value(id), "an input refers to value ", id, ", which does not exist");
      require(is_defined(id), "input '", graph_[id].name, "' is read before it is defined");
    }
    for (ValueId id : node.outputs) {
      if (id != kNoValue) define(id, "a result");
    }
    check_mentions(node);
    for (const AttributeRow& row : op.attributes) {
      auto given = node.attributes.find(row.name);
      require(given != node.attributes.end() || !row.required, "attribute '", row.name, "' is missing");
    }
  }

  // Infers everything anew and compares.
  void check_inference() const {
    Graph again = graph_;
    std::vector<int> producers = graph_.producers();
    for (Node& node : again.nodes) {
      for (auto& [name, attribute] : node.attributes) {
        // Inference writes into subgraphs.
        if (auto* subgraph = std::get_if<GraphPtr>(&attribute)) {
          *subgraph = std::make_shared<Graph>(**subgraph);
        }
      }
    }
    for (size_t i = 0; i < again.values.size(); ++i) {
      if (producers[i] < 0) continue;
      again.values[i].shape.reset();
      again.values[i].elements.reset();
    }
    infer_shapes(again);
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      if (producers[i] < 0) continue;
      const Value &stated = graph_.values[i], &inferred = again.values[i];
      std::string where = graph_.nodes[static_cast<size_t>(producers[i])].origin.str();
      require(stated.dtype == inferred.dtype, where, ": result '", stated.name, "' is ",
              name_of(stated.dtype), " but inference says ", name_of(inferred.dtype));
      require(!stated.shape || !inferred.shape || agree(*stated.shape, *inferred.shape), where, ": result '",
              stated.name, "' has shape ", stated.shape ? str(*stated.shape) : "", " but inference says ",
              inferred.shape ? str(*inferred.shape) : "");
    }
  }

  // Expressions of symbols may be equal in spite of different texts; numbers may not.
  static bool agree(const Shape& a, const Shape& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      Dim difference = a[i] - b[i];
      if (difference.is_constant() && difference != Dim(0)) return false;
    }
    return true;
  }

  const Graph& graph_;
  const Node* node_ = nullptr;
  std::vector<bool> defined_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace tc
