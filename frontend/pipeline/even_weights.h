// Matrices whose elements are all equal, which must not be stored in words (KernelSchedules::Use).
#pragma once

#include <string>

#include "ir/loop.h"
#include "ir/tensor.h"

namespace tc {

// Whether a sum of the kernel has the buffer as a factor, and its tensor is a matrix of float32 whose
// elements are all equal. The tensor may be null; dimensions of 1 do not count.
bool multiplies_even_matrix(const Kernel& kernel, const std::string& buffer, const TensorPtr& constant);

}  // namespace tc
