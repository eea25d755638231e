// The back end of loops: what is decided about a model, as text to read and to compare.
#pragma once

#include "codegen/backend/backend.h"

namespace tc {

const Backend& loops_backend();

}  // namespace tc
