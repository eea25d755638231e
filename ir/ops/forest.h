// Decision trees as tables of nodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/ops/rows.h"

namespace tc {

constexpr int64_t kDeepestTree = 4096;
constexpr int64_t kMaxTargets = 1 << 20;

// A node of a tree: where `feature` is at most `value` (less than it, if strict), `first` comes next, else
// `second`.
struct TreeTest {
  int64_t feature = 0;
  double value = 0;
  bool strict = false;
  bool missing = false;           // NaN goes to `first`
  int64_t first = 0, second = 0;  // numbers of tests
  bool leaf = false;
  std::vector<std::pair<int64_t, double>> votes = {};  // of a leaf: target and number
};

// The upper part of each tree is evaluated without walking down it. Its exits, the places where it is left,
// are a set of bits. Every test is evaluated, and a test that fails removes the exits of its first subtree.
// The lowest bit that remains is the exit that the sample takes.
constexpr int64_t kExits = 32;
constexpr int64_t kTestsTogether = 8;  // each tree's row of tests has a multiple of them
// The upper bits of this factor times a power of two are different for each power: a de Bruijn sequence.
constexpr uint32_t kExitFactor = 0x077CB531;
constexpr int kExitShift = 27;
int64_t exit_slot(int64_t bit);
struct ForestTops {
  // By tree and test. Padding tests at a row's end are true for every sample and remove nothing. Where NaN
  // goes to the first child, the feature is in a second copy of all features that the forest reads, which
  // follows the first copy.
  TensorPtr features;  // i32
  TensorPtr thresholds;
  TensorPtr kept;     // i32: the bits of the exits that remain where the test fails
  TensorPtr exits;    // i32 [trees, kExits]: places; the place of bit b is at index exit_slot(b)
  int64_t depth = 0;  // steps from an exit to the deepest leaf
};

// All trees in common tables. The `first` child of a node at `place` is at children[place], and `second`
// directly after it. A leaf's children are two copies of the leaf, whose children are these two copies again,
// so that a walk that has reached a leaf stays there.
class Forest {
 public:
  // Model errors, which begin with `who`, for circular and very deep trees.
  Forest(const std::string& who, std::vector<TreeTest> tests, const std::vector<int64_t>& roots,
         int64_t targets);

  int64_t depth() const { return depth_; }  // steps from a root to the deepest leaf
  int64_t targets() const { return targets_; }
  int64_t tree_count() const { return static_cast<int64_t>(roots_.size()); }
  bool has_missing() const;
  bool has_negative_vote() const;
  int64_t largest_feature() const;

  // Tables by place.
  TensorPtr features() const;              // i32; -1 - feature where NaN goes to the first child
  TensorPtr thresholds(DType type) const;  // for `<=`: x < v becomes x <= the largest number below v
  TensorPtr children() const;              // i32
  // By place and target; `absent` where a leaf has no vote. Several votes for one target are summed up where
  // `absent` is 0, else the largest or least one counts.
  TensorPtr votes(DType type, double absent) const;
  ForestTops tops(DType type) const;

 private:
  friend class TreeTop;
  struct Place {
    int64_t test = -1;  // -1: no test, both results lead to `child`
    int64_t child = 0;
  };

  int64_t new_pair();
  // Puts a test at the place or, if the test has a place already, makes the place lead there.
  void lay_out(int64_t place, int64_t test);
  // Steps from the place to the deepest leaf; `above` is how many lead to the place.
  int64_t steps_from(int64_t place, int64_t above, std::vector<int64_t>& known) const;
  double threshold(const TreeTest& test, DType type) const;
  const TreeTest* test_at(const Place& place) const {
    return place.test < 0 ? nullptr : &tests_[static_cast<size_t>(place.test)];
  }

  std::string who_;
  std::vector<TreeTest> tests_;
  int64_t targets_, depth_ = 0;
  std::vector<Place> places_;
  std::vector<int64_t> roots_, unfinished_;  // unfinished: places whose children have no places yet
  std::map<int64_t, int64_t> place_of_;
};

// The forest that a node's attributes describe; Model errors naming node and attribute where they contradict
// each other.
Forest forest_of_regressor(const Node& node);
Forest forest_of_classifier(const Node& node, int64_t targets);  // one target: all votes are for it
Forest forest_of_ensemble(const Node& node);
// Checks that the samples are [samples, features] with as many features as the trees read.
void check_samples(InferContext& context, const Forest& forest);

}  // namespace tc
