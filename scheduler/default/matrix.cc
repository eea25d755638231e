// The default for sums of products on a matrix unit, where the error budget allows to divide numbers into
// shorter ones: the sizes of bands, panels and accumulators with the least cycles by closed forms.
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "scheduler/algebra/algorithms.h"
#include "scheduler/cost/tile_cost.h"
#include "scheduler/default/band_plan.h"
#include "scheduler/default/builder.h"
#include "scheduler/default/reduction.h"
#include "scheduler/legality/legality.h"
#include "scheduler/legality/trust.h"

namespace tc {
namespace {

constexpr double kShareOfCache = 0.7;      // of the second cache, for a band's input and a panel
constexpr double kZero = 1, kStore = 3;    // cycles per native vector of what waits in memory
constexpr double kStart = 300;             // cycles of a band and panel, before and after the products
// One product on vectors, in register tiles like those in f32, has a closed form that errs as theirs does: less is asked
// of it against the sums in f32, and against other algorithms it counts more than a tile unit's. Measured on Zen 4.
constexpr double kGainAlike = 0.92, kFactorAlike = 1.4 / 1.15;
constexpr double kLoad = 0.75;             // cycles per vector of products loaded, or number spread over one
constexpr int64_t kBandOfSymbolic = 128;   // rows, at most
constexpr int64_t kAll = int64_t{1} << 40;  // rows of a band, blocks of a panel
constexpr int64_t kLeastRows = 7;          // of one accumulator that pay
// Blocks of features whose sums are in vector registers at a time, as many as the registers hold of one row.
constexpr std::array<int64_t, 7> kBlocksOfVectors = {4, 5, 6, 7, 3, 2, 1};
constexpr double kFewSums = 2;             // steps of a sum, where two accumulators by order at a time pay
// Their steps, of what the bytes let expect; where the constant's part stays in the first cache or not.
constexpr double kPairNear = 1.25, kPairFar = 1.2;

// Finds the plan with the least cycles by closed forms.
class MatrixScheduler {
 public:
  MatrixScheduler(TraceBuilder builder, const TermsAlgorithm& algorithm)
      : b_(std::move(builder)), algorithm_(&algorithm), format_(*b_.target().matrix.format(algorithm.operand)) {
    whole_.band = kernel().parameters.empty() ? kAll : kBandOfSymbolic;
    whole_.panel = kAll;
    find();
  }

  // Finds the plan with the least cycles; all below is to be asked after it.
  void find_best() { best_ = choose(); }

  const MatrixKnobs& chosen() const { return best_.knobs; }
  double cycles_of(const MatrixKnobs& knobs) const { return plan_of(knobs).cycles; }

  Prediction prediction() const {
    const bool alike = unit().vectors && algorithm_->terms == 1;
    Prediction result{best_.cycles, direct_cycles(), alike ? kGainAlike : kGain, alike ? kFactorAlike : 1, ""};
    if (stays_in_cache()) result.unless = "its weights stay in the second cache, from where f32 is as fast";
    return result;
  }

  // Cycles of the products alone, with accumulators that are all full: no plan has fewer. To be asked at any time.
  double least_cycles() const {
    const double products = 0.5 * algorithm_->terms * (algorithm_->terms + 1);
    const double at_once = static_cast<double>(unit().rows * unit().columns * depth());
    return turns() * algorithm_->slower * products * format_.cycles * all_rows_ * features_ * steps_ / at_once;
  }

  // Several products on vectors take longer than those in f32 and gain where fewer bytes come from afar.
  bool stays_in_cache() const { return unit().vectors && algorithm_->sums() > 1 && direct_stream() == 0; }

  std::string plan_in_words() const {
    return text(algorithm_->name, ", ", best_.knobs.bands, " bands of rows, ", best_.knobs.panels,
                " panels of features, accumulators of ", best_.blocks, " blocks of features by ", best_.tiles,
                unit().vectors ? " rows" : " tiles of rows");
  }

