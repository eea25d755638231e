// Attentions whose products and row program become one kernel, and the kernels of groups.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "frontend/pipeline/plan_builder.h"
#include "ir/passes/group.h"

namespace tc {

// A kernel and the value of each of its arguments.
struct KernelPart {
  Kernel kernel;
  std::vector<ValueId> arguments;
};

// All statements in the order of the parts, whose sizes are numbers. What earlier parts store becomes
// private; the results are those of the last part. Arguments with the same value become one.
KernelPart join_kernels(const std::vector<KernelPart>& parts);

// A product of matrices, the row program that alone reads it, and the product that alone reads that.
using GroupsOfAttention = std::vector<Group>;

// Makes one group of each three for which `wanted` says so: what lies between them need not be stored.
// `joined` is told the parts of each such group.
std::vector<Group> join_products(const Graph& graph, const std::vector<Group>& groups,
                                 const std::function<bool(const GroupsOfAttention&)>& wanted,
                                 const std::function<void(const Group&, const GroupsOfAttention&)>& joined);

// Joins them where their scores would not stay in the second cache, and the scheduler has bands of rows for
// the kernel.
class AttentionJoiner {
 public:
  explicit AttentionJoiner(const BuildOptions& options) : options_(options) {}

  // `layouts`: of values whose channels lie in blocks.
  std::vector<Group> join(const Graph& graph, const std::vector<Group>& groups,
                          const std::map<ValueId, int>& layouts);
  // The kernel of a group as lowered, with its name and its buffers' as the plan has them. Of joined groups
  // each part is lowered by itself.
  KernelPart kernel_of(const Graph& graph, const Group& group) const;

 private:
  bool leaves_cache(const Graph& graph, const GroupsOfAttention& parts) const;
  bool has_bands(const Kernel& kernel) const;

  const BuildOptions& options_;
  std::map<std::pair<const Graph*, ValueId>, GroupsOfAttention> parts_;  // by the group's result
  std::map<std::string, bool> has_bands_;                                // by workload
};

}  // namespace tc
