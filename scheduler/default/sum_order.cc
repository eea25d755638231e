// The order of a tile's loops that sum.
#include "scheduler/default/plan.h"

#include <algorithm>

#include "ir/target/narrow_product.h"
#include "ir/target/register_groups.h"

namespace tc {
namespace {

// On an in-order core, each trip of a rolled loop over a window waits for its loads (of an unrolled loop LLVM
// would keep all loads in registers). A loop over few channels inside of it makes its trips longer. The same
// holds where the bytes of a block of channels are added together, which makes trips short.
void put_channels_last(const ReductionFacts& facts, const IteratorPlan& iterators, const std::string& columns,
                       std::vector<std::string>& order) {
  constexpr int64_t kFewChannels = 8;
  if ((!counts_registers(facts.target()) && iterators.bytes.empty()) || facts.target().vector_bits == 0 ||
      order.size() < 2)
    return;
  if (!facts.is_window(order.back(), columns) ||
      !facts.shares_broadcasts(order.back(), columns, iterators.lane))
    return;
  const std::vector<std::string> outputs = facts.outputs();
  const auto channels = std::find_if(order.begin(), order.end(), [&](const std::string& name) {
    const int64_t extent = facts.extent(name, 0);
    return extent > 1 && extent <= kFewChannels && name != iterators.panel_part &&
           std::none_of(outputs.begin(), outputs.end(),
                        [&](const std::string& output) { return facts.is_window(name, output); });
  });
  if (channels != order.end()) std::rotate(channels, channels + 1, order.end());
}

// Whether a loop has a padded window along another output iterator than the columns: its first and last trip
// are known only when the code runs.
bool has_open_trips(const ReductionFacts& facts, const std::string& columns, const std::string& name) {
  return facts.constrained(name) && !facts.is_window(name, columns);
}

// Loops of which copies can be made are inside of those with open trips; windows along the columns, which
// have few trips, are the innermost ones.
void put_copies_last(const ReductionFacts& facts, const std::string& columns,
                     std::vector<std::string>& order) {
  const auto rank = [&](const std::string& name) {
    return has_open_trips(facts, columns, name) ? 0 : facts.is_window(name, columns) ? 2 : 1;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
}

}  // namespace

bool adds_words(const ReductionFacts& facts, const IteratorPlan& iterators) {
  return !iterators.bytes.empty() && adds_products_in_scalars(facts.target());
}

std::vector<std::string> order_of_sums(const ReductionFacts& facts, const IteratorPlan& iterators,
                                       const std::string& columns, const ReductionKnobs& knobs) {
  std::vector<std::string> order = facts.reduction_order(iterators.lane, columns);
  order.erase(std::remove(order.begin(), order.end(), iterators.bytes), order.end());
  put_channels_last(facts, iterators, columns, order);
  if (adds_words(facts, iterators)) put_copies_last(facts, columns, order);
  std::vector<std::string> sums = moved(order, knobs.sum_order);
  if (!iterators.panel_part.empty()) {
    sums.erase(std::find(sums.begin(), sums.end(), iterators.panel_part));
    sums.insert(sums.begin(), iterators.panel_part);
  }
  return sums;
}

std::vector<LoopPlan::Unrolling> copies_of_words(const ReductionFacts& facts, const std::string& columns,
                                                 const std::vector<std::string>& sums) {
  constexpr int64_t kSteps = 16;
  std::vector<LoopPlan::Unrolling> result;
  int64_t left = kSteps;
  for (auto name = sums.rbegin(); name != sums.rend() && left > 1; ++name) {
    const int64_t extent = facts.extent(*name, 0);
    if (extent == 0 || has_open_trips(facts, columns, *name)) break;
    if (extent <= left) {
      result.push_back({*name, 0});
      left /= extent;
      continue;
    }
    int64_t copies = left;
    while (extent % copies != 0) --copies;
    if (2 * copies <= left) copies = left;  // no divisor is near
    if (copies > 1) result.push_back({*name, copies});
    break;
  }
  return result;
}

}  // namespace tc
