// A kernel as isl sees it: domains, accesses, dependences; and schedule trees as isl functions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/loop.h"
#include "scheduler/core/tree.h"
#include "scheduler/legality/isl.h"

namespace tc {

// An unchanging kernel with a number that no other kernel of the process has.
struct KernelVersion {
  explicit KernelVersion(Kernel kernel);
  const Kernel kernel;
  const uint64_t number;
};
using KernelPtr = std::shared_ptr<const KernelVersion>;

struct KernelModel {
  isl::set parameters;            // their ranges
  std::vector<isl::set> domains;  // by statement
  isl::union_set domain;
  // Pairs of instances that access the same element, at least one of them writing, in their original order;
  // without the pairs of one reduction, which may run in any order.
  isl::union_map dependences;
  // Pairs of instances of one reduction that access the same element, in both orders.
  isl::union_map reductions;

  explicit KernelModel(const Kernel& kernel);
};

// The pairs whose first instance runs before the second in the kernel's original order.
isl::union_map originally_ordered(const Kernel& kernel, const isl::union_map& pairs);

// The model of the kernel, made once per thread and kept for the kernels used last.
const KernelModel& model_of(const KernelPtr& kernel);

// True where the statement is a reduction whose instances may run in any order.
bool is_relaxed(const Statement& statement);

// What a loop counts, as a function on the instances of the statements below it.
isl::multi_union_pw_aff loop_function(const KernelModel& model, const Kernel& kernel, const TreeNode& loop);

// The instance spaces of the given statements, without their conditions: for filters.
isl::union_set universe_of(const KernelModel& model, const std::vector<int>& statements);

// `{ S[i] : … }` as text, for messages and tests.
std::string domain_text(const Kernel& kernel, const Statement& statement);

// `[p0, p1] -> ` or nothing.
std::string parameter_prefix(const Kernel& kernel);
// `S[i, j]`.
std::string tuple_text(const Statement& statement);

}  // namespace tc
