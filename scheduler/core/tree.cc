// Schedule trees as values.
#include "scheduler/core/tree.h"

#include <algorithm>
#include <utility>

#include "ir/error.h"

namespace tc {

int64_t LoopPart::multiplier() const {
  int64_t result = 1;
  for (const Step& step : steps) {
    if (!step.modulo) result *= step.size;
  }
  return result;
}

int64_t LoopPart::evaluate(int64_t value) const {
  for (const Step& step : steps) {
    int64_t quotient = value / step.size - (value % step.size < 0);
    value = step.modulo ? value - quotient * step.size : quotient;
  }
  return value;
}

std::optional<int64_t> LoopPart::extent(const Affine& iterator_extent) const {
  std::optional<int64_t> result;
  if (iterator_extent.is_constant()) result = iterator_extent.constant();
  for (const Step& step : steps) {
    if (step.modulo) {
      result = result ? std::min(*result, step.size) : step.size;
    } else if (result) {
      result = (*result + step.size - 1) / step.size;
    }
  }
  return result;
}

const LoopMark* TreeNode::find_mark(const std::string& word) const {
  for (const LoopMark& each : marks) {
    if (each.word == word) return &each;
  }
  return nullptr;
}

LoopMark* TreeNode::find_mark(const std::string& word) {
  return const_cast<LoopMark*>(std::as_const(*this).find_mark(word));
}

int64_t TreeNode::copies() const {
  const LoopMark* unrolled = find_mark(marks::kUnroll);
  return unrolled == nullptr ? 1 : unrolled->count;
}

TreeNode initial_tree(const Kernel& kernel) {
  TreeNode root;
  root.kind = TreeNode::Kind::Sequence;
  std::set<std::string> names;
  for (size_t i = 0; i < kernel.statements.size(); ++i) {
    const Statement& statement = kernel.statements[i];
    TreeNode node;
    node.statement = static_cast<int>(i);
    std::vector<TreeNode> loops;
    for (const Iterator& iterator : statement.iterators) {
      TreeNode loop;
      loop.kind = TreeNode::Kind::Loop;
      loop.name = statement.name + "_" + iterator.name;
      for (int number = 2; !names.insert(loop.name).second; ++number) {
        loop.name = statement.name + "_" + iterator.name + "_" + std::to_string(number);
      }
      loop.iterator_parts[node.statement] = {iterator.name, {}};
      loops.push_back(std::move(loop));
    }
    while (!loops.empty()) {
      loops.back().children.push_back(std::move(node));
      node = std::move(loops.back());
      loops.pop_back();
    }
    root.children.push_back(std::move(node));
  }
  tidy(root);
  return root;
}

const TreeNode* find_loop(const TreeNode& tree, const std::string& name) {
  if (tree.kind == TreeNode::Kind::Loop && tree.name == name) return &tree;
  for (const TreeNode& child : tree.children) {
    if (const TreeNode* found = find_loop(child, name)) return found;
  }
  return nullptr;
}

TreeNode* find_loop(TreeNode& tree, const std::string& name) {
  return const_cast<TreeNode*>(find_loop(static_cast<const TreeNode&>(tree), name));
}

TreeNode* parent_of(TreeNode& tree, const TreeNode* node) {
  for (TreeNode& child : tree.children) {
    if (&child == node) return &tree;
    if (TreeNode* found = parent_of(child, node)) return found;
  }
  return nullptr;
}

std::vector<int> statements_below(const TreeNode& node) {
  if (node.kind == TreeNode::Kind::Leaf) return {node.statement};
  std::vector<int> result;
  for (const TreeNode& child : node.children) {
    for (int statement : statements_below(child)) result.push_back(statement);
  }
  return result;
}

std::vector<std::string> loop_names(const TreeNode& tree) {
  std::vector<std::string> result;
  visit_tree(tree, [&](const TreeNode& node, const auto&) {
    if (node.kind == TreeNode::Kind::Loop) result.push_back(node.name);
  });
  return result;
}

namespace {

void visit(const TreeNode& node, std::vector<const TreeNode*>& loops,
           const std::function<void(const TreeNode&, const std::vector<const TreeNode*>&)>& call) {
  call(node, loops);
  if (node.kind == TreeNode::Kind::Loop) loops.push_back(&node);
  for (const TreeNode& child : node.children) visit(child, loops, call);
  if (node.kind == TreeNode::Kind::Loop) loops.pop_back();
}

}  // namespace

void visit_tree(const TreeNode& tree,
                const std::function<void(const TreeNode&, const std::vector<const TreeNode*>&)>& call) {
  std::vector<const TreeNode*> loops;
  visit(tree, loops, call);
}

const Affine& iterator_extent(const Statement& statement, const std::string& iterator) {
  for (const Iterator& candidate : statement.iterators) {
    if (candidate.name == iterator) return candidate.extent;
  }
  fail(ErrorKind::Internal, "statement '", statement.name, "' has no iterator '", iterator, "'");
}

void tidy(TreeNode& tree) {
  for (TreeNode& child : tree.children) tidy(child);
  if (tree.kind != TreeNode::Kind::Sequence) return;
  std::vector<TreeNode> flat;
  for (TreeNode& child : tree.children) {
    if (child.kind == TreeNode::Kind::Sequence) {
      for (TreeNode& inner : child.children) flat.push_back(std::move(inner));
    } else {
      flat.push_back(std::move(child));
    }
  }
  tree.children = std::move(flat);
  if (tree.children.size() == 1) {
    TreeNode only = std::move(tree.children[0]);
    tree = std::move(only);
  }
}

std::vector<int64_t> time_of(const TreeNode& tree, const Kernel& kernel, int statement,
                             const std::vector<int64_t>& iterators) {
  const Statement& what = kernel.statements.at(static_cast<size_t>(statement));
  std::vector<int64_t> result;
  const TreeNode* node = &tree;
  while (node->kind != TreeNode::Kind::Leaf) {
    if (node->kind == TreeNode::Kind::Loop) {
      const LoopPart& part = node->iterator_parts.at(statement);
      size_t position = 0;
      while (what.iterators[position].name != part.iterator) ++position;
      result.push_back(part.evaluate(iterators.at(position)));
    }
    size_t child = 0;
    if (node->kind == TreeNode::Kind::Sequence) {
      while (true) {
        std::vector<int> below = statements_below(node->children.at(child));
        if (std::find(below.begin(), below.end(), statement) != below.end()) break;
        ++child;
      }
      result.push_back(static_cast<int64_t>(child));
    }
    node = &node->children.at(child);
  }
  return result;
}

}  // namespace tc
