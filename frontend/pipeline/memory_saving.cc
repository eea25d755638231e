// Gives up as much speed as is needed for a plan to fit the memory that the user allows.
#include "frontend/pipeline/memory_saving.h"

#include <algorithm>
#include <utility>

#include "frontend/pipeline/block_products.h"
#include "ir/error.h"
#include "ir/target/weight_pairs.h"

namespace tc {
namespace {

// Bytes of the kernels' code by estimate.
int64_t code_bytes(const Plan& plan, const BuildOptions& options) {
  int64_t result = 0;
  if (options.code_estimate) {
    for (const ScheduledKernel& kernel : plan.kernels) result += options.code_estimate(kernel);
  }
  return result;
}

// Where constants have a memory of their own, this share of the other one is left for the stack and for
// variables, whose size is known only when the code is compiled; kernels of bytes take 0.1 to 5 KB.
constexpr int64_t kShareOfStack = 16;
// How many targets are tried for bands, the last of which is as little memory as possible.
constexpr int kTargets = 4;

class SavingSearch {
 public:
  SavingSearch(Graph graph, const BuildOptions& options)
      : graph_(std::move(graph)),
        options_(options),
        plain_(options),
        given_(options.segment_limit > 0 || options.constants_limit > 0),
        has_open_sizes_(!graph_.symbols.empty() || !graph_.data_symbols.empty() || !graph_.relations.empty()),
        apart_(options.constants_limit > 0) {
    plain_.tolerance = 0;
    plain_.target = for_least_constants(options.target);
    small_ = plain_;
    small_.target = for_least_code(options.target);
    small_.traces = nullptr;
  }

  BuiltPlan run() {
    for (const MemorySaving saving : {MemorySaving::None, MemorySaving::Order, MemorySaving::Constants,
                                      MemorySaving::Layouts, MemorySaving::Code}) {
      if (saving == MemorySaving::Code && !options_.code_estimate) break;
      if (auto built = attempt(saving, std::nullopt)) return *std::move(built);
      if (!given_) break;
      if (saving < MemorySaving::Constants) continue;
      if (auto built = attempt_bands(saving)) return *std::move(built);
    }
    refuse_memory(least_->plan, least_->constant_names, options_.threads,
                  {options_.memory_limit, options_.constants_limit});
  }

 private:
  // The plan, where it fits.
  std::optional<BuiltPlan> attempt(MemorySaving saving, std::optional<int64_t> arena) {
    // What is larger than all memory that the user gives may still be computed in bands, which exist only of
    // sizes that are known.
    const bool may_be_larger = given_ && !has_open_sizes_;
    const int64_t all =
        may_be_larger ? std::max(options_.memory_limit, machine_memory() / 2) : options_.memory_limit;
    const SavingLevel level = {saving, arena, all};
    const BuildOptions& chosen = level.saving < MemorySaving::Constants ? options_
                                 : level.saving < MemorySaving::Code    ? plain_
                                                                        : small_;
    Graph own = given_ ? graph_ : std::move(graph_);
    use_integer_products(own, chosen.target, chosen.tolerance);
    BuiltPlan built = build_plan_at(std::move(own), chosen, level);
    const std::optional<MemoryNeed> need = memory_need(built.plan, options_.threads);
    // There is no smaller code than plain loops, whose bytes only the compiler decides that gets them.
    const int64_t code = level.saving < MemorySaving::Code ? code_bytes(built.plan, options_) : 0;
    const int64_t room = apart_ ? std::max<int64_t>(1, options_.constants_limit - code) : 0;
    const bool has_room = fits(built.plan, options_.threads, {options_.memory_limit, room});
    if (level.saving == MemorySaving::None) first_ = need ? need->total() : 0;
    if (need) last_ = *need;
    if (has_room) {
      if (level.saving != MemorySaving::None) note(built, level, need->total());
      return built;
    }
    // Constants beyond the memory for them count first: nothing in the other memory helps there.
    const std::pair<int64_t, int64_t> bytes =
        apart_ ? std::pair{std::max<int64_t>(0, need->constants - room), need->working}
               : std::pair<int64_t, int64_t>{0, need->total()};
    // A refusal names memory that would do: only of plans that are made whatever the limit is.
    const bool always_made = !arena || *arena == 0;
    if (!least_ || (always_made && bytes < fewest_)) {
      fewest_ = bytes;
      least_ = std::move(built);
    }
    return std::nullopt;
  }

  // The same with chains of kernels in bands, after attempt() without these.
  std::optional<BuiltPlan> attempt_bands(MemorySaving saving) {
    const int64_t limit = options_.memory_limit - (apart_ ? 0 : last_.constants);
    if (last_.working <= limit || limit <= 0) return std::nullopt;  // it is not the values that take too much
    const int64_t wanted = apart_ ? limit - limit / kShareOfStack : limit;
    std::optional<BuiltPlan> without_room;  // for the stack
    // Blocks of different lives leave gaps, scratch memory is known only when kernels are scheduled, and the
    // choice of chains may have come to its end too early.
    int64_t target = wanted;
    for (int tries = 0; tries < kTargets; ++tries) {
      std::optional<BuiltPlan> built = attempt(saving, target);
      // Kernels of bands may have constants of their own.
      const int64_t beyond = apart_ ? last_.working - wanted : last_.total() - options_.memory_limit;
      if (beyond <= 0) return built ? std::move(built) : std::move(without_room);
      if (built && !without_room) without_room = std::move(built);
      target = tries == 0 ? std::max(wanted - beyond, wanted / 2) : tries + 2 < kTargets ? wanted / 2 : 0;
    }
    return without_room;
  }

  void note(BuiltPlan& built, const SavingLevel& level, int64_t bytes) const {
    const char* how[] = {"", "runs its steps in another order",
                         "uses no algorithm that stores more than its weights",
                         "does not fill up blocks of channels", "has plain loops"};
    const char* bands = level.arena ? "runs kernels in bands of rows" : "";
    // Each level includes the order and the algorithms.
    const bool only_bands = level.arena && level.saving == MemorySaving::Constants;
    built.notes.push_back(text(apart_ ? "for max_flash and max_ram the model " : "for max_ram the model ",
                               only_bands ? "" : how[static_cast<size_t>(level.saving)],
                               level.arena && !only_bands ? " and " : "", bands, ": it needs ", bytes,
                               " bytes, not ", first_));
  }

  Graph graph_;
  const BuildOptions& options_;
  BuildOptions plain_, small_;
  const bool given_;  // by the user; speed is given up only for such limits, not for the machine's own
  const bool has_open_sizes_;
  const bool apart_;  // constants have a memory of their own
  std::optional<BuiltPlan> least_;
  std::pair<int64_t, int64_t> fewest_;  // bytes
  int64_t first_ = 0;                   // bytes
  MemoryNeed last_{};                   // of the last attempt
};

}  // namespace

BuiltPlan build_plan(Graph graph, const BuildOptions& options) {
  return SavingSearch(std::move(graph), options).run();
}

}  // namespace tc
