// The lines for a sum of products on a matrix unit: the input is divided once per band of rows, accumulators
// are in memory until their rows are complete, and the epilogue follows each tile where its rows are counted
// in the same way as the tiles'.
#include "ir/target/register_groups.h"
#include "scheduler/algebra/algorithms.h"
#include "scheduler/default/matrix_plan.h"
#include "scheduler/default/builder.h"

namespace tc {
namespace {

// The names of a statement's loops, by their role.
struct Loops {
  std::vector<std::string> images;
  std::string band, panel, pair, block;
  std::string blocks;  // of inputs with the groups of their depths apart: blocks of channels in a depth
  std::vector<std::string> rows;  // of products: lines, tiles; of others: rows or positions
  std::string inside;             // what is in a tile: its products, or rows of an epilogue
  std::string copies;             // rows of an epilogue that are computed together; may be empty
  std::string lane;
};

class BandLoops {
 public:
  BandLoops(TraceBuilder& builder, const std::string& sum, const TermsAlgorithm& algorithm)
      : b_(builder), macc_(sum), algorithm_(algorithm) {}

  void rewrite(const MatrixUnitPlan& plan) {
    pad_constants(b_, macc_, b_.target().matrix.columns);
    for (const Access& load : loads_of(b_.statement(macc_))) {
      const Buffer& buffer = kernel().buffers[static_cast<size_t>(load.buffer)];
      if (buffer.scope == Scope::Constant) constant_ = buffer.name;
    }
    b_.apply(plan.line(macc_, algorithm_));
  }

  void order(const MatrixUnitPlan& plan) {
    const auto sum = static_cast<size_t>(b_.index_of(macc_));
    const size_t band = band_position(kernel().statements.at(sum - 1));
    if (sum + 1 == kernel().statements.size()) throw NotApplicable{"no epilogue"};
    const Statement& start = kernel().statements.at(sum - 1);
    digits_are_rows_ = start.iterators.at(start.iterators.size() - 2).extent != Affine(plan.rows);
    const Statement& tail = kernel().statements.at(sum + 1);
    joint_ = rows_of(tail, band + 5) == rows_of(start, band + 6 + loops_over_orders(algorithm_));
    order_inputs(sum, band);
    order_products(plan, sum, band);
    order_tails(plan, sum, band);
    auto all = std::vector<std::vector<Loops>*>{&zeros_, &scales_, &inputs_, &products_, &tails_};
    for (size_t i = 0; i < band; ++i)
      fuse(all, [&](const Loops& loops) { return loops.images[i]; }, text("image_", i));
    fuse(all, [](const Loops& loops) { return loops.band; }, "in_band");
    fuse(all, [](const Loops& loops) { return loops.panel; }, "in_panel");
    for (size_t i = 0; i < inputs_[0].rows.size() && inputs_.size() > 1; ++i) {
      fuse({&inputs_}, [&](const Loops& loops) { return loops.rows[i]; }, text("term_", i));
    }
    fuse({&products_, &tails_}, [](const Loops& loops) { return loops.pair; }, "pair");
    auto tiles = std::vector<std::vector<Loops>*>{&products_};
    if (joint_) tiles.push_back(&tails_);
    for (size_t i = 0; i < products_[0].rows.size(); ++i) {
      fuse(tiles, [&](const Loops& loops) { return loops.rows[i]; }, text("tile_", i));
    }
    fuse({&products_}, [](const Loops& loops) { return loops.inside; }, "product");
    for (size_t i = 0; i < tails_[0].rows.size() && tails_.size() > 1 && !joint_; ++i) {
      fuse({&tails_}, [&](const Loops& loops) { return loops.rows[i]; }, text("row_", i));
    }
    if (tails_.size() > 1 && joint_)
      fuse({&tails_}, [](const Loops& loops) { return loops.inside; }, "row_0");
    mark(plan);
  }

 private:
  const Kernel& kernel() const { return b_.kernel(); }

  // Whether the copy of the input has the groups of several rows next to each other.
  bool groups_are_apart() const {
    const MatrixUnit& unit = b_.target().matrix;
    return unit.vectors && unit.rows > 1 && unit.format(algorithm_.operand)->groups > 1;
  }

  std::string loop(const Statement& statement, const std::string& iterator) const {
    return statement.name + "_" + iterator;
  }

