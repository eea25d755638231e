// The default for rows and for single statements: lanes along what is contiguous.
#include <algorithm>
#include <cmath>

#include "ir/scheduled.h"
#include "ir/target/narrow_product.h"
#include "ir/target/register_groups.h"
#include "scheduler/default/builder.h"

namespace tc {
namespace {

// Where lanes along `lane` store elements that are far from each other in memory: the iterator whose unrolled
// copies write the elements next to them, so that vectors can be transposed in registers and stored. Empty
// where there is none.
std::string neighbours_of(const TraceBuilder& builder, const Statement& statement, const std::string& lane,
                          int64_t lanes) {
  constexpr int64_t kMinCopies = 4;
  constexpr int kMaxWeight = 8;  // of each copy
  const Kernel& kernel = builder.kernel();
  const Buffer& buffer = kernel.buffers[static_cast<size_t>(statement.write.buffer)];
  const Target& target = builder.target();
  if (target.vector_bits == 0 || target.scalable || statement.reduction != Reduction::None) return "";
  const bool bytes = size_of(buffer.dtype) == 1;
  if (buffer.scope != Scope::Output || (size_of(buffer.dtype) != 4 && !bytes)) return "";
  // A few lanes are transposed as a whole or not at all.
  const int64_t extent = extent_or(statement, lane, lanes);
  if (extent < lanes && (extent < kMinCopies || (extent & (extent - 1)) != 0)) return "";
  const auto step = element_stride(kernel, statement.write, lane);
  if (!step || *step <= 1 || weight_of(statement.value) > kMaxWeight) return "";
  for (const Iterator& iterator : statement.iterators) {
    const int64_t copies = std::min(lanes, extent_or(statement, iterator.name, 0));
    if (iterator.name == lane || copies < kMinCopies || *step < copies) continue;
    // Bytes are transposed by fours that are side by side: blocks of few channels.
    if (bytes && (copies != kMinCopies || *step != copies)) continue;
    if (element_stride(kernel, statement.write, iterator.name) == 1) return iterator.name;
  }
  return "";
}

// Loads and stores per instance when the iterator becomes the lanes; infinite where it cannot.
double lane_cost(const TraceBuilder& builder, const Statement& statement, const std::string& iterator,
                 int64_t lanes) {
  const auto each = static_cast<double>(lanes);
  const double gathered = builder.target().gather_cost * each,
               scattered = builder.target().scatter_cost * each;
  auto cost_of = [&](const Access& access, double apart) {
    const auto stride = element_stride(builder.kernel(), access, iterator);
    if (stride == 1) return 1.0;
    return stride == 0 ? 0.5 : apart;
  };
  const bool moves = depends_on(statement.write, iterator);
  // Where only a dynamic subscript moves, lanes may write the same element, in whatever order.
  const bool scatters =
      moves && std::none_of(statement.write.index.begin(), statement.write.index.end(),
                            [&](const Subscript& each) { return each.affine.coefficient(iterator) != 0; });
  if (scatters) return INFINITY;
  double cost = 0;
  if (statement.reduction != Reduction::None) {
    if (!is_relaxed(statement)) return INFINITY;
    cost = moves ? cost_of(statement.write, scattered) : 1;
  } else {
    if (!moves) return INFINITY;
    cost = cost_of(statement.write, scattered);
    if (const std::string copies = neighbours_of(builder, statement, iterator, lanes); !copies.empty()) {
      const int64_t rows = std::min(lanes, extent_or(statement, copies, lanes));
      cost = static_cast<double>(lanes) / static_cast<double>(rows) + std::log2(static_cast<double>(lanes));
    }
  }
  for (const Access& load : loads_of(statement)) cost += cost_of(load, gathered);
  const int64_t extent = extent_or(statement, iterator, 64);
  const double used =
      static_cast<double>(extent) /
      (std::ceil(static_cast<double>(extent) / static_cast<double>(lanes)) * static_cast<double>(lanes));
  return cost / used;
}

// Rows that one trip of the common loop computes together.
constexpr int64_t kRows = 4;
constexpr const char* kRowsSuffix = "_rows";

bool is_interleaved(const std::string& loop) {
  const std::string suffix = kRowsSuffix;
  return loop.size() > suffix.size() && loop.substr(loop.size() - suffix.size()) == suffix;
}

// The loop whose iterator the lanes run along: the cheapest, or the second with the knob; empty where lanes
// gain nothing.
std::string choose_lane(const TraceBuilder& b, const Statement& statement,
                        const std::vector<TraceBuilder::Loop>& loops, int64_t width,
                        const StatementKnobs& knobs) {
  std::string lane, second;
  double best = INFINITY, second_best = INFINITY;
  for (const TraceBuilder::Loop& loop : loops) {
    if (loop.extent && *loop.extent < 2) continue;
    const double cost = lane_cost(b, statement, loop.iterator, width);
    if (cost < best || (cost == best && loop.extent)) {
      second_best = best;
      second = lane;
      best = cost;
      lane = loop.name;
    } else if (cost < second_best) {
      second_best = cost;
      second = loop.name;
    }
  }
  if (knobs.lane != 0) {
    if (second.empty()) throw NotApplicable{"no second iterator for the lanes"};
    best = second_best;
    lane = second;
  }
  if (b.target().vector_bits == 0 || best == INFINITY) return "";
  // The steps of a recurrence wait for each other: as lanes, many recurrences run at the same time, which
  // pays whatever their loads cost.
  if (continues_itself(statement)) return lane;
  // Where all elements are gathered and scattered one by one, lanes gain nothing.
  const double accesses = 1 + static_cast<double>(loads_of(statement).size());
  return best >= accesses * static_cast<double>(width) ? "" : lane;
}

// The loop whose trips are copies of vectors that are stored transposed; mostly empty.
std::string transposed_copies(const TraceBuilder& b, const Statement& statement,
                              const std::vector<TraceBuilder::Loop>& loops, const std::string& lane,
                              int64_t width) {
  std::string across;
  for (const TraceBuilder::Loop& loop : loops) {
    if (loop.name != lane) continue;
    const std::string iterator = neighbours_of(b, statement, loop.iterator, width);
    for (const TraceBuilder::Loop& other : loops) {
      if (other.iterator == iterator) across = other.name;
    }
  }
  return across;
}

// A statement's loops after they are divided, by what they become.
struct StatementLoops {
  std::vector<std::string> outer, reductions;
  std::string copies, lanes;               // unrolled, and vectors; may be empty
  std::vector<std::string> partial_loops;  // loops some of whose trips are partial
  bool symbolic_reduction = false;         // lanes along a sum of unknown length
};

// Unrolls the loop whose copies are stored transposed; divides it first where it has more than `count` trips.
void divide_copies(TraceBuilder& b, const TraceBuilder::Loop& loop, int64_t count, StatementLoops& result) {
  result.copies = loop.name;
  if (loop.extent && *loop.extent <= count) return;
  const std::string left = loop.name + "_o";
  result.copies = loop.name + "_u";
  b.apply("split ", loop.name, " ", count, " as ", left, " ", result.copies);
  result.outer.push_back(left);
  if (!loop.extent || *loop.extent % count != 0) result.partial_loops.push_back(left);
}

// Divides a loop into lanes and, where that pays, unrolled copies of vectors. Returns the loop that is left
// around them, empty where there is none.
std::string divide_lanes(TraceBuilder& b, const Statement& statement, const TraceBuilder::Loop& loop,
                         bool copied, const StatementKnobs& knobs, StatementLoops& result) {
  const int64_t width = b.lanes(statement);
  if (loop.extent && *loop.extent <= width) {
    result.lanes = loop.name;
    return "";
  }
  const std::string left = loop.name + "_o";
  result.lanes = loop.name + "_i";
  b.apply("split ", loop.name, " ", width, " as ", left, " ", result.lanes);
  const int64_t count = knobs.copies > 0 ? knobs.copies : 4;
  const int64_t trips = loop.extent ? (*loop.extent + width - 1) / width : 64;
  if (!loop.extent || *loop.extent % width != 0) result.partial_loops.push_back(left);
  const bool pays =
      knobs.copies > 0 ? count > 1 && trips >= count : trips >= 2 * count && weight_of(statement.value) < 32;
  if (!copied && statement.reduction == Reduction::None && pays) {
    result.copies = loop.name + "_u";
    b.apply("split ", left, " ", count, " as ", left, " ", result.copies);
  }
  return left;
}

StatementLoops divide_loops(TraceBuilder& b, const Statement& statement,
                            const std::vector<TraceBuilder::Loop>& loops, const StatementKnobs& knobs,
                            const std::string& lane, const std::string& across) {
  StatementLoops result;
  for (const TraceBuilder::Loop& loop : loops) {
    const bool output = depends_on(statement.write, loop.iterator) || statement.reduction == Reduction::None;
    if (output && statement.reduction != Reduction::None && is_interleaved(loop.name)) {
      result.copies = loop.name;
      continue;
    }
    if (loop.name == across) {
      divide_copies(b, loop, knobs.copies > 0 ? knobs.copies : b.lanes(statement), result);
      continue;
    }
    std::string left = loop.name;
    if (loop.name == lane) {
      left = divide_lanes(b, statement, loop, !across.empty(), knobs, result);
      if (left.empty()) continue;
      result.symbolic_reduction = result.symbolic_reduction || (!output && !loop.extent);
    }
    (output ? result.outer : result.reductions).push_back(left);
    // A condition excludes lanes or copies in some trips.
    const bool cut =
        std::any_of(statement.constraints.begin(), statement.constraints.end(), [&](const Affine& condition) {
          return condition.coefficient(loop.iterator) != 0 && condition.terms().size() > 1;
        });
    if (cut && loop.name != lane) result.partial_loops.push_back(left);
  }
  return result;
}

// Computes a long sum of floats in blocks: added up one term after the other, the mean of a map of 800 x 800
// elements was off by 1e-4 of the elements, which a normalisation by a small deviation magnifies.
void block_sum(TraceBuilder& b, const Statement& statement, const std::vector<std::string>& sums) {
  const Buffer& buffer = b.kernel().buffers[static_cast<size_t>(statement.write.buffer)];
  if (statement.reduction != Reduction::Sum || !is_float(buffer.dtype)) return;
  std::vector<TraceBuilder::Loop> loops;
  for (const TraceBuilder::Loop& loop : b.own_loops(statement.name)) {
    if (std::find(sums.begin(), sums.end(), loop.name) != sums.end()) loops.push_back(loop);
  }
  if (const auto block = block_of_long_sum(loops)) b.attempt("sum_blocks ", block->loop, " ", block->trips);
}

// Copies of a statement without vectors, which share the loop's counter and addresses, on cores whose
// products are in general-purpose registers: all trips of a short loop that writes adjacent elements, as the
// channels of a block are, else a few trips of the innermost loop.
void divide_scalars(TraceBuilder& b, const Statement& statement, const std::vector<TraceBuilder::Loop>& loops,
                    StatementLoops& result) {
  constexpr int64_t kCopies = 4;
  constexpr int kMaxWeight = 8;      // of each copy
  constexpr int64_t kFewest = 1024;  // instances that are worth the code
  int64_t instances = 1;
  for (const TraceBuilder::Loop& loop : loops) instances *= loop.extent.value_or(1);
  if (!adds_products_in_scalars(b.target()) || b.target().least_code || !result.reductions.empty() ||
      !result.copies.empty() || statement.reduction != Reduction::None ||
      weight_of(statement.value) > kMaxWeight || instances < kFewest)
    return;
  const auto block = std::find_if(loops.begin(), loops.end(), [&](const TraceBuilder::Loop& loop) {
    return loop.extent && *loop.extent <= kCopies &&
           element_stride(b.kernel(), statement.write, loop.iterator) == 1;
  });
  if (block != loops.end()) {
    result.copies = block->name;
    result.outer.erase(std::find(result.outer.begin(), result.outer.end(), block->name));
    return;
  }
  const TraceBuilder::Loop& last = loops.back();
  if (!last.extent || *last.extent % kCopies != 0 || result.outer.back() != last.name) return;
  result.outer.pop_back();
  divide_copies(b, last, kCopies, result);
}

// A few trips of the innermost loop around lanes that are the channels of a block of bytes: where one vector
// holds several such blocks, code moves them together.
void divide_blocks(TraceBuilder& b, const Statement& statement, const std::vector<TraceBuilder::Loop>& loops,
                   StatementLoops& result) {
  constexpr int64_t kBlocks = 4;
  const Buffer& buffer = b.kernel().buffers[static_cast<size_t>(statement.write.buffer)];
  if (!sums_are_scalars(b.target().matrix) || b.target().least_code || size_of(buffer.dtype) != 1 ||
      statement.reduction != Reduction::None || !result.copies.empty() || result.outer.empty())
    return;
  const auto named = [&](const std::string& name) {
    return std::find_if(loops.begin(), loops.end(),
                        [&](const TraceBuilder::Loop& loop) { return loop.name == name; });
  };
  const auto lanes = named(result.lanes), last = named(result.outer.back());
  if (lanes == loops.end() || lanes->extent != kBlocks ||
      element_stride(b.kernel(), statement.write, lanes->iterator) != 1)
    return;
  if (last == loops.end() || !last->extent || *last->extent % kBlocks != 0) return;
  result.outer.pop_back();
  divide_copies(b, *last, kBlocks, result);
}

// The order of the loops around the vectors. Lanes that are not contiguous use one element of each cache
// line; the loop over the other elements of these lines becomes the innermost, so that a line is used up
// while the first cache holds it. Targets whose vectors are not scalable transpose such vectors in registers
// instead (`neighbours_of`). Reductions keep their order, since the loops over what they sum stay inside of
// all of these loops.
std::vector<std::string> neighbours_last(const TraceBuilder& b, const Statement& statement,
                                         const std::vector<TraceBuilder::Loop>& loops,
                                         const std::string& lane, std::vector<std::string> outer) {
  if (!b.target().scalable || lane.empty() || statement.reduction != Reduction::None) return outer;
  const auto iterator_of = [&](const std::string& name) {
    const auto found = std::find_if(loops.begin(), loops.end(),
                                    [&](const TraceBuilder::Loop& each) { return each.name == name; });
    return found == loops.end() ? std::string() : found->iterator;
  };
  const std::string along = iterator_of(lane);
  std::vector<Access> accesses = loads_of(statement);
  accesses.push_back(statement.write);
  const auto moves_neighbours = [&](const std::string& name) {
    const std::string iterator = iterator_of(name);
    return !iterator.empty() && std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      const auto apart = element_stride(b.kernel(), access, along);
      return apart && *apart > 1 && element_stride(b.kernel(), access, iterator) == 1;
    });
  };
  std::stable_partition(outer.begin(), outer.end(),
                        [&](const std::string& name) { return !moves_neighbours(name); });
  return outer;
}

}  // namespace

