// Nodes that hold subgraphs while they are imported.
#include "frontend/import/onnx/subgraphs.h"

#include <algorithm>
#include <optional>

#include "frontend/import/onnx/impossible_branch.h"
#include "frontend/import/onnx/outputs.h"
#include "ir/error.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

using Control = OpTraits::Control;

// The trip count and the condition come before a loop's states.
constexpr size_t kLoopOperands = 2;

class Subgraphs {
 public:
  Subgraphs(const tc_onnx::NodeProto& proto, Node& node, NameScope& scope, int depth, NodeImporter& importer)
      : proto_(proto), node_(node), scope_(scope), depth_(depth), importer_(importer) {
    for (const auto& attribute : proto.attribute()) {
      if (attribute.has_g()) graphs_[attribute.name()] = &attribute.g();
    }
  }

  std::vector<OutputForm> run() {
    if (node_.op->traits.control == Control::Branch) {
      import_branches();
    } else {
      if (node_.op->traits.control == Control::Loop) {
        // Both must exist, since captured values are appended after the inputs.
        node_.inputs.resize(std::max(node_.inputs.size(), kLoopOperands), kNoValue);
      }
      for (const auto& [name, graph] : graphs_) import_body(name, *graph);
    }
    node_.inputs.insert(node_.inputs.end(), captured_.begin(), captured_.end());
    return forms_;
  }

 private:
  void import_branches() {
    std::vector<std::string> impossible;
    std::optional<Error> refusal;
    // First then, then else: the captures become inputs of the node in this order.
    for (const std::string name : {"then_branch", "else_branch"}) {
      const auto found = graphs_.find(name);
      if (found == graphs_.end()) fail(ErrorKind::Model, node_.origin.str(), " lacks attribute '", name, "'");
      const GraphPtr body = body_of(*found->second);
      std::vector<ValueId> here;
      NameScope inner = inside(*body, here);
      try {
        importer_.import_body(*found->second, inner, {}, depth_ + 1, /*again=*/false);
      } catch (const Error& error) {
        // The bound shapes contradict this branch, so no correct run takes it.
        if (error.kind() != ErrorKind::Shape || !impossible.empty()) throw;
        impossible.push_back(name);
        refusal = error;
        continue;
      }
      captured_.insert(captured_.end(), here.begin(), here.end());
      if (node_.attributes.count("then_branch")) {
        require_same_forms(node_, *scope_.graph,
                           {*std::get<GraphPtr>(node_.attributes.at("then_branch")), forms_},
                           {*body, inner.forms});
      }
      node_.attributes[name] = body;
      forms_ = inner.forms;
    }
    if (impossible.empty()) return;
    const std::string other = impossible[0] == "then_branch" ? "else_branch" : "then_branch";
    node_.attributes[impossible[0]] = poison_like(*std::get<GraphPtr>(node_.attributes.at(other)), *refusal);
  }

  // Imports the body of a Loop or a Scan. Sizes of states that differ between iterations become symbols,
  // which are carried as further states. The body is imported again until no more such sizes are found.
  void import_body(const std::string& name, const tc_onnx::GraphProto& proto) {
    std::vector<FormalInput> formal = formal_inputs();
    for (int round = 0;; ++round) {
      const GraphPtr body = body_of(proto);
      std::vector<ValueId> here;
      NameScope inner = inside(*body, here);
      const std::vector<ValueId> sizes = carry_sizes(*body, formal);
      importer_.import_body(proto, inner, formal, depth_ + 1, /*again=*/round > 0);
      body->inputs.insert(body->inputs.end(), sizes.begin(), sizes.end());
      if (node_.op->traits.control == Control::Loop && find_changes(*body, formal)) continue;
      captured_.insert(captured_.end(), here.begin(), here.end());
      node_.attributes[name] = body;
      return;
    }
  }

  // Adds inputs of the body for the sizes that change, each bound to its symbol, and puts the symbols into
  // the shapes of the states.
  std::vector<ValueId> carry_sizes(Graph& body, std::vector<FormalInput>& formal) const {
    std::vector<ValueId> result;
    for (const auto& [state, axis] : changing_) {
      result.push_back(body.fresh_value(text("size ", result.size()), DType::I64, Shape{}));
      NodeBuilder build(body, node_);
      formal[state + kLoopOperands].shape[axis] = build.size(result.back(), std::nullopt);
      for (Node& made : build.take()) body.nodes.push_back(std::move(made));
    }
    return result;
  }

