// Attentions whose two products and row program become one kernel, and the kernels of groups.
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
using LowersGroup = std::function<KernelPart(const Group&)>;

// One kernel with the statements of all parts, in their order. All sizes have to be numbers. Results of
// earlier parts become the kernel's own intermediate results, its results are those of the last part, and
// arguments with the same value become one.
KernelPart join_kernels(const std::vector<KernelPart>& parts);

// A product of matrices, the row program that alone reads it, and the product that alone reads that.
using GroupsOfAttention = std::vector<Group>;

// Makes one group of the three groups of an attention where `wanted` says so, so that the values between them
// need not be stored. `joined` is called with each such group and its parts.
std::vector<Group> join_products(const Graph& graph, const std::vector<Group>& groups,
                                 const std::function<bool(const GroupsOfAttention&)>& wanted,
                                 const std::function<void(const Group&, const GroupsOfAttention&)>& joined);

// Joins attentions whose scores would not stay in the second-level cache, where the scheduler can compute the
// joined kernel in bands of rows.
class AttentionJoiner {
 public:
  explicit AttentionJoiner(const BuildOptions& options) : options_(options) {}

  // `layouts`: the block sizes of values whose channels are stored in blocks.
  std::vector<Group> join(const Graph& graph, const std::vector<Group>& groups,
                          const std::map<ValueId, int>& layouts);
  // The kernel that the group is lowered to, named as in the plan, and so are its buffers. For a joined group
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
