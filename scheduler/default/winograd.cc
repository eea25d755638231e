// The default for convolutions where the tolerance allows Winograd's algorithm: transforms and products are
// fused over blocks of tiles, so that their intermediate results stay in the second cache.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <tuple>

#include "scheduler/algebra/algorithms.h"
#include "ir/target/register_groups.h"
#include "scheduler/algebra/winograd.h"
#include "scheduler/cost/calibration.h"
#include "scheduler/cost/tile_cost.h"
#include "scheduler/default/builder.h"
#include "scheduler/legality/legality.h"
#include "scheduler/legality/trust.h"

namespace tc {
namespace {

constexpr int64_t kMaxTiles = 64;  // of a block

// What the analytic cost model needs to know of the convolution.
struct WinogradShape {
  int64_t batch = 1, features = 1, channels = 1;  // features in blocks of lanes
  int64_t rows = 1, columns = 1;
  int64_t lanes = 1;
  double inside = 1;  // the share of the windows' positions that are not padding
};

struct Blocking {
  const Winograd* algebra = nullptr;
  int64_t rows = 1, columns = 1;  // tiles of a block
  TileChoice tile;
  double cycles = INFINITY;
};

class WinogradScheduler {
 public:
  WinogradScheduler(TraceBuilder builder, double tolerance) : b_(std::move(builder)), tolerance_(tolerance) {}

  // Finds the best blocks and all variants that are allowed; to be called once.
  AlgorithmChoices<WinogradKnobs> choices() {
    find();
    if (algebras().empty()) throw NotApplicable{"no algorithm of so many taps within the tolerance"};
    best_ = choose();
    if (best_.algebra == nullptr) throw NotApplicable{"no blocks of tiles that fit the caches"};
    AlgorithmChoices<WinogradKnobs> result;
    result.chosen = {best_.algebra->outputs, best_.rows, best_.columns, best_.tile.vectors,
                     best_.tile.columns};
    result.prediction = {best_.cycles, direct_, kGain, calibration::kTransformSpills, ""};
    for (const Winograd* each : algebras()) result.kinds.push_back(each->outputs);
    result.plan = text("F(", best_.algebra->outputs, ", ", taps_, "), blocks of ", best_.rows, " x ",
                       best_.columns, " tiles, register tiles of ", best_.tile.vectors,
                       " vectors of features by ", best_.tile.columns, " tiles");
    return result;
  }
  // To be called after choices().
  double cycles_of(const WinogradKnobs& knobs) const { return blocking_of(knobs).cycles; }

  // The schedule with all lines; to be called after choices().
  TraceBuilder run(const WinogradKnobs& knobs) {
    const Blocking plan = knobs.outputs > 0 ? blocking_of(knobs) : best_;
    if (plan.algebra == nullptr) throw NotApplicable{"no blocks of tiles of these sizes"};
    {
      Trust trust;  // the order is checked once, as a whole
      rewrite(plan);
      order();
    }
    if (auto found = find_violation(b_.state().kernel, b_.state().tree)) throw NotApplicable{*found};
    return b_;
  }

 private:
  const Kernel& kernel() const { return b_.kernel(); }
  const Statement& macc() const { return b_.statement(macc_); }

  std::vector<const Winograd*> algebras() const {
    std::vector<const Winograd*> result;
    for (const Winograd& algebra : winograd_rows()) {
      if (algebra.taps == taps_ && algebra.error * kLayers <= tolerance_) result.push_back(&algebra);
    }
    return result;
  }

  Blocking choose() const {
    Blocking plan;
    for (const Winograd* algebra : algebras()) consider(*algebra, plan);
    return plan;
  }

  // The blocking with these knobs, cut to the map; its `algebra` is null where the tolerance does not allow
  // it.
  Blocking blocking_of(const WinogradKnobs& knobs) const {
    for (const Winograd* algebra : algebras()) {
      if (algebra->outputs != knobs.outputs) continue;
      const int64_t rows = std::min(knobs.rows, tiles_of(*algebra, shape_.rows));
      const int64_t columns = std::min(knobs.columns, tiles_of(*algebra, shape_.columns));
      if (rows * columns > kMaxTiles) break;
      TileChoice tile;
      tile.vectors = std::min(knobs.vectors, shape_.features);
      tile.columns = std::min(knobs.tile, rows * columns);
      return with_cost(*algebra, rows, columns, tile);
    }
    return {};
  }

