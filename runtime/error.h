// Texts for people, and the calling thread's last error text.
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "tc_runtime.h"

namespace tc::runtime {

// Room for a sentence with several names.
constexpr size_t kMostOfText = 4096;

// Writes a text as vsnprintf does, of %s, %c, numbers in whole and %f, %e, %g without a `*`. What a model, a
// file or a caller chose becomes what can be seen: %s between quotes and before a colon, which is a name or a
// path, as show_name has it, everything else as show_lines.
void write_text(char* out, size_t room, const char* format, va_list arguments);

// Keeps the text for tc_last_error() on this thread (cut to kMostOfText bytes) and returns `status`.
__attribute__((format(printf, 2, 3))) tc_status fail(tc_status status, const char* format, ...);

}  // namespace tc::runtime
