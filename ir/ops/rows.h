// What the files of op rows share: their registration, and helpers for normalisation and inference.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/ops/op.h"

namespace tc {

void register_activation_ops(OpTable& table);
void register_arithmetic_ops(OpTable& table);
void register_attention_ops(OpTable& table);
void register_rotary_ops(OpTable& table);
void register_causal_product_ops(OpTable& table);
void register_compare_ops(OpTable& table);
void register_contributed_attention_ops(OpTable& table);
void register_contributed_quantised_ops(OpTable& table);
void register_block_weight_ops(OpTable& table);
void register_control_ops(OpTable& table);
void register_convolution_ops(OpTable& table);
void register_determinant_ops(OpTable& table);
void register_einsum_ops(OpTable& table);
void register_gather_ops(OpTable& table);
void register_linear_attention_ops(OpTable& table);
void register_loss_ops(OpTable& table);
void register_machine_learning_ops(OpTable& table);
void register_matmul_ops(OpTable& table);
void register_movement_ops(OpTable& table);
void register_ngram_ops(OpTable& table);
void register_normalization_ops(OpTable& table);
// The row of BatchNormalization with training_mode 1; `inference` is the row for inference.
OpRow batch_normalization_training(const OpRow& inference);
void register_packed_weight_ops(OpTable& table);
void register_part_ops(OpTable& table);
void register_pooling_ops(OpTable& table);
// To be called last: it adds rows, and older forms of operators to rows that are there already.
void register_old_forms(OpTable& table);
void register_quantize_ops(OpTable& table);
void register_random_ops(OpTable& table);
void register_recurrent_ops(OpTable& table);
void register_region_ops(OpTable& table);
void register_reduction_ops(OpTable& table);
void register_resize_ops(OpTable& table);
void register_sampling_ops(OpTable& table);
void register_selection_ops(OpTable& table);
void register_shape_ops(OpTable& table);
void register_sorting_ops(OpTable& table);
void register_suppression_ops(OpTable& table);
void register_transformer_ops(OpTable& table);
void register_tree_ops(OpTable& table);
void register_signal_ops(OpTable& table);
void register_unpooling_ops(OpTable& table);
void register_view_ops(OpTable& table);

// The most elements that may be padded or cut at one end of an axis.
constexpr int64_t kFurthestPad = int64_t{1} << 31;

// How many inputs an operator takes; -1: any number.
struct InputCount {
  int minimum = 0, maximum = 0;
};

using Normalize = std::function<void(Graph&, Node&)>;

// An input whose content the compiler must know becomes an attribute (dimensions, integers, floats
// or one float); where it is left out, so is the attribute. The input is dropped. Unsupported error
// where its content depends on data.
Normalize input_to_dims(int input, std::string attribute);
Normalize input_to_ints(int input, std::string attribute);
Normalize input_to_floats(int input, std::string attribute);
// Several steps in order; all number the inputs as they are before the first step.
Normalize all_of(std::vector<Normalize> steps);
Normalize drop_attributes(std::vector<std::string> names);

// The known content of a value: `elements`, or those of a constant of integers with rank <= 1.
std::optional<std::vector<Dim>> known_elements(const Value& value);
bool input_given(const Node& node, int input);
// An attribute that the node has, for normalisation, where its kind has not been checked yet; Model error
// where it is of another kind.
template <class T>
const T& unchecked_attribute(const Node& node, const std::string& name) {
  const T* value = std::get_if<T>(&node.attributes.at(name));
  if (!value) fail(ErrorKind::Model, node.origin.str(), ": attribute '", name, "' is of the wrong kind");
  return *value;
}

bool output_wanted(const Node& node, size_t output);
// The value of a text attribute, or the row's default; Unsupported error naming the node and the known values
// where it is none of them. For normalisation, which runs before the row's own constraints are checked.
std::string choice_attribute(const Node& node, const std::string& name,
                             const std::vector<std::string>& known);
// The integers of a list of dimensions; Unsupported error naming the node where one is a symbol.
std::vector<int64_t> fixed(const Node& node, const std::vector<Dim>& dims, const char* what);

// An interval that contains the dimension for all sizes that the graph allows.
Interval dim_range(const Dim& dim, const Graph& graph);
// Whether the size depends on sizes that the graph computes.
bool mentions_data(const Dim& dim, const Graph& graph);
// Ensures that a size is never negative: it raises the least value of the symbol that the size grows with,
// which inputs then must satisfy. Unsupported error ("`what` may be too small") where that is not enough.
void require_not_negative(InferContext& context, const Dim& size, const std::string& what);

// For normalisation: declares that the node computes a size, which its row has an additional last output for.
// The size becomes a data symbol of the graph, named by the attribute `symbol`.
void add_size(Graph& graph, Node& node, const Dim& bound);
// For inference: the symbol that add_size declared. It also becomes the known element of the row's last
// output.
Dim infer_size(InferContext& context);

// Builds the nodes that replace, or come before, the node `model`. Each add() appends a node with new outputs
// and returns these.
class NodeBuilder {
 public:
  NodeBuilder(Graph& graph, const Node& model) : graph_(graph), model_(model) {}
  ValueId add(const std::string& op, std::vector<ValueId> inputs,
              std::map<std::string, Attribute> attributes = {});
  // The same with given outputs.
  void add_to(const std::string& op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
              std::map<std::string, Attribute> attributes = {});
  std::vector<ValueId> add_many(const std::string& op, std::vector<ValueId> inputs, int outputs,
                                std::map<std::string, Attribute> attributes = {});
  // Makes the value an output of the replaced node, if the node has that output.
  void give(size_t output, ValueId value);
  ValueId number(DType dtype, double value);
  ValueId integer(DType dtype, int64_t value);
  ValueId constant(TensorPtr tensor);
  // The size that an i64 value holds: its known element, or a new data symbol of at most `bound`.
  Dim size(ValueId value, const std::optional<Dim>& bound);
  ValueId cast(ValueId value, DType to);  // the value itself where it has the type
  const Shape& shape(ValueId id) const { return *graph_[id].shape; }
  DType dtype(ValueId id) const { return graph_[id].dtype; }
  Graph& graph() { return graph_; }
  std::vector<Node> take() { return std::move(nodes_); }

