// The back end of LLVM: objects, linked artefacts, and objects for systems without an operating system.
#pragma once

#include "codegen/backend/backend.h"

namespace tc {

const Backend& llvm_backend();

}  // namespace tc