  // Notes the axes of states whose sizes an iteration changes; false where there are no new ones.
  bool find_changes(const Graph& body, const std::vector<FormalInput>& formal) {
    const size_t before = changing_.size();
    for (size_t state = 0; state + kLoopOperands < formal.size() && state + 1 < body.outputs.size();
         ++state) {
      const Shape &given = formal[state + kLoopOperands].shape, &next = *body[body.outputs[state + 1]].shape;
      for (size_t axis = 0; given.size() == next.size() && axis < given.size(); ++axis) {
        if (given[axis] != next[axis]) changing_.emplace(state, axis);
      }
    }
    return changing_.size() > before;
  }

  // Types and shapes of the values that the node binds to the body's inputs.
  std::vector<FormalInput> formal_inputs() const {
    const Graph& graph = *scope_.graph;
    std::vector<FormalInput> result;
    const bool loop = node_.op->traits.control == Control::Loop;
    for (size_t i = loop ? kLoopOperands : 0; i < node_.inputs.size(); ++i) {
      if (node_.inputs[i] == kNoValue) fail(ErrorKind::Model, node_.origin.str(), " leaves out input ", i);
    }
    if (loop) {
      result = {{DType::I64, {}}, {DType::Bool, {}}};
      for (size_t i = kLoopOperands; i < node_.inputs.size(); ++i)
        result.push_back({graph[node_.inputs[i]].dtype, *graph[node_.inputs[i]].shape});
      return result;
    }
    const auto found = node_.attributes.find("num_scan_inputs");
    if (found == node_.attributes.end())
      fail(ErrorKind::Model, node_.origin.str(), " lacks attribute 'num_scan_inputs'");
    const size_t scans = static_cast<size_t>(
        std::clamp<int64_t>(unchecked_attribute<int64_t>(node_, "num_scan_inputs"), 0, 1 << 20));
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      FormalInput formal{graph[node_.inputs[i]].dtype, *graph[node_.inputs[i]].shape};
      if (i + scans >= node_.inputs.size() && !formal.shape.empty()) formal.shape.erase(formal.shape.begin());
      result.push_back(formal);
    }
    return result;
  }

  GraphPtr body_of(const tc_onnx::GraphProto& proto) const {
    auto body = std::make_shared<Graph>();
    body->name = scope_.graph->name + "/" + proto.name();
    return body;
  }

  NameScope inside(Graph& body, std::vector<ValueId>& captured) {
    return {&body, &scope_, {}, &captured, scope_.opsets, scope_.function_attributes};
  }

  const tc_onnx::NodeProto& proto_;
  Node& node_;
  NameScope& scope_;
  int depth_;
  NodeImporter& importer_;
  std::map<std::string, const tc_onnx::GraphProto*> graphs_;
  std::set<std::pair<size_t, size_t>> changing_;  // (state, axis)
  std::vector<ValueId> captured_;
  std::vector<OutputForm> forms_;
};

}  // namespace

bool inline_branch(const tc_onnx::NodeProto& proto, const Node& node, NameScope& scope, int depth,
                   NodeImporter& importer) {
  if (node.op->traits.control != Control::Branch || node.inputs.empty() || node.inputs[0] == kNoValue)
    return false;
  const Value& value = (*scope.graph)[node.inputs[0]];
  std::optional<bool> condition;
  if (value.constant && value.constant->count() == 1) condition = value.constant->as_int(0) != 0;
  if (!condition && value.elements && value.elements->size() == 1 && (*value.elements)[0].is_constant()) {
    condition = (*value.elements)[0].constant() != 0;
  }
  if (!condition) return false;
  for (const auto& attribute : proto.attribute()) {
    if (attribute.name() != (*condition ? "then_branch" : "else_branch")) continue;
    const tc_onnx::GraphProto& body = attribute.g();
    NameScope inner{scope.graph, &scope, {}, nullptr, scope.opsets, scope.function_attributes};
    importer.import_inline(body, inner, depth + 1);
    for (int i = 0; i < body.output_size() && i < proto.output_size(); ++i) {
      importer.define(proto.output(i), binding_of(importer, body.output(i).name(), inner, node.origin.str()),
                      scope);
    }
    return true;
  }
  fail(ErrorKind::Model, node.origin.str(), " lacks a branch");
}

std::vector<OutputForm> import_subgraphs(const tc_onnx::NodeProto& proto, Node& node, NameScope& scope,
                                         int depth, NodeImporter& importer) {
  return Subgraphs(proto, node, scope, depth, importer).run();
}

}  // namespace tc
