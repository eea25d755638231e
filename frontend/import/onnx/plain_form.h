// Brings what ONNX files may write in several ways to the form that the importer reads: nodes in the order in
// which they are computed, and dense constants.
#pragma once

#include <string>
#include <vector>

#include "frontend/import/onnx/onnx.pb.h"

namespace tc {

// Sorts the nodes of the graph, of its subgraphs and of functions, and makes sparse tensors dense. Model
// errors name nodes that need each other in a circle, or say what is wrong with a sparse tensor. The
// message's field `note` says what was sorted.
void bring_to_plain_form(tc_onnx::ModelProto& model, const std::string& file_name);

// The names that a node and its subgraphs read, without those that the subgraphs define. A name may occur
// several times.
std::vector<std::string> reads_of(const tc_onnx::NodeProto& node);

}  // namespace tc
