// Attention whose scores and probabilities are changed by subgraphs.
#pragma once

#include "frontend/import/onnx/scope.h"

namespace tc {

// Whether the node is FlexAttention of the preview domain.
bool is_flex_attention(const tc_onnx::NodeProto& node);
// Imports it as two products and a softmax, with the subgraphs between them.
void import_flex_attention(const tc_onnx::NodeProto& node, NameScope& scope, int depth,
                           NodeImporter& importer);

}  // namespace tc
