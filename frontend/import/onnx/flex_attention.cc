#include "frontend/import/onnx/flex_attention.h"

#include <algorithm>
#include <cmath>

#include "frontend/import/onnx/tensor_reader.h"
#include "ir/error.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

using Ints = std::vector<int64_t>;

class FlexAttention {
 public:
  FlexAttention(const tc_onnx::NodeProto& proto, NameScope& scope, int depth, NodeImporter& importer)
      : proto_(proto),
        scope_(scope),
        depth_(depth),
        importer_(importer),
        node_(importer.described(proto, scope)),
        who_(node_.origin.str()),
        build_(*scope.graph, node_) {}

  void run() {
    read_operands();
    const Shape scores_shape = {query_shape_[0], query_shape_[1], query_shape_[2], key_shape_[2]};
    ValueId scores = build_.add("MatMul", {shared(query_, query_shape_[3]),
                                           build_.add("Transpose", {key_}, {{"perm", Ints{0, 1, 3, 2}}})});
    scores = build_.add("Mul", {reshape(scores, scores_shape), build_.number(build_.dtype(scores), scale())});
    const DType type = softmax_type();
    scores = changed("score_mod", build_.cast(scores, type));
    const ValueId probabilities =
        changed("prob_mod", build_.add("Softmax", {scores}, {{"axis", int64_t{-1}}}));
    const ValueId sums =
        build_.add("MatMul", {shared(probabilities, key_shape_[2]), build_.cast(value_, type)});
    const ValueId result =
        reshape(sums, {query_shape_[0], query_shape_[1], query_shape_[2], value_shape_[3]});
    importer_.define(proto_.output(0), build_.cast(result, build_.dtype(value_)), scope_);
    put_nodes();
  }

 private:
  void read_operands() {
    if (proto_.input_size() != 3 || proto_.output_size() != 1) {
      fail(ErrorKind::Model, who_, " has ", proto_.input_size(), " inputs and ", proto_.output_size(),
           " outputs; Q, K and V, and one output are needed");
    }
    ValueId* const operands[] = {&query_, &key_, &value_};
    Shape* const shapes[] = {&query_shape_, &key_shape_, &value_shape_};
    for (int i = 0; i < 3; ++i) {
      *operands[i] = importer_.resolve(proto_.input(i), scope_, who_);
      *shapes[i] = build_.shape(*operands[i]);
      if (shapes[i]->size() != 4 || !is_float(build_.dtype(*operands[i])) ||
          build_.dtype(*operands[i]) != build_.dtype(query_)) {
        fail(ErrorKind::Shape, who_, ": input ", i, " is ", name_of(build_.dtype(*operands[i])),
             str(*shapes[i]), "; floats of one type and rank 4 are needed");
      }
    }
    const Dim &heads = query_shape_[1], &fewer = key_shape_[1];
    const bool known = heads.is_constant() && fewer.is_constant();
    const bool divides =
        heads == fewer || (known && fewer.constant() > 0 && heads.constant() % fewer.constant() == 0);
    if (heads != fewer && divides) groups_ = heads.constant() / fewer.constant();
    const Shape key = {query_shape_[0], fewer, key_shape_[2], query_shape_[3]},
                value = {query_shape_[0], fewer, key_shape_[2], value_shape_[3]};
    if (divides && key == key_shape_ && value == value_shape_) return;
    fail(
        ErrorKind::Shape, who_, ": Q, K and V have shapes ", str(query_shape_), ", ", str(key_shape_),
        " and ", str(value_shape_),
        "; [batch, heads, queries, size], [batch, fewer heads, keys, size] and [batch, fewer heads, keys, any size] are needed");
  }

  double scale() const {
    const auto found = node_.attributes.find("scale");
    if (found != node_.attributes.end()) return unchecked_attribute<double>(node_, "scale");
    if (!query_shape_[3].is_constant()) {
      fail(ErrorKind::Unsupported, who_, ": the scale of heads of ", query_shape_[3].str(),
           " elements is not known; give `scale`");
    }
    return 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, query_shape_[3].constant())));
  }

  DType softmax_type() const {
    if (!node_.attributes.count("softmax_precision"))
      return build_.dtype(query_) == DType::F64 ? DType::F64 : DType::F32;
    const int64_t number = unchecked_attribute<int64_t>(node_, "softmax_precision");
    const DType type = dtype_of_onnx(static_cast<int32_t>(std::clamp<int64_t>(number, 0, 1 << 20)), who_);
    if (!is_float(type) || is_narrow_float(type))
      fail(ErrorKind::Shape, who_, ": softmax_precision is ", name_of(type),
           "; a float type of 16 bits or more is needed");
    return type;
  }

  ValueId reshape(ValueId value, const Shape& shape) {
    if (build_.shape(value) == shape) return value;
    return build_.add("Reshape", {value}, {{"shape", std::vector<Dim>(shape)}, {"allowzero", int64_t{1}}});
  }

  // The value with the query heads that share a head of keys as rows of one matrix.
  ValueId shared(ValueId value, const Dim& size) {
    return reshape(value, {query_shape_[0], key_shape_[1], Dim(groups_) * query_shape_[2], size});
  }

  void put_nodes() {
    for (Node& made : build_.take()) scope_.graph->nodes.push_back(std::move(made));
  }

  // The result of the subgraph with this name for the value; the value itself where the node has no such
  // subgraph.
  ValueId changed(const char* name, ValueId value) {
    for (const auto& attribute : proto_.attribute()) {
      if (attribute.name() != name || !attribute.has_g()) continue;
      put_nodes();
      const tc_onnx::GraphProto& body = attribute.g();
      if (body.input_size() != 1 || body.output_size() != 1) {
        fail(ErrorKind::Model, who_, ": subgraph '", name, "' has ", body.input_size(), " inputs and ",
             body.output_size(), " outputs; one of each is needed");
      }
      NameScope inner{scope_.graph, &scope_, {}, nullptr, scope_.opsets, scope_.function_attributes};
      inner.names[body.input(0).name()] = value;
      importer_.import_inline(body, inner, depth_ + 1);
      const ValueId result = importer_.resolve(body.output(0).name(), inner, who_);
      const Value &before = (*scope_.graph)[value], &after = (*scope_.graph)[result];
      if (before.dtype != after.dtype || before.shape != after.shape) {
        fail(ErrorKind::Shape, who_, ": subgraph '", name, "' makes ", name_of(after.dtype),
             str(*after.shape), " of ", name_of(before.dtype), str(*before.shape),
             "; the same type and shape are needed");
      }
      return result;
    }
    return value;
  }

  const tc_onnx::NodeProto& proto_;
  NameScope& scope_;
  int depth_;
  NodeImporter& importer_;
  Node node_;
  std::string who_;
  NodeBuilder build_;
  ValueId query_ = kNoValue, key_ = kNoValue, value_ = kNoValue;
  Shape query_shape_, key_shape_, value_shape_;
  int64_t groups_ = 1;  // query heads per head of the keys
};

}  // namespace

bool is_flex_attention(const tc_onnx::NodeProto& node) {
  return node.domain() == "ai.onnx.preview" && node.op_type() == "FlexAttention";
}

void import_flex_attention(const tc_onnx::NodeProto& node, NameScope& scope, int depth,
                           NodeImporter& importer) {
  FlexAttention(node, scope, depth, importer).run();
}

}  // namespace tc
