// Tiles whose copies reach past the end of an open extent: as narrower tiles, of which every copy exists.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/scheduled.h"

namespace tc {

// A leaf whose unrolled copies 0 .. `last` exist, for a value of `last` that is known only at run time.
struct OpenTail {
  // Of each statement: the loop of the copies, and the constraint that ends it.
  struct End {
    size_t loop = 0, constraint = 0;
    Affine last;
  };
  const LoopNode* leaf = nullptr;
  std::vector<End> ends;
  int64_t copies = 0;  // that the leaf has
  Affine last;         // in parameters and outer variables

  // The copies first .. first + count - 1, where `first` is the name of an outer variable.
  LoopNode part(const std::string& first, int64_t count) const;
};

// The outermost copies that all statements of the leaf end alike, at an end that is not the same for all
// sizes. `outer` are the names of parameters and outer variables.
std::optional<OpenTail> open_tail(const Kernel& kernel, const LoopNode& leaf,
                                  const std::set<std::string>& outer);

}  // namespace tc
