// Forms of Scan that graphs do not have: scans along other axes than the first, and Scan of opset 8, which
// scans each element of a batch.
#pragma once

#include "frontend/import/onnx/scope.h"

namespace tc {

// Whether a Scan, read with this opset, is of such a form.
bool is_other_scan(const tc_onnx::NodeProto& node, int opset);
// Imports it as Scans along the first axis, with nodes before and after that rearrange operands and results.
void import_other_scan(const tc_onnx::NodeProto& node, NameScope& scope, int depth, NodeImporter& importer);

}  // namespace tc
