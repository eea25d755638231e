// From a schedule tree to scheduled loops: finds regions, lets isl write the loops around them, fills in the
// leaves and simplifies the loops.
#include "scheduler/generate/generate.h"

#include "scheduler/legality/isl.h"

namespace tc {
namespace {

// Fills every leaf from its region. An argument that is not affine becomes the variable of a loop of one
// trip.
LoopNodePtr fill_leaves(const Kernel& kernel, const std::vector<Region>& regions, const OuterLoops& outer,
                        const LoopNodePtr& node, int& fresh) {
  auto result = std::make_shared<LoopNode>(*node);
  for (LoopNodePtr& child : result->children) child = fill_leaves(kernel, regions, outer, child, fresh);
  if (node->kind != LoopNode::Kind::Leaf) return result;
  const OuterLoops::Call& call = outer.calls[static_cast<size_t>(std::stoi(node->name))];
  const Region& region = regions[static_cast<size_t>(call.region)];
  std::vector<Affine> values;
  LoopNodePtr top = result;
  std::vector<LoopNodePtr> around;
  for (const LoopExprPtr& argument : call.arguments) {
    if (auto affine = as_affine(*argument)) {
      values.push_back(*affine);
      continue;
    }
    auto once = std::make_shared<LoopNode>();
    once->kind = LoopNode::Kind::For;
    once->variable = "once" + std::to_string(fresh++);
    once->lower = once->upper = argument;
    values.push_back(Affine::variable(once->variable));
    around.push_back(once);
  }
  result->name.clear();
  for (const Region::Member& member : region.statements) {
    const Statement& statement = kernel.statements[static_cast<size_t>(member.statement)];
    result->name += (result->name.empty() ? "" : "_") + statement.name;
  }
  fill_leaf(kernel, region, values, *result);
  for (size_t i = around.size(); i-- > 0;) {
    around[i]->children = {top};
    top = around[i];
  }
  return top;
}

}  // namespace

ScheduledKernel generate(const KernelPtr& kernel, const TreeNode& tree) {
  IslBudget budget(kIslOperations);
  const std::vector<Region> regions = regions_of(tree);
  OuterLoops outer = outer_loops(kernel, tree, regions);
  std::set<std::string> isolated;
  visit_tree(tree, [&](const TreeNode& node, const auto&) {
    if (node.kind == TreeNode::Kind::Loop && node.is(marks::kIsolate)) isolated.insert(node.name);
  });
  ScheduledKernel result;
  result.kernel = kernel->kernel;
  decide_scopes(result.kernel, regions);
  int fresh = 0;
  LoopNodePtr root = fill_leaves(result.kernel, regions, outer, outer.root, fresh);
  result.root = simplify_loops(result.kernel, root, isolated);
  return result;
}

}  // namespace tc
