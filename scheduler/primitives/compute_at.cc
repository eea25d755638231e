// compute_at: statements move under the loops of a neighbour, without recomputation.
#include <algorithm>

#include "scheduler/state.h"

namespace tc {
namespace {

// For iterators of `target` the part of an iterator of `mover` that is at the same place of a buffer
// that both access: subscripts `i` and `j` match as wholes, `8*io + ii` and `j` as parts of j.
std::map<std::string, LoopPart> matching_parts(const Statement& target, const Statement& mover) {
  std::map<std::string, LoopPart> result;
  std::set<std::string> used;
  auto accesses = [](const Statement& statement) {
    std::vector<Access> all{statement.write};
    for_each_load(statement.value, [&](const Expr& load) { all.push_back(load.access); });
    return all;
  };
  // What the target writes tells most; then what the mover writes.
  for (const Access& a : accesses(target)) {
    for (const Access& b : accesses(mover)) {
      if (a.buffer != b.buffer) continue;
      for (size_t d = 0; d < a.index.size(); ++d) {
        if (a.index[d].dynamic || b.index[d].dynamic || a.index[d].affine.constant() != 0) continue;
        const std::string to = b.index[d].affine.as_variable();
        if (to.empty() || used.count(to)) continue;
        auto terms = a.index[d].affine.terms();
        std::sort(terms.begin(), terms.end(),
                  [](const auto& x, const auto& y) { return x.second > y.second; });
        bool radix = !terms.empty() && terms.back().second == 1;
        for (size_t i = 0; i < terms.size(); ++i) {
          if (result.count(terms[i].first)) radix = false;
          if (i > 0 && (terms[i - 1].second % terms[i].second != 0 ||
                        terms[i - 1].second == terms[i].second)) radix = false;
        }
        if (!radix) continue;
        used.insert(to);
        for (size_t i = 0; i < terms.size(); ++i) {
          LoopPart part{to, {}};
          if (i > 0) part.steps.push_back({true, terms[i - 1].second});
          if (terms[i].second > 1) part.steps.push_back({false, terms[i].second});
          result[terms[i].first] = part;
        }
      }
    }
  }
  return result;
}

// Two divisions after each other are one.
std::vector<LoopPart::Step> joined(std::vector<LoopPart::Step> steps,
                                   const std::vector<LoopPart::Step>& more) {
  for (const LoopPart::Step& step : more) {
    if (!steps.empty() && !steps.back().modulo && !step.modulo) {
      steps.back().size *= step.size;
    } else {
      steps.push_back(step);
    }
  }
  return steps;
}

// Takes the outer loops `path` (of `leader`) out of the loops of one statement: what is left of each
// of its loops, outermost first.
std::vector<TreeNode> remaining_loops(const Kernel& kernel, const std::vector<const TreeNode*>& path,
                                      int leader, int mover, std::vector<TreeNode> loops,
                                      std::vector<LoopPart>& members) {
  const Statement& target = kernel.statements[static_cast<size_t>(leader)];
  const Statement& statement = kernel.statements[static_cast<size_t>(mover)];
  const auto match = matching_parts(target, statement);
  for (const TreeNode* outer : path) {
    LoopPart part = outer->members.at(leader);
    auto found = match.find(part.iterator);
    if (found == match.end()) {
      refuse("statement ", statement.name, " has no iterator that corresponds to ", part.iterator,
             " of ", target.name, " (loop ", outer->name, ")");
    }
    part = {found->second.iterator, joined(found->second.steps, part.steps)};
    members.push_back(part);
    auto loop = std::find_if(loops.begin(), loops.end(), [&](const TreeNode& candidate) {
      const LoopPart& own = candidate.members.at(mover);
      return own.iterator == part.iterator && own.steps.size() <= part.steps.size() &&
             std::equal(own.steps.begin(), own.steps.end(), part.steps.begin());
    });
    if (loop == loops.end()) {
      refuse("iterator ", part.iterator, " of ", statement.name, " is split otherwise than loop ",
             outer->name);
    }
    LoopPart& own = loop->members.at(mover);
    if (own.steps.size() == part.steps.size()) {
      loops.erase(loop);
      continue;
    }
    if (own.steps.size() + 1 != part.steps.size() || part.steps.back().modulo) {
      refuse("loop ", outer->name, " is not an outer part of iterator ", part.iterator, " of ",
             statement.name);
    }
    own.steps.push_back({true, part.steps.back().size});
  }
  return loops;
}

}  // namespace

Primitive compute_at_primitive() {
  Primitive primitive;
  primitive.row = {"compute_at", "order", "compute_at STATEMENT ... at LOOP",
                   "{ for i: S; for i: for j: T }  ->  for i: { S; for j: T } for `compute_at S at "
                   "T_i`: the statements run inside the loop, next to what it holds, and share all "
                   "loops around it. Nothing is computed twice."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    const Kernel& kernel = state.kernel->kernel;
    std::vector<int> movers;
    while (!words.next_is("at") && !words.at_end()) {
      const std::string name = words.name("a statement");
      const Statement* statement = kernel.find(name);
      if (statement == nullptr) refuse("no statement '", name, "'");
      movers.push_back(static_cast<int>(statement - kernel.statements.data()));
    }
    words.expect("at");
    const std::string name = words.name("a loop");
    if (movers.empty()) refuse("expected a statement");
    loop_or_refuse(state, name);

    for (int mover : movers) {
      const std::string& who = kernel.statements[static_cast<size_t>(mover)].name;
      // The chain of the statement's own loops, and the sequence that holds it.
      TreeNode* chain = nullptr;
      visit_tree(state.tree, [&](const TreeNode& node, const auto&) {
        if (chain == nullptr && node.kind != TreeNode::Kind::Sequence &&
            statements_below(node) == std::vector<int>{mover}) {
          chain = const_cast<TreeNode*>(&node);
        }
      });
      if (chain == nullptr) refuse("statement ", who, " has no loops of its own");
      TreeNode* sequence = parent_of(state.tree, chain);
      if (sequence == nullptr || sequence->kind != TreeNode::Kind::Sequence) {
        refuse("statement ", who, " is not next to loop ", name);
      }
      std::vector<TreeNode> loops;
      for (TreeNode* node = chain; node->kind == TreeNode::Kind::Loop; node = &node->children[0]) {
        refuse_marked(*node);
        TreeNode copy = *node;
        copy.children.clear();
        loops.push_back(std::move(copy));
      }
      // The neighbour that holds the loop, and the loops from there to it.
      size_t neighbour = sequence->children.size();
      for (size_t i = 0; i < sequence->children.size(); ++i) {
        if (find_loop(sequence->children[i], name) != nullptr) neighbour = i;
      }
      const auto position = static_cast<size_t>(chain - sequence->children.data());
      if (neighbour == sequence->children.size() || neighbour == position) {
        refuse("statement ", who, " is not next to loop ", name);
      }
      std::vector<TreeNode*> path;
      TreeNode* node = &sequence->children[neighbour];
      while (true) {
        if (node->kind != TreeNode::Kind::Loop) {
          refuse("loop ", name, " has statements around it that loop ",
                 path.empty() ? std::string("nest") : path.back()->name, " also holds");
        }
        path.push_back(node);
        if (node->name == name) break;
        node = &node->children[0];
      }
      for (TreeNode* loop : path) refuse_marked(*loop);
      // The statement with the most iterators leads: its loops tell how the path counts.
      int leader = -1;
      for (const auto& [candidate, part] : path.back()->members) {
        const auto size = [&](int s) { return kernel.statements[static_cast<size_t>(s)].iterators.size(); };
        if (leader < 0 || size(candidate) > size(leader)) leader = candidate;
      }
      std::vector<LoopPart> members;
      std::vector<const TreeNode*> outer(path.begin(), path.end());
      loops = remaining_loops(kernel, outer, leader, mover, std::move(loops), members);
      for (size_t i = 0; i < path.size(); ++i) path[i]->members[mover] = members[i];

      TreeNode body;
      body.statement = mover;
      for (size_t i = loops.size(); i-- > 0;) {
        loops[i].children.push_back(std::move(body));
        body = std::move(loops[i]);
      }
      TreeNode together;
      together.kind = TreeNode::Kind::Sequence;
      TreeNode inside = std::move(path.back()->children[0]);
      if (position < neighbour) together.children.push_back(std::move(body));
      together.children.push_back(std::move(inside));
      if (position > neighbour) together.children.push_back(std::move(body));
      path.back()->children[0] = std::move(together);
      sequence->children.erase(sequence->children.begin() + static_cast<std::ptrdiff_t>(position));
      tidy(state.tree);
    }
    refuse_illegal(state, state.tree);
  };
  return primitive;
}

}  // namespace tc