  // All lines.
  TraceBuilder run(const MatrixKnobs& knobs) const {
    const BandPlan plan = knobs.bands > 0 ? plan_of(knobs) : best_;
    if (plan.cycles == INFINITY) throw Abandon{"sizes that do not fit"};
    TraceBuilder result = b_;
    {
      Trust trust;   // the order is checked once, as a whole
      apply_plan(result, macc_, *algorithm_, plan);
    }
    if (auto found = find_violation(result.state().kernel, result.state().tree)) throw Abandon{*found};
    return result;
  }

 private:
  const Kernel& kernel() const { return b_.kernel(); }
  const Statement& macc() const { return b_.statement(macc_); }
  const MatrixUnit& unit() const { return b_.target().matrix; }
  static int64_t parts(int64_t size, int64_t part) { return (size + part - 1) / part; }

  int depth() const { return format_.groups * format_.members; }

  // The sum; its result in a private buffer with blocks of features; rows that can be counted as one.
  void find() {
    macc_ = only_reduction(kernel()).name;
    if (kernel().buffers[static_cast<size_t>(macc().write.buffer)].scope == Scope::Output) {
      const std::string name = kernel().buffers[static_cast<size_t>(macc().write.buffer)].name;
      b_.apply("stage ", name);
    }
    for (size_t i = macc().iterators.size(); i-- > 1;) {
      const std::string a = macc().iterators[i - 1].name, b = macc().iterators[i].name;
      b_.attempt("merge ", macc_, "_", a, " ", macc_, "_", b, " as ", b);
    }
    const Buffer& result = kernel().buffers[static_cast<size_t>(macc().write.buffer)];
    const bool blocked = std::any_of(b_.state().blocked.begin(), b_.state().blocked.end(),
                                     [&](const BlockedDim& dim) { return dim.buffer == result.name; });
    if (!blocked) b_.apply("layout ", result.name, " ", feature_dimension(), " ", unit().columns);
    double other = 1;
    for (const Iterator& iterator : macc().iterators) {
      const auto extent = static_cast<double>(extent_or(macc(), iterator.name, kAssumedSymbolic));
      if (!depends_on(macc().write, iterator.name)) steps_ *= extent;
      else if (is_feature(iterator.name)) features_ *= extent;
      else other *= extent;
    }
    all_rows_ = other;
    // Of more rows several products on vectors are more work than those in f32, however few bytes they read.
    if (unit().vectors && algorithm_->terms > 1 && !is_row()) throw Abandon{"more than one row"};
    TraceBuilder trial = b_;
    if (auto refused = refusal(trial, whole_.line(macc_, *algorithm_))) throw Abandon{*refused};
    trial.apply(whole_.line(macc_, *algorithm_));
    const int64_t groups = trial.statement(macc_).iterators.rbegin()[1].extent.constant();
    for (const MatrixUnit::Format& each : unit().formats) {
      if (each.operand == algorithm_->operand && each.groups == groups) format_ = each;
    }
  }

  bool is_row() const { return all_rows_ == 1; }

  bool is_feature(const std::string& iterator) const {
    for (const Access& load : loads_of(macc())) {
      const Scope scope = kernel().buffers[static_cast<size_t>(load.buffer)].scope;
      if (scope == Scope::Constant) return depends_on(load, iterator) && depends_on(macc().write, iterator);
    }
    throw Abandon{"no constant operand"};
  }

  size_t feature_dimension() const {
    for (size_t d = 0; d < macc().write.index.size(); ++d) {
      const std::string name = macc().write.index[d].affine.as_variable();
      if (!name.empty() && is_feature(name)) return d;
    }
    throw Abandon{"no features"};
  }

  // What a plan's rewrite makes of the statement.
  struct Sizes {
    int64_t images = 1, bands = 1, panels = 1, pairs = 1, blocks = 1, lines = 1, tiles = 1, rows = 1;
    bool digits_are_rows = false;          // of an accumulator: there is one row
    double sums = 1, taps = 1;             // instructions' steps per accumulator; of one depth
    double input = 0;                      // elements of the divided input of a band, all terms once
  };

