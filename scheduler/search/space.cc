// The structured space around the analytic default.
#include "scheduler/search/space.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <type_traits>

#include "ir/error.h"
#include "scheduler/cost/calibration.h"
#include "scheduler/default/strategy.h"
#include "scheduler/legality/trust.h"
#include "scheduler/search/sketch.h"

namespace tc {
namespace {

using Point = ScheduleSpace::Point;

// A dimension and where its value goes.
struct Axis {
  ScheduleSpace::Dimension dimension;
  int64_t ReductionKnobs::* reduction = nullptr;
  int64_t RowKnobs::* rows = nullptr;
  size_t statement = 0;
  int64_t StatementKnobs::* of_statement = nullptr;
  int64_t WinogradKnobs::* winograd = nullptr;
  int64_t MatrixKnobs::* matrix = nullptr;
  // Added to the factor on the predicted cycles where the value is not the default's.
  double penalty = 0;

  bool is_of(KnobGroup group) const {
    switch (group) {
      case KnobGroup::Reduction: return reduction != nullptr;
      case KnobGroup::Winograd: return winograd != nullptr;
      case KnobGroup::Matrix: return matrix != nullptr;
      case KnobGroup::Rows: return rows != nullptr || of_statement != nullptr;
      case KnobGroup::None: return false;
    }
    return false;
  }
};

constexpr size_t kMaxStatements = 8;  // that have knobs of their own
constexpr int64_t kMaxMoves = 10;
constexpr int kFamilyOfTiles = 100;  // larger than all numbers of strategies

std::vector<int64_t> up_to(int64_t last) {
  std::vector<int64_t> values;
  for (int64_t value = 0; value <= last; ++value) values.push_back(value);
  return values;
}

// The smallest number of the same move (see `moved`) of a list of `count` elements.
int64_t plain_move(int64_t move, int64_t count) {
  if (move <= 1 || move >= 2 * count) return 0;  // changes nothing
  return count == 2 && move == 3 ? 2 : move;
}

void with_value(std::vector<int64_t>& values, int64_t value) {
  if (std::find(values.begin(), values.end(), value) != values.end()) return;
  values.insert(std::upper_bound(values.begin(), values.end(), value), value);
}

const ScheduleState& unordered(const ScheduleState& start) {
  if (start.ordered) {
    fail(ErrorKind::Schedule, "the schedule of kernel '", start.kernel->kernel.name,
         "' has ordered loops already; the space of the default begins with rewrites only");
  }
  return start;
}

}  // namespace

struct ScheduleSpace::State {
  StrategyInput input;
  int threads = 1;
  std::vector<int64_t> ways;               // numbers of the strategies that apply
  int64_t by_default = 0;                  // the one that the default takes
  int64_t plain_strategy = 0;              // the first that is no algorithm
  int64_t taken = 0;                       // the choice of a reduction's default, from 1
  bool large = false;                      // the buffers are large for the second cache
  double statement_cycles = 1;             // of rows and separate statements
  std::map<int64_t, double> fixed_cycles;  // of strategies that leave nothing to choose, by number
  std::vector<Axis> axes;
  std::vector<Dimension> dimensions;
  Point default_point;
  // Positions of the axes that code here uses by name.
  size_t choice = 0, vectors = 0, columns = 0, rows = 0, sum_order = 0, sum_block = 0, unroll = 0,
         outer_order = 0, outer_block = 0, outside = 0;

  const Strategy& way_of(const Point& point) const { return strategy(value(point, 0)); }
  bool is_algorithm(const Point& point) const { return way_of(point).kind == StrategyKind::Algorithm; }
  const std::vector<ReductionChoice>& choices() const { return input.reduction().choices(); }
  size_t reductions() const { return input.reduction().facts().reductions().size(); }
  const Target& target() const { return input.target(); }
  int64_t value(const Point& point, size_t axis) const {
    return dimensions[axis].values[static_cast<size_t>(point[axis])];
  }
  int index_of(size_t axis, int64_t value) const {
    const auto& values = dimensions[axis].values;
    return static_cast<int>(std::find(values.begin(), values.end(), value) - values.begin());
  }
  // Index of the largest value that is not above the limit.
  int cut(const Point& point, size_t axis, int64_t limit) const {
    int index = point[axis];
    while (index > 0 && dimensions[axis].values[static_cast<size_t>(index)] > limit) --index;
    return index;
  }
  const ReductionChoice& choice_of(const Point& point) const {
    return choices()[static_cast<size_t>(value(point, choice) - 1)];
  }

