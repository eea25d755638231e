// Which kernels of a graph are run in bands of rows, so that a run needs less memory.
#include "frontend/pipeline/bands.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "frontend/pipeline/step_order.h"
#include "ir/interrupt.h"
#include "ir/ops/op.h"

namespace tc {
namespace {

// A longer chain keeps rows of more values, and its kernels of bands take more code.
constexpr size_t kMaxChain = 8;
// The numbers of bands to try grow by this factor at least, since each makes a plan of all calls.
constexpr double kNextBands = 1.3;
constexpr int64_t kMaxBands = 64;   // each adds calls of all kernels to the plan
constexpr int64_t kAlignment = 64;  // of blocks in the arena

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Life {
  int64_t bytes = 0;
  size_t first = 0, last = 0;
};

struct Candidate {
  BandedGroups groups;
  int64_t bytes = 0;  // in use while the chain runs
};

class BandChooser {
 public:
  BandChooser(const BandProblem& problem, int64_t target)
      : problem_(problem), target_(target), uses_(block_uses(problem.graph, problem.groups, problem.bytes)) {
    for (size_t g = 0; g < problem.groups.size(); ++g) {
      for (const auto* blocks : {&uses_.makes[g], &uses_.reads[g]}) {
        for (const int block : *blocks) {
          const auto [life, fresh] =
              lives_.try_emplace(block, Life{uses_.size[static_cast<size_t>(block)], g, g});
          life->second.last = g;
        }
      }
    }
    for (const ValueId id : problem.graph.outputs) kept_.insert(id);
  }

  std::vector<BandedGroups> run() {
    if (std::any_of(problem_.groups.begin(), problem_.groups.end(),
                    [](const Group& group) { return group.kind == Group::Kind::Control; }))
      return {};
    // Each round ends with fewer steps at the peak, or with a lower peak.
    while (improve()) {}
    std::vector<BandedGroups> result;
    for (auto& [first, chosen] : chosen_) result.push_back(std::move(chosen.groups));
    return result;
  }

 private:
  // The bytes in use at some step of the groups from `first` to `last`, which run in turns. The blocks in
  // `inside` are not stored as a whole.
  int64_t bytes_in(size_t first, size_t last, const std::set<ValueId>& inside) const {
    int64_t bytes = 0;
    for (const auto& [block, life] : lives_) {
      if (life.first <= last && first <= life.last && inside.count(block) == 0) bytes += aligned(life.bytes);
    }
    return bytes;
  }

  // The group at which most bytes are in use, and these.
  std::pair<size_t, int64_t> peak() const {
    std::pair<size_t, int64_t> most = {0, 0};
    for (size_t g = 0; g < problem_.groups.size(); ++g) {
      const Candidate* chain = chain_at(g);
      const int64_t bytes = chain ? chain->bytes : bytes_in(g, g, {});
      if (bytes > most.second) most = {g, bytes};
    }
    return most;
  }

  const Candidate* chain_at(size_t group) const {
    auto after = chosen_.upper_bound(group);
    if (after == chosen_.begin()) return nullptr;
    const Candidate& before = std::prev(after)->second;
    return before.groups.last >= group ? &before : nullptr;
  }

  bool improve() {
    const auto [busiest, most] = peak();
    if (most <= target_) return false;
    std::optional<Candidate> best;
    const auto is_better = [&](const Candidate& candidate) {
      if (candidate.bytes >= most) return false;
      if (!best) return true;
      const bool fits = candidate.bytes <= target_, best_fits = best->bytes <= target_;
      const size_t calls = candidate.groups.chain.calls(), best_calls = best->groups.chain.calls();
      if (fits && best_fits) return calls < best_calls;
      if (fits != best_fits) return fits;
      return candidate.bytes != best->bytes ? candidate.bytes < best->bytes : calls < best_calls;
    };
    const size_t count = problem_.groups.size();
    for (size_t first = busiest + 1 < kMaxChain ? 0 : busiest + 1 - kMaxChain; first <= busiest; ++first) {
      for (size_t last = std::max(busiest, first + 1); last < std::min(count, first + kMaxChain); ++last) {
        interruption_point();
        if (!covers_chains(first, last)) continue;
        for (Candidate& candidate : candidates(first, last)) {
          if (is_better(candidate)) best = std::move(candidate);
        }
      }
    }
    if (!best) return false;
    for (size_t g = best->groups.first; g <= best->groups.last; ++g) chosen_.erase(g);
    const size_t first = best->groups.first;
    chosen_.emplace(first, *std::move(best));
    return true;
  }