  // Fills in the loops that all statements of the rewrite begin with; returns how many there are.
  size_t common(const Statement& statement, size_t band, Loops& loops) const {
    for (size_t i = 0; i < band; ++i) loops.images.push_back(loop(statement, statement.iterators.at(i).name));
    loops.band = loop(statement, statement.iterators.at(band).name);
    loops.panel = loop(statement, statement.iterators.at(band + 1).name);
    return band + 2;
  }

  // Makes copies of the innermost loops over depths and taps, iterators `first` to `last` of the sum.
  void unroll_steps(const Statement& sum, size_t first, size_t last) {
    constexpr int64_t kMostCopies = 9;
    int64_t copies = 1;
    for (size_t i = last + 1; i-- > first;) {
      const Iterator& each = sum.iterators.at(i);
      if (!each.extent.is_constant() || copies * each.extent.constant() > kMostCopies) break;
      copies *= each.extent.constant();
      copies_.push_back(loop(sum, each.name));
    }
  }

  template <class Member>
  void fuse(const std::vector<std::vector<Loops>*>& groups, Member member, const std::string& name) {
    std::string line = "fuse";
    for (const std::vector<Loops>* group : groups) {
      for (const Loops& loops : *group) line += " " + member(loops);
    }
    b_.apply(line, " as ", name);
  }

  static size_t rows_of(const Statement& statement, size_t others) {
    return statement.iterators.size() - others;
  }

  // Orders the statements before the products: those that set terms to zero, those of a band's scale, and
  // those of the input's terms. Loops over positions are outside; loops over depths are inside where depths
  // are next to each other in memory.
  void order_inputs(size_t sum, size_t band) {
    const std::vector<Statement> statements = kernel().statements;
    const size_t terms = sum - 1 - static_cast<size_t>(algorithm_.terms);
    const MatrixUnit::Format& format = *b_.target().matrix.format(algorithm_.operand);
    const int depth = format.groups * format.pack;
    for (size_t i = 0; i + 1 < sum; ++i) {
      Loops loops;
      const Statement& statement = statements[i];
      const size_t at = common(statement, band, loops);
      std::vector<std::string> order = loops.images;
      order.insert(order.end(), {loops.band, loops.panel});
      if (at + 1 >= statement.iterators.size()) {  // a few numbers of a band
        if (at + 1 == statement.iterators.size())
          order.push_back(loop(statement, statement.iterators.back().name));
        b_.apply("order", joined(order));
        scales_.push_back(loops);
        continue;
      }
      const bool reads = i >= terms || statement.reduction != Reduction::None;
      const std::string depths = loop(statement, statement.iterators.at(at).name);
      std::vector<std::string> rest;
      for (size_t k = at + 1; k < statement.iterators.size(); ++k) {
        rest.push_back(loop(statement, statement.iterators[k].name));
      }
      loops.lane = rest.back();
      rest.pop_back();
      if (reads) {
        loops.block = rest.back();  // parts of a depth: unrolled
        rest.pop_back();
        if (groups_are_apart()) {
          loops.blocks = rest.back();
          rest.pop_back();
        }
      }
      loops.rows = rest;
      bool along = false;
      for (const Access& load : loads_of(statement)) {
        const auto step = element_stride(kernel(), load, statement.iterators.at(at).name);
        along = along || (reads && step && *step > 0 && *step <= 2 * depth);
      }
      loops.rows.insert(along ? loops.rows.end() : loops.rows.begin(), depths);
      if (reads || i < terms) copy_together(statement, loops);
      order.insert(order.end(), loops.rows.begin(), loops.rows.end());
      if (!loops.copies.empty()) order.push_back(loops.copies);
      if (!loops.blocks.empty()) order.push_back(loops.blocks);
      if (reads) order.push_back(loops.block);
      order.push_back(loops.lane);
      b_.apply("order", joined(order));
      if (i >= terms) {
        inputs_.push_back(loops);
      } else if (reads) {
        peak_ = statement.name;
        scales_.push_back(loops);
      } else {
        zeros_.push_back(loops);
      }
    }
  }

