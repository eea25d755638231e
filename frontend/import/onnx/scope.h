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

// What a name of a sequence or an optional stands for. Both are resolved while importing: a graph has tensors
// only.
struct Composite {
  PortKind kind = PortKind::Sequence;
  bool present = true;          // of an optional
  std::vector<ValueId> values;  // a sequence's tensors in order, or an optional's
};
// A tensor, or what consists of some.
using Binding = std::variant<ValueId, Composite>;

// Names visible at a place. `graph` changes at the border of a subgraph: a value found beyond it is captured.
struct NameScope {
  Graph* graph;
  NameScope* parent;
  std::map<std::string, ValueId> names;
  std::vector<ValueId>* captured;  // ids in the parent's graph, in order of `graph->captures`
  const Opsets* opsets;
  std::map<std::string, tc_onnx::AttributeProto> function_attributes;
  std::map<std::string, Composite> composites = {};
  std::vector<OutputForm> forms = {};  // of the outputs, once a graph is imported
  int64_t* spent = nullptr;            // of kMostSpent; where there is no parent
};

// Tensors that the sequences of a model may hold in all, each time one is made: a few bytes of a file may ask
// for many.
constexpr int64_t kMostSpent = int64_t{1} << 25;
// A value that is made for one counts as so many.
constexpr int64_t kSpentByValue = 2048;
// Unsupported error, in which `name` is named, where there are more than that.
void spend(NameScope& scope, const std::string& name, int64_t amount);

// The value of a name, captured from enclosing graphs where it is not of this one; kNoValue where there is
// none.
ValueId find_value(const std::string& name, NameScope& scope);
// The same for what is no tensor; null where the name is one, or is not known.
const Composite* find_composite(const std::string& name, NameScope& scope);

// What a formal input of a subgraph is bound to.
struct FormalInput {
  DType dtype;
  Shape shape;
};

// What the importer does for those who take nodes apart.
class NodeImporter {
 public:
  virtual ~NodeImporter() = default;
  virtual void import_node(const tc_onnx::NodeProto& node, NameScope& scope, int depth) = 0;
  // A body's constants and nodes into the scope's graph, once more than the file has them: Unsupported error
  // where a model has too much of that.
  virtual void import_repeated(const tc_onnx::GraphProto& body, NameScope& scope, int depth) = 0;
  // The same, each time as the file has them.
  virtual void import_inline(const tc_onnx::GraphProto& body, NameScope& scope, int depth) = 0;
  // A subgraph into the scope's graph, which is its own; `again` where it was before, for other sizes:
  // Unsupported error where a model has too much of that.
  virtual void import_body(const tc_onnx::GraphProto& body, NameScope& scope,
                           const std::vector<FormalInput>& formal, int depth, bool again) = 0;
  // The tensor that a name stands for; Model and Unsupported errors, which begin with `who`, where it is
  // none.
  virtual ValueId resolve(const std::string& name, NameScope& scope, const std::string& who) = 0;
  virtual void define(const std::string& name, const Binding& binding, NameScope& scope) = 0;
  // Where the node comes from and what its attributes are, subgraphs and types left out.
  virtual Node described(const tc_onnx::NodeProto& node, const NameScope& scope) const = 0;
};

// What a name stands for, whichever it is.
Binding binding_of(NodeImporter& importer, const std::string& name, NameScope& scope, const std::string& who);

// Imports a node of the default domain, of opset 18, that is made in the place of `model`, between values of
// the scope's graph, and gives its outputs back, which get these names.
struct MadeNode {
  std::string op_type;
  std::vector<ValueId> inputs;
  std::map<std::string, int64_t> attributes;
  std::vector<std::string> outputs;
  std::map<std::string, std::vector<int64_t>> lists = {};  // attributes
};
std::vector<ValueId> import_made(NodeImporter& importer, const MadeNode& made,
                                 const tc_onnx::NodeProto& model, NameScope& scope, int depth);

// A list of integers as a constant.
ValueId constant_integers(Graph& graph, const std::string& name, const std::vector<int64_t>& values);

}  // namespace tc