void schedule_statement(TraceBuilder& b, const std::string& name, const StatementKnobs& knobs, bool isolate) {
  const Statement statement = b.statement(name);
  const std::vector<TraceBuilder::Loop> loops = b.own_loops(name);
  if (loops.empty()) return;
  const int64_t width = b.lanes(statement);
  const std::string lane = choose_lane(b, statement, loops, width, knobs);
  const std::string across = knobs.copies == 1 ? "" : transposed_copies(b, statement, loops, lane, width);
  StatementLoops divided = divide_loops(b, statement, loops, knobs, lane, across);
  if (lane.empty() && knobs.copies == 0) divide_scalars(b, statement, loops, divided);
  if (knobs.copies == 0 && loads_of(statement).size() == 1) divide_blocks(b, statement, loops, divided);
  const std::vector<std::string> near = neighbours_last(b, statement, loops, lane, divided.outer);
  const std::vector<std::string> outer = moved(near, knobs.order);
  std::vector<std::string> order = outer;
  order.insert(order.end(), divided.reductions.begin(), divided.reductions.end());
  if (!divided.copies.empty()) order.push_back(divided.copies);
  if (!divided.lanes.empty()) order.push_back(divided.lanes);
  if (order.size() > 1) b.apply("order", joined(order));
  if (!divided.reductions.empty()) {
    if (outer.empty()) b.attempt("register_tile ", name);
    else b.apply("register_tile ", outer.back());
  }
  if (!divided.lanes.empty()) b.apply("vectorize ", divided.lanes);
  if (!divided.copies.empty()) b.apply("unroll ", divided.copies);
  if (!divided.symbolic_reduction) block_sum(b, statement, divided.reductions);
  if (!isolate || outer.empty() || divided.lanes.empty()) return;
  // Where the loops were reordered, the loop whose last trip has fewer lanes or copies need not be the
  // innermost.
  const std::string left = lane + "_o";
  const bool was_moved = near != divided.outer && std::find(outer.begin(), outer.end(), left) != outer.end();
  b.apply("isolate ", was_moved ? left : outer.back());
  // A partial last trip can be stored transposed only where the numbers of its copies and lanes are known.
  for (const std::string& rest : divided.partial_loops) {
    if (!across.empty() && rest != outer.back()) b.apply("isolate ", rest);
  }
}

