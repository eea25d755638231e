// Does a schedule tree run every dependence forwards, and are its marks right?
#pragma once

#include <optional>
#include <string>

#include "scheduler/core/tree.h"
#include "scheduler/legality/model.h"

namespace tc {

// The first dependence that the tree runs backwards, as a sentence with the two instances.
std::optional<std::string> find_violation(const KernelPtr& kernel, const TreeNode& tree);

// The same where only the order of the instances below `changed`, a node of the tree, is in question.
std::optional<std::string> find_violation_below(const KernelPtr& kernel, const TreeNode& tree,
                                                const TreeNode& changed);

// The first mark that a dependence contradicts, as its row demands (MarkRow::needs): parallel and alternating
// loops are checked against all dependences, vector loops against those that remain when reductions may be
// reassociated.
std::optional<std::string> find_wrong_mark(const KernelPtr& kernel, const TreeNode& tree);

}  // namespace tc
