// Attention whose scores and probabilities subgraphs change.
#pragma once

#include "frontend/import/onnx/scope.h"

namespace tc {

// FlexAttention of the preview domain.
bool is_flex_attention(const tc_onnx::NodeProto& node);
// Imports it as products and a softmax, with the subgraphs in their places between them.
void import_flex_attention(const tc_onnx::NodeProto& node, NameScope& scope, int depth,
                           NodeImporter& importer);

}  // namespace tc
