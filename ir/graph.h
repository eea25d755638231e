// The graph IR: SSA values with element type and symbolic shape, nodes that are ops of the table.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ir/tensor.h"

namespace tc {

struct Graph;
struct OpRow;
using GraphPtr = std::shared_ptr<Graph>;

// Where a node came from; every later error and profile line can print it.
struct Origin {
  std::string file;     // model file, without its folder
  std::string node;     // node's name in the file, or its first output where it has none
  std::string op_type;  // operator type in the file ("Conv"), with domain if not the default one
  int opset = 0;
  std::string str() const;  // `node 'conv1' (Conv, opset 13) of model.onnx`
};

using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>, TensorPtr, GraphPtr, std::vector<Dim>>;

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;  // an optional input that is left out

// One SSA value. `constant` holds its data where known. `elements` holds the known content of a
// small integer tensor (rank 0 or 1) as symbolic integers: how shapes flow through Shape, Gather,
// Concat and friends into Reshape and Expand.
struct Value {
  std::string name;  // unique in its graph
  DType dtype = DType::F32;
  std::optional<Shape> shape;  // set by shape inference
  TensorPtr constant;
  std::optional<std::vector<Dim>> elements;
};

struct Node {
  const OpRow* op = nullptr;                    // row of the op table
  std::vector<ValueId> inputs;                  // kNoValue for an omitted optional input
  std::vector<ValueId> outputs;                 // kNoValue for an unused optional output
  std::map<std::string, Attribute> attributes;  // those given; defaults live in the row
  Origin origin;
};

// A size that a node computes. Shapes use it like a symbol of an input. Its value is known once `source` has
// been computed, which happens before every node that mentions the symbol.
struct DataSymbol {
  ValueId source = kNoValue;  // a single i64 that a node computes, whose known element is the symbol
  // The largest size that it may have, in terms of symbols whose values are known by then; nothing:
  // unbounded.
  std::optional<Dim> bound;
};

// A relation of two sizes that inference could not prove: they are equal, or the first is at most the second.
// A run checks it once both are known.
struct SizeRelation {
  Dim left, right;
  bool equal = true;
  std::string where;  // the node that needs it
};

// How a node of a quantised network is computed, recorded for the report by the pass that decided it.
struct ArithmeticNote {
  // Integers: the node sums, joins or selects integers. Bytes: it is an elementwise function that the kernel
  // of a sum, or a kernel of its own, computes in registers between the integers that it reads and those that
  // it writes. Floats: the node stayed as it is in the file.
  enum class Kind : uint8_t { Integers, Bytes, Floats };
  Kind kind = Kind::Floats;
  std::string node, op;      // as the file has them
  int region = -1;           // number, from 0, of the group of nodes that integers connect; Floats: -1
  bool fixed_point = false;  // rescaled to its result without floats
  std::string reason;        // Floats: why, as a clause; else a remark, or empty
};

// Nodes are in topological order. A subgraph (attribute of If, Scan, Loop) reads values of the
// enclosing graph through `captures`: pairs (name that the outer value had when it was imported, for people;
// the subgraph's own value that represents it, which is not a formal input). The node that holds the
// subgraphs lists the captured outer values as further inputs after its formal ones: those of its first
// subgraph in the order of its captures, then those of the second. So every pass sees these uses as inputs.
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs, outputs;
  std::vector<std::pair<std::string, ValueId>> captures;
  // Symbols of the input shapes with the range each may take.
  std::map<std::string, std::pair<int64_t, int64_t>> symbols;
  // Sizes that nodes of this graph compute. Its subgraphs may mention them; those of a subgraph are visible
  // only in the subgraph.
  std::map<std::string, DataSymbol> data_symbols;
  // Relations of sizes that its nodes need; inference collects them.
  std::vector<SizeRelation> relations;
  // Notes on its nodes, where the network is quantised; empty before the pass integer_products.
  std::vector<ArithmeticNote> arithmetic;

  ValueId add_value(std::string name, DType dtype, std::optional<Shape> shape = std::nullopt);
  // A new value named `base`, or `base_1`, `base_2`, … where taken.
  ValueId fresh_value(const std::string& base, DType dtype, std::optional<Shape> shape = {});
  ValueId add_constant(const std::string& base, TensorPtr data);
  ValueId find(const std::string& name) const;  // kNoValue where absent
  Value& operator[](ValueId id) { return values.at(static_cast<size_t>(id)); }
  const Value& operator[](ValueId id) const { return values.at(static_cast<size_t>(id)); }
  // For each value, the index of the node that makes it, or -1.
  std::vector<int> producers() const;
  // For each value, the indices of the nodes that read it (once per reading node), graph outputs
  // not counted.
  std::vector<std::vector<int>> consumers() const;
};

// The symbols in the shapes and known elements of the node's inputs and outputs, in its attributes that list
// dimensions, and in its subgraphs, except those that the subgraphs define.
std::set<std::string> mentioned_symbols(const Graph& graph, const Node& node);

// Replaces symbols by sizes wherever the graph and its subgraphs mention them. The subgraphs must not be
// shared with another graph.
void substitute_symbols(Graph& graph, const std::map<std::string, Dim>& sizes);

// Attribute of the node, or the row's default; Model error where neither exists or the kind differs.
int64_t int_attribute(const Node& node, const std::string& name);
double float_attribute(const Node& node, const std::string& name);
std::string string_attribute(const Node& node, const std::string& name);
std::vector<int64_t> ints_attribute(const Node& node, const std::string& name);
bool has_attribute(const Node& node, const std::string& name);

// Text form: one line per input, constant (with a hash of its bytes, or its few elements) and node;
// parse_graph reads it back to an equal graph (constants larger than 16 elements come back as
// zeros of that type and shape).
std::string str(const Graph& graph);
Graph parse_graph(const std::string& text);

// Checks ids, topological order, single definition, dtypes and shapes against each op's inference;
// throws an Internal error naming the node and the rule broken.
void verify(const Graph& graph);

}  // namespace tc
