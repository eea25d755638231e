// Reads decision trees from the attributes of ONNX nodes.
#include <algorithm>
#include <cmath>
#include <set>

#include "ir/ops/forest.h"

namespace tc {
namespace {

enum class Mode : uint8_t { Leaf, LessEqual, Less, GreaterEqual, Greater, Equal, NotEqual };

Mode mode_of(const Node& node, const std::string& word) {
  static const std::map<std::string, Mode> modes = {
      {"LEAF", Mode::Leaf},          {"BRANCH_LEQ", Mode::LessEqual},
      {"BRANCH_LT", Mode::Less},     {"BRANCH_GTE", Mode::GreaterEqual},
      {"BRANCH_GT", Mode::Greater},  {"BRANCH_EQ", Mode::Equal},
      {"BRANCH_NEQ", Mode::NotEqual}};
  const auto found = modes.find(word);
  if (found == modes.end())
    fail(ErrorKind::Model, node.origin.str(), ": nodes_modes has '", word, "', which is no mode of a node");
  return found->second;
}

// Reads the attributes of one node and reports what is wrong with them.
class Attributes {
 public:
  explicit Attributes(const Node& node) : node_(node) {}

  template <class... Parts>
  [[noreturn]] void wrong(const Parts&... parts) const {
    fail(ErrorKind::Model, node_.origin.str(), ": ", parts...);
  }

  // As many numbers as `count`; none where the attribute is left out and `optional`.
  std::vector<int64_t> ints(const char* name, size_t count, bool optional = false) const {
    if (optional && !has_attribute(node_, name)) return {};
    std::vector<int64_t> result = ints_attribute(node_, name);
    if (optional && result.empty()) return result;
    check_count(name, result.size(), count);
    return result;
  }
  // The numbers of the attribute `name`, or of the tensor `name`_as_tensor.
  std::vector<double> numbers(const std::string& name, size_t count) const {
    const std::string tensor = name + "_as_tensor";
    std::vector<double> result = has_attribute(node_, tensor) ? elements(tensor) : std::vector<double>();
    if (result.empty() && has_attribute(node_, name)) result = floats_attribute(node_, name);
    check_count(name, result.size(), count);
    return result;
  }
  std::vector<double> elements(const std::string& name) const {
    const TensorPtr tensor = tensor_attribute(node_, name);
    std::vector<double> result;
    if (!tensor) return result;
    for (int64_t i = 0; i < tensor->count(); ++i) result.push_back(tensor->as_double(i));
    return result;
  }
  void check_count(const std::string& name, size_t found, size_t needed) const {
    if (found != needed) wrong("attribute '", name, "' has ", found, " values; ", needed, " are needed");
  }
  int64_t index(const char* name, int64_t value, size_t count) const {
    if (value < 0 || value >= static_cast<int64_t>(count))
      wrong("attribute '", name, "' has ", value, "; 0 to ", static_cast<int64_t>(count) - 1,
            " are possible");
    return value;
  }
  const Node& node() const { return node_; }

 private:
  const Node& node_;
};

// Builds the tests of a forest: all comparisons of files become `<=` and `<`.
class Tests {
 public:
  int64_t add(TreeTest test) {
    tests_.push_back(std::move(test));
    return static_cast<int64_t>(tests_.size()) - 1;
  }
  // Turns the test at `at`, which must exist, into a comparison that leads to `when_true` or `when_false`.
  // For NaN it is true where `missing` is set, and where the comparison is "not equal".
  void compare(int64_t at, Mode mode, const TreeTest& what, int64_t when_true, int64_t when_false) {
    TreeTest test = what;
    test.strict = mode == Mode::Less || mode == Mode::GreaterEqual;
    switch (mode) {
      case Mode::LessEqual:
      case Mode::Less:
        test.first = when_true;
        test.second = when_false;
        break;
      case Mode::GreaterEqual:
      case Mode::Greater:
        test.first = when_false;
        test.second = when_true;
        test.missing = !what.missing;
        break;
      case Mode::NotEqual:
        test.missing = false;
        std::swap(when_true, when_false);
        [[fallthrough]];
      default: {
        TreeTest less = test;
        less.strict = true;
        less.missing = false;
        less.first = when_false;
        less.second = when_true;
        test.first = add(less);
        test.second = when_false;
      }
    }
    tests_[static_cast<size_t>(at)] = std::move(test);
  }
  TreeTest& operator[](int64_t at) { return tests_[static_cast<size_t>(at)]; }
  std::vector<TreeTest> take() { return std::move(tests_); }

