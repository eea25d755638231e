// A kernel as a function of C: declarations and the loops above the register tiles.
#pragma once

#include <string>

#include "codegen/c/helper_functions.h"
#include "codegen/c/parameterised_kernels.h"
#include "ir/scheduled.h"

namespace tc::c {

// The kernel's function.
FunctionText kernel_function(const ScheduledKernel& scheduled, const std::string& name, Functions& functions);

}  // namespace tc::c
