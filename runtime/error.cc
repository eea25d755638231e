// The calling thread's last error text.
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

namespace tc::runtime {
namespace {
thread_local char last_error[1024];
}  // namespace

tc_status fail(tc_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(last_error, sizeof last_error, format, arguments);
  va_end(arguments);
  return status;
}

}  // namespace tc::runtime

extern "C" {

const char* tc_last_error(void) { return tc::runtime::last_error; }

const char* tc_runtime_version(void) { return "0.1.0"; }

}
