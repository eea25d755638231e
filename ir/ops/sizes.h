// Checks, for inference, of the sizes that a node's operands must have. They throw a Shape error where a
// condition never holds. Where it cannot be proved, they throw UnprovedSizes (InferContext::differ), so that
// the operands are given the same size and a run checks it.
#pragma once

#include <string>

#include "ir/ops/op.h"

namespace tc {

// Two sizes must be equal; `message` is the error's text.
void need_equal(const InferContext& context, const Dim& left, const Dim& right, const std::string& message);

// Input `input`, if given, must have the shape `needed`; errors call it `what`, or "input 2": `the bias has
// shape [3]; [4] is needed`.
void need_shape(const InferContext& context, int input, const Shape& needed, const std::string& what = "");

// The input must have one element; its rank does not matter.
void need_one_element(const InferContext& context, int input, const std::string& what = "");

// Broadcasting the input against `shape` must give `shape`.
void need_broadcast(const InferContext& context, int input, const Shape& shape, const std::string& what = "");

// The number that a size is. Unsupported error where the size depends on symbols; `what`, such as "the
// kernel's size", names it.
int64_t need_number(const InferContext& context, const Dim& size, const std::string& what);

// The size of each of `heads` heads that are concatenated in `hidden` elements; a Shape error where they do
// not divide them.
Dim head_size(const Node& node, const Dim& hidden, int64_t heads);

// `; bind the symbols to numbers: shapes={"n": …}` for those symbols of the sizes that are symbols of the
// model's inputs; empty where there are none.
std::string how_to_bind(const Graph& graph, const Shape& sizes);

// Sizes are symbols where numbers are needed. Most code that catches it treats it as an Unsupported error;
// code that has the graph can add how to bind the symbols.
class NeedsNumbers : public Error {
 public:
  NeedsNumbers(const Node& node, const std::string& message, Shape sizes)
      : Error(ErrorKind::Unsupported, text(node.origin.str(), ": ", message)), sizes_(std::move(sizes)) {}
  const Shape& sizes() const { return sizes_; }

 private:
  Shape sizes_;
};

}  // namespace tc
