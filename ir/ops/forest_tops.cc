// The upper parts of decision trees as sets of bits (QuickScorer, Lucchese et al. 2015).
#include <algorithm>
#include <cmath>

#include "ir/ops/forest.h"

namespace tc {

// The upper tests of one tree, from the root on, and the exits below them. Tests below which the tree is
// deepest are taken first.
class TreeTop {
 public:
  TreeTop(const Forest& forest, int64_t root, std::vector<int64_t>& steps) : forest_(forest), steps_(steps) {
    parts_.push_back({settled(root)});
    int64_t exits = 1;
    for (size_t next = deepest(); exits < kExits && next < parts_.size(); next = deepest(), ++exits) {
      const int64_t child = place(parts_[next].place).child;
      parts_[next].first = static_cast<int64_t>(parts_.size());
      for (const int64_t each : {child, child + 1}) parts_.push_back({settled(each)});
    }
    number(0);
  }

  int64_t depth() const {
    int64_t most = 0;
    for (const int64_t exit : exits_) most = std::max(most, steps(exit));
    return most;
  }
  const std::vector<int64_t>& exits() const { return exits_; }  // places, from the first to the last
  struct Test {
    const TreeTest* test = nullptr;
    int64_t begin = 0, end = 0;  // range of the exits in its first subtree
  };
  const std::vector<Test>& tests() const { return tests_; }

 private:
  struct Part {
    int64_t place = 0;
    int64_t first = -1;  // first part below, directly followed by the second; -1: an exit
  };

  const Forest::Place& place(int64_t at) const { return forest_.places_[static_cast<size_t>(at)]; }
  int64_t steps(int64_t at) const { return forest_.steps_from(at, 0, steps_); }
  // The next place with a test that every walk from `at` reaches.
  int64_t settled(int64_t at) const {
    while (!forest_.test_at(place(at))) at = place(at).child;
    return at;
  }
  // The exit below which the tree is deepest, or the number of parts if all exits are leaves.
  size_t deepest() const {
    size_t best = parts_.size();
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].first >= 0 || forest_.test_at(place(parts_[i].place))->leaf) continue;
      if (best == parts_.size() || steps(parts_[i].place) > steps(parts_[best].place)) best = i;
    }
    return best;
  }
  void number(size_t at) {
    const Part part = parts_[at];
    if (part.first < 0) {
      exits_.push_back(part.place);
      return;
    }
    const size_t mine = tests_.size();
    tests_.push_back({forest_.test_at(place(part.place)), static_cast<int64_t>(exits_.size()), 0});
    number(static_cast<size_t>(part.first));
    tests_[mine].end = static_cast<int64_t>(exits_.size());
    number(static_cast<size_t>(part.first) + 1);
  }

  const Forest& forest_;
  std::vector<int64_t>& steps_;
  std::vector<Part> parts_;
  std::vector<Test> tests_;
  std::vector<int64_t> exits_;
};

ForestTops Forest::tops(DType type) const {
  const int64_t features = largest_feature() + 1;
  std::vector<int64_t> steps(places_.size(), -1);
  std::vector<TreeTop> trees;
  size_t most = 1;
  ForestTops result;
  for (const int64_t root : roots_) {
    trees.emplace_back(*this, root, steps);
    most = std::max(most, trees.back().tests().size());
    result.depth = std::max(result.depth, trees.back().depth());
  }
  const int64_t count = tree_count(),
                width = (static_cast<int64_t>(most) + kTestsTogether - 1) / kTestsTogether * kTestsTogether;
  const std::vector<int64_t> shape = {count, width};
  auto tested = std::make_shared<Tensor>(DType::I32, shape),
       kept = std::make_shared<Tensor>(DType::I32, shape);
  auto thresholds = std::make_shared<Tensor>(type, shape);
  auto exits = std::make_shared<Tensor>(DType::I32, std::vector<int64_t>{count, kExits});
  for (int64_t tree = 0; tree < count; ++tree) {
    const TreeTop& top = trees[static_cast<size_t>(tree)];
    for (int64_t i = 0; i < width; ++i) {
      const int64_t at = tree * width + i;
      kept->set_int(at, -1);
      thresholds->set(at, INFINITY);
      if (i >= static_cast<int64_t>(top.tests().size())) continue;
      const TreeTop::Test& each = top.tests()[static_cast<size_t>(i)];
      tested->set_int(at, each.test->feature + (each.test->missing ? features : 0));
      thresholds->set(at, threshold(*each.test, type));
      const auto bits =
          static_cast<uint32_t>(((uint64_t{1} << each.end) - 1) & ~((uint64_t{1} << each.begin) - 1));
      kept->set_int(at, static_cast<int32_t>(~bits));
    }
    for (int64_t bit = 0; bit < static_cast<int64_t>(top.exits().size()); ++bit) {
      exits->set_int(tree * kExits + exit_slot(bit), top.exits()[static_cast<size_t>(bit)]);
    }
  }
  result.features = tested;
  result.thresholds = thresholds;
  result.kept = kept;
  result.exits = exits;
  return result;
}

int64_t exit_slot(int64_t bit) {
  return static_cast<uint32_t>((uint32_t{1} << bit) * kExitFactor) >> kExitShift;
}

}  // namespace tc
