// The names in objects that are made already.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <utility>

#include "codegen/codegen.h"
#include "ir/error.h"

namespace tc {

// What LLVM makes of an object of ours. An error is a fault of LLVM's or ours; what a user can do wrong is
// refused before.
template <class T>
T must(llvm::Expected<T> result, const std::string& what) {
  if (!result) fail(ErrorKind::Internal, "cannot make ", what, ": ", llvm::toString(result.takeError()));
  return std::move(*result);
}

inline void must(llvm::Error error, const std::string& what) {
  if (error) fail(ErrorKind::Internal, "cannot make ", what, ": ", llvm::toString(std::move(error)));
}

}  // namespace tc