namespace {

void schedule_all(TraceBuilder& b, const std::vector<std::string>& names, const RowKnobs& knobs) {
  for (size_t i = 0; i < names.size(); ++i) {
    schedule_statement(b, names[i], i < knobs.statements.size() ? knobs.statements[i] : StatementKnobs{},
                       knobs.isolate == 0);
  }
}

// Moves the loop that makes the best lanes to the last place in all statements, where it is the same one in
// all, so that it is not fused.
void put_lanes_last(TraceBuilder& b, const std::vector<std::string>& names) {
  std::optional<size_t> common;
  for (const std::string& name : names) {
    const std::vector<TraceBuilder::Loop> loops = b.own_loops(name);
    double best = INFINITY;
    size_t lane = 0;
    for (size_t i = 0; i < loops.size(); ++i) {
      const double cost = lane_cost(b, b.statement(name), loops[i].iterator, b.lanes(b.statement(name)));
      if (cost > best) continue;
      best = cost;
      lane = i;
    }
    if (best == INFINITY || (common && *common != lane)) return;
    common = lane;
  }
  for (const std::string& name : names) {
    std::vector<std::string> order;
    for (const TraceBuilder::Loop& loop : b.own_loops(name)) order.push_back(loop.name);
    if (!common || *common + 1 >= order.size()) return;
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(*common),
                order.begin() + static_cast<std::ptrdiff_t>(*common) + 1, order.end());
    b.apply("order", joined(order));
  }
}

