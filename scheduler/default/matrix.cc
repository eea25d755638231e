// The default for sums of products on a matrix unit, where the tolerance allows numbers to be divided into
// shorter ones: the sizes of bands, panels and accumulators with the least cycles by the analytic cost model.
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "ir/target/register_groups.h"
#include "scheduler/algebra/algorithms.h"
#include "scheduler/default/matrix_plan.h"
#include "scheduler/default/matrix_cost.h"
#include "scheduler/legality/legality.h"
#include "scheduler/legality/trust.h"

namespace tc {
namespace {

constexpr int64_t kMinRows = 7;  // rows of an accumulator, below which it does not pay
// What the predicted cycles of a map's scalar sums may be of those of plain sums. The latter leave out
// epilogues and the conversion of bytes: counted on a Cortex-M55, a product of 8 channels (the least that
// such a unit pays for) takes 0.9 of the plain sums' instructions where 1.3 of the cycles are predicted.
constexpr double kGainOfScalarSums = 1.4;
// How many blocks of features have their sums in vector registers at a time, in the order in which they are
// tried; of one row the registers hold up to seven.
constexpr std::array<int64_t, 7> kBlocksOfVectors = {4, 5, 6, 7, 3, 2, 1};

// Finds the plan with the least cycles by the analytic cost model.
class MatrixScheduler {
 public:
  MatrixScheduler(TraceBuilder builder, const TermsAlgorithm& algorithm)
      : problem_(std::move(builder), algorithm) {}

  // Finds the plan with the least cycles; to be called before all that follows.
  void find_best() { best_ = choose(); }

  const MatrixKnobs& chosen() const { return best_.knobs; }
  double cycles_of(const MatrixKnobs& knobs) const { return plan_of(knobs).cycles; }

  // May be called before find_best(), as the next one.
  double least_cycles() const { return cost().least_cycles(); }
  bool stays_in_cache() const { return cost().stays_in_cache(); }

  Prediction prediction() const {
    const bool alike = problem_.unit().vectors && problem_.algorithm().terms == 1;
    const double gain = sums_are_scalars(problem_.unit()) && !problem_.is_row() ? kGainOfScalarSums
                        : alike                                                 ? calibration::kGainOfVectors
                                                                                : kGain;
    Prediction result{best_.cycles, cost().direct_cycles(), gain, alike ? calibration::kFactorOfVectors : 1,
                      ""};
    if (stays_in_cache()) result.unless = "its weights stay in the second cache, from where f32 is as fast";
    return result;
  }

  std::string plan_in_words() const {
    return text(problem_.algorithm().name, ", ", best_.knobs.bands, " bands of rows, ", best_.knobs.panels,
                " panels of features, accumulators of ", best_.blocks, " blocks of features by ", best_.tiles,
                problem_.unit().vectors ? " rows" : " tiles of rows");
  }

  // The schedule with all lines.
  TraceBuilder run(const MatrixKnobs& knobs) const {
    const MatrixUnitPlan plan = knobs.bands > 0 ? plan_of(knobs) : best_;
    if (plan.cycles == INFINITY) throw NotApplicable{"sizes that do not fit"};
    TraceBuilder result = problem_.builder();
    {
      Trust trust;  // the order is checked once, as a whole
      apply_plan(result, problem_.sum(), problem_.algorithm(), plan);
    }
    if (auto found = find_violation(result.state().kernel, result.state().tree)) throw NotApplicable{*found};
    return result;
  }