  std::optional<Sizes> try_plan(const BandPlan& plan) const {
    TraceBuilder trial = b_;
    if (!trial.attempt(plan.line(macc_, *algorithm_))) return std::nullopt;
    Sizes sizes;
    const Statement& start = trial.statement(start_of(trial));
    const size_t band = band_position(start);
    auto extent = [&](size_t position) {
      return extent_or(start, start.iterators.at(position).name, kAssumedSymbolic);
    };
    for (size_t i = 0; i < band; ++i) sizes.images *= extent(i);
    const Affine& bands = start.iterators.at(band).extent;
    sizes.bands = bands.is_constant() ? bands.constant() : parts(kAssumedSymbolic, plan.band);
    sizes.panels = extent(band + 1);
    sizes.pairs = extent(band + 2);
    sizes.blocks = extent(band + 3);
    const size_t count = start.iterators.size();
    sizes.rows = extent(count - 2);
    sizes.tiles = extent(count - 3 - loops_over_orders(*algorithm_));
    for (size_t i = band + 4; i + 3 + loops_over_orders(*algorithm_) < count; ++i) sizes.lines *= extent(i);
    const Statement& sum = trial.statement(macc_);
    sizes.digits_are_rows = sizes.rows != plan.rows;
    const size_t inside = sizes.digits_are_rows ? 5 : 6;   // terms, and the unit's four
    const size_t depths = count - 2 - loops_over_orders(*algorithm_);
    for (size_t i = depths; i + inside < sum.iterators.size(); ++i) {   // depth and taps
      const auto extent = static_cast<double>(sum.iterators[i].extent.constant());
      sizes.sums *= extent;
      if (i > depths) sizes.taps *= extent;
    }
    for (const Access& load : loads_of(sum)) {
      const Buffer& buffer = trial.kernel().buffers[static_cast<size_t>(load.buffer)];
      if (buffer.scope != Scope::Local) continue;
      sizes.input = 1;
      for (size_t d = band + 2; d < buffer.shape.size(); ++d) {
        if (d != band + 3) sizes.input *= static_cast<double>(buffer.shape[d].constant());
      }
    }
    return sizes;
  }

  // The rewrite puts the statement that sets the accumulators to zero before the sum.
  std::string start_of(const TraceBuilder& builder) const {
    return builder.kernel().statements.at(static_cast<size_t>(builder.index_of(macc_)) - 1).name;
  }

  // The bands and panels with the least cycles.
  BandPlan choose() const {
    const int64_t blocks = parts(static_cast<int64_t>(features_), unit().columns);
    const int64_t lines = banded_extent(whole_);
    BandPlan best;
    int64_t best_bands = 1;
    // Many more bands than pay best up to there do not pay.
    const auto next = [](int64_t bands) { return bands < 4 ? bands + 1 : bands + bands / 2; };
    for (int64_t bands = 1; bands <= lines; bands = next(bands)) {
      if (best.cycles < INFINITY && bands > 4 * best_bands) break;
      BandPlan plan = whole_;
      plan.band = parts(lines, bands);
      plan.knobs.bands = bands;
      const auto sizes = try_plan(plan);
      if (!sizes) continue;
      // Accumulators of equal height: one of each order of products, or an even number.
      const int64_t flat = sizes->tiles, least = parts(flat, unit().rows);
      if (algorithm_->sums() == 1) {
        plan.tiles = std::min<int64_t>(least, blocks == 1 ? 3 : 2);
        plan.blocks = std::min<int64_t>(least == 1 ? 4 : 2, blocks);
      } else if (least > 1 && kernel().parameters.empty() && pays_in_pairs(*sizes)) {
        plan.tiles = 2;
      }
      plan.rows = rows_of(flat, plan.tiles);
      if (sizes->digits_are_rows) plan.blocks = std::min<int64_t>(2, blocks);
      else if (plan.rows < kLeastRows && !unit().vectors) continue;
      std::vector<int64_t> at_once = {plan.blocks};
      if (unit().vectors) at_once.assign(kBlocksOfVectors.begin(), kBlocksOfVectors.end());
      for (int64_t each : at_once) {
        plan.blocks = each;
        if (unit().vectors && !is_row()) plan.tiles = parts(flat, parts(flat, most_rows(each)));
        if (each <= blocks && choose_panel(plan, *sizes, parts(blocks, each), best)) best_bands = bands;
      }
    }
    if (best.cycles == INFINITY) throw Abandon{"too few rows"};
    return best;
  }