// Bytes of all intermediate results together; infinite where sizes are not known.
double local_bytes(const Kernel& kernel) {
  double total = 0;
  for (const Buffer& buffer : kernel.buffers) {
    if (buffer.scope != Scope::Local) continue;
    double bytes = static_cast<double>(size_of(buffer.dtype));
    for (const Affine& extent : buffer.shape)
      bytes *= extent.is_constant() ? static_cast<double>(extent.constant()) : INFINITY;
    total += bytes;
  }
  return total;
}

// Fuses the outer loops of all statements one by one, up to `wanted` of them, as long as they have equal
// extents and fusing is legal; returns how many. The last of them is first split into parts of `rows` trips.
size_t fuse_rows(TraceBuilder& b, const std::vector<std::string>& names, size_t wanted, int64_t rows) {
  for (size_t depth = 0; depth < wanted; ++depth) {
    std::string line = "fuse";
    std::string iterator;
    bool equal = true;
    std::optional<Affine> extent;
    const bool split = rows > 1 && depth + 1 == wanted;
    for (const std::string& name : names) {
      const TraceBuilder::Loop loop = b.own_loops(name).at(0);
      if (split) b.apply("split ", loop.name, " ", rows, " as ", loop.name, " ", loop.name, kRowsSuffix);
      line += " " + loop.name;
      const Affine& own = iterator_extent(b.statement(name), loop.iterator);
      equal = equal && (!extent || *extent == own);
      extent = own;
      iterator = loop.iterator;
    }
    std::string fused = "row_" + iterator;
    while (find_loop(b.state().tree, fused) != nullptr) fused += "_";
    if (!equal || !b.attempt(line, " as ", fused)) return depth;
  }
  return wanted;
}