 private:
  Graph& graph_;
  const Node& model_;
  std::vector<Node> nodes_;
};

// Rows whose result is a formula of the operands' elements at the same position.
enum class ResultType { Same, Bool };
struct ElementwiseRow {
  std::string name;
  int since;
  std::string formula;  // over a, b, c, … and the float attributes
  int inputs;
  std::string doc;
  std::vector<AttributeRow> attributes = {};
  ResultType result = ResultType::Same;
  std::vector<OnnxName> more_names = {};
  const char* domain = "";  // of the name; that of ONNX is empty
};
OpRow elementwise(const ElementwiseRow& row);

// A row under the name of its ONNX operator, without functions yet.
OpRow onnx_row(const std::string& category, const OnnxName& name, const std::string& doc,
               const InputCount& inputs, std::vector<AttributeRow> attributes);

// A row under its own ONNX name that only moves elements.
OpRow movement(const std::string& name, const std::string& doc);

// For OpRow::forwards: input 0 where the output has its type and shape; the same where it is the only input.
ValueId forwards_same_shape(const Graph& graph, const Node& node);
ValueId forwards_only_input(const Graph& graph, const Node& node);

// For rows whose constraints on types cannot be expressed in `OpRow::types`: all inputs that are given must
// be floats.
void require_float(InferContext& context);
// All inputs that are given must have one type, for which `fits` is true; `what` describes such types in
// errors.
void require_one_type(InferContext& context, bool (*fits)(DType), const char* what);

// Inference for ops whose result has the type and shape of input 0.
void infer_same(InferContext& context);

// The text of the element type with this number in the file format; Unsupported error naming the node for
// other numbers.
std::string dtype_text_of_onnx(const Node& node, int64_t number);
// Replaces the file format's number in the attribute, if given, by the type's text.
Normalize dtype_attribute(std::string attribute);

// How a cast treats special types: floats of 8 and 4 bits saturate or not, f8e8m0 is rounded by `round_mode`
// (up, down or nearest). Integers of less than 8 bits take the low bits of the whole number.
struct CastRules {
  bool saturate = true;
  std::string round_mode = "up";
};
ExprPtr cast_to(DType type, ExprPtr value, const CastRules& rules);

// Windows of convolution and pooling over the spatial axes: sizes, strides, dilations and padding
// with `auto_pad` resolved.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, before, after;
  std::vector<Dim> output;  // spatial extents of the result
};
// `spatial`: extents of the input. Attributes: strides, dilations, pads, auto_pad.
Window window_of(const Node& node, const std::vector<Dim>& spatial, const std::vector<int64_t>& kernel,
                 bool ceil_mode);
// The attributes of windows. `sized_by_attribute`: an attribute gives the windows' size, as in pooling.
std::vector<AttributeRow> window_attributes(bool sized_by_attribute);
// The attributes of convolutions, which also have `group`.
std::vector<AttributeRow> convolution_attributes();
// Shape error where a window's size, taken from the weights, is too large to compute with.
void check_kernel_extent(const Node& node, int64_t extent, size_t axis);
struct EquationNames;
// The subscripts of one to three spatial axes (`,y,x`, `,r,s` and `,y*stride_y+r*dilation_y-pad_y,…`),
// counted from the last.
struct WindowSubscripts {
  std::string output, kernel, input;
};
WindowSubscripts window_subscripts(size_t axes);
// Adds the extents and numbers of the names in these subscripts to `names`.
void bind_window(const Window& window, EquationNames& names);
// The values of attribute `name`, or `rank` times the fallback where it is left out.
std::vector<int64_t> per_axis(const Node& node, const std::string& name, size_t rank, int64_t fallback);

// A tensor of the given numbers.
TensorPtr number_tensor(DType dtype, const std::vector<int64_t>& shape, const std::vector<double>& values);
TensorPtr int_tensor(const std::vector<int64_t>& shape, const std::vector<int64_t>& values);

}  // namespace tc