  // Of vectors, beside a register for each block's part of the constant and one for the input.
  int64_t most_rows(int64_t blocks) const { return (unit().registers - 1 - blocks) / blocks; }

  // Whether the plan with some number of panels for all pairs needs fewer cycles than the best, which it is then.
  bool choose_panel(BandPlan plan, const Sizes& sizes, int64_t pairs, BandPlan& best) const {
    bool found = false;
    for (int64_t panels : {1, 2, 4, 8}) {
      if (panels > pairs || (panels > 1 && b_.threads() == 1)) break;
      set_panels(plan, sizes, pairs, panels);
      if (plan.cycles >= best.cycles) continue;
      best = plan;
      found = true;
    }
    return found;
  }

  // Of an accumulator, where so many of them hold all.
  int64_t rows_of(int64_t flat, int64_t tiles) const {
    return parts(flat, tiles * parts(parts(flat, unit().rows), tiles));
  }

  void set_panels(BandPlan& plan, const Sizes& sizes, int64_t pairs, int64_t panels) const {
    plan.panel = parts(pairs, panels);
    plan.cycles = cycles_of(plan);
    // Weights that are read once: those that stay in the cache from run to run need none, and the next
    // pair has to fit beside this one. Streams of vectors are fetched ahead by hardware.
    const double pair = pair_bytes(plan, sizes), cache = static_cast<double>(b_.target().l2_bytes);
    const bool ahead = pair * static_cast<double>(pairs) > cache && pair < 0.5 * cache;
    plan.prefetch = unit().vectors ? !is_row() : !sizes.digits_are_rows || ahead;
    plan.knobs = {plan.knobs.algorithm, plan.knobs.bands, panels, plan.blocks, plan.tiles};
  }

  // Whether the unit's registers hold so many accumulators.
  bool fits(const BandPlan& plan, const Sizes& sizes) const {
    if (unit().vectors) {
      return plan.blocks <= static_cast<int64_t>(kBlocksOfVectors.size()) &&
             plan.tiles <= (is_row() ? 1 : most_rows(plan.blocks));
    }
    if (sizes.digits_are_rows) return plan.tiles == 1 && plan.blocks <= 2;
    return algorithm_->sums() > 1 ? plan.blocks == 1 && plan.tiles <= 2 : plan.blocks * plan.tiles <= 4;
  }

  // Of infinite cycles where the knobs do not fit the kernel or the unit.
  BandPlan plan_of(const MatrixKnobs& knobs) const {
    BandPlan plan = whole_;
    plan.knobs = knobs;
    const int64_t blocks = parts(static_cast<int64_t>(features_), unit().columns), lines = banded_extent(plan);
    plan.band = parts(lines, knobs.bands);
    const auto sizes = knobs.bands <= lines ? try_plan(plan) : std::nullopt;
    if (!sizes) return plan;
    plan.tiles = knobs.tiles;
    plan.rows = rows_of(sizes->tiles, knobs.tiles);
    plan.blocks = std::min(knobs.blocks, blocks);
    if (plan.tiles > parts(sizes->tiles, unit().rows) || !fits(plan, *sizes)) return plan;
    const int64_t pairs = parts(blocks, plan.blocks);
    if (knobs.panels <= pairs) set_panels(plan, *sizes, pairs, knobs.panels);
    return plan;
  }

  bool reads_weights_once(const Sizes& sizes) const { return sizes.digits_are_rows || (unit().vectors && is_row()); }

  // Whether the constant's part of a block stays in the first cache from one accumulator to the next.
  bool stays_near(const Sizes& sizes) const {
    const double element_bytes = algorithm_->terms * static_cast<double>(size_of(algorithm_->operand));
    return sizes.sums * depth() * unit().columns * element_bytes <= static_cast<double>(b_.target().l1_bytes);
  }
  // Sums by order, of two accumulators at a time: the constant's tiles are loaded once for both, but each
  // operand has one register. That pays where the constant comes from the second cache each time and the
  // input does not, as taps read it again, or where so little is summed up that results to be stored hold
  // up the next accumulator.
  bool pays_in_pairs(const Sizes& sizes) const {
    return sizes.sums <= kFewSums || (sizes.taps > 1 && !stays_near(sizes));
  }

