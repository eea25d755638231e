// The least code for a reduction: one result at a time, whose sum is in a register, or a row of results at a
// time, whose sums are in memory.
#include <optional>

#include "scheduler/default/facts.h"
#include "scheduler/default/prepare.h"

namespace tc {
namespace {

// Whether a row of results, along the innermost output, is summed up at a time: floats that lie next to each
// other along the row and far from each other along the sum. One result at a time would wait for each
// addition to its sum, which compilers may not reorder, and read each line of a cache again and again.
// A core that runs out of order loads and stores sums while it adds, so that few steps along the row are no
// reason against it, as convolutions of several taps have them.
bool sums_rows(const ReductionFacts& facts) {
  constexpr int64_t kMostSums = 4096;  // of a row: they take memory
  if (facts.outputs().empty() || facts.reductions().empty()) return false;
  const std::string row = facts.outputs().back(), innermost = facts.reductions().back();
  const int64_t extent = facts.extent(row, 0);
  if (!is_float(facts.buffer(facts.sum().write).dtype) || extent < 2 || extent > kMostSums) return false;
  const bool few_steps = facts.target().out_of_order() && 2 * facts.extent(innermost, extent) <= extent;
  bool along_row = false, along_sum = false;
  for (const Access& load : loads_of(facts.sum())) {
    const std::optional<int64_t> in_row = element_stride(facts.kernel(), load, row),
                                 in_sum = element_stride(facts.kernel(), load, innermost);
    const bool moves_as_the_row = in_row == 1 && (in_sum != 1 || few_steps);
    along_row = along_row || moves_as_the_row;
    along_sum = along_sum || (in_sum == 1 && in_row != 0 && !moves_as_the_row);
  }
  return along_row && !along_sum;
}

}  // namespace

TraceBuilder schedule_plain_loops(const TraceBuilder& start) {
  ReductionKernel reduction = prepare_reduction(start);
  const ReductionFacts facts(reduction);
  TraceBuilder& builder = reduction.builder;
  const auto loop = [&](const std::string& iterator) { return reduction.sum + "_" + iterator; };
  std::vector<std::string> around, order;
  for (const std::string& name : facts.outputs()) around.push_back(loop(name));
  const bool in_rows = sums_rows(facts);
  const std::string row = in_rows ? around.back() : "";
  if (in_rows) around.pop_back();
  order = around;
  for (const std::string& name : facts.reductions()) order.push_back(loop(name));
  if (in_rows) order.push_back(row);
  if (order.size() > 1) builder.apply("order", joined(order));
  if (!around.empty())
    builder.apply("compute_at ", reduction.init, joined(reduction.epilogue), " at ", around.back());
  if (!in_rows) builder.apply("register_tile ", around.empty() ? "root" : around.back());
  builder.parallelise();
  return builder;
}

}  // namespace tc
