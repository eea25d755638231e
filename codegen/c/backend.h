// The back end of C: source that any C compiler builds.
#pragma once

#include "codegen/backend/backend.h"

namespace tc {

const Backend& c_backend();

}  // namespace tc
