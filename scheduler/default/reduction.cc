// The default for one reduction with its initialisation and epilogue: convolution, matrix products,
// depthwise, pooling, row sums.
#include "scheduler/default/reduction.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tc {
namespace {

// Whether the subscript has a part that is computed from iterators alone, as `join` makes them.
bool is_computed(const Subscript& subscript) {
  if (!subscript.dynamic) return false;
  bool loads = false;
  for_each_load(subscript.dynamic, [&](const Expr&) { loads = true; });
  return !loads;
}

int64_t widest_tile(const Target& target) {
  int columns = 1;
  for (const auto& [vectors, width] : target.tiles) columns = std::max(columns, width);
  return columns;
}

}  // namespace

TraceBuilder ReductionScheduler::run(const ReductionChoice& choice, const ReductionKnobs& knobs) {
  knobs_ = knobs;
  take(choice);
  if (choice_.over_reduction) {
    schedule_over_reduction();
  } else {
    schedule_over_outputs();
  }
  b_.parallelise(knobs_.parallel);
  return b_;
}

Choice ReductionScheduler::with_tile(const ReductionChoice& choice) const {
  ReductionScheduler copy = *this;
  copy.take(choice);
  return copy.choice_;
}

ReductionScheduler::ReductionScheduler(const TraceBuilder& start) : b_(start) {
  find_statements();
  stage();
  join_groups();
  align();
  merge();
}

const Statement& ReductionScheduler::macc() const { return b_.statement(macc_); }

const Kernel& ReductionScheduler::kernel() const { return b_.kernel(); }

