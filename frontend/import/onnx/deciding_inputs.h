// Which inputs of a model decide what a node cannot know while it is imported.
#pragma once

#include <string>
#include <vector>

#include "frontend/import/onnx/scope.h"
#include "ir/ops/depends_on_data.h"

namespace tc {

// The names of the inputs of `model` from which the operand that the error tells is computed, so that a
// version may be compiled for each of their values; none where that is more than a few numbers, or where what
// an iteration is given is among them. `scope` is the node's. Where sizes alone depend on the inputs, and a
// run may as well compute these (`numbers_only`), inputs of floats, and those of more than one dimension, are
// data: the tokens of a sentence, for example, are no sizes.
std::vector<std::string> deciding_inputs(const Graph& model, const DependsOnData& error,
                                         const NameScope& scope, bool numbers_only);

}  // namespace tc
