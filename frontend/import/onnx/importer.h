// ONNX files (protobuf messages, opsets 1 and up) to the graph IR.
#pragma once

#include "frontend/import/import.h"

namespace tc {

// The parsed message is freed while it is imported, so that tensors are in memory at most twice.
Importer onnx_importer();

}  // namespace tc
