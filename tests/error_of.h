// The text of the error that a call ends with.
#pragma once

#include <string>

#include "ir/error.h"

namespace tc::testing {

// "no error" where it ends without one.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tc::testing