  static std::optional<std::string> refusal(TraceBuilder& trial, const std::string& line) {
    ScheduleState state = trial.state();
    return apply_line(state, line);
  }

  int64_t banded_extent(const BandPlan& plan) const {
    TraceBuilder trial = b_;
    trial.apply(plan.line(macc_, *algorithm_));
    const Statement& tail = trial.kernel().statements.back();
    // Behind panels, pairs and blocks: what is divided into bands; here there is one.
    return tail.iterators.at(band_position(tail) + 4).extent.constant();
  }

  // Of the weights that a pair of blocks and a depth have in all.
  double pair_bytes(const BandPlan& plan, const Sizes& sizes) const {
    const int64_t of_a_step = plan.blocks * unit().columns * depth() * algorithm_->terms * size_of(algorithm_->operand);
    return static_cast<double>(of_a_step) * sizes.sums;
  }

  // What vectors do takes so often the cycles stated, which are of cores with two multiply-adds a cycle.
  double turns() const { return unit().vectors ? 2 / b_.target().multiply_adds : 1; }
  double vectors(double elements) const { return elements * 32 / std::max(32, b_.target().vector_bits); }
  // Cycles in which so many bytes of all weights come from beyond the second cache.
  double far(double bytes, double weights) const { return cycles_from_afar(b_.target(), bytes, weights); }

  double cycles_of(const BandPlan& plan) const {
    const auto sizes = try_plan(plan);
    if (!sizes) return INFINITY;
    const auto pairs = static_cast<double>(sizes->panels * sizes->pairs);
    const double lines = static_cast<double>(sizes->lines * sizes->tiles);
    const auto chunks = static_cast<double>(sizes->images * sizes->bands);
    // Products at a time, of all terms of each operand, which are loaded.
    const double at_once = static_cast<double>(plan.blocks * plan.tiles);
    const double products = algorithm_->terms * (sizes->digits_are_rows ? 1 : 0.5 * (algorithm_->terms + 1));
    const double row_share = static_cast<double>(sizes->rows) / unit().rows;
    const double element_bytes = algorithm_->terms * static_cast<double>(size_of(algorithm_->operand));
    const double operand_bytes = element_bytes * depth() *
                                 static_cast<double>(plan.blocks * unit().columns + plan.tiles * sizes->rows);
    double step = std::max(turns() * algorithm_->slower * products * at_once * format_.cycles * row_share,
                           operand_bytes / b_.target().l2_bandwidth);
    // All terms of a group add up in the sum of the last order, one after the other.
    if (unit().vectors) {
      step = std::max(step, static_cast<double>(format_.groups * algorithm_->terms * b_.target().latency));
      step = std::max(step, format_.groups * static_cast<double>(plan.blocks + plan.tiles) * kLoad * turns());
    }
    if (algorithm_->sums() > 1 && plan.tiles > 1) step *= stays_near(*sizes) ? kPairNear : kPairFar;
    const double steps = pairs * lines / static_cast<double>(plan.tiles) * sizes->sums;
    const auto of_an_accumulator = static_cast<double>(sizes->rows * unit().columns);
    const double results = pairs * static_cast<double>(plan.blocks) * lines * of_an_accumulator;
    const double store = turns() * kStore * algorithm_->sums() * vectors(results);
    const double input = vectors(sizes->input);
    const double of_a_vector = algorithm_->divide + algorithm_->terms * kZero;
    const double divide = turns() * static_cast<double>(sizes->panels) * input * of_a_vector;
    const auto cache = static_cast<double>(b_.target().l2_bytes);
    const double pair = pair_bytes(plan, *sizes), weights = pairs * pair;
    const double near = sizes->input * element_bytes + (reads_weights_once(*sizes) ? 0 : pair);   // what is read again
    if (near > cache) return INFINITY;
    const double missing = std::clamp((weights + near) / caches() - kShareOfCache, 0.0, 1.0);
    const double compute = steps * step + store + kStart * static_cast<double>(sizes->panels);
    const double stream = far(missing * weights, weights) + (near > kShareOfCache * cache ? far(near, near) : 0);
    const double one = overlapped(compute, stream) + divide;
    const double parts = std::max(1.0, chunks * static_cast<double>(sizes->panels));
    const double threads = std::ceil(parts / b_.threads()) * b_.threads() / parts;
    return one * chunks * threads;
  }