 private:
  // The bands and panels with the least cycles.
  MatrixUnitPlan choose() const {
    const int64_t blocks = parts(static_cast<int64_t>(problem_.features()), problem_.unit().columns);
    const int64_t lines = problem_.banded_extent(problem_.whole());
    MatrixUnitPlan best;
    int64_t best_bands = 1;
    // Far more bands than in the best plan so far do not pay.
    const bool even = problem_.target().constants == ConstantMemory::Flash;
    const auto next = [&](int64_t bands) { return bands < 4 || even ? bands + 1 : bands + bands / 2; };
    for (int64_t bands = 1; bands <= lines; bands = next(bands)) {
      if (best.cycles < INFINITY && bands > 4 * best_bands) break;
      // Conditions on the last band's rows would be as many instructions as a microcontroller's products.
      if (even && problem_.kernel().parameters.empty() && lines % bands != 0) continue;
      MatrixUnitPlan plan = problem_.whole();
      plan.band = parts(lines, bands);
      plan.knobs.bands = bands;
      const auto sizes = problem_.try_plan(plan);
      if (!sizes) continue;
      // Accumulators of equal height: one for each order of products (two where pairs pay), or else several
      // blocks and tiles at a time.
      const int64_t flat = sizes->tiles, least = parts(flat, problem_.unit().rows);
      if (problem_.algorithm().sums() == 1) {
        plan.tiles = std::min<int64_t>(least, blocks == 1 ? 3 : 2);
        plan.blocks = std::min<int64_t>(least == 1 ? 4 : 2, blocks);
      } else if (least > 1 && problem_.kernel().parameters.empty() && cost().pays_in_pairs(*sizes)) {
        plan.tiles = 2;
      }
      plan.rows = rows_of(flat, plan.tiles);
      if (sizes->digits_are_rows) plan.blocks = std::min<int64_t>(2, blocks);
      else if (plan.rows < kMinRows && !problem_.unit().vectors) continue;
      std::vector<int64_t> block_counts = {plan.blocks};
      if (problem_.unit().vectors) block_counts.assign(kBlocksOfVectors.begin(), kBlocksOfVectors.end());
      for (int64_t each : block_counts) {
        plan.blocks = each;
        for (const int64_t tiles : tile_counts(plan, least)) {
          plan.tiles = tiles;
          if (problem_.unit().vectors && !problem_.is_row()) plan.rows = rows_of(flat, plan.tiles);
          if (each > blocks || (problem_.unit().vectors && !fits(plan, *sizes))) continue;
          if (choose_panel(plan, *sizes, parts(blocks, each), best)) best_bands = bands;
        }
      }
    }
    if (best.cycles == INFINITY) throw NotApplicable{"too few rows"};
    return best;
  }

  // The numbers of tiles at a time to compare, where there are at least so many: as many as the registers
  // hold and, of tiles with several rows in several registers, fewer, which may leave fewer rows empty.
  std::vector<int64_t> tile_counts(const MatrixUnitPlan& plan, int64_t least) const {
    if (!problem_.unit().vectors || problem_.is_row()) return {plan.tiles};
    const int64_t most = parts(least, parts(least, std::max<int64_t>(1, most_tiles(plan.blocks))));
    std::vector<int64_t> result = {most};
    while (of_a_sum() > 1 && result.back() > 1) result.push_back(result.back() - 1);
    return result;
  }

  // The most tiles whose sums fit the vector registers, in addition to the registers for each block's part of
  // the constant and one for the input.
  int64_t most_tiles(int64_t blocks) const {
    const int64_t each = blocks * problem_.unit().parts;
    const int64_t operands = 1 + each * problem_.algorithm().terms;
    // Where loads take longer than products, the next step's operands are loaded beside this one's.
    const int64_t steps = of_a_sum() > 1 && problem_.algorithm().sums() == 1 ? 2 : 1;
    return (problem_.unit().registers - steps * operands) / (each * of_a_sum() * problem_.algorithm().sums());
  }

  int of_a_sum() const {
    return problem_.unit().vectors ? sum_registers(problem_.target(), *problem_.format().instruction) : 1;
  }

  // Whether the vector registers hold what the digits of a single row need: their sums, what is read of the
  // input, and a part of the constant. The input has twice as many registers and one more, for instructions
  // that take signed numbers as unsigned.
  bool row_fits(int64_t blocks, const MatrixUnitSizes& sizes) const {
    const MatrixUnit& unit = problem_.unit();
    const int64_t inputs = sizes.digits_are_rows ? 1 : problem_.algorithm().terms;
    const int64_t sums = unit.parts * of_a_sum() * blocks * problem_.algorithm().sums();
    return sums + 2 * inputs + 1 + unit.parts <= unit.registers;
  }

