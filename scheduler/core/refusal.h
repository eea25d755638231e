// How a primitive refuses.
#pragma once

#include <string>
#include <vector>

#include "ir/error.h"

namespace tc {

// Why a primitive is refused; caught by apply_line.
struct Refusal {
  std::string why;
};
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Refusal{text(parts...)};
}

// "a, b, c", or "none": the names that exist, for refusals of a name that does not.
std::string listed(const std::vector<std::string>& names);

}  // namespace tc
