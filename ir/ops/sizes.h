// The sizes that a node's operands need to have, for inference. What is never so is a Shape error; where
// nothing tells, these throw UnprovedSizes (InferContext::differ), so that the operands get one size and a
// run checks it.
#pragma once

#include <string>

#include "ir/ops/op.h"

namespace tc {

// Two sizes are equal; `message` is the error's.
void need_equal(const InferContext& context, const Dim& left, const Dim& right, const std::string& message);

// Input `input`, where it is given, has the shape `needed`; errors call it `what`, or "input 2": `the bias
// has shape [3]; [4] is needed`.
void need_shape(const InferContext& context, int input, const Shape& needed, const std::string& what = "");

// It is one element, whatever its rank.
void need_one_element(const InferContext& context, int input, const std::string& what = "");

// Broadcasting it against `shape` gives that shape.
void need_broadcast(const InferContext& context, int input, const Shape& shape, const std::string& what = "");

// The number that a size is; `what`, such as "the kernel's size", depends on symbols otherwise, which is an
// Unsupported error.
int64_t need_number(const InferContext& context, const Dim& size, const std::string& what);

// `; bind the symbols to numbers: shapes={"n": …}` for the sizes' symbols that inputs of the model have;
// empty where there are none.
std::string how_to_bind(const Graph& graph, const Shape& sizes);

// An Unsupported error for most who catch it: sizes are not known, and numbers would help. Whoever has the
// graph can say how to bind them.
class NeedsNumbers : public Error {
 public:
  NeedsNumbers(const Node& node, const std::string& message, Shape sizes)
      : Error(ErrorKind::Unsupported, text(node.origin.str(), ": ", message)), sizes_(std::move(sizes)) {}
  const Shape& sizes() const { return sizes_; }

 private:
  Shape sizes_;
};

}  // namespace tc
