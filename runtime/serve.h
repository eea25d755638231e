// How an agent drives a candidate: a compiled executable started as `model --serve THREADS`.
//
// File descriptors 10, 11, … are the inputs in order, then the outputs: one file each of exactly the
// tensor's bytes, which the candidate maps shared (inputs read-only). Standard input brings commands,
// standard output takes replies; standard error is free text.
//
//   candidate: 'R'                       ready, everything allocated
//   agent:     'N' uint32 little-endian  run that many times
//   candidate: 'D'                       done
//
// At the end of its input the candidate exits with 0. It never looks at a clock: time is the agent's,
// between 'N' and 'D'. Between 'D' and 'N' it is stopped, and what the descriptors hold may change at any
// moment: each run reads its inputs and writes its outputs anew.
#pragma once

#include <cstdint>

#include "tc_runtime.h"

namespace tc::runtime {

constexpr int kFirstDataDescriptor = 10;

// Exit code of a candidate that could not get the memory it needs.
constexpr int kServeOutOfMemory = 4;

// Serves until the end of input; the exit code (main's). Errors go to standard error as one line.
int serve(tc_model* model, int threads);

}  // namespace tc::runtime