  // Whether the plan, with some number of panels for all pairs, needs fewer cycles than `best`; if so, it
  // replaces `best`.
  bool choose_panel(MatrixUnitPlan plan, const MatrixUnitSizes& sizes, int64_t pairs,
                    MatrixUnitPlan& best) const {
    bool found = false;
    for (int64_t panels : {1, 2, 4, 8}) {
      if (panels > pairs || (panels > 1 && problem_.builder().threads() == 1)) break;
      set_panels(plan, sizes, pairs, panels);
      if (plan.cycles >= best.cycles) continue;
      best = plan;
      found = true;
    }
    return found;
  }

  // Rows of an accumulator, where the number of accumulators is a multiple of `tiles`.
  int64_t rows_of(int64_t flat, int64_t tiles) const {
    return parts(flat, tiles * parts(parts(flat, problem_.unit().rows), tiles));
  }

  void set_panels(MatrixUnitPlan& plan, const MatrixUnitSizes& sizes, int64_t pairs, int64_t panels) const {
    plan.panel = parts(pairs, panels);
    plan.cycles = cost().cycles(plan);
    // Weights that are read once are prefetched where they do not stay in the cache from run to run and the
    // next pair fits into it next to this one. Streams of vectors are prefetched by hardware.
    const double pair = cost().pair_bytes(plan, sizes),
                 cache = static_cast<double>(problem_.target().l2_bytes);
    const bool ahead = pair * static_cast<double>(pairs) > cache && pair < 0.5 * cache;
    plan.prefetch = problem_.unit().vectors ? !problem_.is_row() : !sizes.digits_are_rows || ahead;
    plan.knobs = {plan.knobs.algorithm, plan.knobs.bands, panels, plan.blocks, plan.tiles};
  }

  // Whether the unit's registers hold the plan's accumulators.
  bool fits(const MatrixUnitPlan& plan, const MatrixUnitSizes& sizes) const {
    if (problem_.unit().vectors) {
      return plan.blocks <= static_cast<int64_t>(kBlocksOfVectors.size()) &&
             (problem_.is_row() ? plan.tiles == 1 && row_fits(plan.blocks, sizes)
                                : plan.tiles <= most_tiles(plan.blocks));
    }
    if (sizes.digits_are_rows) return plan.tiles == 1 && plan.blocks <= 2;
    return problem_.algorithm().sums() > 1 ? plan.blocks == 1 && plan.tiles <= 2
                                           : plan.blocks * plan.tiles <= 4;
  }

  // The plan with these knobs; its cycles are infinite where they do not fit the kernel or the unit.
  MatrixUnitPlan plan_of(const MatrixKnobs& knobs) const {
    MatrixUnitPlan plan = problem_.whole();
    plan.knobs = knobs;
    const int64_t blocks = parts(static_cast<int64_t>(problem_.features()), problem_.unit().columns),
                  lines = problem_.banded_extent(plan);
    plan.band = parts(lines, knobs.bands);
    const auto sizes = knobs.bands <= lines ? problem_.try_plan(plan) : std::nullopt;
    if (!sizes) return plan;
    plan.tiles = knobs.tiles;
    plan.rows = rows_of(sizes->tiles, knobs.tiles);
    plan.blocks = std::min(knobs.blocks, blocks);
    if (plan.tiles > parts(sizes->tiles, problem_.unit().rows) || !fits(plan, *sizes)) return plan;
    const int64_t pairs = parts(blocks, plan.blocks);
    if (knobs.panels <= pairs) set_panels(plan, *sizes, pairs, knobs.panels);
    return plan;
  }

  MatrixCost cost() const { return MatrixCost(problem_); }

