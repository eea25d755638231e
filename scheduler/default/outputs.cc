// A reduction with lanes along an output: register tiles of vectors by columns.
#include "scheduler/default/reduction.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tc {
namespace {

constexpr double kMostCopies = 900;        // multiply-adds of one tile's straight-line code
constexpr double kMostOfWindow = 128;      // the same, of a window whose elements are used once or twice
// Of the second cache: a panel of constants that leaves too little for what it is multiplied by, the part
// of it that does not, and the sums that wait in memory meanwhile.
constexpr double kLargePanel = 0.4, kPartOfPanel = 0.15, kWaitingSums = 0.25;

}  // namespace

double ReductionScheduler::bytes_of(const Access& access) const {
  double bytes = 1;
  const Buffer& buffer = kernel().buffers[static_cast<size_t>(access.buffer)];
  for (const Affine& size : buffer.shape) {
    bytes *= size.is_constant() ? static_cast<double>(size.constant()) : kAssumedSymbolic;
  }
  return bytes * static_cast<double>(size_of(buffer.dtype));
}

bool ReductionScheduler::vector_outermost(double vector_trips, double other_trips) const {
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

void ReductionScheduler::schedule_over_outputs() {
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
  // Where the tile takes all blocks of a group, groups are what counts the tiles.
  if (vectors > 1 && vectors == blocks && macc().write.index[dim].affine.terms().size() > 1) {
    for (const auto& [name, coefficient] : macc().write.index[dim].affine.terms()) {
      if (name != vector_outer_) group_ = name;
    }
    vector_in = std::exchange(vector_outer_, "");
  } else if (vectors > 1) {
    const std::string outer = fresh(vector_outer_ + "t"), in = fresh(vector_outer_ + "n");
    b_.apply("strip ", macc_, "_", vector_outer_, " ", vectors, " as ", outer, " ", in);
    vector_outer_ = outer;
    vector_in = in;
  }
  const int64_t trips = (blocks + vectors - 1) / vectors;
  const std::string panel_part = divide_panel(trips);
  divide_sum(columns);
  std::vector<std::string> reductions = moved(reduction_order(inner), knobs_.sum_order);
  if (!panel_part.empty()) {
    reductions.erase(std::find(reductions.begin(), reductions.end(), panel_part));
    reductions.insert(reductions.begin(), panel_part);
  }
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
  if (panel_part.empty() && !vector_outermost(static_cast<double>(trips), others)) place = outer.size();
  if (!vector_outer_.empty()) {
    outer.insert(outer.begin() + static_cast<std::ptrdiff_t>(place), vector_outer_);
  }

  pack_input(outer, reductions, vector_in, inner);
  auto loop = [&](const std::string& iterator) { return macc_ + "_" + iterator; };
  std::vector<std::string> order, inside;
  for (const std::string& name : outer) {
    order.push_back(loop(name));
    if (name == vector_outer_ && !panel_part.empty()) order.push_back(loop(panel_part));
  }
  if (!columns.empty()) {
    b_.apply("split ", loop(columns), " ", choice_.tile.columns, " as ", loop(columns), "_o ",
             loop(columns), "_i");
    order.push_back(loop(columns) + "_o");
    inside.push_back(loop(columns) + "_i");
  }
  const int64_t rows = divide_rows(outer, order, inside);
  order = moved(order, knobs_.outer_order);
  const std::string last = order.empty() ? "" : order.back();
  std::string around = last;
  const bool outside = panel_part.empty() && knobs_.outside != 0 && reductions.size() > 1 && !last.empty();
  if (knobs_.outer_block > 0) {
    if (order.size() < (outside ? 1 : 2)) throw Abandon{"one loop around the tile"};
    // So many trips of the innermost loop come before the next of the others.
    b_.apply("split ", last, " ", knobs_.outer_block, " as ", last, "_b ", last);
    order.insert(outside ? order.end() - 1 : order.begin(), last + "_b");
    if (outside) around = last + "_b";
  }
  if (outside && knobs_.outer_block > 0) order.insert(order.end() - 1, loop(reductions.front()));
  for (const std::string& name : reductions) {
    if (std::find(order.begin(), order.end(), loop(name)) == order.end()) order.push_back(loop(name));
  }
  if (!vector_in.empty()) inside.push_back(loop(vector_in));
  order.insert(order.end(), inside.begin(), inside.end());
  order.push_back(loop(inner));
  const int64_t copies = vectors * rows * (columns.empty() ? 1 : choice_.tile.columns);
  bool apart = !around.empty() && epilogue_weight() * static_cast<double>(copies) > kHeavyEpilogue;
  if (knobs_.apart != 0) apart = knobs_.apart == 2 && !around.empty();
  if (order.size() > 1) b_.apply("order", joined(order));
  std::string tile = around;
  if (outside) {
    // The sums are in memory between the blocks of what is summed.
    tile = knobs_.outer_block > 0 ? last : loop(reductions.front());
    apart = true;
  } else if (!panel_part.empty()) {
    apart = true;
  } else if (apart) {
    // A loop of one trip holds the accumulators' part; the epilogue follows in loops of its own.
    tile = around + "_t";
    b_.apply("split ", around, " 1 as ", around, " ", tile);
  }
  if (!panel_part.empty()) {
    b_.apply("compute_at ", init_, " at ", loop(vector_outer_));
    b_.apply("compute_at", joined(tails_), " at ", loop(vector_outer_));
  } else if (!around.empty()) {
    b_.apply("compute_at ", init_, " at ", outside ? around : tile);
    b_.apply("compute_at", joined(tails_), " at ", around);
  }
  if (!packed_.empty()) {
    b_.apply("compute_at ", packed_, " at ", loop(packed_at_));
    finish_packing();
  }
  finish_copies(init_, !outside && panel_part.empty());
  for (const std::string& name : tails_) finish_copies(name, !apart);
  b_.apply("register_tile ", around.empty() ? "root" : tile);
  b_.apply("vectorize ", loop(inner));
  for (const std::string& name : inside) b_.apply("unroll ", name);
  std::vector<std::string> inner_sums = reductions;
  if (outside || !panel_part.empty()) inner_sums.erase(inner_sums.begin());
  unroll_reductions(inner_sums, columns, copies);
  if (knobs_.isolate == 0) {
    // Loops whose conditions are worth a version without.
    if (!around.empty()) b_.apply("isolate ", around);
    const std::string panel = loop(vector_outer_);
    if (!vector_outer_.empty() && panel != around && panel != tile) b_.apply("isolate ", panel);
  }
  if (panel_part.empty()) prefetch_panels(others);
  else prefetch_panels(others, panel_part);
  prefetch_input(columns);
}

// Channels in blocks, outside of all loops but the panels', where the panel would fill the second cache:
// returns the iterator that counts them, or nothing.
std::string ReductionScheduler::divide_panel(int64_t panels) {
  const auto cache = static_cast<double>(b_.target().l2_bytes);
  const bool otherwise = knobs_.sum_block != 0 || knobs_.outer_order != 0 || knobs_.outer_block != 0 ||
                         knobs_.outside != 0 || knobs_.apart == 1;
  if (otherwise || vector_outer_.empty() || panels < 2 * b_.threads()) return "";
  double panel = 0, uses = 1;
  std::string longest;
  for (const Access& load : loads_of(macc())) {
    if (!packable(load) || !depends_on(load, vector_outer_)) continue;
    panel = bytes_of(load) / static_cast<double>(panels);
    for (const Iterator& iterator : macc().iterators) {
      const int64_t extent = extent_or(macc(), iterator.name, 0);
      if (extent == 0) return "";
      if (!depends_on(load, iterator.name)) uses *= static_cast<double>(extent);
      if (is_output(iterator.name) || !depends_on(load, iterator.name)) continue;
      if (longest.empty() || extent > extent_or(macc(), longest, 0)) longest = iterator.name;
    }
  }
  const double sums = bytes_of(macc().write) / static_cast<double>(panels);
  constexpr double kLeastUses = 32;
  if (longest.empty() || panel < kLargePanel * cache || sums > kWaitingSums * cache || uses < kLeastUses) return "";
  const int64_t extent = extent_or(macc(), longest, 1);
  const auto parts = static_cast<int64_t>(std::ceil(panel / (kPartOfPanel * cache)));
  int64_t part = (extent + parts - 1) / parts;
  while (extent % part != 0) --part;
  if (2 * part * parts < extent) return "";
  const std::string outer = fresh(longest + "p");
  b_.apply("strip ", macc_, "_", longest, " ", part, " as ", outer, " ", longest);
  return outer;
}

void ReductionScheduler::prefetch_panels(double uses, const std::string& part) {
  constexpr double kLeastUses = 2, kLeastBytes = 128 << 10;
  std::string outer = part.empty() ? vector_outer_ : part;
  if (outer.empty()) {
    // The tile takes all of a group: each has its panel.
    outer = group_;
    uses /= static_cast<double>(outer.empty() ? 1 : extent_or(macc(), outer, kAssumedSymbolic));
  }
  if (outer.empty()) return;
  auto panels = static_cast<double>(extent_or(macc(), outer, 1));
  if (!part.empty()) panels *= static_cast<double>(extent_or(macc(), vector_outer_, 1));
  if (!b_.target().prefetches || panels < 2 || uses < kLeastUses) return;
  for (const Access& load : loads_of(macc())) {
    if (!is_constant(load) || !depends_on(load, outer)) continue;
    const double bytes = bytes_of(load);
    if (bytes < kLeastBytes || bytes / panels > 0.6 * static_cast<double>(b_.target().l2_bytes)) continue;
    b_.attempt("prefetch ", kernel().buffers[static_cast<size_t>(load.buffer)].name, " ", macc_, "_", outer);
  }
}

// Where columns are about a line apart, a tile's begin in many places (each row of a window, each block of
// channels) whose next lines the machine itself asks for too late: maps of 128 columns and more ran at 75 % of
// the peak.
void ReductionScheduler::prefetch_input(const std::string& columns) {
  constexpr int64_t kLine = 64;
  if (!b_.target().prefetches || columns.empty()) return;
  if (extent_or(macc(), columns, kAssumedSymbolic) <= choice_.tile.columns) return;
  for (const Access& load : loads_of(macc())) {
    const Buffer& buffer = kernel().buffers[static_cast<size_t>(load.buffer)];
    const auto step = element_stride(kernel(), load, columns);
    if (buffer.scope != Scope::Input || !step) continue;
    const int64_t bytes = *step * size_of(buffer.dtype);
    if (2 * bytes < kLine || bytes > 2 * kLine || bytes_of(load) < static_cast<double>(b_.target().l1_bytes)) continue;
    b_.attempt("prefetch ", buffer.name, " ", macc_, "_", columns, "_o");
  }
}

// The longest loop that sums, of those that step over distant elements where there are any, in
// blocks.
void ReductionScheduler::divide_sum(const std::string& columns) {
  if (knobs_.sum_block == 0) return;
  std::string longest;
  int64_t most = knobs_.sum_block;
  for (const Iterator& iterator : macc().iterators) {
    if (is_output(iterator.name) || is_window(iterator.name, columns)) continue;
    const int64_t extent = extent_or(macc(), iterator.name, 0);
    if (extent <= most) continue;
    most = extent;
    longest = iterator.name;
  }
  if (longest.empty()) throw Abandon{"no sum as long as two blocks"};
  b_.apply("strip ", macc_, "_", longest, " ", knobs_.sum_block, " as ", fresh(longest + "b"), " ",
           longest);
}

// A tile of rows as well; returns their number.
int64_t ReductionScheduler::divide_rows(const std::vector<std::string>& outer,
                                        std::vector<std::string>& order,
                                        std::vector<std::string>& inside) {
  if (knobs_.rows <= 1) return 1;
  std::string row;
  for (const std::string& name : outer) {
    if (name != vector_outer_ && extent_or(macc(), name, kAssumedSymbolic) > 1) row = name;
  }
  if (row.empty()) throw Abandon{"no rows"};
  const std::string loop = macc_ + "_" + row;
  b_.apply("split ", loop, " ", knobs_.rows, " as ", loop, "_o ", loop, "_i");
  std::replace(order.begin(), order.end(), loop, loop + "_o");
  inside.insert(inside.begin(), loop + "_i");
  return knobs_.rows;
}

bool ReductionScheduler::shares_dimension(const std::string& iterator, size_t dim) const {
  if (dim < macc().write.index.size() && macc().write.index[dim].affine.coefficient(iterator) != 0) return true;
  // A batch dimension comes before.
  for (size_t d = 0; d < dim; ++d) {
    if (macc().write.index[d].affine.coefficient(iterator) != 0) return true;
  }
  return false;
}

void ReductionScheduler::pad_constants(size_t dim) {
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

void ReductionScheduler::pack_constants(const std::vector<std::string>& reductions,
                                        const std::string& vector_in, const std::string& inner, bool no_columns) {
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

bool ReductionScheduler::is_packable_input(const Access& access, const std::string& lane,
                                           const std::string& columns) const {
  const bool dynamic = std::any_of(access.index.begin(), access.index.end(), [](const Subscript& each) { return each.dynamic; });
  const auto step = element_stride(kernel(), access, lane);
  // A window's copy would hold each element as often as windows overlap.
  const bool window = std::any_of(access.index.begin(), access.index.end(), [&](const Subscript& each) {
    bool sum = false, output = false;
    for (const auto& [name, coefficient] : each.affine.terms()) (is_output(name) ? output : sum) = true;
    return sum && output;
  });
  // Padded lanes of what leaves the kernel are to be finite, which those of a copy need not be.
  const bool padded = std::any_of(b_.state().blocked.begin(), b_.state().blocked.end(), [&](const BlockedDim& dim) {
    const int buffer = kernel().buffer_index(dim.buffer);
    const bool leaves = kernel().buffers[static_cast<size_t>(buffer)].scope == Scope::Output;
    return leaves && (!dim.extent.is_constant() || dim.extent.constant() % dim.block != 0);
  });
  return kernel().buffers[static_cast<size_t>(access.buffer)].scope == Scope::Input && !dynamic && !window && !padded &&
         times_read(access.buffer) == 1 && step && *step > 1 && (columns.empty() || !depends_on(access, columns));
}

void ReductionScheduler::pack_input(const std::vector<std::string>& outer, const std::vector<std::string>& reductions,
                                     const std::string& vector_in, const std::string& inner) {
  if (knobs_.outer_order != 0 || knobs_.outer_block != 0 || knobs_.outside != 0 || knobs_.rows > 1) return;
  for (const Access& load : loads_of(macc())) {
    if (!is_packable_input(load, inner, choice_.columns)) continue;
    // Loops inside of all that it depends on read it again.
    size_t last = outer.size();
    for (size_t i = 0; i < outer.size(); ++i) {
      if (depends_on(load, outer[i])) last = i;
    }
    if (last == outer.size()) continue;
    double again = 1;
    for (size_t i = last + 1; i < outer.size(); ++i) again *= static_cast<double>(extent_or(macc(), outer[i], kAssumedSymbolic));
    if (!choice_.columns.empty()) {
      again *= std::ceil(static_cast<double>(extent_or(macc(), choice_.columns, kAssumedSymbolic)) / static_cast<double>(choice_.tile.columns));
    }
    if (again < 2) continue;
    std::string line = "pack " + kernel().buffers[static_cast<size_t>(load.buffer)].name + " :";
    auto add = [&](const std::string& name) {
      if (!name.empty() && depends_on(load, name)) line += " " + name;
    };
    for (const std::string& name : outer) add(name);
    for (const std::string& name : reductions) add(name);
    add(vector_in);
    add(inner);
    if (!b_.attempt(line)) continue;
    packed_ = kernel().statements.front().name;
    packed_at_ = outer[last];
    return;
  }
}

void ReductionScheduler::finish_packing() {
  const Statement& copy = b_.statement(packed_);
  const std::string lane = lane_iterator(packed_);
  const Access load = loads_of(copy).front();
  std::string along, lane_loop;
  for (const Iterator& iterator : copy.iterators) {
    const bool fills_lanes = extent_or(copy, iterator.name, 0) >= choice_.lanes;
    if (iterator.name != lane && fills_lanes && element_stride(kernel(), load, iterator.name) == 1) along = iterator.name;
  }
  // Vectors of a length that only the machine knows are not transposed.
  if (along.empty() || b_.target().vector_bits == 0 || b_.target().scalable) {
    finish_copies(packed_, false);
    return;
  }
  std::vector<std::string> order;
  for (const TraceBuilder::Loop& loop : b_.own_loops(packed_)) {
    if (loop.iterator == lane) lane_loop = loop.name;
    else if (loop.iterator != along) order.push_back(loop.name);
  }
  const std::string row = packed_ + "_" + along;
  b_.apply("split ", row, " ", choice_.lanes, " as ", row, "_o ", row, "_i");
  order.insert(order.end(), {row + "_o", lane_loop, row + "_i"});
  b_.apply("order", joined(order));
  b_.apply("unroll ", lane_loop);
  b_.apply("vectorize ", row, "_i");
}

void ReductionScheduler::finish_copies(const std::string& name, bool unroll) {
  const std::string lane = lane_iterator(name);
  std::vector<std::string> order;
  std::string last;
  for (const TraceBuilder::Loop& loop : b_.own_loops(name)) {
    if (loop.iterator != lane || !last.empty()) {
      order.push_back(loop.name);
      continue;
    }
    last = loop.name;
    if (!loop.extent || *loop.extent <= choice_.lanes) continue;
    // Of an epilogue that reads nothing in blocks, all of a tile's vectors; what it reads is in registers of one each.
    b_.apply("split ", last, " ", choice_.lanes, " as ", last, "_v ", last);
    order.push_back(last + "_v");
  }
  if (!last.empty()) order.push_back(last);
  if (order.size() > 1) b_.apply("order", joined(order));
  for (const std::string& loop : order) {
    if (loop == last) b_.apply("vectorize ", loop);
    else if (unroll) b_.apply("unroll ", loop);
  }
}

std::string ReductionScheduler::lane_iterator(const std::string& name) const {
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

void ReductionScheduler::unroll_reductions(const std::vector<std::string>& reductions,
                                           const std::string& columns, int64_t tile) {
  if (reductions.empty()) return;
  auto loop = [&](const std::string& iterator) { return macc_ + "_" + iterator; };
  auto copies = static_cast<double>(tile);
  double all = copies;
  for (const std::string& name : reductions) all *= static_cast<double>(extent_or(macc(), name, INT32_MAX));
  if (knobs_.unroll == 0 && knobs_.windows == 0 && all <= kMostOfWindow && is_window_alone()) {
    for (const std::string& name : reductions) b_.apply("unroll ", loop(name));
    return;
  }
  const std::string lane = outer_part(macc().write.index.back().affine);
  std::vector<std::string> whole;
  for (const std::string& name : reductions) {
    const auto extent = static_cast<double>(extent_or(macc(), name, 0));
    if (!moves_groups(name) && (!cuts_lanes(name, lane) || extent == 0 || copies * extent > kMostCopies)) continue;
    b_.apply("unroll ", loop(name));
    whole.push_back(name);
    copies *= std::max(1.0, extent);
  }
  const std::string& last = reductions.back();
  const auto is_whole = [&](const std::string& name) { return std::find(whole.begin(), whole.end(), name) != whole.end(); };
  const bool window = is_window(last, columns);
  const int64_t extent = extent_or(macc(), last, 0);
  const bool channels = reductions.size() > 1 && !window;
  if (!window && !is_whole(last)) {
    const int64_t wanted = knobs_.unroll > 0 ? knobs_.unroll : copies >= 16 ? 4 : 8;
    if (wanted == 1 || copies * static_cast<double>(wanted) > kMostCopies) {
      // A loop.
    } else if (extent == 0 || extent >= wanted) {
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
    if (!is_window(name, columns) || size == 0 || is_whole(name)) continue;
    const bool broadcast = shares_broadcasts(name, columns);
    bool worth = name == last ? !broadcast : constrained(columns) && channels;
    if (knobs_.windows != 0) worth = knobs_.windows == 2;
    if (worth && copies * static_cast<double>(size) <= kMostCopies) {
      b_.apply("unroll ", loop(name));
      copies *= static_cast<double>(size);
    }
  }
}

bool ReductionScheduler::shares_broadcasts(const std::string& window,
                                           const std::string& columns) const {
  for (const Access& load : loads_of(macc())) {
    for (const Subscript& subscript : load.index) {
      if (subscript.affine.coefficient(window) == 0 || subscript.affine.coefficient(columns) == 0) continue;
      if (!depends_on(load, b_.all_loops(macc_).back().iterator)) return true;
    }
  }
  return false;
}

}  // namespace tc
