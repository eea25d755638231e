// The calling thread's last error text.
#pragma once

#include "tc_runtime.h"

namespace tc::runtime {

// Keeps the text for tc_last_error() on this thread (cut to a line's length) and returns `status`.
__attribute__((format(printf, 2, 3))) tc_status fail(tc_status status, const char* format, ...);

}  // namespace tc::runtime