  size_t add(const std::string& name, std::vector<int64_t> values, size_t ordered_from, Axis axis) {
    axis.dimension = {name, std::move(values), ordered_from};
    dimensions.push_back(axis.dimension);
    axes.push_back(std::move(axis));
    return axes.size() - 1;
  }
  size_t add(int64_t ReductionKnobs::* knob, std::vector<int64_t> values, size_t ordered_from,
             double penalty) {
    Axis axis;
    axis.reduction = knob;
    axis.penalty = penalty;
    return add(name_of(kReductionKnobNames, knob), std::move(values), ordered_from, axis);
  }

  // Finds the strategies that apply and are legal with the choices of the analytic cost model. At most one
  // strategy with a register tile is among them.
  void find_strategies() {
    const Decision decision = decide(input);
    by_default = decision.taken;
    for (size_t i = 0; i < strategies().size(); ++i) {
      const Strategy& each = strategies()[i];
      const auto number = static_cast<int64_t>(i) + 1;
      if (decision.reports[i].plan.empty()) continue;  // it does not apply
      StrategyKnobs knobs = number == decision.taken ? decision.knobs : StrategyKnobs{};
      try {
        if (number != decision.taken) apply_strategy(each, input, knobs);
      } catch (const NotApplicable&) {
        continue;
      }
      if (each.group == KnobGroup::Reduction) taken = knobs.reduction.choice;
      if (each.kind != StrategyKind::Algorithm && plain_strategy == 0) plain_strategy = number;
      if (each.group == KnobGroup::Rows && statement_cycles == 1)
        statement_cycles = decision.reports[i].cycles;
      if (each.group == KnobGroup::None) fixed_cycles[number] = decision.reports[i].cycles;
      ways.push_back(number);
    }
  }

  // Number of the strategy with these knobs; 0 where none applies.
  int64_t way_with(KnobGroup group) const {
    for (const int64_t way : ways) {
      if (strategy(way).group == group) return way;
    }
    return 0;
  }

  // Adds a knob of an algorithm; the default point has the value that the analytic cost model chooses.
  template <class Names, class Algorithm>
  void add_algorithm(const Names& names, int64_t Algorithm::* knob, std::vector<int64_t> values,
                     const Algorithm& chosen, size_t ordered_from = 0) {
    with_value(values, chosen.*knob);
    Axis axis;
    if constexpr (std::is_same_v<Algorithm, WinogradKnobs>) axis.winograd = knob;
    else axis.matrix = knob;
    const size_t added = add(name_of(names, knob), std::move(values), ordered_from, axis);
    default_point.resize(axes.size(), 0);
    default_point[added] = index_of(added, chosen.*knob);
  }

  void add_winograd() {
    using K = WinogradKnobs;
    const auto& names = kWinogradKnobNames;
    const K& chosen = input.winograd().chosen;
    std::vector<int64_t> outputs = input.winograd().kinds;
    std::sort(outputs.begin(), outputs.end());
    add_algorithm(names, &K::outputs, outputs, chosen, outputs.size());
    add_algorithm(names, &K::rows, {1, 2, 3, 4, 5, 6, 7, 8}, chosen);
    add_algorithm(names, &K::columns, {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64},
                  chosen);
    add_algorithm(names, &K::vectors, {1, 2, 3, 4, 6}, chosen);
    add_algorithm(names, &K::tile, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 20, 24, 28}, chosen);
  }