  // Where a product is few instructions, so is the copy of a position of few channels, and so are the zeros
  // around it: several share their addresses.
  void copy_together(const Statement& statement, Loops& loops) {
    constexpr int64_t kWords = 4;  // of a vector
    int64_t together = kWords;
    if (!sums_are_scalars(b_.target().matrix)) return;
    const std::string row = loops.rows.back();
    for (const Iterator& each : statement.iterators) {
      const std::string name = loop(statement, each.name);
      if (name != loops.block) continue;
      if (!each.extent.is_constant() || each.extent.constant() < 1) return;
      together = kWords / each.extent.constant();
    }
    for (const Iterator& each : statement.iterators) {
      if (loop(statement, each.name) == row &&
          (!each.extent.is_constant() || each.extent.constant() < 2 * together))
        return;
    }
    if (together < 2) return;
    loops.inside = loops.rows.back() = row + "_o";
    loops.copies = row + "_i";
    b_.apply("split ", row, " ", together, " as ", loops.inside, " ", loops.copies);
  }

  void order_products(const MatrixUnitPlan& plan, size_t sum, size_t band) {
    for (size_t i = sum - 1; i <= sum; ++i) {
      Loops loops;
      const Statement statement = kernel().statements[i];
      const size_t at = common(statement, band, loops);
      auto name = [&](size_t position) { return loop(statement, statement.iterators.at(position).name); };
      loops.pair = name(at);
      loops.block = name(at + 1);
      const size_t tail = i == sum ? 4 : 2;  // rows, columns, groups, packed elements
      const size_t lines = rows_of(kernel().statements[sum - 1], band + 7 + loops_over_orders(algorithm_));
      for (size_t k = 0; k < lines; ++k) loops.rows.push_back(name(at + 2 + k));
      const std::string tile = name(at + 2 + lines);
      b_.apply("split ", tile, " ", plan.tiles, " as ", tile, "_o ", tile, "_i");
      // A loop of one trip, which initialisation and sum share, so that they become one leaf.
      b_.apply("split ", tile, "_o 1 as ", tile, "_t ", tile, "_l");
      loops.rows.push_back(tile + "_t");
      loops.inside = tile + "_l";
      std::vector<std::string> order = loops.images;
      order.insert(order.end(), {loops.band, loops.panel, loops.pair});
      order.insert(order.end(), loops.rows.begin(), loops.rows.end());
      order.push_back(loops.inside);
      const size_t count = statement.iterators.size();
      for (size_t k = at + 3 + lines; k + tail < count; ++k) order.push_back(name(k));
      order.insert(order.end(), {loops.block, tile + "_i"});
      for (size_t k = count - tail; k < count; ++k) order.push_back(name(k));
      b_.apply("order", joined(order));
      copies_.insert(copies_.end(), {loops.block, tile + "_i"});
      if (i == sum) {
        if (!digits_are_rows_) copies_.push_back(name(count - 6));  // terms of both operands
        copies_.push_back(name(count - 5));
        if (sums_are_scalars(b_.target().matrix)) unroll_steps(statement, at + 3 + lines, count - 7);
        unit_loops_ = joined({name(count - 4), name(count - 3), name(count - 2), name(count - 1)});
      } else {
        if (loops_over_orders(algorithm_) > 0) copies_.push_back(name(count - 3));
        copies_.push_back(name(count - 2));
        vectors_.push_back(name(count - 1));
      }
      products_.push_back(loops);
    }
  }

  // Orders the epilogues: directly after each tile, where their rows are counted in the same way.
  void order_tails(const MatrixUnitPlan& plan, size_t sum, size_t band) {
    const std::vector<Statement> statements = kernel().statements;
    for (size_t i = sum + 1; i < statements.size(); ++i) {
      Loops loops;
      const Statement& statement = statements[i];
      const size_t at = common(statement, band, loops);
      auto name = [&](size_t position) { return loop(statement, statement.iterators.at(position).name); };
      loops.pair = name(at);
      loops.block = name(at + 1);
      const size_t count = statement.iterators.size();
      for (size_t k = at + 2; k + 1 < count; ++k) loops.rows.push_back(name(k));
      if (joint_) {
        const std::string row = loops.rows.back();
        loops.inside = row + "_i";
        loops.rows.back() = row + "_o";
        b_.apply("split ", row, " ", plan.tiles * plan.rows, " as ", loops.rows.back(), " ", loops.inside);
        divide_tail(plan.tiles * plan.rows, loops);
      }
      loops.lane = name(count - 1);
      std::vector<std::string> order = loops.images;
      order.insert(order.end(), {loops.band, loops.panel, loops.pair});
      order.insert(order.end(), loops.rows.begin(), loops.rows.end());
      if (joint_) order.push_back(loops.inside);
      if (!loops.copies.empty()) order.push_back(loops.copies);
      order.insert(order.end(), {loops.block, loops.lane});
      b_.apply("order", joined(order));
      tails_.push_back(loops);
    }
    for (const Loops& loops : tails_) {
      if (loops.rows.size() != tails_[0].rows.size()) throw NotApplicable{"epilogues of other loops"};
    }
  }

