// Properties of one access.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/loop.h"

namespace tc {

// By how many elements of the buffer's memory an access moves when the iterator goes up by one; nothing where
// that depends on data or on a symbolic size.
std::optional<int64_t> element_stride(const Kernel& kernel, const Access& access,
                                      const std::string& iterator);
// Whether the accessed element changes with the iterator, also through what dynamic subscripts read.
bool depends_on(const Access& access, const std::string& iterator);

}  // namespace tc
