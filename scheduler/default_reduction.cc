// The default for one reduction with its initialisation and epilogue: convolution, matrix products,
// depthwise, pooling, row sums.
#include <algorithm>
#include <cmath>

#include "scheduler/builder.h"
#include "scheduler/cost.h"

namespace tc {
namespace {

constexpr int64_t kAssumedSymbolic = 64;   // of extents that are not known
constexpr double kMostCopies = 900;        // multiply-adds of one tile's straight-line code
constexpr double kHeavyEpilogue = 250;     // operations of the epilogue's straight-line code

// How the reduction is computed: which iterators become lanes and columns.
struct Choice {
  bool over_reduction = false;   // the lanes are parts of one sum
  std::string vector, columns;   // iterators of the reduction statement; columns may be empty
  int64_t lanes = 1;
  TileChoice tile;
};

class ReductionScheduler {
 public:
  explicit ReductionScheduler(Builder& builder) : b_(builder) {}

  void run() {
    find_statements();
    stage();
    align();
    merge();
    choose();
    if (choice_.over_reduction) {
      schedule_over_reduction();
    } else {
      schedule_over_outputs();
    }
    b_.parallelise();
  }

 private:
  const Statement& macc() const { return b_.statement(macc_); }
  const Kernel& kernel() const { return b_.kernel(); }

  // One reduction; the statements before it initialise what it adds to, those after it are
  // elementwise.
  void find_statements() {
    const auto& statements = kernel().statements;
    for (size_t i = 0; i < statements.size(); ++i) {
      if (statements[i].reduction == Reduction::None) continue;
      if (!macc_.empty()) throw Abandon{"more than one reduction"};
      if (!is_relaxed(statements[i])) throw Abandon{"a reduction that reads itself"};
      macc_ = statements[i].name;
    }
    if (macc_.empty()) throw Abandon{"no reduction"};
    for (const Iterator& iterator : b_.statement(macc_).iterators) {
      if (extent_or(b_.statement(macc_), iterator.name, 1) == 0) throw Abandon{"a reduction of nothing"};
    }
    for (const Statement& statement : statements) {
      if (statement.name == macc_) continue;
      const bool before = b_.index_of(statement.name) < b_.index_of(macc_);
      if (before && (statement.write.buffer != macc().write.buffer || !init_.empty())) {
        throw Abandon{"statements before the reduction"};
      }
      (before ? init_ : tails_.emplace_back()) = statement.name;
    }
    if (init_.empty()) throw Abandon{"a reduction without initialisation"};
  }

  // What the reduction writes becomes private.
  void stage() {
    const Buffer& buffer = kernel().buffers[static_cast<size_t>(macc().write.buffer)];
    if (buffer.scope != Scope::Output) return;
    const size_t count = kernel().statements.size();
    b_.apply("stage ", buffer.name);
    TC_CHECK(kernel().statements.size() == count + 1);
    tails_.push_back(kernel().statements.back().name);
  }

  // The block of `16*f_o + f_i` where a layout of some buffer made it so; else 0.
  int64_t block_in(const Statement& statement, const Affine& index) const {
    const std::string finest = outer_part(index);
    if (finest.empty()) return 0;
    const int64_t size = extent_or(statement, finest, 0);
    const bool has_outer = std::any_of(index.terms().begin(), index.terms().end(),
                                       [&](const auto& term) { return term.second == size; });
    const auto& blocked = b_.state().blocked;
    const bool made = std::any_of(blocked.begin(), blocked.end(),
                                  [&](const BlockedDim& dim) { return dim.block == size; });
    return size > 1 && has_outer && made ? size : 0;
  }

  // The block that the dimension of the private buffer has, or is to have to fit the layouts around.
  int64_t block_of(size_t dim) const {
    if (const int64_t own = block_in(macc(), macc().write.index[dim].affine)) return own;
    for (const std::string& tail : tails_) {
      for (const Access& load : loads_of(b_.statement(tail))) {
        if (load.buffer != macc().write.buffer) continue;
        if (const int64_t block = block_in(b_.statement(tail), load.index[dim].affine)) return block;
      }
    }
    return 0;
  }

