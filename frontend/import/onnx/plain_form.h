// What an ONNX file may write in several ways, brought to the one that the importer reads: nodes in the order
// in which they are computed, and constants with all of their elements.
#pragma once

#include <string>
#include <vector>

#include "frontend/import/onnx/onnx.pb.h"

namespace tc {

// Sorts the nodes of the graph, of its subgraphs and of functions, and makes sparse tensors dense. A Model
// error names the nodes that need each other in a circle, and what is wrong with a sparse tensor. `note` of
// the message says what was sorted.
void bring_to_plain_form(tc_onnx::ModelProto& model, const std::string& file_name);

// Names that a node and its subgraphs read, but for what the subgraphs define themselves; a name may be there
// several times.
std::vector<std::string> reads_of(const tc_onnx::NodeProto& node);

}  // namespace tc
