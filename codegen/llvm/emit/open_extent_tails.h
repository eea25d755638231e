// Splits tiles whose copies reach past the end of an open extent into narrower tiles, all of whose copies
// exist.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/scheduled.h"

namespace tc {

// A leaf whose unrolled copies 0 .. `last` exist, for a value of `last` that is known only at run time.
struct OpenTail {
  // For each statement of the leaf, where its copies end.
  struct End {
    size_t loop = 0, constraint = 0;  // numbers of the loop of the copies, and of the constraint that ends it
    Affine last;
  };
  const LoopNode* leaf = nullptr;
  std::vector<End> ends;
  int64_t copies = 0;  // that the leaf has
  Affine last;         // in parameters and outer variables

  // The copies first .. first + count - 1, where `first` is the name of an outer variable.
  LoopNode part(const std::string& first, int64_t count) const;
};

// The outermost unrolled loop, if all statements of the leaf have it and end it at the same value, which
// depends on the sizes of a run. Some of them may have it as the lanes of a vector, which become copies in a
// narrower tile. `outer` are the names of parameters and outer variables.
std::optional<OpenTail> open_tail(const Kernel& kernel, const LoopNode& leaf,
                                  const std::set<std::string>& outer);

}  // namespace tc