  // An epilogue may read `64*h + d` where the reduction writes `n`: the reduction and its
  // initialisation count the same way then.
  void align() {
    for (const std::string& tail : tails_) {
      for (const Access& load : loads_of(b_.statement(tail))) {
        if (load.buffer != macc().write.buffer) continue;
        for (size_t d = 0; d < load.index.size(); ++d) {
          auto terms = load.index[d].affine.terms();
          std::sort(terms.begin(), terms.end(), [](const auto& x, const auto& y) { return x.second > y.second; });
          // The finest step may be that of a blocked layout: the buffer gets it too.
          const size_t parts = terms.size() - (block_in(b_.statement(tail), load.index[d].affine) > 0);
          for (size_t i = 0; i + 1 < parts; ++i) {
            if (terms[i].second <= 1) continue;
            for (const std::string& name : {init_, macc_}) {
              const Affine& index = b_.statement(name).write.index[d].affine;
              const std::string whole = i == 0 ? index.as_variable() : outer_part(index);
              if (whole.empty()) continue;
              b_.attempt("strip ", name, "_", whole, " ", terms[i].second, " as ", whole, "h ", whole);
            }
          }
        }
      }
    }
  }

  // Iterators over contiguous dimensions become one, innermost pairs first.
  void merge() {
    for (size_t i = macc().iterators.size(); i-- > 1;) {
      const std::string a = macc().iterators[i - 1].name, b = macc().iterators[i].name;
      b_.attempt("merge ", macc_, "_", a, " ", macc_, "_", b, " as ", b);
    }
  }

  bool is_output(const std::string& iterator) const { return depends_on(macc().write, iterator); }

  std::vector<std::string> outputs() const {
    std::vector<std::string> result;
    for (const Iterator& iterator : macc().iterators) {
      if (is_output(iterator.name)) result.push_back(iterator.name);
    }
    return result;
  }

  bool is_constant(const Access& access) const {
    return kernel().buffers[static_cast<size_t>(access.buffer)].scope == Scope::Constant;
  }
  int times_read(int buffer) const {
    int count = 0;
    for (const Statement& statement : kernel().statements) {
      for_each_load(statement.value, [&](const Expr& load) { count += load.access.buffer == buffer; });
    }
    return count;
  }
  bool packable(const Access& access) const {
    if (!is_constant(access) || times_read(access.buffer) != 1) return false;
    for (const Subscript& subscript : access.index) {
      if (subscript.dynamic) return false;
    }
    return true;
  }

  // Dimension of the accumulators' buffer that the iterator indexes alone, with coefficient 1 or as
  // the finest of several; nothing where there is none.
  std::optional<size_t> dimension_of(const std::string& iterator) const {
    std::optional<size_t> result;
    for (size_t d = 0; d < macc().write.index.size(); ++d) {
      const int64_t coefficient = macc().write.index[d].affine.coefficient(iterator);
      if (coefficient == 0) continue;
      if (coefficient != 1 || result) return std::nullopt;
      result = d;
    }
    return result;
  }

  const BlockedDim* blocked_dim(const Access& access, size_t inner) const {
    const std::string& name = kernel().buffers[static_cast<size_t>(access.buffer)].name;
    for (const BlockedDim& dim : b_.state().blocked) {
      if (dim.buffer == name && dim.inner == inner) return &dim;
    }
    return nullptr;
  }

  bool is_blocked(int buffer) const {
    const std::string& name = kernel().buffers[static_cast<size_t>(buffer)].name;
    return std::any_of(b_.state().blocked.begin(), b_.state().blocked.end(),
                       [&](const BlockedDim& dim) { return dim.buffer == name; });
  }

  // The last statement's write seen along the iterator of the reduction: 1 where it stores vectors.
  double store_cost(const std::string& vector, int64_t lanes) const {
    if (tails_.empty()) return 1;
    const auto dim = dimension_of(vector);
    const Statement& last = b_.statement(tails_.back());
    double cost = static_cast<double>(lanes);
    for (const Access& load : loads_of(last)) {
      if (load.buffer != macc().write.buffer || !dim) continue;
      for (const auto& [name, coefficient] : load.index[*dim].affine.terms()) {
        if (coefficient != 1) continue;
        if (element_stride(kernel(), last.write, name) == 1) cost = 1;
      }
      return cost;
    }
    return 1;   // further statements stand between
  }