  void find() {
    macc_ = only_reduction(kernel()).name;
    const Buffer& result = kernel().buffers[static_cast<size_t>(macc().write.buffer)];
    if (result.shape.size() == 4 && result.scope == Scope::Local) {
      const int64_t block = b_.block_read(macc().write.buffer, 1);
      b_.apply("layout ", result.name, " 1 ", block > 0 ? block : b_.lanes(macc()));
    }
    // The rewrite says whether the kernel is of its kind.
    taps_ = window();
    const auto& rows = winograd_rows();
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const Winograd& each) { return each.taps == taps_; });
    if (row == rows.end()) throw NotApplicable{"no transform for a filter of this size is known"};
    TraceBuilder trial = b_;
    trial.apply("algorithm ", macc_, " winograd ", row->outputs, " ", taps_, " 1 1");
    const Access& write = macc().write;
    auto size = [&](size_t dim) {
      const std::string name = write.index[dim].affine.as_variable();
      return name.empty() ? 1 : extent_or(macc(), name, 1);
    };
    shape_ = {size(0), size(1), 1, size(2), size(3), size(4)};
    for (const Iterator& iterator : macc().iterators) {
      if (!depends_on(write, iterator.name)) shape_.channels *= extent_or(macc(), iterator.name, 1);
    }
    shape_.channels /= taps_ * taps_;
    for (const Access& load : loads_of(macc())) {
      const Buffer& input = kernel().buffers[static_cast<size_t>(load.buffer)];
      if (input.scope == Scope::Constant) continue;
      shape_.inside *= inside(load.index[2].affine, shape_.rows, input.shape[2]) *
                       inside(load.index[3].affine, shape_.columns, input.shape[3]);
    }
    direct_ = direct_cycles();
  }

  // The share of positions along one dimension that are not padding; the index is output + tap - padding.
  double inside(const Affine& index, int64_t outputs, const Affine& inputs) const {
    int64_t count = 0;
    for (int64_t output = 0; output < outputs; ++output) {
      const int64_t first = output + index.constant();
      count += std::max<int64_t>(0, std::min(first + taps_, inputs.constant()) - std::max<int64_t>(first, 0));
    }
    return static_cast<double>(count) / static_cast<double>(outputs * taps_);
  }

  // The taps along the rows of the filter, a constant [feature, channel, row, column]; 0 where there is none.
  int64_t window() const {
    for (const Access& load : loads_of(macc())) {
      const Buffer& buffer = kernel().buffers[static_cast<size_t>(load.buffer)];
      if (buffer.scope != Scope::Constant || load.index.size() != 4) continue;
      const std::string name = load.index[2].affine.as_variable();
      if (!name.empty()) return extent_or(macc(), name, 0);
    }
    return 0;
  }

  // Sums of products over a packed constant: vectors of features, columns along a map.
  TileProblem problem(double steps, int64_t columns, double others) const {
    TileProblem result;
    result.operands = {{true, false, 1, true}, {false, true, 1, false}};
    result.steps = steps;
    result.columns = columns;
    result.blocks = shape_.features;
    result.others = others;
    result.lanes = static_cast<int>(shape_.lanes);
    return result;
  }

  // Cycles in which all filters come from beyond the second cache.
  double all_of(double filter) const { return cycles_from_afar(b_.target(), filter, filter); }
  double native_vectors() const {
    return std::max(1.0, static_cast<double>(shape_.lanes * 32) / std::max(32, b_.target().vector_bits));
  }

  // Cycles of the direct convolution. Its sums leave out positions that are padding, along both dimensions by
  // whole loops.
  double direct_cycles() const {
    const auto taps = static_cast<double>(taps_ * taps_);
    const double compute = choose_tile(problem(taps * static_cast<double>(shape_.channels), shape_.columns,
                                               static_cast<double>(shape_.batch * shape_.rows)),
                                       b_.target())
                               .cycles *
                           shape_.inside;
    return overlapped(compute, all_of(filter_bytes(taps)));
  }

  double filter_bytes(double positions) const {
    return 4 * positions * static_cast<double>(shape_.channels * shape_.features * shape_.lanes);
  }

  static int64_t tiles_of(const Winograd& algebra, int64_t extent) {
    return (extent + algebra.outputs - 1) / algebra.outputs;
  }

