// What the attention operators of ONNX Runtime's own domain share: checks of their operands and attributes,
// and helpers for their expansions.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {

using Ints = std::vector<int64_t>;

// Operands that are not supported, by their numbers and names.
struct Refused {
  int input;
  const char* name;
};

void refuse_inputs(InferContext& context, const std::vector<Refused>& refused);
void refuse_attributes(InferContext& context, const std::vector<const char*>& names);
// The value of the attribute; an error where it is less than 1.
int64_t heads_attribute(InferContext& context, const char* name);
void need_rank(InferContext& context, int input, int rank);
// Checks that the inputs are floats of one type, except those in `integers`, which must be i32 or i64.
void need_types(InferContext& context, const std::vector<int>& integers);
// Checks that an input that is added to the scores broadcasts to them.
void need_scores(InferContext& context, int input, const Shape& scores);
// The number of elements of a head: `hidden` divided by `heads`; an error where it is not divisible.
Dim part_of(InferContext& context, const Dim& hidden, int64_t heads);
// Shape errors where a mask has none of the forms that `added_mask` takes.
void need_mask(InferContext& context, int input, const Dim& batch, const Dim& queries, const Dim& keys);

// What the expansions have in common.
class Pieces {
 public:
  Pieces(Graph& graph, const Node& node) : node_(node), build_(graph, node) {}

 protected:
  bool given(int input) const { return input_given(node_, input); }
  ValueId input(int i) const { return given(i) ? node_.inputs[i] : kNoValue; }
  const Shape& shape(int i) const { return build_.shape(node_.inputs[i]); }
  DType type() const { return build_.dtype(node_.inputs[0]); }

  ValueId reshape(ValueId value, const Shape& shape) {
    return build_.add("Reshape", {value}, {{"shape", shape}, {"allowzero", int64_t{1}}});
  }
  ValueId transpose(ValueId value, const Ints& perm) {
    return build_.add("Transpose", {value}, {{"perm", perm}});
  }
  ValueId unsqueeze(ValueId value, const Ints& axes) {
    return build_.add("Unsqueeze", {value}, {{"axes", axes}});
  }
  ValueId squeeze(ValueId value, int64_t axis) {
    return build_.add("Squeeze", {value}, {{"axes", Ints{axis}}});
  }
  ValueId slice(ValueId value, int64_t axis, const Dim& first, const Dim& end) {
    return build_.add(
        "Slice", {value},
        {{"starts", std::vector<Dim>{first}}, {"ends", std::vector<Dim>{end}}, {"axes", Ints{axis}}});
  }
  // The element with number `which` of an axis, without that axis.
  ValueId pick(ValueId value, int64_t axis, int64_t which) {
    return squeeze(slice(value, axis, which, which + 1), axis);
  }
  ValueId range(const Dim& count, DType type) {
    return build_.add(
        "Range", {},
        {{"range", std::vector<Dim>{Dim(0), count, Dim(1)}}, {"dtype", std::string(name_of(type))}});
  }
  // [batch, positions, heads * size] as [batch, heads, positions, size].
  ValueId split_heads(ValueId value, int64_t heads) {
    const Shape shape = build_.shape(value);
    return transpose(reshape(value, {shape[0], shape[1], Dim(heads), floor_div(shape[2], Dim(heads))}),
                     {0, 2, 1, 3});
  }
  void join_heads(ValueId value) {
    const Shape shape = build_.shape(value);
    build_.give(0, reshape(transpose(value, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]}));
  }

  // A mask in one of its forms ([batch] or [2 * batch]: ends, starts; [batch, keys]; [batch, queries, keys])
  // converted to numbers that are added to the scores.
  ValueId added_mask(ValueId mask, const Dim& batch, const Dim& keys) {
    const Shape shape = build_.shape(mask);
    ValueId seen;
    if (shape.size() == 1) {
      const DType index = build_.dtype(mask);
      auto bound = [&](const Dim& first) {
        return unsqueeze(slice(mask, 0, first, first + batch), {1, 2, 3});
      };
      const ValueId places = range(keys, index);
      seen = build_.add("Less", {places, bound(0)});
      if (shape[0] != batch)
        seen = build_.add("And", {seen, build_.add("GreaterOrEqual", {places, bound(batch)})});
    } else {
      seen = build_.add("Greater", {mask, build_.integer(build_.dtype(mask), 0)});
      seen = unsqueeze(seen, shape.size() == 2 ? Ints{1, 2} : Ints{1});
    }
    const ValueId filter = build_.number(type(), float_attribute(node_, "mask_filter_value"));
    return build_.add("Where", {seen, build_.number(type(), 0), filter});
  }

  // Attention of operands of shape [batch, heads, positions, size]; keys and values are appended to the past
  // ones.
  struct Operands {
    ValueId q, k, v, mask = kNoValue, past_key = kNoValue, past_value = kNoValue;
  };
  ValueId sum(ValueId a, ValueId b) {
    return a == kNoValue ? b : b == kNoValue ? a : build_.add("Add", {a, b});
  }
  std::vector<ValueId> attend(const Operands& operands, bool causal) {
    std::map<std::string, Attribute> attributes = {{"is_causal", int64_t{causal ? 1 : 0}}};
    const double scale = float_attribute(node_, "scale");
    if (scale != 0) attributes["scale"] = scale;
    if (node_.op->attribute("softcap")) attributes["softcap"] = float_attribute(node_, "softcap");
    return build_.add_many(
        "Attention",
        {operands.q, operands.k, operands.v, operands.mask, operands.past_key, operands.past_value}, 3,
        attributes);
  }

  const Node& node_;
  NodeBuilder build_;
};

// A row of an attention operator of that domain, without its functions.
OpRow contributed(const std::string& name, const OnnxName& onnx, const std::string& doc,
                  const InputCount& inputs, int outputs, std::vector<AttributeRow> attributes);

template <class Builder>
std::vector<Node> built(Graph& graph, const Node& node) {
  return Builder(graph, node).run();
}

void register_group_query_attention(OpTable& table);

}  // namespace tc