  MatrixProblem problem_;
  MatrixUnitPlan best_;  // after find_best()
};

// The algorithms that the unit has a format for and the tolerance allows, by their number from 1.
std::vector<int64_t> allowed(const MatrixUnit& unit, double tolerance) {
  std::vector<int64_t> result;
  for (size_t i = 0; i < std::size(kTermsAlgorithms); ++i) {
    const TermsAlgorithm& each = kTermsAlgorithms[i];
    if (unit.registers == 0 || unit.format(each.operand) == nullptr || each.error * kLayers > tolerance)
      continue;
    result.push_back(static_cast<int64_t>(i) + 1);
  }
  return result;
}

const TermsAlgorithm& numbered(int64_t number) { return kTermsAlgorithms[number - 1]; }

// An algorithm whose plan is known.
struct Prepared {
  int64_t number = 0;
  MatrixScheduler scheduler;
  Prediction prediction;
};

// Whether the algorithm is only a substitute for another one: three products of bf16 are for units without
// 8-bit integers. On units that have both, six products of 8-bit integers take as long and are ten times as
// exact.
bool is_stand_in(const TermsAlgorithm& algorithm) { return !algorithm.digits && algorithm.terms > 1; }

// The algorithms that fit the kernel: first the cheapest that gains over f32, then the others that gain, the
// cheapest first, then those that do not gain, in the order of the table. Appends to `refused` why the others
// do not fit.
std::vector<Prepared> prepare(const TraceBuilder& start, double tolerance, bool all, std::string& refused) {
  std::vector<Prepared> result;
  double least = INFINITY;
  for (const int64_t number : allowed(start.target().matrix, tolerance)) {
    try {
      MatrixScheduler scheduler(start, numbered(number));
      if (!all && scheduler.stays_in_cache()) throw NotApplicable{"weights that stay in the second cache"};
      const double limit = !is_stand_in(numbered(number)) ? kGain * least : least < INFINITY ? 0 : INFINITY;
      if (!all && scheduler.least_cycles() >= limit) continue;
      scheduler.find_best();
      const Prediction prediction = scheduler.prediction();
      if (prediction.pays() && prediction.cycles < limit) least = prediction.cycles;
      result.push_back({number, std::move(scheduler), prediction});
    } catch (const NotApplicable& refusal) {
      refused += text(refused.empty() ? "" : "; ", numbered(number).name, ": ", refusal.why);
    }
  }
  // The cost functions of different formats have different errors: an algorithm further down in the table has
  // to gain as much over the best so far as over the sums in f32.
  std::stable_sort(result.begin(), result.end(), [&](const Prepared& a, const Prepared& b) {
    const auto rank = [&](const Prepared& each) {
      return !each.prediction.pays() ? 2 : each.prediction.cycles == least ? 0 : 1;
    };
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return rank(a) == 1 && a.prediction.cycles < b.prediction.cycles;
  });
  return result;
}

}  // namespace

AlgorithmChoices<MatrixKnobs> matrix_choices(const TraceBuilder& start, double tolerance, bool all) {
  std::string refused;
  const auto prepared =
      std::make_shared<const std::vector<Prepared>>(prepare(start, tolerance, all, refused));
  if (prepared->empty())
    throw NotApplicable{refused.empty() ? "the target has no matrix unit for the tolerance" : refused};
  const Prepared& best = prepared->front();
  AlgorithmChoices<MatrixKnobs> result;
  result.chosen = best.scheduler.chosen();
  result.chosen.algorithm = best.number;
  result.prediction = best.prediction;
  result.plan = best.scheduler.plan_in_words();
  for (const Prepared& each : *prepared) result.kinds.push_back(each.number);
  std::sort(result.kinds.begin(), result.kinds.end());
  result.cycles = [prepared](const MatrixKnobs& knobs) {
    for (const Prepared& each : *prepared) {
      if (each.number == knobs.algorithm) return each.scheduler.cycles_of(knobs);
    }
    return static_cast<double>(INFINITY);
  };
  result.apply = [prepared](const MatrixKnobs& knobs) {
    NotApplicable why{"no such algorithm"};
    for (const Prepared& each : *prepared) {
      if (knobs.algorithm > 0 && knobs.algorithm != each.number) continue;
      try {
        return each.scheduler.run(knobs);
      } catch (const NotApplicable& refusal) {
        why = refusal;
      }
    }
    throw why;
  };
  return result;
}

}  // namespace tc