  // The block of tiles and the register tile with the least cycles, where these are fewer than the
  // plan's.
  void consider(const Winograd& algebra, Blocking& best) const {
    const int64_t tile_rows = tiles_of(algebra, shape_.rows),
                  tile_columns = tiles_of(algebra, shape_.columns);
    auto judge = [&](int64_t rows, int64_t columns) {
      const int64_t block = rows * columns;
      TileChoice tile = choose_tile(problem(static_cast<double>(shape_.channels), block, 1), b_.target());
      // Parts of equal size: 16 columns as 8 and 8, not as 12 and 4.
      const int64_t trips = (block + tile.columns - 1) / tile.columns;
      tile.columns = (block + trips - 1) / trips;
      const Blocking plan = with_cost(algebra, rows, columns, tile);
      if (plan.cycles < best.cycles) best = plan;
    };
    for (int64_t rows = 1; rows <= tile_rows && rows * tile_columns <= kMaxTiles; ++rows) {
      judge(rows, tile_columns);
    }
    for (int64_t columns = std::min(tile_columns - 1, kMaxTiles); columns >= 4; --columns) judge(1, columns);
  }

  // The block and tile with their cycles; infinite where they need too much of a cache or of its bandwidth.
  Blocking with_cost(const Winograd& algebra, int64_t rows, int64_t columns, TileChoice tile) const {
    const int64_t block = rows * columns, products = algebra.products() * algebra.products();
    const int64_t tile_rows = tiles_of(algebra, shape_.rows),
                  tile_columns = tiles_of(algebra, shape_.columns);
    const auto tiles = static_cast<double>(shape_.batch * tile_rows * tile_columns);
    const double positions = static_cast<double>(products);
    // Loads, arithmetic and stores of the transforms, per tile and native vector.
    const double in = 6.0 * positions, out = 4.0 * positions;
    const double transforms =
        tiles * native_vectors() *
        (in * std::ceil(static_cast<double>(shape_.channels) / static_cast<double>(shape_.lanes)) +
         out * static_cast<double>(shape_.features)) /
        b_.target().multiply_adds;
    const TileProblem sums = problem(static_cast<double>(shape_.channels), block, 1);
    tile.cycles = tile_cycles(sums, b_.target(), tile.vectors, tile.columns);
    Blocking plan{&algebra, rows, columns, tile, INFINITY};
    const double input = 4 * positions * static_cast<double>(block * shape_.channels);
    const double scratch = input + 4 * positions * static_cast<double>(block * tile.vectors * shape_.lanes);
    const double filter = filter_bytes(positions);
    const bool near = scratch <= calibration::kBlockOfTiles * static_cast<double>(b_.target().l2_bytes);
    // Few large blocks read a large filter few times: then their tiles may leave the second cache for the
    // third.
    const auto third = static_cast<double>(b_.target().l3_bytes);
    if (!near && scratch > std::min(calibration::kScratchOfThird * third, filter)) return plan;
    const auto blocks = static_cast<double>(shape_.batch * ((tile_rows + rows - 1) / rows) *
                                            ((tile_columns + columns - 1) / columns));
    // Every thread runs whole blocks.
    const double parts = std::ceil(blocks / b_.threads()) * b_.threads();
    // The part by which the filters and a block exceed the second cache is read again from beyond it.
    const auto cache = static_cast<double>(b_.target().l2_bytes);
    const double missing = std::clamp((filter + scratch) / cache - 1, 0.0, 1.0);
    const bool far = filter > calibration::kFilterInThird * third;
    const double bandwidth = far ? b_.target().memory_bandwidth : b_.target().l3_bandwidth;
    const double stream = missing * filter / std::min(bandwidth, b_.target().l3_bandwidth);
    if (stream * parts > calibration::kShareOfBandwidth * direct_) return plan;
    double compute = positions * products_cycles(tile_rows, tile_columns, rows, columns, tile) / blocks *
                     static_cast<double>(shape_.batch);
    if (!near) {
      // Each panel of features reads the transformed tiles again, and waits for them: they are not
      // prefetched.
      const auto panels = static_cast<double>((shape_.features + tile.vectors - 1) / tile.vectors);
      compute += (panels + 1) * input / b_.target().l3_bandwidth;
    }
    // A thread's first block finds no filters in its second cache.
    const double rest = far ? calibration::kNotHiddenFromMemory : calibration::kNotHiddenOfFilters;
    const auto with_filters = [&](double bytes) {
      return std::max(compute, bytes) + rest * std::min(compute, bytes);
    };
    const double blocks_of_all =
        b_.threads() * with_filters(all_of(filter)) + (parts - b_.threads()) * with_filters(stream);
    plan.cycles =
        (blocks_of_all + transforms * parts / blocks) * (1 + calibration::kPriceOfMemory * filter * 1e-6);
    return plan;
  }

