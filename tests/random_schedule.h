// Random legal schedules of the scheduler's test kernels, from a seed.
#pragma once

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/core/state.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {

// Which schedules are drawn: the seed says kernel, start, and which primitive is preferred, so that
// consecutive seeds go through all pairs of kernel and primitive.
struct RandomSchedule {
  const NamedKernel* named;
  Kernel kernel;
  std::string preferred;
  Schedule schedule;  // legal; finish() has been tried
  uint32_t data_seed;
};

// How often each primitive held, by kernel and primitive: tried and applied.
struct PrimitiveCounts {
  std::map<std::pair<std::string, std::string>, std::pair<int, int>> counts;

  void add(const std::string& kernel, const std::string& primitive, bool applied);
  int applied(const std::string& primitive) const;
  int applied(const std::string& kernel, const std::string& primitive) const;
  int tried(const std::string& kernel, const std::string& primitive) const;
  // A table: a line per kernel, a column per primitive.
  std::string str() const;
};

// The primitives that are drawn: those for every target.
const std::vector<std::string>& drawn_primitives();

// Draws lines that the state might accept.
class LineGenerator {
 public:
  explicit LineGenerator(uint32_t seed) : random_(seed) {}

  // A line of that primitive for the state, or an empty one where there is nothing to apply it to.
  std::string line(const std::string& primitive, const ScheduleState& state);

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool chance(int64_t one_in) { return pick(1, one_in) == 1; }
  template <class Item>
  const Item& one_of(const std::vector<Item>& items) {
    return items[static_cast<size_t>(pick(0, static_cast<int64_t>(items.size()) - 1))];
  }
  std::mt19937& random() { return random_; }

 private:
  std::string fresh(const std::string& base) { return base + std::to_string(number_++); }
  std::string layout(const Kernel& kernel);
  std::string strip(const Kernel& kernel);
  std::string pack(const Kernel& kernel);
  std::string merge(const Kernel& kernel);
  std::string join(const Kernel& kernel);
  std::string winograd(const Kernel& kernel);
  std::string split(const std::vector<const TreeNode*>& loops);
  std::string order(const std::vector<const TreeNode*>& loops);
  std::string fuse(const std::vector<const TreeNode*>& sequences);
  std::string compute_at(const Kernel& kernel, const std::vector<const TreeNode*>& sequences);
  // What the row alone says: any loop where it takes a loop, any number ...
  std::string any(const PrimitiveRow& row, const Kernel& kernel, const std::vector<const TreeNode*>& loops);
  std::vector<std::string> any_iterators(const Kernel& kernel, int64_t count);

  std::mt19937 random_;
  int number_ = 0;
};

// Copies of statements that the code of the tree would hold.
int64_t copies_of(const ScheduleState& state);

// The schedule of a seed. Code of at most `most_copies` copies of statements. Throws what the
// scheduler throws, but for schedules that finish() refuses with a Schedule error: the last marks
// are taken back then.
RandomSchedule random_schedule(uint32_t seed, const Target& target, int64_t most_copies,
                               PrimitiveCounts& counts);

// A schedule of a kernel whose sizes it may make one: the seed says kernel and preferred primitive, every
// other time merge, which does so.
RandomSchedule random_schedule_of_products(uint32_t seed, const Target& target, int64_t most_copies,
                                           PrimitiveCounts& counts);
// How many products of sizes the schedule has added to its kernel.
size_t products_of(const RandomSchedule& random);

// "TC_SEED=7 conv, unroll" and the trace, for failures.
std::string describe(uint32_t seed, const RandomSchedule& random);

}  // namespace tc::testing