  // Whether the chains that share a group with these have no others.
  bool covers_chains(size_t first, size_t last) const {
    for (size_t g = first; g <= last; ++g) {
      const Candidate* chain = chain_at(g);
      if (chain && (chain->groups.first < first || chain->groups.last > last)) return false;
    }
    return true;
  }

  bool is_bandable(size_t g) {
    const auto [found, fresh] = kernels_.try_emplace(g, std::nullopt);
    if (!fresh) return found->second.has_value();
    const Group& group = problem_.groups[g];
    if (group.kind != Group::Kind::Compute || group.outputs.size() != 1) return false;
    const OpTraits::Movement movement =
        problem_.graph.nodes[static_cast<size_t>(group.nodes[0])].op->traits.movement;
    // Their parts may lie inside of the whole.
    if (movement == OpTraits::Movement::Join || movement == OpTraits::Movement::Split) return false;
    found->second = problem_.kernel_of(group);
    return true;
  }

  // Whether only groups up to `last` read the result of group `g`, and nothing else is in its memory.
  bool stays_inside(size_t g, size_t last) const {
    const ValueId id = problem_.groups[g].outputs[0];
    if (kept_.count(id) > 0 || !problem_.is_free(id) || uses_.makes[g] != std::vector<int>{id}) return false;
    const Life& life = lives_.at(id);
    return life.first == g && life.last <= last;
  }

  std::vector<Candidate> candidates(size_t first, size_t last) {
    std::vector<KernelPart> kernels;
    std::vector<ValueId> results;
    std::set<ValueId> inside;
    for (size_t g = first; g <= last; ++g) {
      if (!is_bandable(g) || (g < last && !stays_inside(g, last))) return {};
      kernels.push_back(*kernels_.at(g));
      results.push_back(problem_.groups[g].outputs[0]);
      if (g < last) inside.insert(results.back());
    }
    std::vector<Candidate> result;
    const Shape& shape = *problem_.graph[results.back()].shape;
    // Maps have their rows in the third dimension, matrices in the first; the first of these dimensions along
    // which there is a chain is taken.
    for (const size_t axis : {size_t{2}, size_t{1}, size_t{0}}) {
      if (axis >= shape.size() || !shape[axis].is_constant()) continue;
      const int64_t rows = shape[axis].constant();
      const int64_t most = std::min(rows, kMaxBands);
      const auto next = [&](int64_t bands) {
        const auto more = std::max(bands + 1, static_cast<int64_t>(static_cast<double>(bands) * kNextBands));
        return bands < most ? std::min(more, most) : more;
      };
      for (int64_t bands = 2, height = rows; bands <= most; bands = next(bands)) {
        const int64_t own = (rows + bands - 1) / bands;
        if (own == std::exchange(height, own)) continue;
        auto chain = BandChain::of(problem_.graph, kernels, results, axis, bands);
        if (!chain) break;
        const std::optional<int64_t> bytes = bytes_of(*chain);
        if (!bytes) break;
        result.push_back({{first, last, *std::move(chain), kernels}, bytes_in(first, last, inside) + *bytes});
      }
      if (!result.empty()) break;
    }
    return result;
  }

  // The bytes of a chain's buffers of rows; nothing where a layout has no rows along the dimension.
  std::optional<int64_t> bytes_of(const BandChain& chain) const {
    for (const auto& [id, axis] : chain.axes()) {
      if (problem_.row_bytes(id, axis) == 0) return std::nullopt;
    }
    int64_t bytes = 0;
    for (const auto& [id, buffer] : chain.buffers()) {
      const int64_t all = (*problem_.graph[id].shape)[buffer.axis].constant();
      bytes += aligned(problem_.bytes(id) / all * buffer.rows);
    }
    return bytes;
  }

  const BandProblem& problem_;
  const int64_t target_;
  const BlockUses uses_;
  std::map<int, Life> lives_;
  std::set<ValueId> kept_;
  std::map<size_t, std::optional<KernelPart>> kernels_;  // by group; nothing where it has no bands
  std::map<size_t, Candidate> chosen_;                   // by first group
};

}  // namespace

std::vector<BandedGroups> choose_bands(const BandProblem& problem, int64_t target) {
  return BandChooser(problem, target).run();
}

}  // namespace tc
