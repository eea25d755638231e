// Forms of Scan that graphs do not have: along other axes than the first, and that of opset 8, which scans
// each element of a batch.
#pragma once

#include "frontend/import/onnx/scope.h"

namespace tc {

// Whether a Scan, read with this opset, is of such a form.
bool is_other_scan(const tc_onnx::NodeProto& node, int opset);
// Imports it as Scans along the first axis, with what rearranges their operands and results around them.
void import_other_scan(const tc_onnx::NodeProto& node, NameScope& scope, int depth, NodeImporter& importer);

}  // namespace tc