  double epilogue_loads() const {
    double count = 0;
    for (const std::string& tail : tails_) {
      for (const Access& load : loads_of(b_.statement(tail))) {
        const Scope scope = kernel().buffers[static_cast<size_t>(load.buffer)].scope;
        count += scope == Scope::Input || scope == Scope::Constant;
      }
    }
    return count;
  }

  // Instructions of the epilogue per accumulator, roughly.
  double epilogue_weight() const {
    double weight = 0;
    for (const std::string& tail : tails_) weight += weight_of(b_.statement(tail).value);
    return weight;
  }

  TileProblem problem_for(const std::string& vector, const std::string& columns, int64_t lanes) const {
    TileProblem problem;
    problem.lanes = static_cast<int>(lanes);
    problem.element_bytes = static_cast<int>(std::max<int64_t>(4, size_of(
        kernel().buffers[static_cast<size_t>(macc().write.buffer)].dtype)));
    problem.epilogue_loads = epilogue_loads();
    for (const Iterator& iterator : macc().iterators) {
      const auto extent = static_cast<double>(extent_or(macc(), iterator.name, kAssumedSymbolic));
      if (iterator.name == vector) {
        if (is_output(vector)) {
          problem.blocks = static_cast<int64_t>(std::ceil(extent / static_cast<double>(lanes)));
        } else {
          problem.steps *= std::ceil(extent / static_cast<double>(lanes));
        }
      } else if (iterator.name == columns) {
        problem.columns = static_cast<int64_t>(extent);
      } else if (is_output(iterator.name)) {
        problem.others *= extent;
      } else {
        problem.steps *= extent;
      }
    }
    return problem;
  }

  TileProblem::Operand operand_for(const Access& load, const std::string& vector,
                                   const std::string& columns, int64_t lanes) const {
    TileProblem::Operand operand;
    operand.along_vector = depends_on(load, vector);
    operand.along_columns = !columns.empty() && depends_on(load, columns);
    operand.streams = packable(load) && !operand.along_columns;
    const auto stride = element_stride(kernel(), load, vector);
    if (operand.along_vector && stride != 1 && !packable(load)) {
      operand.vector_cost = 1.5 * static_cast<double>(lanes);
    }
    return operand;
  }

  void choose() {
    double best = INFINITY;
    // The innermost first: it wins between equals.
    std::vector<std::string> column_choices = outputs();
    std::reverse(column_choices.begin(), column_choices.end());
    column_choices.push_back("");
    const int64_t lanes = b_.lanes(macc());
    for (const Iterator& iterator : macc().iterators) {
      const std::string& vector = iterator.name;
      const bool over_reduction = !is_output(vector);
      if (!over_reduction && (!dimension_of(vector) || !iterator.extent.is_constant())) continue;
      if (over_reduction && !iterator.extent.is_constant()) continue;
      int64_t width = lanes;
      std::string outer;   // counts the blocks, where they exist already
      if (!over_reduction) {
        const size_t dim = *dimension_of(vector);
        if (const BlockedDim* blocked = blocked_dim(macc().write, dim)) {
          width = blocked->block;
          outer = outer_part(macc().write.index[blocked->outer].affine);
        } else if (is_blocked(macc().write.buffer)) {
          continue;
        } else if (const int64_t block = block_of(dim)) {
          width = block;
          for (const auto& [name, coefficient] : macc().write.index[dim].affine.terms()) {
            if (coefficient == block) outer = name;
          }
        }
        if (width > 4 * lanes) continue;
      } else if (iterator.extent.constant() < 2) {
        continue;
      }
      for (const std::string& columns : column_choices) {
        if (columns == vector) continue;
        TileProblem problem = problem_for(vector, columns, width);
        if (!outer.empty()) {
          if (outer == columns) continue;
          problem.blocks = extent_or(macc(), outer, 1);
          problem.others /= static_cast<double>(problem.blocks);
        }
        for (const Access& load : loads_of(macc())) {
          problem.operands.push_back(operand_for(load, vector, columns, width));
          if (over_reduction && element_stride(kernel(), load, vector).value_or(2) > 1) {
            problem.operands.back().vector_cost = 1.5 * static_cast<double>(width);
          }
        }
        if (over_reduction) {
          problem.finish = std::log2(static_cast<double>(width)) * 2 + 4;
          problem.store_cost = 1;
        } else {
          problem.store_cost = store_cost(vector, width);
        }
        TileChoice tile = choose_tile(problem, b_.target());
        if (over_reduction) tile.cycles *= 1.1;
        if (tile.cycles < best) {
          best = tile.cycles;
          choice_ = {over_reduction, vector, columns, width, tile};
        }
      }
    }
    if (best == INFINITY) throw Abandon{"no iterator to vectorise"};
  }