  void add_matrix() {
    using K = MatrixKnobs;
    const auto& names = kMatrixKnobNames;
    const K& chosen = input.matrix().chosen;
    const std::vector<int64_t>& kinds = input.matrix().kinds;
    add_algorithm(names, &K::algorithm, kinds, chosen, kinds.size());
    add_algorithm(names, &K::bands, {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}, chosen);
    if (threads > 1) add_algorithm(names, &K::panels, {1, 2, 4, 8}, chosen);
    // As many accumulators as the registers of a unit with tiles hold, or the vector registers.
    const bool of_vectors = target().matrix.vectors;
    std::vector<int64_t> blocks = {1, 2, 3, 4}, tiles = {1, 2, 3};
    if (of_vectors) blocks.insert(blocks.end(), {5, 6, 7});
    if (of_vectors) tiles.insert(tiles.end(), {4, 5, 6, 7, 8, 10, 12, 14, 20, 28});
    add_algorithm(names, &K::blocks, blocks, chosen);
    add_algorithm(names, &K::tiles, tiles, chosen);
  }

  void add_reduction() {
    double bytes = 0;
    for (const Buffer& buffer : input.reduction().facts().kernel().buffers) {
      double size = static_cast<double>(size_of(buffer.dtype));
      for (const Affine& extent : buffer.shape) {
        size *= extent.is_constant() ? static_cast<double>(extent.constant()) : kAssumedSymbolic;
      }
      if (buffer.scope != Scope::Local) bytes += size;
    }
    large = bytes > calibration::kLargeWorkload * static_cast<double>(target().l2_bytes);
    std::vector<int64_t> numbers(choices().size());
    std::iota(numbers.begin(), numbers.end(), 1);
    std::vector<int64_t> vector_counts = {1, 2, 3, 4, 5, 6, 8};
    std::vector<int64_t> column_counts = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32};
    const TileChoice& tile = choices().at(static_cast<size_t>(taken - 1)).choice.tile;
    with_value(vector_counts, tile.vectors);
    with_value(column_counts, tile.columns);
    using K = ReductionKnobs;
    choice = add(&K::choice, numbers, numbers.size(), 0);
    vectors = add(&K::vectors, vector_counts, 0, 0);
    columns = add(&K::columns, column_counts, 0, 0);
    rows = add(&K::rows, {0, 1, 2, 3, 4}, 1, 0.01);
    const auto moves = std::min<int64_t>(kMaxMoves, 2 * static_cast<int64_t>(reductions() + 1));
    sum_order = add(&K::sum_order, up_to(moves), static_cast<size_t>(moves) + 1, 0.04);
    sum_block = add(&K::sum_block, {0, 2, 4, 8, 16, 32, 64, 128, 256}, 1, large ? 0 : 0.02);
    unroll = add(&K::unroll, {0, 1, 2, 4, 8, 16}, 1, 0.02);
    add(&K::windows, {0, 1, 2}, 3, 0.03);
    size_t loops = 0;
    for (const ReductionChoice& each : choices()) loops = std::max(loops, each.loops);
    const auto outer_moves = std::min<int64_t>(kMaxMoves, 2 * static_cast<int64_t>(loops));
    outer_order =
        add(&K::outer_order, up_to(outer_moves), static_cast<size_t>(outer_moves) + 1, large ? 0.01 : 0.03);
    outer_block = add(&K::outer_block, {0, 2, 4, 8, 16, 32, 64}, 1, large ? 0.01 : 0.02);
    add(&K::separate_epilogue, {0, 1, 2}, 3, 0.05);
    outside = add(&K::outside, {0, 1}, 2, large ? 0.05 : 0.15);
    add(&K::isolate, {0, 1}, 2, 0.04);
    if (pays_in_words(input.reduction().facts(), choices().at(static_cast<size_t>(taken - 1)).choice, {}))
      add(&K::words, {0, 1}, 2, 0.05);
    if (threads > 1) add(&K::parallel, {0, 1, 2}, 3, 0.02);
    default_point.resize(axes.size(), 0);
    default_point[choice] = index_of(choice, taken);
    default_point[vectors] = index_of(vectors, tile.vectors);
    default_point[columns] = index_of(columns, tile.columns);
  }

  void add_rows() {
    auto add_knob = [&](int64_t RowKnobs::* knob, std::vector<int64_t> values, size_t ordered_from,
                        double penalty) {
      Axis axis;
      axis.rows = knob;
      axis.penalty = penalty;
      add(name_of(kRowKnobNames, knob), std::move(values), ordered_from, axis);
    };
    const bool has_rows =
        std::any_of(ways.begin(), ways.end(), [&](int64_t way) { return has_row_count(strategy(way)); });
    if (has_rows) add_knob(&RowKnobs::rows, {0, 1, 2, 4, 8}, 1, 0.05);
    const auto& statements = input.kernel().statements;
    for (size_t i = 0; i < std::min(statements.size(), kMaxStatements); ++i) {
      auto add_own = [&](int64_t StatementKnobs::* knob, std::vector<int64_t> values, size_t ordered_from,
                         double penalty) {
        Axis axis;
        axis.statement = i;
        axis.of_statement = knob;
        axis.penalty = penalty / static_cast<double>(statements.size());
        add(text(name_of(kStatementKnobNames, knob), " of ", statements[i].name), std::move(values),
            ordered_from, axis);
      };
      if (statements[i].iterators.size() > 1) {
        add_own(&StatementKnobs::lane, {0, 1}, 2, 0.5);
        const auto moves = std::min<int64_t>(6, 2 * static_cast<int64_t>(statements[i].iterators.size()));
        add_own(&StatementKnobs::order, up_to(moves), static_cast<size_t>(moves) + 1, 0.06);
      }
      if (!statements[i].iterators.empty() && statements[i].reduction == Reduction::None) {
        add_own(&StatementKnobs::copies, {0, 1, 2, 4, 8, 16}, 1, 0.04);
      }
    }
    add_knob(&RowKnobs::isolate, {0, 1}, 2, 0.04);
    if (threads > 1) add_knob(&RowKnobs::parallel, {0, 1, 2}, 3, 0.02);
  }

  static bool has_row_count(const Strategy& which) {
    const std::string name = name_of(kRowKnobNames, &RowKnobs::rows);
    return std::find(which.choices.begin(), which.choices.end(), name) != which.choices.end();
  }

  State(const Schedule& schedule, int thread_count, double error_budget)
      : input(unordered(ScheduleAccess::state(schedule)), thread_count, error_budget, true),
        threads(thread_count) {
    find_strategies();
    if (ways.empty()) return;
    Axis axis;
    add("way", ways, ways.size(), axis);
    if (way_with(KnobGroup::Reduction) > 0) add_reduction();
    if (way_with(KnobGroup::Rows) > 0) add_rows();
    if (way_with(KnobGroup::Winograd) > 0) add_winograd();
    if (way_with(KnobGroup::Matrix) > 0) add_matrix();
    default_point.resize(axes.size(), 0);
    default_point[0] = index_of(0, by_default);
  }

  StrategyKnobs knobs_of(const Point& point) const {
    StrategyKnobs knobs;
    knobs.rows.statements.resize(kMaxStatements);
    knobs.matrix.panels = 1;
    const KnobGroup group = way_of(point).group;
    for (size_t axis = 1; axis < axes.size(); ++axis) {
      const int64_t knob = value(point, axis);
      const Axis& which = axes[axis];
      if (!which.is_of(group)) continue;
      if (which.reduction != nullptr) knobs.reduction.*which.reduction = knob;
      if (which.rows != nullptr) knobs.rows.*which.rows = knob;
      if (which.of_statement != nullptr) knobs.rows.statements[which.statement].*which.of_statement = knob;
      if (which.winograd != nullptr) knobs.winograd.*which.winograd = knob;
      if (which.matrix != nullptr) knobs.matrix.*which.matrix = knob;
    }
    return knobs;
  }

  std::optional<Schedule> build(const Point& point, std::string* why) const;

  Point canonical(Point point) const {
    if (axes.empty()) return point;
    const Strategy& way = way_of(point);
    for (size_t axis = 1; axis < axes.size(); ++axis) {
      const bool common = axes[axis].rows == &RowKnobs::rows && !has_row_count(way);
      if (!axes[axis].is_of(way.group) || common) point[axis] = default_point[axis];
    }
    if (way.group != KnobGroup::Reduction) return point;
    const ReductionChoice& which = choice_of(point);
    const bool sums = which.choice.over_reduction;
    point[vectors] = sums ? 0 : cut(point, vectors, which.problem.blocks);
    point[columns] = which.choice.columns.empty() ? 0 : cut(point, columns, which.problem.columns);
    point[rows] = cut(point, rows, which.rows);
    if (!sums && value(point, rows) == 1) point[rows] = 0;
    if (sums) {
      for (size_t axis = 1; axis < axes.size(); ++axis) {
        const auto knob = axes[axis].reduction;
        if (knob == &ReductionKnobs::sum_block || knob == &ReductionKnobs::windows ||
            knob == &ReductionKnobs::outer_block || knob == &ReductionKnobs::separate_epilogue ||
            knob == &ReductionKnobs::outside) {
          point[axis] = 0;
        }
      }
    }
    const bool divided = value(point, sum_block) > 0;
    const auto loops = static_cast<int64_t>(reductions()) + (divided ? 1 : 0) - (sums ? 1 : 0);
    point[sum_order] = index_of(sum_order, plain_move(value(point, sum_order), loops));
    point[outer_order] =
        index_of(outer_order, plain_move(value(point, outer_order), static_cast<int64_t>(which.loops)));
    if (loops < 2) point[outside] = 0;
    return point;
  }

  double cycles(const Point& point) const {
    if (axes.empty()) return 1;
    double penalty = 1;
    for (size_t axis = 1; axis < axes.size(); ++axis) {
      if (point[axis] != default_point[axis]) penalty += axes[axis].penalty;
    }
    const KnobGroup group = way_of(point).group;
    if (group == KnobGroup::None) return fixed_cycles.at(value(point, 0));
    if (group == KnobGroup::Winograd) return input.winograd().cycles(knobs_of(point).winograd);
    if (group == KnobGroup::Matrix) return cycles_of_matrix(knobs_of(point).matrix);
    if (group == KnobGroup::Rows)
      return statement_cycles * penalty * (value(point, 0) == plain_strategy ? 1 : calibration::kFromAfar);
    const ReductionChoice& which = choice_of(point);
    TileProblem problem = which.problem;
    int64_t width = value(point, columns);
    const int64_t row_count = std::min(std::max<int64_t>(1, value(point, rows)), which.rows);
    width *= row_count;
    problem.columns *= row_count;
    problem.others /= static_cast<double>(row_count);
    // Accumulators of more than a few times the registers never pay.
    constexpr int64_t kMaxTimes = 3;
    const int64_t parts = std::max(1, problem.lanes / std::max(1, target().lanes(DType::F32)));
    const int64_t registers = value(point, vectors) * width * parts;
    const bool is_default = point == default_point;
    if (!is_default && registers > kMaxTimes * std::max(16, target().vector_registers)) {
      return INFINITY;
    }
    return tile_cycles(problem, target(), value(point, vectors), width) * which.preference * penalty;
  }

  // The cost function tries out a rewrite, so it is called once for each combination of knobs.
  double cycles_of_matrix(const MatrixKnobs& knobs) const {
    const std::array<int64_t, 5> key = {knobs.algorithm, knobs.bands, knobs.panels, knobs.blocks,
                                        knobs.tiles};
    const std::lock_guard lock(mutex);
    auto [found, fresh] = matrix_cycles.try_emplace(key, INFINITY);
    if (fresh) found->second = input.matrix().cycles(knobs);
    return found->second;
  }
  mutable std::mutex mutex;  // protects matrix_cycles
  mutable std::map<std::array<int64_t, 5>, double> matrix_cycles;
};