  // Cycles of one position's products in all blocks of a map: the last, smaller blocks leave out whole
  // register tiles.
  double products_cycles(int64_t tile_rows, int64_t tile_columns, int64_t rows, int64_t columns,
                         const TileChoice& tile) const {
    const auto steps = static_cast<double>(shape_.channels);
    const double one = tile_cycles(problem(steps, tile.columns, 1), b_.target(), tile.vectors, tile.columns);
    const auto block = [&](int64_t own_rows, int64_t own_columns) {
      if (own_rows == rows && own_columns == columns) return tile.cycles;
      // Tiles are counted row by row of the whole block.
      const int64_t last = (own_rows - 1) * columns + own_columns;
      return std::min(tile.cycles, one * static_cast<double>((last + tile.columns - 1) / tile.columns));
    };
    const int64_t below = tile_rows % rows, beside = tile_columns % columns;
    const auto full_rows = static_cast<double>(tile_rows / rows),
               full_columns = static_cast<double>(tile_columns / columns);
    double cycles = full_rows * full_columns * block(rows, columns);
    if (beside > 0) cycles += full_rows * block(rows, beside);
    if (below > 0) cycles += full_columns * block(below, columns);
    if (below > 0 && beside > 0) cycles += block(below, beside);
    return cycles;
  }

  void rewrite(const Blocking& plan) {
    pad_constants(b_, macc_, shape_.lanes);
    const std::string result = kernel().buffers[static_cast<size_t>(macc().write.buffer)].name;
    b_.apply("algorithm ", macc_, " winograd ", plan.algebra->outputs, " ", taps_, " ", plan.rows, " ",
             plan.columns);
    find_statements(result);
    columns_ = plan.tile.columns;
    vectors_ = std::min(plan.tile.vectors, shape_.features);
    // The sums' own block of features, so that the constant can be packed by it.
    const std::vector<Iterator> sums = macc().iterators;
    const size_t at = batched_ ? 3 : 2;
    const std::string f = sums.at(at).name, c = sums.at(at + 5).name;
    b_.apply("strip ", macc_, "_", f, " ", vectors_, " as ", f, "t ", f, "n");
    for (const Access& load : loads_of(macc())) {
      const Buffer& buffer = kernel().buffers[static_cast<size_t>(load.buffer)];
      if (buffer.scope == Scope::Constant) filter_ = buffer.name;
    }
    b_.apply("pack ", filter_, " : ", f, "t ", sums.at(at + 1).name, " ", sums.at(at + 2).name, " ", c, " ",
             sums.at(at + 6).name, " ", f, "n ", sums.at(at + 4).name);
  }

  // The names of a statement's loops, by their role.
  struct Loops {
    std::string statement, batch, block_y, block_x;
    std::string blocks;  // of channels or features
    std::string panel;   // of features, after dividing their blocks
    std::string y, x;    // the tile in its block; only `y` where one loop counts tiles
    std::string u, v, lane;
  };

  // The rewrite leaves the statements of the input, of the products and of the output in this order.
  void find_statements(const std::string& result) {
    const auto& statements = kernel().statements;
    const auto sum = static_cast<size_t>(b_.index_of(macc_));
    batched_ = macc().iterators.size() == 10;
    for (size_t i = 0; i < statements.size(); ++i) {
      const Statement& statement = statements[i];
      std::vector<std::string> names;
      for (const Iterator& iterator : statement.iterators) {
        names.push_back(statement.name + "_" + iterator.name);
      }
      if (!batched_) names.insert(names.begin(), "");
      Loops loops{statement.name, names.at(0), names.at(1), names.at(2), names.at(3), "", "", "", "", "", ""};
      if (i + 1 >= sum && i <= sum + 1) {
        std::tie(loops.u, loops.v, loops.y, loops.lane) =
            std::tie(names.at(4), names.at(5), names.at(6), names.at(7));
        products_.push_back(loops);
      } else if (i < sum || i <= sum + 3) {
        std::tie(loops.y, loops.x) = std::tie(names.at(4), names.at(5));
        std::tie(loops.u, loops.v, loops.lane) = std::tie(names.at(6), names.at(7), names.at(8));
        (i < sum ? inputs_ : outputs_).push_back(loops);
      } else {
        outputs_.push_back(tail_loops(statement, statements[sum + 3], result));
      }
    }
  }

