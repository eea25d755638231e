// Kernels written as C source and made into a shared library.
#pragma once

#include <string>
#include <vector>

#include "ir/scheduled.h"

namespace tc::testing {

// What the environment variable TC_C_COMPILER says: a C compiler and its options. Tests of kernels for this
// machine compile the kernels by it, from the source that the back end for C writes. Empty where there is
// none.
std::string c_compiler();

// Writes kernels.so in the folder, with a function kernel0, kernel1, … for each kernel. Warnings of -Wall and
// -Wextra are errors; the error that is thrown has the compiler's text.
void compile_as_c(const std::vector<ScheduledKernel>& kernels, const std::string& compiler,
                  const std::string& folder);

}  // namespace tc::testing
