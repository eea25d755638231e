// Classes whose names are strings: what is compiled numbers them.
#pragma once

#include "frontend/import/onnx/onnx.pb.h"

namespace tc {

// Whether it is a classifier of ai.onnx.ml that gives strings.
bool gives_class_names(const tc_onnx::NodeProto& node);
// Makes these give the number of the class, of which a LabelEncoder behind them makes the name.
void number_class_names(tc_onnx::GraphProto& graph);

}  // namespace tc
