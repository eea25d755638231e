#include "ir/ops/forest.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tc {
namespace {

constexpr int64_t kMaxNumbers = int64_t{1} << 28;  // in one table

}  // namespace

Forest::Forest(const std::string& who, std::vector<TreeTest> tests, const std::vector<int64_t>& roots,
               int64_t targets)
    : who_(who), tests_(std::move(tests)), targets_(targets) {
  for (const int64_t root : roots) {
    roots_.push_back(new_pair());
    lay_out(roots_.back(), root);
    while (!unfinished_.empty()) {
      const Place from = places_[static_cast<size_t>(unfinished_.back())];
      unfinished_.pop_back();
      lay_out(from.child, test_at(from)->first);
      lay_out(from.child + 1, test_at(from)->second);
    }
  }
  if (static_cast<int64_t>(places_.size()) > kMaxNumbers / std::max<int64_t>(targets_, 1)) {
    fail(ErrorKind::Model, who_, ": ", tests_.size(), " nodes of trees and ", targets_,
         " targets need tables of more than ", kMaxNumbers, " numbers");
  }
  std::vector<int64_t> known(places_.size(), -1);
  for (const int64_t root : roots_) depth_ = std::max(depth_, steps_from(root, 0, known));
}

int64_t Forest::new_pair() {
  places_.resize(places_.size() + 2);
  return static_cast<int64_t>(places_.size()) - 2;
}

void Forest::lay_out(int64_t place, int64_t test) {
  const auto [known, fresh] = place_of_.try_emplace(test, place);
  const int64_t child = fresh ? new_pair() : known->second;
  places_[static_cast<size_t>(place)] = {fresh ? test : -1, child};
  if (!fresh) return;
  if (!tests_[static_cast<size_t>(test)].leaf) {
    unfinished_.push_back(place);
    return;
  }
  for (const int64_t copy : {child, child + 1}) places_[static_cast<size_t>(copy)] = {test, child};
}

int64_t Forest::steps_from(int64_t place, int64_t above, std::vector<int64_t>& known) const {
  if (above > kDeepestTree)
    fail(ErrorKind::Model, who_, ": a tree is circular or has more than ", kDeepestTree, " levels");
  int64_t& steps = known[static_cast<size_t>(place)];
  if (steps >= 0) return steps;
  const Place& here = places_[static_cast<size_t>(place)];
  const TreeTest* test = test_at(here);
  if (test && test->leaf) return steps = 0;
  int64_t most = steps_from(here.child, above + 1, known);
  if (test) most = std::max(most, steps_from(here.child + 1, above + 1, known));
  return known[static_cast<size_t>(place)] = most + 1;
}

bool Forest::has_missing() const {
  return std::any_of(places_.begin(), places_.end(), [&](const Place& place) {
    const TreeTest* test = test_at(place);
    return !test || test->missing;
  });
}

bool Forest::has_negative_vote() const {
  return std::any_of(tests_.begin(), tests_.end(), [](const TreeTest& test) {
    return std::any_of(test.votes.begin(), test.votes.end(),
                       [](const auto& vote) { return vote.second < 0; });
  });
}

int64_t Forest::largest_feature() const {
  int64_t largest = -1;
  for (const TreeTest& test : tests_) {
    if (!test.leaf) largest = std::max(largest, test.feature);
  }
  return largest;
}

TensorPtr Forest::features() const {
  auto result =
      std::make_shared<Tensor>(DType::I32, std::vector<int64_t>{static_cast<int64_t>(places_.size())});
  for (size_t i = 0; i < places_.size(); ++i) {
    const TreeTest* test = test_at(places_[i]);
    const int64_t feature = test && !test->leaf ? test->feature : 0;
    result->set_int(static_cast<int64_t>(i), !test || test->missing ? -1 - feature : feature);
  }
  return result;
}

double Forest::threshold(const TreeTest& test, DType type) const {
  if (!test.strict) return test.value;
  if (type == DType::F64) return std::nextafter(test.value, -INFINITY);
  return std::nextafter(static_cast<float>(test.value), -std::numeric_limits<float>::infinity());
}

TensorPtr Forest::thresholds(DType type) const {
  auto result = std::make_shared<Tensor>(type, std::vector<int64_t>{static_cast<int64_t>(places_.size())});
  for (size_t i = 0; i < places_.size(); ++i) {
    const TreeTest* test = test_at(places_[i]);
    result->set(static_cast<int64_t>(i), test ? threshold(*test, type) : INFINITY);
  }
  return result;
}

TensorPtr Forest::children() const {
  auto result =
      std::make_shared<Tensor>(DType::I32, std::vector<int64_t>{static_cast<int64_t>(places_.size())});
  for (size_t i = 0; i < places_.size(); ++i) result->set_int(static_cast<int64_t>(i), places_[i].child);
  return result;
}

TensorPtr Forest::votes(DType type, double absent) const {
  auto result =
      std::make_shared<Tensor>(type, std::vector<int64_t>{static_cast<int64_t>(places_.size()), targets_});
  for (size_t i = 0; i < places_.size(); ++i) {
    std::vector<double> row(static_cast<size_t>(targets_), absent);
    if (const TreeTest* test = test_at(places_[i])) {
      for (const auto& [target, number] : test->votes) {
        double& vote = row[static_cast<size_t>(target)];
        vote = absent == 0 ? vote + number : absent > 0 ? std::min(vote, number) : std::max(vote, number);
      }
    }
    for (size_t target = 0; target < row.size(); ++target) {
      result->set(static_cast<int64_t>(i * row.size() + target), row[target]);
    }
  }
  return result;
}

}  // namespace tc
