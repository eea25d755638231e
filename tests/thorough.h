// Whether tests that draw their cases draw all of them (`./check --full`) or a part.
#pragma once

#include <cstdlib>

namespace tc::testing {

inline bool thorough() { return std::getenv("TC_THOROUGH") != nullptr; }

// `all` cases, of which `./check` without --full tries so many.
template <typename Number>
Number cases(Number by_default, Number all) {
  return thorough() ? all : by_default;
}

}  // namespace tc::testing
