// Names of a graph's values, found without looking at all of them.
#pragma once

#include <memory>

#include "ir/graph.h"

namespace tc {

// While it lives, Graph::fresh_value() of the graph looks names up in an index, on this thread. Values may be
// added meanwhile; whoever renames or takes away any of those that are there calls forget_names().
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
