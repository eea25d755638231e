// Which inputs of a model decide a value that a node needs while it is imported.
#pragma once

#include <string>
#include <vector>

#include "frontend/import/onnx/scope.h"
#include "ir/ops/depends_on_data.h"

namespace tc {

// The names of the inputs of `model` from which the operand named by the error is computed, so that a version
// can be compiled for each combination of their values. None where these are more than a few numbers, or
// where the operand depends on what a loop passes to an iteration. `scope` is the scope of the node.
// `numbers_only` is for operands that decide only sizes, which a run can compute instead: inputs of floats,
// and those of more than one dimension, then count as data (the tokens of a sentence, for example, are not
// sizes).
std::vector<std::string> deciding_inputs(const Graph& model, const DependsOnData& error,
                                         const NameScope& scope, bool numbers_only);

}  // namespace tc