  // The term with coefficient 1: the outer part of a blocked index `8*g + f_o`.
  static std::string outer_part(const Affine& affine) {
    for (const auto& [name, coefficient] : affine.terms()) {
      if (coefficient == 1) return name;
    }
    return "";
  }

  std::string fresh(const std::string& base) const {
    auto taken = [&](const std::string& name) {
      for (const Iterator& iterator : macc().iterators) {
        if (iterator.name == name) return true;
      }
      return false;
    };
    std::string name = base;
    for (int number = 2; taken(name); ++number) name = base + std::to_string(number);
    return name;
  }

  // Reduction iterators in the order in which they run: those along the innermost dimension of what
  // is read by columns come last.
  std::vector<std::string> reduction_order(const std::string& vector) const {
    std::vector<std::string> order, last;
    for (const Iterator& iterator : macc().iterators) {
      if (is_output(iterator.name)) continue;
      bool innermost = false;
      for (const Access& load : loads_of(macc())) {
        if (is_constant(load) || depends_on(load, vector)) continue;
        innermost = innermost || element_stride(kernel(), load, iterator.name) == 1;
      }
      (innermost ? last : order).push_back(iterator.name);
    }
    order.insert(order.end(), last.begin(), last.end());
    return order;
  }

  // Whether some load has both iterators in one subscript: a window that slides along `columns`.
  bool is_window(const std::string& reduction, const std::string& columns) const {
    if (columns.empty()) return false;
    for (const Access& load : loads_of(macc())) {
      for (const Subscript& subscript : load.index) {
        if (subscript.affine.coefficient(reduction) != 0 && subscript.affine.coefficient(columns) != 0) {
          return true;
        }
      }
    }
    return false;
  }

  bool constrained(const std::string& iterator) const {
    for (const Affine& constraint : macc().constraints) {
      if (constraint.coefficient(iterator) != 0) return true;
    }
    return false;
  }

  double bytes_of(const Access& access) const {
    double bytes = 1;
    const Buffer& buffer = kernel().buffers[static_cast<size_t>(access.buffer)];
    for (const Affine& size : buffer.shape) {
      bytes *= size.is_constant() ? static_cast<double>(size.constant()) : kAssumedSymbolic;
    }
    return bytes * static_cast<double>(size_of(buffer.dtype));
  }

  // Whether the loop over tiles of the vector iterator is outside of the other output loops: the
  // packed panel is then read again and again from a near cache, else the other operand is.
  bool vector_outermost(double vector_trips, double other_trips) const {
    double constants = 0, inputs = 0;
    for (const Access& load : loads_of(macc())) {
      (depends_on(load, vector_outer_) ? constants : inputs) += bytes_of(load);
    }
    auto cycles = [&](double bytes, double again) {
      const Target& target = b_.target();
      const bool near = bytes <= 0.6 * static_cast<double>(target.l2_bytes);
      return bytes / target.l3_bandwidth +
             (again - 1) * bytes / (near ? target.l2_bandwidth : target.l3_bandwidth);
    };
    return cycles(constants, 1) + cycles(inputs, vector_trips) <=
           cycles(constants, other_trips) + cycles(inputs, 1);
  }

