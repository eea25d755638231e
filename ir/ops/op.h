// The op table: every operator is declared once, as a row in ir/ops/*.cc.
//
// From a row come the importer's mapping, shape inference with uniform errors, the loop IR, flop
// counts, the reference result (through the interpreter) and the operator page of the docs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/graph.h"
#include "ir/loop.h"
#include "ir/ops/constraints.h"
#include "ir/ops/traits.h"

namespace tc {

// An operator name of the ONNX file format, and the first opset version whose form this entry accepts. A
// later version with another form is a further entry with its own `normalize`.
struct OnnxName {
  std::string name;
  int since = 1;
  // Brings a node of this version to the row's canonical form (attributes that became inputs, defaults that
  // changed, removed attributes); null where the forms agree. It may replace inputs by attributes where they
  // are constant or have known `elements`, add constants and nodes to the graph (which come before the node),
  // and switch to another row where an attribute changes which operator the node is.
  std::function<void(Graph&, Node&)> normalize = nullptr;
  std::string domain = "";  // "" is the default domain
};

struct AttributeRow {
  std::string name;
  Attribute fallback;
  bool required = false;
  std::string doc = "";
  AttributeRule rule = {};  // the allowed values
};

// What a row's shape inference may ask about a node, and how it reports the results.
class InferContext {
 public:
  InferContext(Graph& graph, const Node& node) : graph_(graph), node_(node) {}
  const Node& node() const { return node_; }
  Graph& graph() const { return graph_; }
  int input_count() const { return static_cast<int>(node_.inputs.size()); }
  bool has_input(int i) const;
  const Value& input(int i) const;  // Internal error where the input is left out
  const Shape& shape(int i) const;
  DType dtype(int i) const { return input(i).dtype; }
  int rank(int i) const { return static_cast<int>(shape(i).size()); }
  // The known content of a small integer input, if any.
  std::optional<std::vector<Dim>> elements(int i) const;
  // The known content as numbers; Unsupported error naming the input where it depends on data.
  std::vector<int64_t> constant_ints(int i, const char* what) const;
  void set_output(int i, DType dtype, Shape shape);
  void set_elements(int i, std::vector<Dim> elements);
  // Throws a Shape error: "<op> of node 'n' (…) of file: <parts>".
  template <class... Parts>
  [[noreturn]] void error(const Parts&... parts) const {
    fail_at(ErrorKind::Shape, text(parts...));
  }
  template <class... Parts>
  [[noreturn]] void unsupported(const Parts&... parts) const {
    fail_at(ErrorKind::Unsupported, text(parts...));
  }
  [[noreturn]] void fail_at(ErrorKind kind, const std::string& message) const;
  // Shape after numpy broadcasting; a Shape error names both operands and the axis.
  Shape broadcast(const std::vector<Shape>& shapes) const;
  // The axis, which may be negative, as one in 0 <= axis < rank; else a Shape error.
  int64_t axis(int64_t axis, int64_t rank) const;
  // The sizes have to be equal, or the first at most the second. Throws a Shape error with this message where
  // that never holds; where it cannot be proved, it adds a relation that the run checks.
  void require_equal(const Dim& left, const Dim& right, const std::string& message) const;
  void require_at_most(const Dim& left, const Dim& right, const std::string& message) const;
  // For sizes of operands that have to be equal and are not known to be. Throws UnprovedSizes
  // (ir/ops/depends_on_data.h), so that the code that adds the node can give the operands the same size, or a
  // Shape error where the sizes are never equal.
  [[noreturn]] void differ(const Dim& left, const Dim& right, const std::string& message) const;

 private:
  Graph& graph_;
  const Node& node_;
};

// Builds the statements of one node inside a kernel. Buffers of the node's inputs and outputs exist
// already, with the values' logical shapes.
class LowerContext {
 public:
  LowerContext(const Graph& graph, const Node& node, Kernel& kernel, const std::map<ValueId, int>& buffers,
               std::map<std::string, std::string>& parameters);
  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  Kernel& kernel() { return kernel_; }
  bool has_input(int i) const;
  int input(int i) const;   // buffer of input i
  int output(int i) const;  // buffer of output i; -1 where unused
  const Value& input_value(int i) const;
  const Value& output_value(int i) const;
  const Shape& shape(int i) const;  // of input i
  DType dtype(int i) const;
  // A dimension as an affine expression: a number, or a parameter of the kernel, which is created on first
  // use.
  Affine dim(const Dim& dim);
  // A private buffer.
  int local(const std::string& base, DType dtype, const Shape& shape);
  // A name not yet taken by a statement.
  std::string fresh(const std::string& base);
  // Iterators i0..ik over a shape, with the given name stem.
  std::vector<Iterator> iterators(const std::string& stem, const Shape& shape);
  // The same without iterators for dimensions of extent 1, and the position in the shape that the iterators
  // give (0 in those dimensions).
  struct Space {
    std::vector<Iterator> iterators;
    std::vector<Affine> position;
  };
  Space space(const std::string& stem, const Shape& shape);
  // Subscripts of operand `i` read at the output position `position` under numpy broadcasting.
  std::vector<Affine> broadcast_index(const Shape& shape, const std::vector<Affine>& position) const;
  // Loads input i at the subscripts; storage types are cast to the type that they are computed in.
  ExprPtr read(int i, const std::vector<Affine>& index) const;
  ExprPtr read(int i, std::vector<Subscript> index) const;
  ExprPtr read_buffer(int buffer, const std::vector<Affine>& index) const;
  // Adds `buffer[index] = value` over the iterators; the value is cast to the buffer's type.
  void assign(const std::string& base, std::vector<Iterator> iterators, int buffer,
              const std::vector<Affine>& index, ExprPtr value, std::vector<Affine> constraints = {});
  struct ReductionLoops {
    std::vector<Iterator> outer, inner;
    std::vector<Affine> constraints = {};
  };
  // Adds the initialisation and the reduction statement: `buffer[index] (op)= value`. The initialisation runs
  // over `outer`; the reduction over `outer` then `inner`, where the constraints hold.
  void reduce(const std::string& base, const ReductionLoops& loops, int buffer,
              const std::vector<Affine>& index, Reduction reduction, ExprPtr value);
  // Adds a statement as it is.
  void add(Statement statement);
  // The type in which values of the type are computed: f32 for f16, bf16 and narrower floats (ir/dtype.h).
  static DType compute_type(DType dtype);