  // The loops of a statement that reads the result: named by what they are in the subscripts.
  Loops tail_loops(const Statement& tail, const Statement& last, const std::string& result) const {
    if (tail.iterators.size() != last.iterators.size()) throw NotApplicable{"an epilogue of other loops"};
    for (const Access& load : loads_of(tail)) {
      if (kernel().buffers[static_cast<size_t>(load.buffer)].name != result) continue;
      std::map<std::string, std::string> names;  // of the last statement's iterators in the tail
      for (size_t d = 0; d < load.index.size(); ++d) {
        const auto &own = load.index[d].affine.terms(), &other = last.write.index[d].affine.terms();
        if (own.size() != other.size()) throw NotApplicable{"an epilogue of other subscripts"};
        // Terms are sorted by name: those of rows and columns have the same names in both.
        for (size_t i = 0; i < own.size(); ++i) names[other[i].first] = tail.name + "_" + own[i].first;
      }
      std::vector<std::string> loops;
      for (const Iterator& iterator : last.iterators) {
        // A single block of features is in no subscript: it has the same name in both.
        const std::string& name = names[iterator.name];
        loops.push_back(name.empty() ? tail.name + "_" + iterator.name : name);
      }
      if (!batched_) loops.insert(loops.begin(), "");
      return {tail.name,   loops.at(0), loops.at(1), loops.at(2), loops.at(3), "",
              loops.at(4), loops.at(5), loops.at(6), loops.at(7), loops.at(8)};
    }
    throw NotApplicable{"an epilogue that does not read the result"};
  }

  template <class Member>
  void fuse(const std::vector<const std::vector<Loops>*>& groups, Member member, const std::string& name) {
    std::string line = "fuse";
    for (const std::vector<Loops>* group : groups) {
      for (const Loops& loops : *group) line += " " + loops.*member;
    }
    b_.apply(line, " as ", name);
  }

  // Whether a transform runs its two passes separately: where registers are counted and a tile's values take
  // groups of registers, they do not fit and would be spilled.
  bool by_passes(const Loops& loops) const {
    const Target& target = b_.target();
    const int64_t lanes = b_.statement(loops.statement).iterators.back().extent.constant();
    return counts_registers(target) && target.vector_bits > 0 && lanes * 32 > target.vector_bits;
  }

  // Makes the register tiles of a transform, whose first `along_columns` statements are those up to the pass
  // along columns: one per tile of the map, or (by_passes) one per column and then one per row, with the
  // values in memory in between.
  void tile_transform(std::vector<Loops>& group, size_t along_columns, const std::string& name) {
    if (!by_passes(group.front())) {
      b_.apply("register_tile ", name, "_x");
      return;
    }
    std::vector<Loops> columns, rows;
    for (size_t i = 0; i < group.size(); ++i) {
      if (i < along_columns) b_.apply("order ", group[i].v, " ", group[i].u);
      (i < along_columns ? columns : rows).push_back(group[i]);
      (i < along_columns ? group[i].v : group[i].u).clear();  // stays a loop: not to be unrolled
    }
    for (const bool along : {true, false}) {
      const auto member = along ? &Loops::v : &Loops::u;
      const std::vector<Loops>& pass = along ? columns : rows;
      std::string loop = pass.front().*member;
      if (pass.size() > 1) {
        loop = name + (along ? "_v" : "_u");
        fuse({&pass}, member, loop);
      }
      b_.apply("register_tile ", loop);
    }
  }