  // Lanes along an output: accumulators are vectors in blocks of the private buffer.
  void schedule_over_outputs() {
    const std::string columns = choice_.columns;
    size_t dim = *dimension_of(choice_.vector);
    const std::string target = kernel().buffers[static_cast<size_t>(macc().write.buffer)].name;
    const int64_t extent = extent_or(macc(), choice_.vector, 1);
    std::string inner = choice_.vector;
    if (const BlockedDim* blocked = blocked_dim(macc().write, dim)) {
      dim = blocked->outer;
    } else {
      b_.apply("layout ", target, " ", dim, " ", choice_.lanes);
      inner = outer_part(macc().write.index.back().affine);
    }
    vector_outer_ = outer_part(macc().write.index[dim].affine);
    if (extent % choice_.lanes != 0) pad_constants(dim);

    const int64_t blocks = vector_outer_.empty() ? 1 : extent_or(macc(), vector_outer_, 1);
    const int64_t vectors = std::min(choice_.tile.vectors, blocks);
    std::string vector_in = "";
    if (vectors > 1) {
      const std::string outer = fresh(vector_outer_ + "t"), in = fresh(vector_outer_ + "n");
      b_.apply("strip ", macc_, "_", vector_outer_, " ", vectors, " as ", outer, " ", in);
      vector_outer_ = outer;
      vector_in = in;
    }
    const std::vector<std::string> reductions = reduction_order(inner);
    const int64_t trips = (blocks + vectors - 1) / vectors;
    pack_constants(reductions, vector_in, inner, columns.empty());

    // Output loops: the panel's, then the others in their order, the columns' last.
    std::vector<std::string> outer;
    double others = 1;
    for (const std::string& name : outputs()) {
      if (name == vector_in || name == inner || name == columns || name == vector_outer_) continue;
      outer.push_back(name);
      others *= static_cast<double>(extent_or(macc(), name, kAssumedSymbolic));
    }
    if (!columns.empty()) {
      others *= std::ceil(static_cast<double>(extent_or(macc(), columns, kAssumedSymbolic)) /
                          static_cast<double>(choice_.tile.columns));
    }
    // Groups and batch stay outside of the panels.
    size_t place = 0;
    while (place < outer.size() && shares_dimension(outer[place], dim)) ++place;
    if (!vector_outermost(static_cast<double>(trips), others)) place = outer.size();
    if (!vector_outer_.empty()) {
      outer.insert(outer.begin() + static_cast<std::ptrdiff_t>(place), vector_outer_);
    }

    auto loop = [&](const std::string& iterator) { return macc_ + "_" + iterator; };
    std::vector<std::string> order, inside;
    for (const std::string& name : outer) order.push_back(loop(name));
    if (!columns.empty()) {
      b_.apply("split ", loop(columns), " ", choice_.tile.columns, " as ", loop(columns), "_o ",
               loop(columns), "_i");
      order.push_back(loop(columns) + "_o");
      inside.push_back(loop(columns) + "_i");
    }
    const std::string around = order.empty() ? "" : order.back();
    for (const std::string& name : reductions) order.push_back(loop(name));
    if (!vector_in.empty()) inside.push_back(loop(vector_in));
    order.insert(order.end(), inside.begin(), inside.end());
    order.push_back(loop(inner));
    const int64_t copies = vectors * (columns.empty() ? 1 : choice_.tile.columns);
    const bool apart = !around.empty() && epilogue_weight() * static_cast<double>(copies) > kHeavyEpilogue;
    if (order.size() > 1) b_.apply("order", joined(order));
    std::string tile = around;
    if (apart) {
      // A loop of one trip holds the accumulators' part; the epilogue follows in loops of its own.
      tile = around + "_t";
      b_.apply("split ", around, " 1 as ", around, " ", tile);
    }
    if (!around.empty()) {
      b_.apply("compute_at ", init_, " at ", tile);
      b_.apply("compute_at", joined(tails_), " at ", around);
    }
    finish_copies(init_, true);
    for (const std::string& name : tails_) finish_copies(name, !apart);
    b_.apply("register_tile ", around.empty() ? "root" : tile);
    b_.apply("vectorize ", loop(inner));
    for (const std::string& name : inside) b_.apply("unroll ", name);
    unroll_reductions(reductions, columns, vectors);
    // Loops whose conditions are worth a version without.
    if (!around.empty()) b_.apply("isolate ", around);
    const std::string panel = loop(vector_outer_);
    if (!vector_outer_.empty() && panel != around) b_.apply("isolate ", panel);
  }

  bool shares_dimension(const std::string& iterator, size_t dim) const {
    if (dim < macc().write.index.size() && macc().write.index[dim].affine.coefficient(iterator) != 0) return true;
    // A batch dimension comes before.
    for (size_t d = 0; d < dim; ++d) {
      if (macc().write.index[d].affine.coefficient(iterator) != 0) return true;
    }
    return false;
  }

