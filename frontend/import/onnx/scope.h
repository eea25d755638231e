// The names of a model while it is imported, and what they stand for.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "frontend/import/import.h"
#include "frontend/import/onnx/model_file.h"
#include "frontend/import/onnx/onnx.pb.h"
#include "ir/graph.h"

namespace tc {

// The value of a name that is a sequence or an optional. Both are resolved while importing: a graph has only
// tensors.
struct Composite {
  PortKind kind = PortKind::Sequence;
  bool present = true;          // false: an optional without a value
  std::vector<ValueId> values;  // a sequence's tensors in order, or an optional's
};
// A tensor, or a sequence or optional of tensors.
using Binding = std::variant<ValueId, Composite>;

// The names that are visible at one place of the model. A subgraph's scope has another `graph` than its
// parent: it captures the values of names that it finds in the parent.
struct NameScope {
  Graph* graph;
  NameScope* parent;
  std::map<std::string, ValueId> names;
  std::vector<ValueId>* captured;  // ids in the parent's graph, in order of `graph->captures`
  const Opsets* opsets;
  std::map<std::string, tc_onnx::AttributeProto> function_attributes;
  std::map<std::string, Composite> composites = {};
  std::vector<OutputForm> forms = {};  // of the graph's outputs, once it is imported
  int64_t* spent = nullptr;            // how much of kMaxSpent is used; only where there is no parent
};

// The most tensors in all sequences of a model, counted each time that a sequence is made: a few bytes of a
// file may ask for many.
constexpr int64_t kMaxSpent = int64_t{1} << 25;
// A value that is made for a sequence counts as so many tensors.
constexpr int64_t kSpentByValue = 2048;
// Counts `amount` tensors; an Unsupported error that names `name` where there are more than kMaxSpent.
void spend(NameScope& scope, const std::string& name, int64_t amount);

// The value of a name, captured where an enclosing graph defines it; kNoValue where none does.
ValueId find_value(const std::string& name, NameScope& scope);
// The same for sequences and optionals; null where the name is a tensor or is not known.
const Composite* find_composite(const std::string& name, NameScope& scope);

// Type and shape of what an input of a subgraph is bound to.
struct FormalInput {
  DType dtype;
  Shape shape;
};

// What the importer does for the files that import special nodes (loops, subgraphs, sequences).
class NodeImporter {
 public:
  virtual ~NodeImporter() = default;
  virtual void import_node(const tc_onnx::NodeProto& node, NameScope& scope, int depth) = 0;
  // Imports a body's constants and nodes into the scope's graph as one of several copies of the same body.
  // Unsupported error where a model has too many copies.
  virtual void import_repeated(const tc_onnx::GraphProto& body, NameScope& scope, int depth) = 0;
  // The same for a body that is imported only as often as the file contains it.
  virtual void import_inline(const tc_onnx::GraphProto& body, NameScope& scope, int depth) = 0;
  // Imports a subgraph into a graph of its own, the scope's. `again`: it was imported before, with other
  // sizes; Unsupported error where a model has too much of that.
  virtual void import_body(const tc_onnx::GraphProto& body, NameScope& scope,
                           const std::vector<FormalInput>& formal, int depth, bool again) = 0;
  // The tensor that a name stands for; Model and Unsupported errors, which begin with `who`, where there is
  // none.
  virtual ValueId resolve(const std::string& name, NameScope& scope, const std::string& who) = 0;
  virtual void define(const std::string& name, const Binding& binding, NameScope& scope) = 0;
  // The node's origin and attributes, without subgraphs and types.
  virtual Node described(const tc_onnx::NodeProto& node, const NameScope& scope) const = 0;
};

// What a name stands for: a tensor, a sequence or an optional.
Binding binding_of(NodeImporter& importer, const std::string& name, NameScope& scope, const std::string& who);

// A node of the default domain in the form of opset 18. import_made() imports it in place of the file's node
// `model`; its inputs are values of the scope's graph. Returns its outputs, which get the names `outputs`.
struct MadeNode {
  std::string op_type;
  std::vector<ValueId> inputs;
  std::map<std::string, int64_t> attributes;
  std::vector<std::string> outputs;
  std::map<std::string, std::vector<int64_t>> lists = {};  // attributes that are lists
};
std::vector<ValueId> import_made(NodeImporter& importer, const MadeNode& made,
                                 const tc_onnx::NodeProto& model, NameScope& scope, int depth);

// A constant with a list of integers.
ValueId constant_integers(Graph& graph, const std::string& name, const std::vector<int64_t>& values);

}  // namespace tc