// Prefetches inputs that are larger than the first cache: an in-order core waits for each line that this
// cache does not hold.
void prefetch_next_rows(TraceBuilder& b, const std::string& loop) {
  if (b.target().out_of_order() || !b.target().prefetch_by_loads) return;
  const std::vector<Buffer> buffers = b.kernel().buffers;
  for (const Buffer& buffer : buffers) {
    double bytes = static_cast<double>(size_of(buffer.dtype));
    for (const Affine& size : buffer.shape)
      bytes *= size.is_constant() ? static_cast<double>(size.constant()) : 0;
    if (buffer.scope == Scope::Input && bytes > static_cast<double>(b.target().l1_bytes))
      b.attempt("prefetch ", buffer.name, " ", loop);
  }
}

}  // namespace

void schedule_rows(TraceBuilder& b, const RowKnobs& knobs) {
  std::vector<std::string> names;
  for (const Statement& statement : b.kernel().statements) names.push_back(statement.name);
  if (names.size() < 2) throw NotApplicable{"one statement"};
  size_t least = SIZE_MAX, most = 0;
  for (const std::string& name : names) {
    least = std::min(least, b.statement(name).iterators.size());
    most = std::max(most, b.statement(name).iterators.size());
  }
  // Where several rows fit the first cache, they are computed at a time: their sums do not wait for each
  // other.
  int64_t row_bytes = 0;
  for (const std::string& name : names) {
    const Statement& statement = b.statement(name);
    int64_t elements = 1;
    for (size_t i = least; i < statement.iterators.size(); ++i) {
      elements *= extent_or(statement, statement.iterators[i].name, 1024);
    }
    row_bytes = std::max(row_bytes, 4 * elements);
  }
  const int64_t rows = knobs.rows > 0 ? knobs.rows : b.target().least_code ? 1 : kRows;
  bool interleave =
      least < most && rows > 1 && (knobs.rows > 0 || 2 * rows * row_bytes <= b.target().l1_bytes);
  const size_t wanted = least == most ? most - std::min<size_t>(most, 1) : least;
  if (least == most) put_lanes_last(b, names);
  const TraceBuilder before = b;
  size_t depth = fuse_rows(b, names, wanted, interleave ? rows : 1);
  if (interleave && depth < wanted && knobs.rows == 0) {
    b = before;
    interleave = false;
    depth = fuse_rows(b, names, wanted, 1);
    // Fewer common loops gain little, so this strategy is not applied, unless without them the intermediate
    // results of all iterations together would be large or have no bound.
    const auto common = b.all_loops(names[0]);
    const bool known = std::all_of(common.begin(), common.begin() + static_cast<std::ptrdiff_t>(depth),
                                   [](const TraceBuilder::Loop& loop) { return loop.extent.has_value(); });
    if (known && local_bytes(b.kernel()) <= kManyScratchBytes) depth = 0;
  }
  if (depth == 0 || (interleave && depth < wanted)) throw NotApplicable{"no common rows"};
  schedule_all(b, names, knobs);
  const std::string rows_loop = b.all_loops(names[0]).at(depth - 1).name;
  if (interleave && knobs.isolate == 0) b.apply("isolate ", rows_loop);
  prefetch_next_rows(b, rows_loop);
  b.parallelise(knobs.parallel);
}