  // Constants of the epilogue are padded along the vector, so that padded lanes need no conditions.
  void pad_constants(size_t dim) {
    (void)dim;
    for (const std::string& tail : tails_) {
      bool again = true;
      while (again) {
        again = false;
        const Statement& statement = b_.statement(tail);
        // The iterators of the vector in the tail.
        std::string inner, outer;
        for (const Access& load : loads_of(statement)) {
          if (load.buffer != macc().write.buffer) continue;
          inner = outer_part(load.index.back().affine);
        }
        if (inner.empty()) return;
        for (const Access& load : loads_of(statement)) {
          if (!is_constant(load)) continue;
          const Buffer& buffer = kernel().buffers[static_cast<size_t>(load.buffer)];
          for (size_t d = 0; d < load.index.size() && !again; ++d) {
            const Affine& index = load.index[d].affine;
            if (index.coefficient(inner) != 1 || index.as_variable() == inner) continue;
            again = b_.attempt("layout ", buffer.name, " ", d, " ", choice_.lanes);
          }
          if (again) break;
        }
      }
    }
  }

  void pack_constants(const std::vector<std::string>& reductions, const std::string& vector_in,
                      const std::string& inner, bool no_columns) {
    std::vector<std::string> lines;
    for (const Access& load : loads_of(macc())) {
      if (!packable(load) || !depends_on(load, inner)) continue;
      std::string line = "pack " + kernel().buffers[static_cast<size_t>(load.buffer)].name + " :";
      for (const std::string& name : outputs()) {
        if (name != vector_in && name != inner && depends_on(load, name)) line += " " + name;
      }
      const bool between = !vector_in.empty() && depends_on(load, vector_in);
      // Without columns each constant is used once: distant panels stream better.
      if (between && no_columns) line += " " + vector_in;
      for (const std::string& name : reductions) {
        if (depends_on(load, name)) line += " " + name;
      }
      if (between && !no_columns) line += " " + vector_in;
      lines.push_back(line + " " + inner);
    }
    for (const std::string& line : lines) b_.attempt(line);
  }

  // The loops of an initialisation or epilogue inside the tile: copies, and lanes.
  void finish_copies(const std::string& name, bool unroll) {
    const std::string lane = lane_iterator(name);
    std::vector<std::string> order;
    std::string last;
    for (const Builder::Loop& loop : b_.own_loops(name)) {
      if (loop.iterator == lane && last.empty()) last = loop.name;
      else order.push_back(loop.name);
    }
    if (!last.empty()) order.push_back(last);
    if (order.size() > 1) b_.apply("order", joined(order));
    for (const std::string& loop : order) {
      if (loop == last) b_.apply("vectorize ", loop);
      else if (unroll) b_.apply("unroll ", loop);
    }
  }

  // The iterator of the statement that runs along the lanes of the private buffer.
  std::string lane_iterator(const std::string& name) const {
    const Statement& statement = b_.statement(name);
    if (statement.write.buffer == macc().write.buffer) {
      return outer_part(statement.write.index.back().affine);
    }
    for (const Access& load : loads_of(statement)) {
      if (load.buffer == macc().write.buffer) return outer_part(load.index.back().affine);
    }
    // Along what an earlier epilogue wrote: the innermost of the write.
    for (const Iterator& iterator : statement.iterators) {
      if (element_stride(kernel(), statement.write, iterator.name) == 1) return iterator.name;
    }
    return "";
  }

  void unroll_reductions(const std::vector<std::string>& reductions, const std::string& columns,
                         int64_t vectors) {
    if (reductions.empty()) return;
    auto loop = [&](const std::string& iterator) { return macc_ + "_" + iterator; };
    double copies = static_cast<double>(vectors) *
                    static_cast<double>(columns.empty() ? 1 : choice_.tile.columns);
    const std::string& last = reductions.back();
    const bool window = is_window(last, columns);
    const int64_t extent = extent_or(macc(), last, 0);
    const bool channels = reductions.size() > 1 && !window;
    if (!window) {
      const int64_t wanted = copies >= 16 ? 4 : 8;
      if (extent == 0 || extent >= wanted) {
        b_.apply("unroll ", loop(last), " ", wanted);
        copies *= static_cast<double>(wanted);
      } else if (extent > 1) {
        b_.apply("unroll ", loop(last));
        copies *= static_cast<double>(extent);
      }
    }
    // Windows along the columns: unrolled, their conditions are decided while compiling. Rolled where
    // the same broadcast would serve several columns (the innermost loop of a first layer).
    for (const std::string& name : reductions) {
      if (name == last && !window) continue;
      const int64_t size = extent_or(macc(), name, 0);
      if (!is_window(name, columns) || size == 0) continue;
      const bool broadcast = shares_broadcasts(name, columns);
      const bool worth = name == last ? !broadcast : constrained(columns) && channels;
      if (worth && copies * static_cast<double>(size) <= kMostCopies) {
        b_.apply("unroll ", loop(name));
        copies *= static_cast<double>(size);
      }
    }
  }

