// What rows of quantised operators share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/ops/rows.h"

namespace tc {

// By rows of convolution, products, pooling and quantisation.
void register_optimised_ops(OpTable& table);

// For OnnxName::normalize: refuses scales of the file, the given inputs, that are not finite and over 0.
Normalize checked_scales(std::vector<int> inputs);
void refuse_scale(const Graph& graph, const Node& node, size_t input);

// The inputs have one number each; or where an extent is given, also a vector with one for each of what
// `along` calls its elements.
void check_scale_count(InferContext& context, const std::vector<int>& inputs, const Dim& extent = Dim(1),
                       const char* along = "");

// The bias, an input that may be left out, has one number for each of so many columns.
void check_bias(InferContext& context, int bias, const Dim& columns);

// The orders of axes that bring the channels from the end to the second place, and back.
std::vector<int64_t> channels_to_front(int64_t rank);
std::vector<int64_t> channels_to_back(int64_t rank);

// The shape that the row `as` infers, with the attributes of the context's node, of these inputs of it, taken
// as `stand_in`. `channels_last`: so are the channels of the first of them and of the result.
Shape shape_as(InferContext& context, const std::string& as, const std::vector<int>& inputs, DType stand_in,
               bool channels_last = false);

// An input, or kNoValue where it is left out.
ValueId optional_input(const Node& node, int input);

// A row in the category of quantisation that expands.
OpRow expanded_quantised(const OnnxName& name, const std::string& doc, const InputCount& inputs,
                         std::function<void(InferContext&)> infer,
                         std::function<std::vector<Node>(Graph&, const Node&)> expand);

}  // namespace tc
