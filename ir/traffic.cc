// The bytes that a kernel has to move, counted from its accesses.
#include "ir/traffic.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "ir/error.h"

namespace tc {
namespace {

using Values = std::map<std::string, int64_t>;

// How many values an affine subscript takes at most while the iterators run, inside `size`.
double value_count(const Affine& affine, const Values& extents, int64_t size) {
  double combinations = 1;
  int64_t span = 0, divisor = 0;
  for (const auto& [name, coefficient] : affine.terms()) {
    const auto found = extents.find(name);
    if (found == extents.end()) continue;  // a parameter
    combinations *= static_cast<double>(found->second);
    span += std::abs(coefficient) * (found->second - 1);
    divisor = std::gcd(divisor, coefficient);
  }
  const double spread = divisor == 0 ? 1 : static_cast<double>(span / divisor + 1);
  return std::min({combinations, spread, static_cast<double>(size)});
}

// Sums up the elements of each buffer that different accesses touch.
class Counter {
 public:
  Counter(const Kernel& kernel, const Values& parameters) : kernel_(kernel), parameters_(parameters) {
    for (const Buffer& buffer : kernel.buffers) {
      std::vector<int64_t> shape;
      for (const Affine& size : buffer.shape) shape.push_back(size.evaluate(parameters));
      shapes_.push_back(std::move(shape));
    }
  }

  void enter(const Statement& statement) {
    extents_.clear();
    instances_ = 1;
    for (const Iterator& iterator : statement.iterators) {
      const int64_t extent = std::max<int64_t>(0, iterator.extent.evaluate(parameters_));
      extents_[iterator.name] = extent;
      instances_ *= static_cast<double>(extent);
    }
  }

  void touch(const Access& access) {
    const size_t buffer = static_cast<size_t>(access.buffer);
    TC_CHECK(buffer < shapes_.size(), "in kernel '", kernel_.name, "'");
    if (!is_argument(kernel_.buffers[buffer]) || instances_ == 0) return;
    double elements = 1;
    std::string key = text(access.buffer);
    for (size_t i = 0; i < access.index.size(); ++i) {
      const Subscript& subscript = access.index[i];
      const int64_t size = shapes_[buffer][i];
      elements *=
          subscript.dynamic ? static_cast<double>(size) : value_count(subscript.affine, extents_, size);
      key += "," + subscript.affine.str();
      for (const auto& [name, coefficient] : subscript.affine.terms()) {
        const auto found = extents_.find(name);
        if (found != extents_.end()) key += text("<", found->second);
      }
      if (subscript.dynamic) key += "?" + str(*subscript.dynamic, kernel_);
    }
    if (seen_.insert(key).second) touched_[access.buffer] += std::min(elements, instances_);
  }

  Traffic result() const {
    Traffic traffic;
    for (const auto& [index, elements] : touched_) {
      const Buffer& buffer = kernel_.buffers[static_cast<size_t>(index)];
      double all = 1;
      for (int64_t size : shapes_[static_cast<size_t>(index)]) all *= static_cast<double>(size);
      const double bytes = std::min(elements, all) * static_cast<double>(size_of(buffer.dtype));
      double& part = buffer.scope == Scope::Output     ? traffic.written
                     : buffer.scope == Scope::Constant ? traffic.constants
                                                       : traffic.read;
      part += bytes;
    }
    return traffic;
  }

 private:
  const Kernel& kernel_;
  const Values& parameters_;
  std::vector<std::vector<int64_t>> shapes_;
  Values extents_;
  double instances_ = 1;
  std::set<std::string> seen_;
  std::map<int, double> touched_;  // elements by buffer
};

}  // namespace

Traffic traffic_of(const Kernel& kernel, const std::map<std::string, int64_t>& parameters) {
  Counter counter(kernel, parameters);
  for (const Statement& statement : kernel.statements) {
    counter.enter(statement);
    const auto visit = [&](const Expr& load) { counter.touch(load.access); };
    for_each_load(statement.value, visit);
    for (const Subscript& subscript : statement.write.index) {
      if (subscript.dynamic) for_each_load(subscript.dynamic, visit);
    }
    counter.touch(statement.write);
  }
  return counter.result();
}

}  // namespace tc