  // Whether the load along the window is a scalar that is broadcast to the lanes.
  bool shares_broadcasts(const std::string& window, const std::string& columns) const {
    for (const Access& load : loads_of(macc())) {
      for (const Subscript& subscript : load.index) {
        if (subscript.affine.coefficient(window) == 0 || subscript.affine.coefficient(columns) == 0) continue;
        if (!depends_on(load, b_.all_loops(macc_).back().iterator)) return true;
      }
    }
    return false;
  }

  // Lanes along the reduction: partial sums, added up at the end.
  void schedule_over_reduction() {
    const std::string vector = choice_.vector;
    auto loop = [&](const std::string& iterator) { return macc_ + "_" + iterator; };
    const int64_t extent = extent_or(macc(), vector, 1);
    // The vector counts outputs of one more iterator as its copies.
    std::string rows = "";
    for (const std::string& name : outputs()) {
      if (name != choice_.columns) rows = name;
    }
    const int64_t lanes = std::min(choice_.lanes, extent);
    const bool whole = extent <= lanes;
    std::string inner = loop(vector), outer;
    if (!whole) {
      outer = loop(vector) + "_o";
      inner = loop(vector) + "_i";
      b_.apply("split ", loop(vector), " ", lanes, " as ", outer, " ", inner);
    }
    std::vector<std::string> order, inside;
    auto tile = [&](const std::string& name, int64_t size) {
      b_.apply("split ", loop(name), " ", size, " as ", loop(name), "_o ", loop(name), "_i");
      inside.push_back(loop(name) + "_i");
    };
    const int64_t columns = choice_.columns.empty() ? 1 : choice_.tile.columns;
    int64_t row_copies = 1;
    if (!rows.empty()) {
      const int64_t room = std::max<int64_t>(1, b_.target().vector_registers / 2);
      row_copies = std::clamp<int64_t>(room / std::max<int64_t>(1, columns * 2), 1, 4);
      row_copies = std::min(row_copies, extent_or(macc(), rows, kAssumedSymbolic));
    }
    for (const std::string& name : outputs()) {
      if (name == choice_.columns && columns > 1) tile(name, columns);
      else if (name == rows && row_copies > 1) tile(name, row_copies);
      const bool tiled = !inside.empty() && inside.back() == loop(name) + "_i";
      order.push_back(tiled ? loop(name) + "_o" : loop(name));
    }
    const std::string around = order.empty() ? "" : order.back();
    for (const std::string& name : reduction_order("")) {
      if (name != vector) order.push_back(loop(name));
    }
    if (!outer.empty()) order.push_back(outer);
    order.insert(order.end(), inside.begin(), inside.end());
    order.push_back(inner);
    if (order.size() > 1) b_.apply("order", joined(order));
    if (!around.empty()) b_.apply("compute_at ", init_, joined(tails_), " at ", around);
    auto scalar = [&](const std::string& name) {
      for (const Builder::Loop& each : b_.own_loops(name)) b_.apply("unroll ", each.name);
    };
    scalar(init_);
    for (const std::string& name : tails_) scalar(name);
    b_.apply("register_tile ", around.empty() ? "root" : around);
    b_.apply("vectorize ", inner);
    for (const std::string& name : inside) b_.apply("unroll ", name);
    if (!around.empty()) b_.apply("isolate ", around);
    for (const std::string& name : inside) {
      const std::string other = name.substr(0, name.size() - 1) + "o";
      if (other != around) b_.apply("isolate ", other);
    }
  }

  Builder& b_;
  std::string init_, macc_;
  std::vector<std::string> tails_;
  Choice choice_;
  std::string vector_outer_;
};

}  // namespace

void schedule_reduction(Builder& builder) { ReductionScheduler(builder).run(); }

}  // namespace tc
