// Texts for people to read, and the calling thread's last error text.
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "tc_runtime.h"

namespace tc::runtime {

// Room for a sentence with several names.
constexpr size_t kMaxOfText = 4096;

// Writes a text as vsnprintf does; the format may have %s, %c, integers, %f, %e and %g, all without a `*`.
// Text that a model, a file or a caller chose is made visible: a %s between quotes or before a colon, which
// is a name or a path, by show_name, everything else by show_lines.
void write_text(char* out, size_t room, const char* format, va_list arguments);

// Keeps the text for tc_last_error() on this thread (cut off at kMaxOfText bytes) and returns `status`.
__attribute__((format(printf, 2, 3))) tc_status fail(tc_status status, const char* format, ...);

}  // namespace tc::runtime
