// For files that read or change objects that are already compiled.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <utility>

#include "ir/error.h"

namespace tc {

// The result of an operation of LLVM on an object that tc made. An error is a bug of LLVM's or ours:
// mistakes that a user can make are refused earlier.
template <class T>
T unwrapped(llvm::Expected<T> result, const std::string& what) {
  if (!result) fail(ErrorKind::Internal, "cannot make ", what, ": ", llvm::toString(result.takeError()));
  return std::move(*result);
}

inline void unwrapped(llvm::Error error, const std::string& what) {
  if (error) fail(ErrorKind::Internal, "cannot make ", what, ": ", llvm::toString(std::move(error)));
}

}  // namespace tc