  void order() {
    std::string sums;
    for (std::vector<Loops>* group : {&products_, &outputs_}) {
      for (Loops& loops : *group) {
        if (loops.statement == macc_) {
          loops.panel = loops.blocks + "t";
          loops.blocks += "n";
        } else {
          loops.panel = loops.blocks + "_t";
          b_.apply("split ", loops.blocks, " ", vectors_, " as ", loops.panel, " ", loops.blocks, "_n");
          loops.blocks += "_n";
        }
      }
    }
    for (Loops& loops : products_) {
      b_.apply("split ", loops.y, " ", columns_, " as ", loops.y, "_o ", loops.y, "_i");
      loops.x = loops.y + "_i";
      loops.y += "_o";
      std::string sum;
      if (loops.statement == macc_) {
        for (const TraceBuilder::Loop& loop : b_.all_loops(macc_)) {
          if (!depends_on(macc().write, loop.iterator)) sum += " " + loop.name;
        }
        sums = sum;
      }
      b_.apply("order ", loops.batch, " ", loops.block_y, " ", loops.block_x, " ", loops.panel, " ", loops.u,
               " ", loops.v, " ", loops.y, sum, " ", loops.x, " ", loops.blocks, " ", loops.lane);
    }
    for (Loops& loops : outputs_) {
      b_.apply("order ", loops.batch, " ", loops.block_y, " ", loops.block_x, " ", loops.panel, " ",
               loops.blocks, " ", loops.y, " ", loops.x, " ", loops.u, " ", loops.v, " ", loops.lane);
    }
    if (batched_) fuse({&inputs_, &products_, &outputs_}, &Loops::batch, "block_n");
    fuse({&inputs_, &products_, &outputs_}, &Loops::block_y, "block_y");
    fuse({&inputs_, &products_, &outputs_}, &Loops::block_x, "block_x");
    fuse({&inputs_}, &Loops::blocks, "in_c");
    fuse({&inputs_}, &Loops::y, "in_y");
    fuse({&inputs_}, &Loops::x, "in_x");
    fuse({&products_, &outputs_}, &Loops::panel, "panel");
    fuse({&products_}, &Loops::u, "point_u");
    fuse({&products_}, &Loops::v, "point_v");
    fuse({&products_}, &Loops::y, "point_t");
    fuse({&outputs_}, &Loops::blocks, "out_f");
    fuse({&outputs_}, &Loops::y, "out_y");
    fuse({&outputs_}, &Loops::x, "out_x");
    tile_transform(inputs_, inputs_.size() - 1, "in");
    b_.apply("register_tile point_t");
    tile_transform(outputs_, 1, "out");
    for (const std::vector<Loops>* group : {&inputs_, &products_, &outputs_}) {
      for (const Loops& loops : *group) {
        const bool product = group == &products_;
        b_.apply("vectorize ", loops.lane);
        for (const std::string& name : {product ? loops.blocks : loops.v, product ? loops.x : loops.u}) {
          if (!name.empty()) b_.apply("unroll ", name);
        }
      }
    }
    const std::string innermost = sums.substr(sums.rfind(' ') + 1);
    b_.apply("unroll ", innermost, " 4");
    b_.apply("isolate point_t");
    const Buffer& filter = kernel().buffers[static_cast<size_t>(kernel().buffer_index(filter_))];
    double bytes = 4;
    for (const Affine& size : filter.shape) bytes *= static_cast<double>(size.constant());
    // Brings the filter of the next point near while this point's products are computed.
    if (b_.target().prefetches() &&
        bytes > calibration::kFilterNear * static_cast<double>(b_.target().l2_bytes)) {
      b_.attempt("prefetch ", filter_, " point_v");
    }
    b_.parallelise();
  }

  TraceBuilder b_;
  double tolerance_;
  Blocking best_;
  std::string macc_;
  std::string filter_;  // the constant
  WinogradShape shape_;
  int64_t taps_ = 0;                   // of the window, in each direction
  double direct_ = 0;                  // cycles of the direct convolution
  int64_t columns_ = 1, vectors_ = 1;  // of the register tile
  bool batched_ = false;
  std::vector<Loops> inputs_, products_, outputs_;
};

}  // namespace

AlgorithmChoices<WinogradKnobs> winograd_choices(const TraceBuilder& start, double tolerance) {
  WinogradScheduler prepared(start, tolerance);
  AlgorithmChoices<WinogradKnobs> result = prepared.choices();
  const auto scheduler = std::make_shared<const WinogradScheduler>(std::move(prepared));
  result.cycles = [scheduler](const WinogradKnobs& knobs) { return scheduler->cycles_of(knobs); };
  result.apply = [scheduler](const WinogradKnobs& knobs) { return WinogradScheduler(*scheduler).run(knobs); };
  return result;
}

}  // namespace tc
