// Classifiers whose classes have strings as names: the compiled model gives numbers instead.
#pragma once

#include "frontend/import/onnx/onnx.pb.h"

namespace tc {

// Whether the node is a classifier of ai.onnx.ml that gives strings.
bool gives_class_names(const tc_onnx::NodeProto& node);
// Makes these classifiers give the number of the class, and adds a LabelEncoder after each that turns the
// number into the name.
void number_class_names(tc_onnx::GraphProto& graph);

}  // namespace tc
