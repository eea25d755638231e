// What a reduction computes, derived from its subscripts alone.
#include "scheduler/default/classify.h"

#include <algorithm>
#include <set>

#include "scheduler/core/statements.h"

namespace tc {
namespace {

class Subscripts {
 public:
  explicit Subscripts(const Statement& reduction) : reduction_(reduction), write_(reduction.write) {
    for (const Access& load : loads_of(reduction)) {
      const bool varies = std::any_of(reduction.iterators.begin(), reduction.iterators.end(),
                                      [&](const Iterator& each) { return depends_on(load, each.name); });
      if (varies) loads_.push_back(load);
    }
    for (const Access& load : loads_) {
      for (const Subscript& subscript : load.index) find_windows(subscript.affine);
    }
  }

  bool has_windows() const { return !windows_.empty(); }
  size_t operands() const { return loads_.size(); }

  // Whether something is summed over in addition to the windows.
  bool has_channels() const {
    return any([&](const std::string& name) { return is_summed(name) && !windows_.contains(name); });
  }
  // Whether one output iterator is in the subscripts of all operands: it counts channels or groups that are
  // not mixed with each other.
  bool has_groups() const {
    return any([&](const std::string& name) { return !is_summed(name) && in_all(name); });
  }
  // Whether some operand has no row or column of its own.
  bool has_vector() const {
    return std::any_of(loads_.begin(), loads_.end(), [&](const Access& load) {
      return !any([&](const std::string& name) {
        return !is_summed(name) && depends_on(load, name) && !in_all(name);
      });
    });
  }

 private:
  bool is_summed(const std::string& name) const { return !depends_on(write_, name); }
  bool in_all(const std::string& name) const {
    return std::all_of(loads_.begin(), loads_.end(),
                       [&](const Access& load) { return depends_on(load, name); });
  }
  // Of iterators with more than one trip.
  template <class Predicate>
  bool any(const Predicate& predicate) const {
    return std::any_of(reduction_.iterators.begin(), reduction_.iterators.end(), [&](const Iterator& each) {
      return extent_or(reduction_, each.name, 2) > 1 && predicate(each.name);
    });
  }
  void find_windows(const Affine& index) {
    std::set<std::string> summed;
    bool slides = false;
    for (const auto& [name, coefficient] : index.terms()) {
      if (extent_or(reduction_, name, 2) < 2) continue;
      if (is_summed(name)) summed.insert(name);
      // `32*g + c`, a channel in its group, is no window: the weights are indexed by the group as well.
      else slides = slides || loads_.size() < 2 || !in_all(name);
    }
    if (slides) windows_.insert(summed.begin(), summed.end());
  }

  const Statement& reduction_;
  const Access& write_;
  std::vector<Access> loads_;
  std::set<std::string> windows_;
};

}  // namespace

ReductionClass classify(const Statement& reduction) {
  const Subscripts subscripts(reduction);
  if (subscripts.operands() < 2)
    return subscripts.has_windows() ? ReductionClass::Pooling : ReductionClass::OneOperand;
  if (!subscripts.has_windows()) {
    return subscripts.has_vector() ? ReductionClass::MatrixVector : ReductionClass::MatrixProduct;
  }
  if (!subscripts.has_groups()) return ReductionClass::Direct;
  return subscripts.has_channels() ? ReductionClass::Grouped : ReductionClass::Depthwise;
}

}  // namespace tc
