// Helpers that rows of quantised operators share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/ops/rows.h"

namespace tc {

// Copies rows of convolution, products, pooling and quantisation, which must be registered before.
void register_optimised_ops(OpTable& table);

// For OnnxName::normalize: refuses a file's scales, which are the given inputs, that are not finite and
// positive.
Normalize checked_scales(std::vector<int> inputs);
void refuse_scale(const Graph& graph, const Node& node, size_t input);

// Checks that the inputs have one number each or, where an extent is given, a vector with one number per
// element of it; errors call these elements `along`.
void check_scale_count(InferContext& context, const std::vector<int>& inputs, const Dim& extent = Dim(1),
                       const char* along = "");

// Checks that the bias, an input that may be left out, has one number for each of `columns` columns.
void check_bias(InferContext& context, int bias, const Dim& columns);

// The permutations that move the channels from the last axis to the second, and back.
std::vector<int64_t> channels_to_front(int64_t rank);
std::vector<int64_t> channels_to_back(int64_t rank);

// The shape that the row `as` infers from these inputs of the context's node, with the node's attributes, as
// if the inputs were of type `stand_in`. `channels_last`: the first input and the result have their channels
// last.
Shape shape_as(InferContext& context, const std::string& as, const std::vector<int>& inputs, DType stand_in,
               bool channels_last = false);

// An input, or kNoValue where it is left out.
ValueId optional_input(const Node& node, int input);

// A row in the category of quantisation that expands.
OpRow expanded_quantised(const OnnxName& name, const std::string& doc, const InputCount& inputs,
                         std::function<void(InferContext&)> infer,
                         std::function<std::vector<Node>(Graph&, const Node&)> expand);

}  // namespace tc
