// Tables of which data chooses rows, and which other kernels read as a whole: an embedding that is also the
// matrix of the last layer. One copy serves both.
#pragma once

#include <string>
#include <vector>

#include "frontend/pipeline/attention.h"
#include "frontend/pipeline/constant_store.h"

namespace tc {

// Whether the kernel reads only rows of the constant that data chooses, and sums nothing up.
bool chooses_rows(const Kernel& kernel, const std::string& buffer);

// Lets a kernel that chooses rows read them where the form has them: element x of a dimension that the form
// divides is at x / step % size of each of its parts. False, and nothing is changed, where an element of the
// original is not in exactly one place that such an equation finds.
bool read_from(const StoredForm& form, Kernel& kernel, const std::string& buffer);

// The groups that read, as a whole, large constants of which other groups choose rows. `kernel_of` lowers a
// group.
std::vector<Group> whole_readers(const Graph& graph, const std::vector<Group>& groups,
                                 const LowersGroup& kernel_of);

}  // namespace tc