  // Where instructions run in order, several rows of an epilogue are in one basic block, so that each need
  // not wait for its own results. The few rows of a tile of scalar sums all are: they share loads of
  // constants.
  void divide_tail(int64_t rows, Loops& loops) {
    const bool all = rows > 1 && sums_are_scalars(b_.target().matrix);
    const int64_t together = all ? rows : 4;
    if (!all && (b_.target().out_of_order() || rows <= together)) return;
    const std::string row = loops.inside;
    loops.inside = row + "_o";
    loops.copies = row + "_i";
    b_.apply("split ", row, " ", together, " as ", loops.inside, " ", loops.copies);
  }

  // Leaves and marks.
  void mark(const MatrixUnitPlan& plan) {
    b_.apply("register_tile ",
             inputs_.size() > 1 ? text("term_", inputs_[0].rows.size() - 1) : inputs_[0].rows.back());
    b_.apply("register_tile product");
    if (tails_.size() > 1) b_.apply("register_tile row_", joint_ ? 0 : tails_[0].rows.size() - 1);
    for (const Loops& loops : zeros_) {
      if (!loops.copies.empty()) b_.apply("register_tile ", loops.inside);
      b_.apply("vectorize ", loops.lane);
      if (loops.copies.empty()) continue;
      b_.apply("unroll ", loops.copies);
      b_.attempt("isolate ", loops.inside);
    }
    if (!peak_.empty()) b_.apply("register_tile ", peak_);
    for (const Loops& loops : scales_) {
      if (loops.lane.empty()) continue;
      b_.apply("vectorize ", loops.lane);
      b_.apply("unroll ", loops.block);
    }
    for (const std::vector<Loops>* group : {&inputs_, &tails_}) {
      for (const Loops& loops : *group) {
        b_.apply("vectorize ", loops.lane);
        b_.apply("unroll ", loops.block);
        if (!loops.blocks.empty()) b_.apply("unroll ", loops.blocks);
        if (!loops.copies.empty()) {
          b_.apply("unroll ", loops.copies);
          b_.attempt("isolate ", loops.inside);
        }
      }
    }
    for (const std::string& name : vectors_) b_.apply("vectorize ", name);
    for (const std::string& name : copies_) b_.apply("unroll ", name);
    b_.apply("tensorize", unit_loops_);
    b_.attempt("isolate pair");
    // The last tile of a line may be without some results, which those before it need not ask.
    if (joint_ && sums_are_scalars(b_.target().matrix))
      b_.attempt("isolate tile_", products_[0].rows.size() - 1);
    if (b_.target().prefetches() && plan.panel > 1 && plan.prefetch)
      b_.attempt("prefetch ", constant_, " pair");
    b_.parallelise();
  }

  TraceBuilder& b_;
  const std::string macc_;
  const TermsAlgorithm& algorithm_;
  std::string constant_;
  bool digits_are_rows_ = false;  // digits of the input are the rows of an accumulator
  bool joint_ = false;            // epilogues are inside of the loops over tiles
  // The statement that finds a band's largest number; empty where terms have no scale.
  std::string peak_;
  std::vector<Loops> zeros_, scales_, inputs_, products_, tails_;
  std::vector<std::string> copies_, vectors_;
  std::string unit_loops_;
};

}  // namespace

std::string MatrixUnitPlan::line(const std::string& sum, const TermsAlgorithm& algorithm) const {
  return text("algorithm ", sum, " ", algorithm.name, " ", band, " ", panel, " ", blocks, " ", tiles, " ",
              rows);
}

size_t band_position(const Statement& start) {
  for (size_t i = 0; i < start.iterators.size(); ++i) {
    if (start.iterators[i].name.rfind("band", 0) == 0) return i;
  }
  throw NotApplicable{"no bands"};
}

void apply_plan(TraceBuilder& builder, const std::string& sum, const TermsAlgorithm& algorithm,
                const MatrixUnitPlan& plan) {
  BandLoops order(builder, sum, algorithm);
  order.rewrite(plan);
  order.order(plan);
}

}  // namespace tc
