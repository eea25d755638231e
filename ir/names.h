// An index of the names of a graph's values.
#pragma once

#include <memory>

#include "ir/graph.h"

namespace tc {

// During its lifetime Graph::fresh_value() of this graph, on this thread, looks names up in an index. Values
// may be added meanwhile; code that renames or removes existing values must call forget_names().
class IndexedNames {
 public:
  explicit IndexedNames(const Graph& graph);
  ~IndexedNames();
  IndexedNames(const IndexedNames&) = delete;
  IndexedNames& operator=(const IndexedNames&) = delete;

  struct Index;

 private:
  Index* const outer_;
  const std::unique_ptr<Index> index_;
};

void forget_names(const Graph& graph);

}  // namespace tc
