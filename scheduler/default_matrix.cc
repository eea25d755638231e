// The default for sums of products on a matrix unit, where the error budget allows two terms per number:
// the input is divided once per band of rows, accumulators are in memory until their rows are complete.
#include <algorithm>
#include <cmath>

#include "scheduler/algorithms.h"
#include "scheduler/builder.h"
#include "scheduler/cost.h"
#include "scheduler/legality.h"
#include "scheduler/trust.h"

namespace tc {
namespace {

constexpr double kShareOfCache = 0.7;      // of the second cache, for a band's input and a panel
// Cycles per native vector of the input that is divided, beyond what reading it takes, and of results
// that wait in memory.
constexpr double kDivide = 8, kZero = 1, kStore = 3;
constexpr double kStart = 300;             // cycles of a band and panel, before and after the products
constexpr double kSlower = 1.15;           // than the unit at its best
constexpr int64_t kLeastRows = 8;          // of one accumulator that pay

struct Plan {
  int64_t band = 1, panel = 1, blocks = 1, tiles = 1, rows = 1;
  double cycles = INFINITY;
};

// A statement's loops by their meaning.
struct Loops {
  std::vector<std::string> images;
  std::string band, panel, pair, block;
  std::vector<std::string> rows;           // lines apart, tile; or the rows of an epilogue
  std::string lane;
};

class MatrixScheduler {
 public:
  MatrixScheduler(Builder& builder, double tolerance) : b_(builder), tolerance_(tolerance) {}

  void run() {
    if (b_.target().matrix.registers == 0) throw Abandon{"no matrix unit"};
    if (kTwoTermsError * kLayers > tolerance_) throw Abandon{"the tolerance is too small"};
    const Builder before = b_;
    find();
    const Plan plan = choose();
    if (plan.cycles > kGain * direct_cycles()) throw Abandon{"no gain over the products in f32"};
    if (plan.cycles > winograd_cycles(before, tolerance_)) throw Abandon{"no gain over another algorithm"};
    {
      Trust trust;   // the order is checked once, as a whole
      rewrite(plan);
      order(plan);
    }
    if (auto found = find_violation(b_.state().kernel, b_.state().tree)) throw Abandon{*found};
  }