  // The same sums in f32, by vectors.
  double direct_cycles() const {
    TileProblem problem;
    problem.operands = {{true, false, 1, true}, {false, true, 1, false}};
    problem.steps = steps_;
    problem.lanes = b_.target().block;
    problem.blocks = parts(static_cast<int64_t>(features_), problem.lanes);
    problem.columns = static_cast<int64_t>(all_rows_);
    return overlapped(choose_tile(problem, b_.target()).cycles, direct_stream());
  }

  // Of them, those in which weights come from beyond the second cache.
  double direct_stream() const {
    const double weights = 4 * steps_ * features_;
    return far(std::clamp(weights / caches() - kShareOfCache, 0.0, 1.0) * weights, weights);
  }

  // Bytes of the second caches that weights may stay in. One row's features are divided among all threads.
  double caches() const {
    const auto one = static_cast<double>(b_.target().l2_bytes);
    return unit().vectors && is_row() ? one * b_.threads() : one;
  }

  TraceBuilder b_;
  const TermsAlgorithm* algorithm_;
  MatrixUnit::Format format_;              // after find(): of the sum's depth
  BandPlan whole_;                         // one band and panel, as far as sizes are known
  BandPlan best_;                          // after find_best()
  std::string macc_;
  double steps_ = 1, features_ = 1, all_rows_ = 1;
};

// The algorithms that the unit has a format for and the tolerance allows, by their number from 1.
std::vector<int64_t> allowed(const MatrixUnit& unit, double tolerance) {
  std::vector<int64_t> result;
  for (size_t i = 0; i < std::size(kTermsAlgorithms); ++i) {
    const TermsAlgorithm& each = kTermsAlgorithms[i];
    if (unit.registers == 0 || unit.format(each.operand) == nullptr || each.error * kLayers > tolerance) continue;
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

// Three products of bf16 are for units without 8-bit integers. Six of 8-bit integers take as long on the units that have
// both, and are ten times as exact.
bool is_stand_in(const TermsAlgorithm& algorithm) { return !algorithm.digits && algorithm.terms > 1; }

// Those that fit the kernel: the cheapest that gains over f32 first, then the others that gain, the cheapest first, then
// those that do not, as the table has them. Appends to `refused` why the others do not fit.
std::vector<Prepared> prepare(const TraceBuilder& start, double tolerance, bool all, std::string& refused) {
  std::vector<Prepared> result;
  double least = INFINITY;
  for (const int64_t number : allowed(start.target().matrix, tolerance)) {
    try {
      MatrixScheduler scheduler(start, numbered(number));
      if (!all && scheduler.stays_in_cache()) throw Abandon{"weights that stay in the second cache"};
      const double limit = !is_stand_in(numbered(number)) ? kGain * least : least < INFINITY ? 0 : INFINITY;
      if (!all && scheduler.least_cycles() >= limit) continue;
      scheduler.find_best();
      const Prediction prediction = scheduler.prediction();
      if (prediction.pays() && prediction.cycles < limit) least = prediction.cycles;
      result.push_back({number, std::move(scheduler), prediction});
    } catch (const Abandon& abandoned) {
      refused += text(refused.empty() ? "" : "; ", numbered(number).name, ": ", abandoned.why);
    }
  }
  // The forms of different formats do not err alike: what is further down in the table has to gain as much over the best
  // so far as over the sums in f32.
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
  const auto prepared = std::make_shared<const std::vector<Prepared>>(prepare(start, tolerance, all, refused));
  if (prepared->empty()) throw Abandon{refused.empty() ? "the target has no matrix unit for the tolerance" : refused};
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
    Abandon why{"no such algorithm"};
    for (const Prepared& each : *prepared) {
      if (knobs.algorithm > 0 && knobs.algorithm != each.number) continue;
      try {
        return each.scheduler.run(knobs);
      } catch (const Abandon& abandoned) {
        why = abandoned;
      }
    }
    throw why;
  };
  return result;
}

}  // namespace tc
