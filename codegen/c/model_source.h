// A plan, or one kernel, as the text of a portable C99 source file.
#pragma once

#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/scheduled.h"

namespace tc {

// What a model's function and its arguments are called.
struct CSourceNames {
  std::string prefix;  // identifiers that other files see begin with it
  std::string header;  // the file that declares them
  // Identifiers, in the plan's order; empty for states.
  std::vector<std::string> inputs, outputs;
};

// The prototype of the function that runs the model once, without a semicolon: its arguments are arrays for
// the plan's inputs and outputs that are no states, in order, and the block of bare_arena_bytes() bytes in
// which it works.
std::string c_prototype(const Plan& plan, const CSourceNames& names);

// A source file with that function, the functions of the plan's kernels, whose names other files do not see,
// and the block PREFIX_arena. It takes the constants from an array `const uint8_t PREFIX_weights[]`, each at
// its constant_offsets(). The plan's sizes must be numbers, except those that a step of the plan computes and
// for which it gives a bound.
// Equal plans give equal bytes.
std::string c_model_source(const Plan& plan, const CSourceNames& names);

// A source file with the one function
//   void NAME(buffers..., const int64_t* parameters, uint8_t* scratch)
// of a kernel, where the buffers are the Input, Output and Constant ones in order, `parameters` the values of
// the kernel's parameters and, where it alternates, the number of the run, and `scratch` a block of
// scratch_bytes().
std::string c_kernel_source(const ScheduledKernel& kernel, const std::string& name);

// A source file that defines the constants: as the text of these bytes, or from the file `binary`, which the
// assemblers of GCC and Clang include.
std::string c_weights_source(const CSourceNames& names, const std::vector<uint8_t>& bytes);
std::string c_weights_source(const CSourceNames& names, const std::string& binary);

}  // namespace tc
