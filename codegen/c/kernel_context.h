// What the writers of one kernel share: names, ranges, expressions of loop variables.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/c/helper_functions.h"
#include "codegen/c/parameterised_kernels.h"
#include "codegen/c/spelling.h"
#include "ir/ranges.h"
#include "ir/scheduled.h"

namespace tc::c {

// One buffer in the function. Strides count elements, per dimension: a number, or a name where the shape is
// symbolic (the number is then 0).
struct BufferNames {
  std::string name;
  std::vector<int64_t> stride;
  std::vector<std::string> symbolic_stride;
};

struct KernelContext {
  const ScheduledKernel& scheduled;
  const Kernel& kernel;
  Functions& functions;
  Names names;
  std::vector<BufferNames> buffers;
  std::map<std::string, std::string> variables;  // parameters and loop variables: their names in C
  Ranges ranges;                                 // of the same
  std::string backwards;  // whether loops with the mark "alternate" go down; empty where there are none

  const Buffer& buffer(int index) const { return kernel.buffers[static_cast<size_t>(index)]; }
  // The values of expressions, as C's. Internal errors where a variable is unknown.
  std::string value_of(const Affine& affine) const;
  std::string value_of(const LoopExpr& expr) const;
  // `affine >= 0`.
  std::string condition(const Affine& affine) const;
};

// The lines of a block, indented by two spaces per level.
std::string indented(const std::string& lines, int depth);

}  // namespace tc::c
