#include "codegen/llvm/pass_support/list_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tc {

int CoreTimes::operations_in_flight(int registers) const {
  return static_cast<int>(std::ceil(core_.latency * core_.multiply_adds / registers));
}

void ListScheduler::list(size_t place, std::vector<size_t>& order) {
  // Each instruction being visited, with the index of its next need.
  std::vector<std::pair<size_t, size_t>> path(1, {place, 0});
  while (!path.empty()) {
    auto& [at, next] = path.back();
    if (listed_[at]) {
      path.pop_back();
    } else if (next < needs_[at].size()) {
      path.emplace_back(needs_[at][next++], 0);
    } else {
      listed_[at] = true;
      order.push_back(at);
      path.pop_back();
    }
  }
}

void ListScheduler::list_by(const std::vector<double>& keys, std::vector<size_t>& order) {
  std::vector<size_t> places(keys.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  for (const size_t each : places) list(each, order);
}

}  // namespace tc
