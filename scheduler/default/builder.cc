// What the analytic default is built with.
#include "scheduler/default/builder.h"

#include <algorithm>
#include <cmath>

#include "scheduler/core/rewriting.h"

namespace tc {

const Statement& TraceBuilder::statement(const std::string& name) const {
  return kernel().statements.at(static_cast<size_t>(index_of(name)));
}

int TraceBuilder::index_of(const std::string& name) const {
  const Statement* found = kernel().find(name);
  TC_CHECK(found != nullptr, "statement ", name);
  return static_cast<int>(found - kernel().statements.data());
}

std::vector<TraceBuilder::Loop> TraceBuilder::all_loops(const std::string& name) const {
  const int index = index_of(name);
  std::vector<Loop> result;
  visit_tree(state_.tree, [&](const TreeNode& node, const std::vector<const TreeNode*>& loops) {
    if (node.kind != TreeNode::Kind::Leaf || node.statement != index) return;
    for (const TreeNode* loop : loops) {
      const LoopPart& part = loop->iterator_parts.at(index);
      result.push_back({loop->name, part.iterator, loop->iterator_parts.size() == 1,
                        part.extent(iterator_extent(statement(name), part.iterator))});
    }
  });
  return result;
}

std::vector<TraceBuilder::Loop> TraceBuilder::own_loops(const std::string& name) const {
  std::vector<Loop> result;
  for (const Loop& loop : all_loops(name)) {
    if (loop.own) result.push_back(loop);
  }
  return result;
}

std::vector<std::string> moved(std::vector<std::string> list, int64_t move) {
  const auto count = static_cast<int64_t>(list.size());
  if (move <= 0 || move > 2 * count) return list;
  const auto which = list.begin() + static_cast<std::ptrdiff_t>((move - 1) % count);
  if (move <= count) std::rotate(list.begin(), which, which + 1);
  else std::rotate(which, which + 1, list.end());
  return list;
}

void TraceBuilder::parallelise(int64_t most) {
  if (threads_ <= 1) return;
  constexpr int64_t kUneven = 100;  // parts may differ by one in this many
  std::string line = "parallel";
  int64_t trips = 1;
  bool symbolic = false;
  const TreeNode* node = &state_.tree;
  for (int depth = 0; depth < 2 && node->kind == TreeNode::Kind::Loop; ++depth) {
    if (node->is(marks::kVector) || node->is(marks::kMatrix) || node->is(marks::kUnroll)) break;
    TraceBuilder trial = *this;
    if (!trial.attempt(line, " ", node->name) || check_state(trial.state())) break;
    line += " " + node->name;
    // A batch of unknown size may be one.
    const auto extent = constant_extent(state_, *node);
    symbolic = symbolic || !extent;
    trips *= extent.value_or(1);
    const int64_t even = (trips + threads_ - 1) / threads_ * threads_;
    if (most == depth + 1 || (most == 0 && trips >= 8 * threads_ && kUneven * (even - trips) <= trips)) {
      node = nullptr;
      break;
    }
    node = &node->children[0];
  }
  if (line != "parallel" && (trips > 1 || symbolic)) apply(line);
}

int64_t TraceBuilder::lanes(const Statement& statement) const {
  int64_t widest = 4;
  auto widen = [&](const Access& access, bool) {
    widest = std::max(widest, size_of(kernel().buffers[static_cast<size_t>(access.buffer)].dtype));
  };
  visit_accesses(statement, widen);
  return std::max<int64_t>(1, target().block * 4 / widest);
}

int64_t TraceBuilder::block_in(const Statement& statement, const Affine& index) const {
  const std::string finest = outer_part(index);
  if (finest.empty()) return 0;
  const int64_t size = extent_or(statement, finest, 0);
  const bool has_outer = std::any_of(index.terms().begin(), index.terms().end(),
                                     [&](const auto& term) { return term.second == size; });
  const bool made = std::any_of(state_.blocked.begin(), state_.blocked.end(),
                                [&](const BlockedDim& dim) { return dim.block == size; });
  return size > 1 && has_outer && made ? size : 0;
}

int64_t TraceBuilder::block_read(int buffer, size_t dim) const {
  for (const Statement& statement : kernel().statements) {
    for (const Access& load : loads_of(statement)) {
      if (load.buffer != buffer) continue;
      if (const int64_t block = block_in(statement, load.index[dim].affine)) return block;
    }
  }
  return 0;
}

const Statement& only_reduction(const Kernel& kernel) {
  const Statement* found = nullptr;
  for (const Statement& statement : kernel.statements) {
    if (statement.reduction == Reduction::None) continue;
    if (found != nullptr) throw NotApplicable{"more than one reduction"};
    found = &statement;
  }
  if (found == nullptr) throw NotApplicable{"no reduction"};
  return *found;
}

void pad_constants(TraceBuilder& builder, const std::string& sum, int64_t block) {
  const int result = builder.statement(sum).write.buffer;
  for (const Statement& statement : std::vector<Statement>(builder.kernel().statements)) {
    if (statement.name == sum) continue;
    for (const Access& load : loads_of(statement)) {
      const Buffer buffer = builder.kernel().buffers[static_cast<size_t>(load.buffer)];
      if (buffer.scope != Scope::Constant || load.buffer == result) continue;
      for (size_t d = 0; d < load.index.size(); ++d) {
        if (load.index[d].affine.terms().size() != 2) continue;
        builder.attempt("layout ", buffer.name, " ", d, " ", block);
      }
    }
  }
}

std::optional<SumBlock> block_of_long_sum(const std::vector<TraceBuilder::Loop>& loops) {
  constexpr double kLongSum = 1024;
  double terms = 1;
  for (const TraceBuilder::Loop& loop : loops) terms *= static_cast<double>(loop.extent.value_or(0));
  if (terms < kLongSum) return std::nullopt;
  const double block = std::sqrt(terms);
  double inside = 1;  // terms of one trip
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    const double all = inside * static_cast<double>(*loop->extent);
    if (all > block) return SumBlock{loop->name, static_cast<int64_t>(std::ceil(block / inside))};
    inside = all;
  }
  return std::nullopt;
}

}  // namespace tc
