// Questions about one access.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/loop.h"

namespace tc {

// Elements of the buffer's memory from one value of the iterator to the next, for an access; nothing
// where it depends on data or on a symbolic size.
std::optional<int64_t> element_stride(const Kernel& kernel, const Access& access,
                                      const std::string& iterator);
// Whether it changes with the iterator, also by what subscripts read.
bool depends_on(const Access& access, const std::string& iterator);

}  // namespace tc