 private:
  std::vector<TreeTest> tests_;
};

// The names of the operator's attributes that describe votes.
struct VoteNames {
  const char *trees, *nodes, *targets, *weights;
};

// Nodes are numbered separately in each tree; the first node of a tree is its root.
Forest forest_of(const Node& node, const VoteNames& names, int64_t targets, bool one_target) {
  const Attributes given(node);
  const std::vector<int64_t> trees = ints_attribute(node, "nodes_treeids");
  const size_t count = trees.size();
  const std::vector<int64_t> ids = given.ints("nodes_nodeids", count),
                             features = given.ints("nodes_featureids", count);
  const std::vector<int64_t> when_true = given.ints("nodes_truenodeids", count),
                             when_false = given.ints("nodes_falsenodeids", count);
  const std::vector<int64_t> missing = given.ints("nodes_missing_value_tracks_true", count, true);
  const std::vector<double> values = given.numbers("nodes_values", count);
  const auto& modes = std::get<std::vector<std::string>>(node.attributes.at("nodes_modes"));
  given.check_count("nodes_modes", modes.size(), count);
  std::map<std::pair<int64_t, int64_t>, int64_t> number_of;
  std::vector<int64_t> roots;
  std::set<int64_t> begun;
  Tests tests;
  for (size_t i = 0; i < count; ++i) {
    if (!number_of.try_emplace({trees[i], ids[i]}, static_cast<int64_t>(i)).second)
      given.wrong("tree ", trees[i], " has two nodes ", ids[i]);
    if (begun.insert(trees[i]).second) roots.push_back(static_cast<int64_t>(i));
    tests.add({});
  }
  auto number = [&](int64_t tree, int64_t id) {
    const auto found = number_of.find({tree, id});
    if (found == number_of.end())
      given.wrong("tree ", tree, " has no node ", id, ", which an attribute names");
    return found->second;
  };
  for (size_t i = 0; i < count; ++i) {
    const Mode mode = mode_of(node, modes[i]);
    const auto at = static_cast<int64_t>(i);
    tests[at].leaf = mode == Mode::Leaf;
    if (mode == Mode::Leaf) continue;
    if (features[i] < 0 || features[i] > INT32_MAX) given.wrong("nodes_featureids has ", features[i]);
    const TreeTest what{features[i], values[i], false, !missing.empty() && missing[i] != 0, 0, 0};
    tests.compare(at, mode, what, number(trees[i], when_true[i]), number(trees[i], when_false[i]));
  }
  const std::vector<int64_t> vote_trees = ints_attribute(node, names.trees),
                             vote_nodes = given.ints(names.nodes, vote_trees.size());
  const std::vector<int64_t> vote_targets = given.ints(names.targets, vote_trees.size());
  const std::vector<double> weights = given.numbers(names.weights, vote_trees.size());
  for (size_t i = 0; i < vote_trees.size(); ++i) {
    const int64_t target =
        one_target ? 0 : given.index(names.targets, vote_targets[i], static_cast<size_t>(targets));
    tests[number(vote_trees[i], vote_nodes[i])].votes.emplace_back(target, weights[i]);
  }
  if (roots.empty()) given.wrong("there are no trees");
  return Forest(node.origin.str(), tests.take(), roots, targets);
}

// Reads a TreeEnsemble, whose tests are numbered nodes first, then leaves.
class Ensemble {
 public:
  explicit Ensemble(const Node& node) : given_(node) {}