 private:
  const Kernel& kernel() const { return b_.kernel(); }
  const Statement& macc() const { return b_.statement(macc_); }
  const MatrixUnit& unit() const { return b_.target().matrix; }
  static int64_t parts(int64_t size, int64_t part) { return (size + part - 1) / part; }

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
      const auto extent = static_cast<double>(extent_or(macc(), iterator.name, 1));
      if (!depends_on(macc().write, iterator.name)) steps_ *= extent;
      else if (is_feature(iterator.name)) features_ *= extent;
      else other *= extent;
    }
    all_rows_ = other;
  }

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
    double sums = 1;                       // instructions' steps per accumulator
    double input = 0;                      // elements of the divided input of a band, both terms once
  };

  std::optional<Sizes> try_plan(const Plan& plan) const {
    Builder trial = b_;
    if (!trial.attempt(line_of(plan))) return std::nullopt;
    Sizes sizes;
    const Statement& start = trial.statement(start_of(trial));
    const size_t band = band_position(start);
    auto extent = [&](size_t position) { return start.iterators.at(position).extent.constant(); };
    for (size_t i = 0; i < band; ++i) sizes.images *= extent(i);
    sizes.bands = extent(band);
    sizes.panels = extent(band + 1);
    sizes.pairs = extent(band + 2);
    sizes.blocks = extent(band + 3);
    const size_t count = start.iterators.size();
    sizes.rows = extent(count - 2);
    sizes.tiles = extent(count - 3);
    for (size_t i = band + 4; i + 3 < count; ++i) sizes.lines *= extent(i);
    const Statement& sum = trial.statement(macc_);
    for (size_t i = count - 2; i + 4 < sum.iterators.size(); ++i) {
      sizes.sums *= static_cast<double>(sum.iterators[i].extent.constant());
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

  std::string line_of(const Plan& plan) const {
    return text("algorithm ", macc_, " bf16x3 ", plan.band, " ", plan.panel, " ", plan.blocks, " ", plan.tiles, " ", plan.rows);
  }

  // The rewrite puts the statement that sets the accumulators to zero before the sum.
  std::string start_of(const Builder& builder) const {
    return builder.kernel().statements.at(static_cast<size_t>(builder.index_of(macc_)) - 1).name;
  }

  // Images come before bands in all statements that the rewrite makes.
  static size_t band_position(const Statement& start) {
    for (size_t i = 0; i < start.iterators.size(); ++i) {
      if (start.iterators[i].name.rfind("band", 0) == 0) return i;
    }
    throw Abandon{"no bands"};
  }

  // The bands and panels with the least cycles.
  Plan choose() const {
    constexpr int64_t kAll = int64_t{1} << 40;
    const int64_t blocks = parts(static_cast<int64_t>(features_), unit().columns);
    Plan whole{kAll, kAll, 1, 1, 1, INFINITY};
    if (Builder trial = b_; auto refused = refusal(trial, line_of(whole))) throw Abandon{*refused};
    const int64_t lines = banded_extent(whole);
    Plan best;
    int64_t best_bands = 1;
    // Many more bands than pay best up to there do not pay.
    for (int64_t bands = 1; bands <= lines && (best.cycles == INFINITY || bands <= 4 * best_bands); bands = bands < 4 ? bands + 1 : bands + bands / 2) {
      Plan plan = whole;
      plan.band = parts(lines, bands);
      const auto sizes = try_plan(plan);
      if (!sizes) continue;
      // Accumulators of equal height, an even number of them.
      const int64_t flat = sizes->tiles, least = parts(flat, unit().rows);
      plan.tiles = std::min<int64_t>(least, blocks == 1 ? 3 : 2);
      plan.blocks = std::min<int64_t>(least == 1 ? 4 : 2, blocks);
      plan.rows = parts(flat, plan.tiles * parts(least, plan.tiles));
      if (plan.rows < kLeastRows) continue;
      const int64_t pairs = parts(blocks, plan.blocks);
      for (int64_t panels : {1, 2, 4, 8}) {
        if (panels > pairs || (panels > 1 && b_.threads() == 1)) break;
        plan.panel = parts(pairs, panels);
        plan.cycles = cycles_of(plan);
        if (plan.cycles >= best.cycles) continue;
        best = plan;
        best_bands = bands;
      }
    }
    if (best.cycles == INFINITY) throw Abandon{"too few rows"};
    return best;
  }

  static std::optional<std::string> refusal(Builder& trial, const std::string& line) {
    ScheduleState state = trial.state();
    return apply_line(state, line);
  }

  int64_t banded_extent(const Plan& plan) const {
    Builder trial = b_;
    trial.apply(line_of(plan));
    const Statement& tail = trial.kernel().statements.back();
    // The one iterator of the epilogue that is divided into bands keeps its name and, in one band, its
    // extent.
    for (size_t i = 0; i + 1 < tail.iterators.size(); ++i) {
      if (tail.iterators[i].name.rfind("band", 0) == 0) return tail.iterators[i + 1].extent.constant();
    }
    throw Abandon{"no bands"};
  }

  double vectors(double elements) const { return elements * 32 / std::max(32, b_.target().vector_bits); }
  // Cycles in which so many bytes come from beyond the second cache.
  double far(double bytes) const { return bytes / b_.target().l3_bandwidth; }

  double cycles_of(const Plan& plan) const {
    const auto sizes = try_plan(plan);
    if (!sizes) return INFINITY;
    const auto pairs = static_cast<double>(sizes->panels * sizes->pairs);
    const double lines = static_cast<double>(sizes->lines * sizes->tiles);
    const auto chunks = static_cast<double>(sizes->images * sizes->bands);
    // Products at a time: three for each accumulator; both terms of each operand are loaded.
    const double at_once = static_cast<double>(plan.blocks * plan.tiles);
    const double row_share = static_cast<double>(plan.rows) / unit().rows;
    const double operand_bytes = 2.0 * (static_cast<double>(plan.blocks) + static_cast<double>(plan.tiles) * row_share) *
                                 unit().rows * unit().groups * unit().members * static_cast<double>(size_of(unit().operand));
    const double step = kSlower * std::max(3 * at_once * unit().cycles * row_share, operand_bytes / b_.target().l2_bandwidth);
    const double steps = pairs * lines / static_cast<double>(plan.tiles) * sizes->sums;
    const double results = pairs * static_cast<double>(plan.blocks) * lines * static_cast<double>(plan.rows * unit().columns);
    const double store = kStore * vectors(results);
    const double input = vectors(sizes->input);
    const double divide = static_cast<double>(sizes->panels) * input * (kDivide + 2 * kZero);
    const auto cache = static_cast<double>(b_.target().l2_bytes);
    const double weights = static_cast<double>(sizes->panels * sizes->pairs * plan.blocks * unit().columns) * sizes->sums *
                           unit().groups * unit().members * 4;
    const double near = sizes->input * 4 + weights / pairs;
    if (near > cache) return INFINITY;
    const double missing = std::clamp((weights + near) / cache - kShareOfCache, 0.0, 1.0);
    const double compute = steps * step + store + kStart * static_cast<double>(sizes->panels);
    const double stream = far(missing * weights) + (near > kShareOfCache * cache ? far(near) : 0);
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
    const double compute = choose_tile(problem, b_.target()).cycles;
    const double weights = 4 * steps_ * features_;
    const auto cache = static_cast<double>(b_.target().l2_bytes);
    const double stream = far(std::clamp(weights / cache - kShareOfCache, 0.0, 1.0) * weights);
    return overlapped(compute, stream);
  }

  void rewrite(const Plan& plan) {
    pad_constants(b_, macc_, unit().columns);
    for (const Access& load : loads_of(macc())) {
      const Buffer& buffer = kernel().buffers[static_cast<size_t>(load.buffer)];
      if (buffer.scope == Scope::Constant) constant_ = buffer.name;
    }
    b_.apply(line_of(plan));
  }

  std::string loop(const Statement& statement, const std::string& iterator) const {
    return statement.name + "_" + iterator;
  }

  // The loops that all statements of the rewrite begin with; returns how many there are.
  size_t common(const Statement& statement, size_t band, Loops& loops) const {
    for (size_t i = 0; i < band; ++i) loops.images.push_back(loop(statement, statement.iterators.at(i).name));
    loops.band = loop(statement, statement.iterators.at(band).name);
    loops.panel = loop(statement, statement.iterators.at(band + 1).name);
    return band + 2;
  }

  // An epilogue's loops, from how it reads the accumulators.
  Loops tail_loops(const Statement& tail, int sums, size_t images) const {
    for (const Access& load : loads_of(tail)) {
      if (load.buffer != sums) continue;
      Loops loops;
      auto name = [&](size_t d) { return loop(tail, load.index.at(d).affine.as_variable()); };
      for (size_t i = 0; i < images; ++i) loops.images.push_back(name(i));
      loops.band = name(images);
      loops.block = name(images + 1);
      loops.lane = name(load.index.size() - 1);
      for (size_t d = images + 2; d + 1 < load.index.size(); ++d) {
        auto terms = load.index[d].affine.terms();
        std::stable_sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
        for (const auto& [iterator, factor] : terms) loops.rows.push_back(loop(tail, iterator));
      }
      if (loops.images.size() + loops.rows.size() + 3 != tail.iterators.size()) throw Abandon{"an epilogue of other loops"};
      return loops;
    }
    throw Abandon{"an epilogue that does not read the sums"};
  }

  template <class Member>
  void fuse(const std::vector<std::vector<Loops>*>& groups, Member member, const std::string& name) {
    std::string line = "fuse";
    for (const std::vector<Loops>* group : groups) {
      for (const Loops& loops : *group) line += " " + member(loops);
    }
    b_.apply(line, " as ", name);
  }

  void order(const Plan& plan) {
    const auto sum = static_cast<size_t>(b_.index_of(macc_));
    const size_t band = band_position(kernel().statements.at(sum - 1));
    order_inputs(sum, band);
    order_products(plan, sum, band);
    order_tails(plan, sum, band);
    auto all = std::vector<std::vector<Loops>*>{&zeros_, &inputs_, &products_, &tails_};
    for (size_t i = 0; i < band; ++i) fuse(all, [&](const Loops& loops) { return loops.images[i]; }, text("image_", i));
    fuse(all, [](const Loops& loops) { return loops.band; }, "in_band");
    fuse(all, [](const Loops& loops) { return loops.panel; }, "in_panel");
    for (size_t i = 0; i < inputs_[0].rows.size(); ++i) {
      fuse({&inputs_}, [&](const Loops& loops) { return loops.rows[i]; }, text("term_", i));
    }
    fuse({&products_, &tails_}, [](const Loops& loops) { return loops.pair; }, "pair");
    for (size_t i = 0; i < products_[0].rows.size(); ++i) {
      fuse({&products_}, [&](const Loops& loops) { return loops.rows[i]; }, text("tile_", i));
    }
    for (size_t i = 0; i < tails_[0].rows.size() && tails_.size() > 1; ++i) {
      fuse({&tails_}, [&](const Loops& loops) { return loops.rows[i]; }, text("row_", i));
    }
    finish(plan);
  }

  // The input's positions outside, depths inside where these are next to each other in memory.
  void order_inputs(size_t sum, size_t band) {
    const std::vector<Statement> statements = kernel().statements;
    for (size_t i = 0; i + 1 < sum; ++i) {
      Loops loops;
      const Statement& statement = statements[i];
      size_t at = common(statement, band, loops);
      const bool divides = i + 3 >= sum;   // the last two divide, others set to zero
      const std::string depth = loop(statement, statement.iterators.at(at).name);
      std::vector<std::string> rest;
      for (size_t k = at + 1; k < statement.iterators.size(); ++k) rest.push_back(loop(statement, statement.iterators[k].name));
      loops.lane = rest.back();
      rest.pop_back();
      if (divides) {
        loops.block = rest.back();         // parts of a depth: copies
        rest.pop_back();
      }
      loops.rows = rest;
      bool along = false;
      for (const Access& load : loads_of(statement)) {
        const auto step = element_stride(kernel(), load, statement.iterators.at(at).name);
        along = divides && step && *step <= 2 * unit().groups * unit().members;
      }
      loops.rows.insert(along ? loops.rows.end() : loops.rows.begin(), depth);
      std::vector<std::string> order = loops.images;
      order.insert(order.end(), {loops.band, loops.panel});
      order.insert(order.end(), loops.rows.begin(), loops.rows.end());
      if (divides) order.push_back(loops.block);
      order.push_back(loops.lane);
      b_.apply("order", joined(order));
      (divides ? inputs_ : zeros_).push_back(loops);
    }
  }

  void order_products(const Plan& plan, size_t sum, size_t band) {
    for (size_t i = sum - 1; i <= sum; ++i) {
      Loops loops;
      const Statement statement = kernel().statements[i];
      const size_t at = common(statement, band, loops);
      auto name = [&](size_t position) { return loop(statement, statement.iterators.at(position).name); };
      loops.pair = name(at);
      loops.block = name(at + 1);
      const size_t tail = i == sum ? 4 : 2;                        // rows, columns, groups, members
      const size_t lines = kernel().statements[sum - 1].iterators.size() - band - 7;
      for (size_t k = 0; k < lines; ++k) loops.rows.push_back(name(at + 2 + k));
      const std::string tile = name(at + 2 + lines);
      b_.apply("split ", tile, " ", plan.tiles, " as ", tile, "_o ", tile, "_i");
      loops.rows.push_back(tile + "_o");
      std::vector<std::string> order = loops.images;
      order.insert(order.end(), {loops.band, loops.panel, loops.pair});
      order.insert(order.end(), loops.rows.begin(), loops.rows.end());
      const size_t count = statement.iterators.size();
      for (size_t k = at + 3 + lines; k + tail < count; ++k) order.push_back(name(k));
      order.insert(order.end(), {loops.block, tile + "_i"});
      for (size_t k = count - tail; k < count; ++k) order.push_back(name(k));
      b_.apply("order", joined(order));
      copies_.insert(copies_.end(), {loops.block, tile + "_i"});
      if (i == sum) {
        unit_loops_ = joined({name(count - 4), name(count - 3), name(count - 2), name(count - 1)});
      } else {
        copies_.push_back(name(count - 2));
        vectors_.push_back(name(count - 1));
      }
      products_.push_back(loops);
    }
  }

  void order_tails(const Plan& plan, size_t sum, size_t band) {
    const int sums = kernel().statements[sum].write.buffer;
    const std::vector<Statement> statements = kernel().statements;
    for (size_t i = sum + 1; i < statements.size(); ++i) {
      Loops loops = tail_loops(statements[i], sums, band);
      const std::string whole = loops.block;
      loops.panel = whole + "_p";
      loops.pair = whole + "_n";
      b_.apply("split ", whole, " ", plan.panel * plan.blocks, " as ", loops.panel, " ", loops.pair);
      b_.apply("split ", loops.pair, " ", plan.blocks, " as ", loops.pair, " ", loops.block);
      std::vector<std::string> order = loops.images;
      order.insert(order.end(), {loops.band, loops.panel, loops.pair});
      order.insert(order.end(), loops.rows.begin(), loops.rows.end());
      order.insert(order.end(), {loops.block, loops.lane});
      b_.apply("order", joined(order));
      tails_.push_back(loops);
    }
    if (tails_.empty()) throw Abandon{"no epilogue"};
  }

  // Leaves and marks.
  void finish(const Plan& plan) {
    b_.apply("register_tile term_", inputs_[0].rows.size() - 1);
    b_.apply("register_tile tile_", products_[0].rows.size() - 1);
    if (tails_.size() > 1) b_.apply("register_tile row_", tails_[0].rows.size() - 1);
    for (const Loops& loops : zeros_) b_.apply("vectorize ", loops.lane);
    for (const std::vector<Loops>* group : {&inputs_, &tails_}) {
      for (const Loops& loops : *group) {
        b_.apply("vectorize ", loops.lane);
        b_.apply("unroll ", loops.block);
      }
    }
    for (const std::string& name : vectors_) b_.apply("vectorize ", name);
    for (const std::string& name : copies_) b_.apply("unroll ", name);
    b_.apply("tensorize", unit_loops_);
    b_.attempt("isolate pair");
    if (b_.target().prefetches && plan.panel > 1) b_.attempt("prefetch ", constant_, " pair");
    b_.parallelise();
  }

  Builder& b_;
  const double tolerance_;
  std::string macc_, constant_;
  double steps_ = 1, features_ = 1, all_rows_ = 1;
  std::vector<Loops> zeros_, inputs_, products_, tails_;
  std::vector<std::string> copies_, vectors_;
  std::string unit_loops_;
};

}  // namespace

void schedule_matrix(Builder& builder, double tolerance) {
  MatrixScheduler(builder, tolerance).run();
}

}  // namespace tc
