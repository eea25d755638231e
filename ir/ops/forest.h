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
constexpr int64_t kMostTargets = 1 << 20;

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

// The upper part of each tree, which is evaluated without walking: every test is made, and one that fails
// takes its first subtree's exits out of a set of bits, of which the lowest that is left is where a sample
// goes.
constexpr int64_t kExits = 32;
constexpr int64_t kTestsTogether = 8;  // each tree's row of tests has a multiple of them
// A bit times this factor has a number of its own in its upper bits: a sequence of de Bruijn's.
constexpr uint32_t kExitFactor = 0x077CB531;
constexpr int kExitShift = 27;
int64_t exit_slot(int64_t bit);
struct ForestTops {
  // By tree and test of it; what fills a row holds for each sample and takes nothing away. Where NaN goes to
  // the first child the feature is that of a second copy of all that the forest reads, behind the first one.
  TensorPtr features;  // i32
  TensorPtr thresholds;
  TensorPtr kept;     // i32: the exits that are left where the test fails
  TensorPtr exits;    // i32 [trees, kExits]: places; that of bit b at the number that exit_slot has for it
  int64_t depth = 0;  // steps from an exit to the deepest leaf
};

// All trees in common tables. Of a node at `place`, `first` is at children[place] and `second` right behind
// it. A leaf's child is a pair of copies of the leaf, whose child is that pair, so that a walk that has come
// to a leaf stays there.
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

  // By place.
  TensorPtr features() const;              // i32; -1 - feature where NaN goes to the first child
  TensorPtr thresholds(DType type) const;  // of `<=`: x < v is x <= the number before v
  TensorPtr children() const;              // i32
  // By place and target; `absent` where a leaf has no vote. Several votes for one target are summed up where
  // `absent` is 0, else the extreme one counts.
  TensorPtr votes(DType type, double absent) const;
  ForestTops tops(DType type) const;

 private:
  friend class TreeTop;
  struct Place {
    int64_t test = -1;  // -1: sends on to `child`, whatever is compared
    int64_t child = 0;
  };

  int64_t new_pair();
  // Puts a test at the place, or sends on from there to where it is already.
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
  std::vector<int64_t> roots_, unfinished_;  // unfinished: places whose children are still to be laid out
  std::map<int64_t, int64_t> place_of_;
};

// What the attributes of a node say; Model errors naming node and attribute where these do not fit each
// other.
Forest forest_of_regressor(const Node& node);
Forest forest_of_classifier(const Node& node, int64_t targets);  // one target: all votes are for that
Forest forest_of_ensemble(const Node& node);
// The samples are [samples, features] with as many features as the trees ask for.
void check_samples(InferContext& context, const Forest& forest);

}  // namespace tc
