// All objects of a model.
#pragma once

#include <string>

#include "codegen/backend/backend.h"
#include "codegen/llvm/artefact/constants.h"

namespace tc {

// The symbol of the descriptor in a compiled model's objects. When they are written as an artefact, it is
// named after the file.
constexpr const char* kUnnamedDescriptor = "tc_unnamed_descriptor";

// All objects of a model: its kernels, the plan's run() and bind() and the descriptor (under
// `descriptor_symbol`), and its constants. `threads` workers compile and pack; the bytes do not depend on
// their number. A Device error where the temporary folder has no room for the constants.
ModelObjects model_objects(const Plan& plan, const Target& target, const std::string& descriptor_symbol,
                           int threads);

// The first of these objects for constants that are in that file beside the artefact.
Bytes plan_object_with_weights_beside(const Plan& plan, const Target& target,
                                      const std::string& descriptor_symbol, const WeightsFile& weights);

}  // namespace tc
