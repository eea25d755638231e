// Generating text with a linked language model: `model generate --tokens 1,2,3`, or with a tokenizer's file
// `model generate --tokenizer FILE --prompt TEXT`.
#pragma once

#include "tc_runtime.h"

namespace tc::runtime {

// Runs the command; `arguments` are those behind "generate". Returns the exit code for main: 0 done, 1 an
// input is wrong, 2 wrong usage. Errors are written to standard error as one line.
int generate(const char* program, tc_model* model, int count, char** arguments);

}  // namespace tc::runtime