void ReductionScheduler::find_statements() {
  const auto& statements = kernel().statements;
  for (size_t i = 0; i < statements.size(); ++i) {
    if (statements[i].reduction == Reduction::None) continue;
    if (!macc_.empty()) throw Abandon{"more than one reduction"};
    if (!is_relaxed(statements[i])) throw Abandon{"a reduction that reads itself"};
    macc_ = statements[i].name;
  }
  if (macc_.empty()) throw Abandon{"no reduction"};
  for (const Iterator& iterator : macc().iterators) {
    if (extent_or(macc(), iterator.name, 1) == 0) throw Abandon{"a reduction of nothing"};
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

void ReductionScheduler::stage() {
  const Buffer& buffer = kernel().buffers[static_cast<size_t>(macc().write.buffer)];
  if (buffer.scope != Scope::Output) return;
  const size_t count = kernel().statements.size();
  b_.apply("stage ", buffer.name);
  TC_CHECK(kernel().statements.size() == count + 1);
  tails_.push_back(kernel().statements.back().name);
}

int64_t ReductionScheduler::block_of(size_t dim) const {
  const int64_t own = b_.block_in(macc(), macc().write.index[dim].affine);
  return own > 0 ? own : b_.block_read(macc().write.buffer, dim);
}

void ReductionScheduler::align() {
  for (const std::string& tail : tails_) {
    for (const Access& load : loads_of(b_.statement(tail))) {
      if (load.buffer != macc().write.buffer) continue;
      for (size_t d = 0; d < load.index.size(); ++d) {
        auto terms = load.index[d].affine.terms();
        std::sort(terms.begin(), terms.end(), [](const auto& x, const auto& y) { return x.second > y.second; });
        // The finest step may be that of a blocked layout: the buffer gets it too.
        const size_t parts = terms.size() - (b_.block_in(b_.statement(tail), load.index[d].affine) > 0);
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

void ReductionScheduler::join_groups() {
  const Buffer target = kernel().buffers[static_cast<size_t>(macc().write.buffer)];
  for (size_t d = 0; d < macc().write.index.size(); ++d) {
    const BlockedDim* own = nullptr;
    for (const BlockedDim& dim : b_.state().blocked) {
      if (dim.buffer == target.name && dim.inner == d) own = &dim;
    }
    int64_t block = own != nullptr ? own->block : block_of(d);
    if (block == 0) {
      // One block holds all.
      for (const BlockedDim& dim : b_.state().blocked) {
        if (target.shape[d] == Affine(dim.block)) block = dim.block;
      }
    }
    if (block > 1 && join_along(macc_, d, block)) join_along(init_, d, block);
  }
}

bool ReductionScheduler::join_along(const std::string& name, size_t dim, int64_t block) {
  const Statement& statement = b_.statement(name);
  const Affine& index = statement.write.index[dim].affine;
  const std::string finest = outer_part(index);
  const int64_t size = finest.empty() ? 0 : extent_or(statement, finest, 0);
  if (size < 2 || size >= block || block % size != 0) return false;
  for (const auto& [group, coefficient] : index.terms()) {
    if (coefficient != size) continue;
    const int64_t groups = extent_or(statement, group, 0);
    if (groups % (block / size) != 0) return false;
    const std::string loop = name + "_" + group;
    if (groups > block / size) b_.apply("strip ", loop, " ", block / size, " as ", fresh(group + "b"), " ", group);
    return b_.attempt("join ", loop, " ", name, "_", finest, " as ", finest);
  }
  return false;
}

void ReductionScheduler::merge() {
  for (size_t i = macc().iterators.size(); i-- > 1;) {
    const std::string a = macc().iterators[i - 1].name, b = macc().iterators[i].name;
    b_.attempt("merge ", macc_, "_", a, " ", macc_, "_", b, " as ", b);
  }
}

bool ReductionScheduler::is_output(const std::string& iterator) const {
  return depends_on(macc().write, iterator);
}

std::vector<std::string> ReductionScheduler::outputs() const {
  std::vector<std::string> result;
  for (const Iterator& iterator : macc().iterators) {
    if (is_output(iterator.name)) result.push_back(iterator.name);
  }
  return result;
}

bool ReductionScheduler::is_constant(const Access& access) const {
  return kernel().buffers[static_cast<size_t>(access.buffer)].scope == Scope::Constant;
}

int ReductionScheduler::times_read(int buffer) const {
  int count = 0;
  for (const Statement& statement : kernel().statements) {
    for_each_load(statement.value, [&](const Expr& load) { count += load.access.buffer == buffer; });
  }
  return count;
}

bool ReductionScheduler::packable(const Access& access) const {
  if (!is_constant(access) || times_read(access.buffer) != 1) return false;
  for (const Subscript& subscript : access.index) {
    if (subscript.dynamic) return false;
  }
  return true;
}

std::optional<size_t> ReductionScheduler::dimension_of(const std::string& iterator) const {
  std::optional<size_t> result;
  for (size_t d = 0; d < macc().write.index.size(); ++d) {
    const int64_t coefficient = macc().write.index[d].affine.coefficient(iterator);
    if (coefficient == 0) continue;
    if (coefficient != 1 || result) return std::nullopt;
    result = d;
  }
  return result;
}

const BlockedDim* ReductionScheduler::blocked_dim(const Access& access, size_t inner) const {
  const std::string& name = kernel().buffers[static_cast<size_t>(access.buffer)].name;
  for (const BlockedDim& dim : b_.state().blocked) {
    if (dim.buffer == name && dim.inner == inner) return &dim;
  }
  return nullptr;
}

bool ReductionScheduler::is_blocked(int buffer) const {
  const std::string& name = kernel().buffers[static_cast<size_t>(buffer)].name;
  return std::any_of(b_.state().blocked.begin(), b_.state().blocked.end(),
                     [&](const BlockedDim& dim) { return dim.buffer == name; });
}

double ReductionScheduler::store_cost(const std::string& vector, int64_t lanes) const {
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

double ReductionScheduler::epilogue_loads() const {
  double count = 0;
  for (const std::string& tail : tails_) {
    for (const Access& load : loads_of(b_.statement(tail))) {
      const Scope scope = kernel().buffers[static_cast<size_t>(load.buffer)].scope;
      count += scope == Scope::Input || scope == Scope::Constant;
    }
  }
  return count;
}

double ReductionScheduler::epilogue_weight() const {
  double weight = 0;
  for (const std::string& tail : tails_) weight += weight_of(b_.statement(tail).value);
  return weight;
}

TileProblem ReductionScheduler::problem_for(const std::string& vector, const std::string& columns,
                                            int64_t lanes) const {
  TileProblem problem;
  problem.lanes = static_cast<int>(lanes);
  problem.element_bytes = static_cast<int>(std::max<int64_t>(4, size_of(
      kernel().buffers[static_cast<size_t>(macc().write.buffer)].dtype)));
  problem.epilogue_loads = epilogue_loads();
  constexpr double kLongEpilogue = 20;   // of so many operations: it has constants that LLVM keeps in registers
  problem.held = epilogue_weight() > kLongEpilogue ? 1 : 0;
  problem.threads = b_.threads();
  for (const Iterator& iterator : macc().iterators) {
    const auto extent = static_cast<double>(extent_or(macc(), iterator.name, kAssumedSymbolic));
    if (iterator.name == vector) {
      if (is_output(vector)) {
        problem.blocks = static_cast<int64_t>(std::ceil(extent / static_cast<double>(lanes)));
        problem.partial = static_cast<int64_t>(extent) % lanes != 0;
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

bool ReductionScheduler::reads_packed(const Access& load, const std::string& vector, const std::string& columns) const {
  // Tiles of all widths read a packed input again.
  return !columns.empty() && is_packable_input(load, vector, columns) &&
         extent_or(macc(), columns, kAssumedSymbolic) >= 2 * widest_tile(b_.target());
}

bool ReductionScheduler::crosses_pages(const Access& load) const {
  constexpr int64_t kPage = 4096, kEntries = 64;   // bytes; pages whose addresses the first level of the TLB knows
  const Buffer& buffer = kernel().buffers[static_cast<size_t>(load.buffer)];
  return std::any_of(macc().iterators.begin(), macc().iterators.end(), [&](const Iterator& iterator) {
    const auto stride = element_stride(kernel(), load, iterator.name);
    return !is_output(iterator.name) && stride && std::abs(*stride) * size_of(buffer.dtype) >= kPage &&
           extent_or(macc(), iterator.name, kAssumedSymbolic) > kEntries;
  });
}

TileProblem::Operand ReductionScheduler::operand_for(const Access& load, const std::string& vector,
                                                     const std::string& columns,
                                                     int64_t lanes) const {
  TileProblem::Operand operand;
  operand.along_vector = depends_on(load, vector);
  operand.along_columns = !columns.empty() && depends_on(load, columns);
  operand.once = packable(load) && bytes_of(load) > static_cast<double>(b_.target().l1_bytes) / 2;
  for (const std::string& name : outputs()) {
    const bool again = extent_or(macc(), name, kAssumedSymbolic) > 1 && !depends_on(load, name);
    operand.once = operand.once && !again;
  }
  operand.streams = packable(load) && !operand.along_columns && !operand.once;
  const auto stride = element_stride(kernel(), load, vector);
  if (operand.along_vector && stride != 1 && !packable(load) && !reads_packed(load, vector, columns)) {
    operand.vector_cost = 1.5 * static_cast<double>(lanes);
  }
  if (operand.along_columns && !operand.along_vector) {
    const Buffer& buffer = kernel().buffers[static_cast<size_t>(load.buffer)];
    operand.column_bytes = element_stride(kernel(), load, columns).value_or(0) * size_of(buffer.dtype);
  }
  if (operand.along_vector && !stride && std::any_of(load.index.begin(), load.index.end(), is_computed)) {
    operand.vector_cost = operand.taps = 1;
    for (const Iterator& iterator : macc().iterators) {
      if (is_output(iterator.name) || !is_window(iterator.name, columns)) continue;
      operand.taps = static_cast<double>(extent_or(macc(), iterator.name, 1));
    }
  }
  return operand;
}

ReductionChoice ReductionScheduler::choice_for(const std::string& vector, const std::string& columns, const std::string& outer,
                                               int64_t width) const {
  const bool over_reduction = !is_output(vector);
  TileProblem problem = problem_for(vector, columns, width);
  if (!outer.empty()) {
    problem.blocks = extent_or(macc(), outer, 1);
    problem.others /= static_cast<double>(problem.blocks);
  }
  constexpr double kAcrossPages = 1.15, kOverReduction = 1.1;
  constexpr double kUnknownBatch = 4;   // may be one, and leave a tile's other columns empty
  double preference = over_reduction ? kOverReduction : 1;
  for (const Access& load : loads_of(macc())) {
    if (!over_reduction && !depends_on(load, vector) && crosses_pages(load)) preference = kAcrossPages;
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
  const bool unknown_batch = !columns.empty() && columns == outputs().front() && extent_or(macc(), columns, 0) == 0;
  ReductionChoice choice{{over_reduction, vector, columns, width, {}}, problem, preference, 1,
                         outputs().size() - (outer.empty() ? 0 : 1)};
  for (const std::string& name : outputs()) {
    if (name == vector || name == columns || name == outer) continue;
    choice.rows = extent_or(macc(), name, kAssumedSymbolic);
    if (unknown_batch && choice.rows > 1) choice.preference = kUnknownBatch * preference;
  }
  return choice;
}

std::vector<ReductionChoice> ReductionScheduler::choices() const {
  std::vector<ReductionChoice> result;
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
        bool divides = true;
        for (const auto& [name, coefficient] : macc().write.index[dim].affine.terms()) {
          if (coefficient == block) outer = name;
          divides = divides && (name == vector || coefficient % block == 0);
        }
        if (!divides) continue;
      } else {
        // Blocks that no group cuts; small groups as a whole.
        const Affine& index = macc().write.index[dim].affine;
        const int64_t size = iterator.extent.constant(), least = std::min<int64_t>(lanes, 4);
        for (const auto& [name, coefficient] : index.terms()) {
          if (name != vector) width = std::gcd(width, coefficient);
        }
        const bool whole = std::all_of(index.terms().begin(), index.terms().end(), [&](const auto& term) {
          return term.first == vector || term.second % size == 0;
        });
        if (width < least && whole && size <= lanes) width = size;
        if (width < least) continue;
        for (const auto& [name, coefficient] : index.terms()) {
          if (name != vector && coefficient == width) outer = name;
        }
      }
      if (width > 4 * lanes) continue;
    } else if (iterator.extent.constant() < 2) {
      continue;
    }
    std::vector<int64_t> widths = {width};
    const bool free = !over_reduction && outer.empty() && width == lanes && !is_blocked(macc().write.buffer);
    if (const int64_t less = b_.target().width_for(iterator.extent.constant(), width); free && less < width) widths.push_back(less);
    for (const int64_t each : widths) {
      for (const std::string& columns : column_choices) {
        if (columns != vector && (outer.empty() || columns != outer)) result.push_back(choice_for(vector, columns, outer, each));
      }
    }
  }
  if (result.empty()) throw Abandon{"no iterator to vectorise"};
  return result;
}

size_t ReductionScheduler::reductions() const {
  return macc().iterators.size() - outputs().size();
}

void ReductionScheduler::take(const ReductionChoice& choice) {
  choice_ = choice.choice;
  const bool broadcasts =
      std::any_of(choice.problem.operands.begin(), choice.problem.operands.end(), [&](const auto& operand) {
        return !operand.along_vector || operand.taps > 0;
      });
  if (!choice_.over_reduction && !broadcasts) shrink_tile();
  if (knobs_.vectors > 0) choice_.tile.vectors = knobs_.vectors;
  if (knobs_.columns > 0) choice_.tile.columns = knobs_.columns;
}

// A large tile is for broadcasts that its vectors share. Without any, no more than hides the latency: of windows along
// the columns one vector of them, as in pools and depthwise convolutions; of others where the epilogue would not fit
// in, so that it overlaps with the next tile, or where conditions on lanes need registers too. A vector of several
// registers hides it with few columns as they are.
void ReductionScheduler::shrink_tile() {
  const Target& target = b_.target();
  if (target.vector_bits == 0) return;
  TileChoice& tile = choice_.tile;
  bool cut = false, window = false;
  for (const Iterator& iterator : macc().iterators) {
    if (is_output(iterator.name)) continue;
    window = window || is_window(iterator.name, choice_.columns);
    cut = cut || cuts_lanes(iterator.name, choice_.vector);
  }
  const double parts = std::max(1.0, static_cast<double>(choice_.lanes) * 32 / target.vector_bits);
  if (window && parts > 1) return;
  const auto most = static_cast<int64_t>(std::ceil(target.latency * target.multiply_adds / parts));
  const bool heavy = epilogue_weight() * static_cast<double>(tile.vectors * tile.columns) > kHeavyEpilogue;
  if ((!heavy && !cut && !window) || tile.vectors * tile.columns <= most) return;
  if (window) {
    const int64_t extent = extent_or(macc(), choice_.columns, most), tiles = (extent + most - 1) / most;
    tile.columns = (extent + tiles - 1) / tiles;
    tile.vectors = std::clamp<int64_t>(most / tile.columns, 1, tile.vectors);
  } else {
    tile.vectors = std::min(tile.vectors, most);
    tile.columns = std::max<int64_t>(1, most / tile.vectors);
  }
}

bool ReductionScheduler::is_window_alone() const {
  const std::vector<Access> loads = loads_of(macc());
  if (loads.size() != 1) return false;
  return std::all_of(macc().iterators.begin(), macc().iterators.end(), [&](const Iterator& iterator) {
    if (is_output(iterator.name)) return true;
    return std::any_of(loads[0].index.begin(), loads[0].index.end(), [&](const Subscript& subscript) {
      const auto& terms = subscript.affine.terms();
      return subscript.affine.coefficient(iterator.name) != 0 &&
             std::any_of(terms.begin(), terms.end(), [&](const auto& term) { return is_output(term.first); });
    });
  });
}

std::string ReductionScheduler::fresh(const std::string& base) const {
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

std::vector<std::string> ReductionScheduler::reduction_order(const std::string& vector) const {
  std::vector<std::string> order, along, last;
  for (const Iterator& iterator : macc().iterators) {
    if (is_output(iterator.name)) continue;
    if (moves_groups(iterator.name)) {
      along.push_back(iterator.name);
      continue;
    }
    bool innermost = false;
    for (const Access& load : loads_of(macc())) {
      if (is_constant(load) || depends_on(load, vector)) continue;
      innermost = innermost || element_stride(kernel(), load, iterator.name) == 1;
    }
    (innermost ? last : order).push_back(iterator.name);
  }
  if (!along.empty()) {
    // What a shuffle gives serves the next columns' taps.
    const auto windows = std::stable_partition(order.begin(), order.end(), [&](const std::string& name) {
      return !is_window(name, choice_.columns);
    });
    order.insert(windows, along.begin(), along.end());
  }
  order.insert(order.end(), last.begin(), last.end());
  return order;
}

bool ReductionScheduler::is_window(const std::string& reduction, const std::string& columns) const {
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

bool ReductionScheduler::constrained(const std::string& iterator) const {
  for (const Affine& constraint : macc().constraints) {
    if (constraint.coefficient(iterator) != 0) return true;
  }
  return false;
}

bool ReductionScheduler::moves_groups(const std::string& iterator) const {
  for (const Access& load : loads_of(macc())) {
    for (const Subscript& subscript : load.index) {
      if (is_computed(subscript) && subscript.affine.coefficient(iterator) != 0) return true;
    }
  }
  return false;
}

bool ReductionScheduler::cuts_lanes(const std::string& iterator, const std::string& lane) const {
  return std::any_of(macc().constraints.begin(), macc().constraints.end(), [&](const Affine& condition) {
    if (condition.coefficient(iterator) == 0 || condition.coefficient(lane) == 0) return false;
    const auto& terms = condition.terms();
    return std::all_of(terms.begin(), terms.end(),
                       [&](const auto& term) { return term.first == lane || !is_output(term.first); });
  });
}

PreparedReduction::PreparedReduction(const TraceBuilder& start) : scheduler(start), choices(scheduler.choices()) {
  for (size_t i = 0; i < choices.size(); ++i) {
    TileChoice& tile = choices[i].choice.tile;
    tile = choose_tile(choices[i].problem, start.target());
    tile.cycles *= choices[i].preference;
    if (tile.cycles < INFINITY) by_cycles.push_back(i);
  }
  if (by_cycles.empty()) throw Abandon{"no iterator to vectorise"};
  std::stable_sort(by_cycles.begin(), by_cycles.end(), [&](size_t a, size_t b) {
    return choices[a].choice.tile.cycles < choices[b].choice.tile.cycles;
  });
}

TraceBuilder PreparedReduction::apply(ReductionKnobs& knobs, std::vector<std::string>* refused) const {
  if (knobs.choice > static_cast<int64_t>(choices.size())) throw Abandon{"no such choice"};
  if (knobs.choice > 0) return ReductionScheduler(scheduler).run(choices[static_cast<size_t>(knobs.choice - 1)], knobs);
  Abandon last;
  for (const size_t i : by_cycles) {
    try {
      TraceBuilder result = ReductionScheduler(scheduler).run(choices[i], knobs);
      knobs.choice = static_cast<int64_t>(i) + 1;
      return result;
    } catch (const Abandon& abandoned) {
      last = abandoned;
      if (refused != nullptr) refused->push_back(in_words(choices[i].choice) + ": " + abandoned.why);
    }
  }
  throw last;
}

std::string in_words(const Choice& choice) {
  std::string result = text(choice.lanes, choice.over_reduction ? " partial sums along " : " lanes along ", choice.vector);
  const TileChoice& tile = choice.tile;
  if (!choice.over_reduction) result += text(", tiles of ", tile.vectors, tile.vectors == 1 ? " vector" : " vectors");
  if (choice.columns.empty()) return result;
  return result + text(choice.over_reduction ? ", tiles of " : " by ", tile.columns,
                       tile.columns == 1 ? " column along " : " columns along ", choice.columns);
}

}  // namespace tc
