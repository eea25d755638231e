// Texts for people to read, and the calling thread's last error text.
#include "error.h"

#include <stdio.h>
#include <string.h>

#include "foreign_text.h"

namespace tc::runtime {
namespace {

thread_local char last_error[kMaxOfText];

// A text that is appended to; what does not fit is cut off.
struct Text {
  char* out;
  size_t room;
  size_t length = 0;

  char* end() { return out + length; }
  size_t left() const { return room - length; }
  void grow(size_t wanted) { length += wanted < left() ? wanted : left() - 1; }
};

// Writes a printf directive other than %s, with its argument. The argument list is passed by its address,
// since va_list may be an array type.
void write_number(Text& text, const char* directive, va_list* arguments) {
  const char kind = directive[strlen(directive) - 1];
  const bool is_wide = strchr(directive, 'l') != nullptr || strchr(directive, 'z') != nullptr;
  int length = 0;
  if (strchr("feg", kind) != nullptr) {
    length = snprintf(text.end(), text.left(), directive, va_arg(*arguments, double));
  } else if (is_wide) {  // long, long long and size_t have the same size on every machine of the runtime
    static_assert(sizeof(long) == sizeof(long long) && sizeof(size_t) == sizeof(long));
    length = snprintf(text.end(), text.left(), directive, va_arg(*arguments, long long));
  } else {
    length = snprintf(text.end(), text.left(), directive, va_arg(*arguments, int));
  }
  text.grow(length > 0 ? static_cast<size_t>(length) : 0);
}

}  // namespace

void write_text(char* out, size_t room, const char* format, va_list arguments) {
  Text text{out, room};
  out[0] = 0;
  va_list rest;
  va_copy(rest, arguments);
  for (const char* at = format; *at != 0;) {
    const size_t words = strcspn(at, "%");
    text.grow(show_lines(at, words, text.end(), text.left()));
    const bool is_quoted = words > 0 && at[words - 1] == '\'';
    at += words;
    if (*at == 0) break;
    char directive[16] = "%";
    const size_t length = 1 + strcspn(at + 1, "sdiuxcfeg%") + 1;
    for (size_t i = 1; i < length && i + 1 < sizeof directive; ++i) directive[i] = at[i];
    at += length;
    const char kind = directive[length - 1];
    const bool is_name = is_quoted || *at == ':';
    if (kind == '%') {
      text.grow(show_lines("%", 1, text.end(), text.left()));
    } else if (kind == 's') {
      const char* given = va_arg(rest, const char*);
      const char* shown = given == nullptr ? "(null)" : given;
      text.grow(is_name ? show_name(shown, strlen(shown), text.end(), text.left())
                        : show_lines(shown, strlen(shown), text.end(), text.left()));
    } else {
      write_number(text, directive, &rest);
    }
  }
  va_end(rest);
}

tc_status fail(tc_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  // Not written to last_error directly, since an argument may be the last error's text itself.
  char said[kMaxOfText];
  write_text(said, sizeof said, format, arguments);
  va_end(arguments);
  memcpy(last_error, said, sizeof last_error);
  return status;
}

}  // namespace tc::runtime

extern "C" {

const char* tc_last_error(void) { return tc::runtime::last_error; }

const char* tc_runtime_version(void) { return "0.1.0"; }
}
