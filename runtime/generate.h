// Generating text with a linked language model: `model generate --tokens 1,2,3`, or with a tokenizer's file
// `model generate --tokenizer FILE --prompt TEXT`.
#pragma once

#include "tc_runtime.h"

namespace tc::runtime {

// What is said of a model that is no language model.
constexpr const char kGeneratesNothing[] =
    "the model generates no text: its inputs are not input_ids, length and caches that are "
    "written in place; export a language model with python -m tc generate MODEL --export FILE";

}  // namespace tc::runtime

// Runs the command; `arguments` are those behind "generate". Returns the exit code for main: 0 done, 1 an
// input is wrong, 2 wrong usage. Errors are written to standard error as one line.
extern "C" int tc_generate(const char* program, tc_model* model, int count, char** arguments);