  Forest forest() {
    const Node& node = given_.node();
    const std::vector<int64_t> features = ints_attribute(node, "nodes_featureids");
    count_ = features.size();
    const std::vector<double> splits = given_.elements("nodes_splits"),
                              modes = given_.elements("nodes_modes");
    given_.check_count("nodes_splits", splits.size(), count_);
    given_.check_count("nodes_modes", modes.size(), count_);
    const std::vector<int64_t> when_true = given_.ints("nodes_truenodeids", count_),
                               when_false = given_.ints("nodes_falsenodeids", count_);
    const std::vector<int64_t> true_leafs = given_.ints("nodes_trueleafs", count_),
                               false_leafs = given_.ints("nodes_falseleafs", count_);
    const std::vector<int64_t> missing = given_.ints("nodes_missing_value_tracks_true", count_, true);
    read_members();
    for (size_t i = 0; i < count_; ++i) tests_.add({});
    add_leaves();
    for (size_t i = 0; i < count_; ++i) {
      if (features[i] < 0 || features[i] > INT32_MAX) given_.wrong("nodes_featureids has ", features[i]);
      const TreeTest what{features[i], splits[i], false, !missing.empty() && missing[i] != 0, 0, 0};
      const int64_t yes = child("nodes_truenodeids", when_true[i], true_leafs[i]),
                    no = child("nodes_falsenodeids", when_false[i], false_leafs[i]);
      static const Mode kModes[] = {Mode::LessEqual, Mode::Less,  Mode::GreaterEqual,
                                    Mode::Greater,   Mode::Equal, Mode::NotEqual};
      const auto mode = static_cast<int64_t>(modes[i]);
      if (mode == kMember) compare_members(static_cast<int64_t>(i), what, yes, no);
      else if (mode >= 0 && mode < kMember)
        tests_.compare(static_cast<int64_t>(i), kModes[mode], what, yes, no);
      else given_.wrong("nodes_modes has ", mode, "; 0 to ", kMember, " are possible");
    }
    std::vector<int64_t> roots = ints_attribute(node, "tree_roots");
    for (const int64_t root : roots) given_.index("tree_roots", root, count_);
    if (roots.empty()) given_.wrong("there are no trees");
    return Forest(node.origin.str(), tests_.take(), roots, int_attribute(node, "n_targets"));
  }

 private:
  static constexpr int64_t kMember = 6;

  // Reads the sets of values of the membership tests: the sets are concatenated, each ended by NaN, in the
  // order of the nodes of that mode.
  void read_members() {
    if (!has_attribute(given_.node(), "membership_values")) return;
    sets_.emplace_back();
    for (const double value : given_.elements("membership_values")) {
      if (std::isnan(value)) sets_.emplace_back();
      else sets_.back().push_back(value);
    }
  }
  void add_leaves() {
    const Node& node = given_.node();
    const std::vector<int64_t> targets = ints_attribute(node, "leaf_targetids");
    const std::vector<double> weights = given_.elements("leaf_weights");
    given_.check_count("leaf_weights", weights.size(), targets.size());
    leaves_ = targets.size();
    const auto most = static_cast<size_t>(int_attribute(node, "n_targets"));
    for (size_t i = 0; i < leaves_; ++i) {
      TreeTest leaf;
      leaf.leaf = true;
      leaf.votes = {{given_.index("leaf_targetids", targets[i], most), weights[i]}};
      tests_.add(leaf);
    }
  }
  int64_t child(const char* name, int64_t number, int64_t leaf) const {
    return leaf ? static_cast<int64_t>(count_) + given_.index(name, number, leaves_)
                : given_.index(name, number, count_);
  }
  void compare_members(int64_t at, TreeTest what, int64_t yes, int64_t no) {
    if (next_set_ >= sets_.size())
      given_.wrong("membership_values has ", sets_.size(),
                   " sets, fewer than there are nodes that ask for one");
    const std::vector<double>& set = sets_[next_set_++];
    if (set.empty()) given_.wrong("membership_values has an empty set");
    for (size_t i = 0; i < set.size(); ++i) {
      const int64_t next = i + 1 < set.size() ? tests_.add({}) : no;
      what.value = set[i];
      tests_.compare(at, Mode::Equal, what, yes, next);
      at = next;
    }
  }

  Attributes given_;
  size_t count_ = 0, leaves_ = 0, next_set_ = 0;
  std::vector<std::vector<double>> sets_;
  Tests tests_;
};

}  // namespace

Forest forest_of_regressor(const Node& node) {
  return forest_of(node, {"target_treeids", "target_nodeids", "target_ids", "target_weights"},
                   int_attribute(node, "n_targets"), false);
}

Forest forest_of_classifier(const Node& node, int64_t targets) {
  return forest_of(node, {"class_treeids", "class_nodeids", "class_ids", "class_weights"}, targets,
                   targets == 1);
}

Forest forest_of_ensemble(const Node& node) { return Ensemble(node).forest(); }

void check_samples(InferContext& context, const Forest& forest) {
  const Shape& samples = context.shape(0);
  if (samples.size() != 2)
    context.error("the samples have shape ", str(samples), "; [samples, features] is needed");
  context.require_at_most(Dim(forest.largest_feature() + 1), samples[1],
                          text("the samples have shape ", str(samples), ", but a tree asks for feature ",
                               forest.largest_feature()));
}

}  // namespace tc
