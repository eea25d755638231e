// How an agent drives a candidate: a compiled executable started as `model --serve THREADS`.
//
// File descriptors 10, 11, … are the inputs in order, then the outputs. Each is a file of exactly the
// tensor's size, which the candidate maps shared (inputs read-only). Commands come on standard input, replies
// go to standard output; standard error is free text.
//
//   candidate: 'R'                       ready, everything allocated
//   agent:     'N' uint32 little-endian  run that many times
//   candidate: 'D'                       done
//
// At the end of its input the candidate exits with 0. It never reads a clock: the agent measures the time
// between 'N' and 'D'. Between 'D' and 'N' the candidate is stopped, and the contents of the tensors may
// change at any moment, so each run reads its inputs and writes its outputs anew.
#pragma once

#include <cstdint>

#include "tc_runtime.h"

namespace tc::runtime {

constexpr int kFirstDataDescriptor = 10;

// Exit code of a candidate that could not get the memory it needs.
constexpr int kServeOutOfMemory = 4;
// Exit code with which a simulator ends a candidate whose run takes longer than it may.
constexpr int kServeTooLong = 5;

// Serves until the end of input; returns the exit code for main. An error is written to standard error as one
// line.
int serve(tc_model* model, int threads);

}  // namespace tc::runtime