ScheduleSpace::ScheduleSpace(const Schedule& start, int threads, double tolerance)
    : state_(std::make_shared<const State>(start, threads, tolerance)) {}

const std::vector<ScheduleSpace::Dimension>& ScheduleSpace::dimensions() const { return state_->dimensions; }
const Point& ScheduleSpace::default_point() const { return state_->default_point; }
Point ScheduleSpace::canonical(Point point) const { return state_->canonical(std::move(point)); }
double ScheduleSpace::cycles(const Point& point) const { return state_->cycles(point); }

int ScheduleSpace::family(const Point& point) const {
  if (point.empty()) return 0;
  const bool tiles = state_->way_of(point).group == KnobGroup::Reduction;
  return tiles ? kFamilyOfTiles + point[state_->choice] : static_cast<int>(state_->value(point, 0));
}

std::vector<Point> ScheduleSpace::ranked(int count) const {
  const State& s = *state_;
  std::vector<std::pair<double, Point>> pool;
  std::set<Point> seen;
  auto add = [&](Point point) {
    point = s.canonical(std::move(point));
    if (!seen.insert(point).second) return;
    const double cycles = s.cycles(point);
    if (cycles < INFINITY) pool.emplace_back(cycles, std::move(point));
  };
  auto add_around = [&](const Point& base) {
    for (size_t axis = 0; axis < s.axes.size(); ++axis) {
      for (int index = 0; index < static_cast<int>(s.dimensions[axis].values.size()); ++index) {
        Point point = base;
        point[axis] = index;
        add(std::move(point));
      }
    }
  };
  add(s.default_point);
  if (const int64_t tiles = s.way_with(KnobGroup::Reduction); tiles > 0) {
    // All tiles of all choices.
    Point point = s.default_point;
    point[0] = s.index_of(0, tiles);
    auto size = [&](size_t axis) { return static_cast<int>(s.dimensions[axis].values.size()); };
    for (point[s.choice] = 0; point[s.choice] < size(s.choice); ++point[s.choice]) {
      for (point[s.vectors] = 0; point[s.vectors] < size(s.vectors); ++point[s.vectors]) {
        for (point[s.columns] = 0; point[s.columns] < size(s.columns); ++point[s.columns]) {
          for (int rows : {0, 2, 3, 4}) {
            point[s.rows] = rows;
            add(point);
          }
        }
      }
    }
  }
  std::stable_sort(pool.begin(), pool.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  constexpr size_t kTiles = 200, kBases = 4;
  if (pool.size() > kTiles) pool.resize(kTiles);
  add_around(s.default_point);
  for (size_t i = 0, bases = std::min(kBases, pool.size()); i < bases; ++i) {
    const Point base = pool[i].second;
    add_around(base);
  }
  // Takes points greedily by cycles, which count more the more a point resembles those taken already.
  std::vector<Point> result = {s.default_point};
  std::vector<double> alike(pool.size(), 0);
  std::vector<bool> taken(pool.size(), false);
  while (static_cast<int>(result.size()) < count) {
    size_t best = pool.size();
    double least = INFINITY;
    for (size_t i = 0; i < pool.size(); ++i) {
      if (taken[i]) continue;
      const Point& point = pool[i].second;
      const Point& last = result.back();
      double equal = 0;
      for (size_t axis = 0; axis < point.size(); ++axis) equal += point[axis] == last[axis];
      const auto size = static_cast<double>(std::max<size_t>(1, point.size()));
      // Positive where at most 3 choices differ.
      alike[i] = std::max(alike[i], std::max(0.0, equal - size + 4));
      if (point == last) taken[i] = true;
      const double cost = pool[i].first * (1 + 0.03 * alike[i]);
      if (taken[i] || cost >= least) continue;
      least = cost;
      best = i;
    }
    if (best == pool.size()) break;
    taken[best] = true;
    result.push_back(pool[best].second);
  }
  return result;
}

std::optional<Schedule> ScheduleSpace::State::build(const Point& point, std::string* why) const {
  if (axes.empty()) return ScheduleAccess::schedule(input.builder().state());
  std::optional<Schedule> made;
  try {
    StrategyKnobs knobs = knobs_of(point);
    made = ScheduleAccess::schedule(apply_strategy(way_of(point), input, knobs).state());
  } catch (const NotApplicable& refusal) {
    if (why != nullptr) *why = refusal.why;
    return std::nullopt;
  }
  Schedule schedule = *made;
  const int64_t copies = straight_line_copies(schedule);
  if (copies > kMaxStraightLine && point != default_point) {
    if (why != nullptr) *why = text("straight-line code of ", copies, " copies");
    return std::nullopt;
  }
  return schedule;
}

std::optional<Schedule> ScheduleSpace::build(const Point& point, std::string* why) const {
  return state_->build(point, why);
}

std::string ScheduleSpace::sketch(const Point& point, std::string* why) const {
  const Trust trust;
  const auto schedule = state_->build(point, why);
  return schedule ? loops_key(*schedule) : "";
}

bool ScheduleSpace::is_algorithm(const Point& point) const {
  return !state_->axes.empty() && state_->is_algorithm(point);
}

std::optional<Schedule> ScheduleSpace::draft(const Point& point) const {
  const Trust trust;
  return state_->build(point, nullptr);
}

}  // namespace tc
