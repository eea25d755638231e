// ONNX files (protobuf messages, opsets 7 and up) to the graph IR.
#pragma once

#include "frontend/import/import.h"

namespace tc {

// What is parsed is let go as it is imported, so that tensors are in memory twice at most.
Importer onnx_importer();

}  // namespace tc