void schedule_separately(TraceBuilder& b, const RowKnobs& knobs) {
  std::vector<std::string> names;
  for (const Statement& statement : b.kernel().statements) names.push_back(statement.name);
  // Unknown sizes are limited by the scratch memory that a kernel takes, for which each of them has to stay a
  // size of its own.
  const std::vector<Buffer>& buffers = b.kernel().buffers;
  const bool scratch = std::any_of(buffers.begin(), buffers.end(),
                                   [](const Buffer& each) { return each.scope == Scope::Local; });
  for (const std::string& name : names) {
    for (size_t i = b.statement(name).iterators.size(); i-- > 1;) {
      const auto& iterators = b.statement(name).iterators;
      if (i >= iterators.size() || (scratch && !iterators[i].extent.is_constant())) continue;
      const std::string first = iterators[i - 1].name, second = iterators[i].name;
      b.attempt("merge ", name, "_", first, " ", name, "_", second, " as ", second);
    }
  }
  // Threads share only an outermost loop that holds all statements. A statement that continues from its own
  // results is worth such a loop, as the steps of a decision tree are, whose first statement only says where
  // they begin.
  const std::vector<Statement>& statements = b.kernel().statements;
  const bool loops = std::none_of(names.begin(), names.end(),
                                  [&](const std::string& name) { return b.own_loops(name).empty(); });
  const bool steps =
      loops && names.size() > 1 && std::any_of(statements.begin(), statements.end(), continues_itself);
  if (steps && b.threads() > 1) fuse_rows(b, names, 1, 1);
  schedule_all(b, names, knobs);
  b.parallelise(knobs.parallel);
}

}  // namespace tc