 private:
  const Graph& graph_;
  const Node& node_;
  Kernel& kernel_;
  const std::map<ValueId, int>& buffers_;
  std::map<std::string, std::string>& parameters_;  // Dim text -> parameter name
};

// The equation of nodes whose attributes all have these values, which are integers and texts.
struct EquationCase {
  std::map<std::string, Attribute> attributes;
  std::string equation;
};

struct OpRow {
  // Compute: statements through `lower` or by the equation. View: the output is the input's memory with
  // another shape (reshape, squeeze, identity) wherever its layout is plain. Expand: rewritten into other ops
  // before scheduling. Control: subgraphs; the plan runs them (If, Loop, Scan).
  enum class Kind : uint8_t { Compute, View, Expand, Control };

  std::string name;  // canonical: the ONNX name where there is one
  Kind kind = Kind::Compute;
  std::string category;  // the heading in docs/operators.md; nothing else asks for it
  std::string doc;       // one line
  // What the operator computes, as a formula or an equation (ir/ops/formula.h), if it can be written as one.
  // It is the row's inference where `infer` is null, and its lowering where `lower` is. The rows that have an
  // equation and yet such a function are listed in tests/ir/equation_test.cc, with the reasons.
  std::string equation;
  // Further equations, for nodes whose attributes have certain values. The first that fits is used.
  std::vector<EquationCase> cases;
  std::vector<OnnxName> onnx;
  int minimum_inputs = 1, maximum_inputs = 1;  // maximum -1: any number
  int outputs = 1;                             // maximum number of outputs; -1: any number
  std::vector<AttributeRow> attributes;
  std::vector<TypeRule> types;  // of the inputs; inputs that no rule names may have any type
  // Called only if the constraints above and those of the attributes hold. Null: by the equation.
  std::function<void(InferContext&)> infer;
  // Called after inference: sets the known elements of a small integer result.
  std::function<void(InferContext&)> infer_elements;
  // Compute; View: the copy, where memory cannot be shared. Null for Compute: by the equation.
  std::function<void(LowerContext&)> lower;
  // Expand: replaces the node; the returned nodes define its outputs. A Compute row may have one too; it
  // returns no nodes where the node is to stay.
  std::function<std::vector<Node>(Graph&, const Node&)> expand;
  // True for ops that are one scalar function of same-position elements (fusable as a chain).
  bool elementwise = false;
  OpTraits traits;
  // The input that the node's only output equals (a product by 1, a transpose that moves nothing), or
  // kNoValue. Null: there is none, except for views that keep the shape.
  std::function<ValueId(const Graph&, const Node&)> forwards;
  // Where the output channels are in this node's weights; nothing where scaling the weights and adding to the
  // bias would not scale and shift the result. A null function means nothing.
  std::function<std::optional<OutputChannels>(const Node&)> output_channels;

  const AttributeRow* attribute(const std::string& name) const;
};

// All rows by canonical name, in order of name.
const std::map<std::string, OpRow>& op_table();
const OpRow* find_op(const std::string& name);
// The row and the form for an ONNX node, or null: the entry with the largest `since` <= opset.
const OpRow* find_onnx_op(const std::string& domain, const std::string& type, int opset,
                          const OnnxName** form);

// Infers the result of a node whose operands satisfy the row's constraints, and lowers a node, by the row's
// functions or its equation.
void infer_by_row(InferContext& context);
void lower_by_row(LowerContext& context);
// Whether nodes of the row can be lowered.
bool has_lowering(const OpRow& row);

// Adds rows to the table; each ir/ops/*.cc defines one `void register_NAME_ops(OpTable&)`, listed
// once in ir/ops/table.cc.
class OpTable {
 public:
  OpRow& add(OpRow row);  // Internal error for a name that is taken
  std::map<std::string, OpRow> rows;
};

// Infers types, shapes and elements of every value in order; errors name the node.
void infer_shapes(Graph& graph);
// The same for one node of the graph, whose inputs must have been inferred.
void infer_node(Graph& graph, const Node& node);

// Attributes of further kinds, as in graph.h. dims_attribute also accepts integers.
std::vector<Dim> dims_attribute(const Node& node, const std::string& name);
std::vector<double> floats_attribute(const Node& node, const std::string& name);
GraphPtr graph_attribute(const Node& node, const std::string& name);
TensorPtr tensor_attribute(const Node& node, const std::string& name);

// One kernel for a group of nodes (in order): arguments are the values that come from outside, then
// the group's outputs; everything else is Local. Constants become Constant buffers.
// `argument_values` receives the value of each argument buffer.
Kernel lower_group(const Graph& graph, const std::vector<int>& nodes, const std::vector<ValueId>& outputs,
                   std::vector<ValueId>* argument_values);

// Substitutes Local buffers that are written once, elementwise, by a plain statement into their
// readers, where that repeats no expensive work (one reader, or a cheap expression), and drops buffers and
// statements that nothing reads.
void inline_locals(Kernel& kernel);

}  // namespace tc
