// Two products of matrices with a program over rows between them, as in an attention: in bands of rows.
//
//   scores += Q * K; row program; result += P * V
//     ->  for each head: K packed; for each band: the three on its rows
//
// Each part gets the lines that it would get as a kernel of its own that has one head and the rows of a band;
// these lines apply to the whole kernel once its statements share the loops over heads and bands.
#include "scheduler/default/row_bands.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "scheduler/core/rewriting.h"
#include "scheduler/default/reduction.h"
#include "scheduler/legality/legality.h"
#include "scheduler/legality/trust.h"

namespace tc {
namespace {

// A band's scores and what the row program makes of them take this share of the second cache at most.
constexpr double kShareOfBand = 0.5;
// How often the row program goes through a band's scores or its own results.
constexpr double kPassesOfRows = 5;
// The share of the time in which all threads have to be busy with heads of their own.
constexpr double kMinBusy = 0.8;
// Heights of bands: the row program takes four rows at a time.
constexpr int64_t kMinHeight = 8, kMaxHeight = 96, kHeightStep = 4;

enum PartKind : size_t { kScores, kRows, kResult, kParts };

// Consecutive statements that are scheduled as a kernel of their own.
struct Part {
  size_t begin = 0, end = 0;
  std::string sum;  // of a product
};

bool is_product(const Statement& statement) {
  return statement.reduction == Reduction::Sum && statement.value->kind == Expr::Kind::Binary &&
         statement.value->binary == BinaryOp::Mul && loads_of(statement).size() == 2;
}

class Bands {
 public:
  explicit Bands(const TraceBuilder& start, bool least_error) : start_(start), least_error_(least_error) {
    if (!start.state().blocked.empty()) throw NotApplicable{"layouts in blocks"};
    find_parts();
    scores_ = passed(parts_[kScores], parts_[kRows]);
    weights_ = passed(parts_[kRows], parts_[kResult]);
    if (!kernel().parameters.empty()) throw NotApplicable{"sizes that are not known"};
    find_roles();
  }

  BandChoice choose() const;
  TraceBuilder schedule(const BandChoice& choice) const;

 private:
  const Kernel& kernel() const { return start_.kernel(); }
  const Statement& at(size_t statement) const { return kernel().statements[statement]; }
  const Buffer& buffer(int which) const { return kernel().buffers[static_cast<size_t>(which)]; }
  const Statement& sum_of_result() const { return *kernel().find(parts_[kResult].sum); }
  // The dimension of the scores that counts rows; those before it count heads and batch.
  size_t row_dimension() const { return buffer(scores_).shape.size() - 2; }
  int64_t size_of_scores(size_t dimension) const { return buffer(scores_).shape[dimension].constant(); }

  void find_parts();
  int passed(const Part& from, const Part& to) const;
  void find_roles();
  bool learn(const Statement& statement);
  std::string iterator_of(const Statement& statement, size_t role) const;

  TraceBuilder part_alone(PartKind which, int64_t rows) const;
  const ReductionChoice& choice_of(PartKind which, const PreparedReduction& prepared) const;
  TileChoice tile_of(TileProblem problem, int64_t rows) const;
  double operand_bytes() const;
  std::vector<std::string> lines_of(PartKind which, int64_t rows) const;
  void rewrite(TraceBuilder& whole, const std::string& line, std::vector<std::string>& copies) const;
  void share_loops(TraceBuilder& whole, int64_t rows, const std::vector<std::string>& copies) const;
  void apply_orders(TraceBuilder& whole, const std::vector<std::string>& orders,
                    const std::vector<std::string>& copies) const;

  TraceBuilder start_;
  const bool least_error_;
  Part parts_[kParts];
  int scores_ = -1, weights_ = -1;  // buffers
  std::map<std::string, std::map<std::string, size_t>>
      roles_;  // by statement: dimensions of the scores that iterators count
  std::map<std::pair<int, size_t>, size_t> dimensions_;  // the same of dimensions of buffers
};

void Bands::find_parts() {
  const std::vector<Statement>& statements = kernel().statements;
  std::vector<size_t> products;
  for (size_t i = 0; i < statements.size(); ++i) {
    if (is_product(statements[i])) products.push_back(i);
  }
  if (products.size() != 2 || products[0] != 1)
    throw NotApplicable{"not two products of matrices one after the other"};
  size_t reduces = products[0] + 1;
  while (reduces < products[1] && statements[reduces].reduction == Reduction::None) ++reduces;
  if (reduces == products[1]) throw NotApplicable{"no row program between the products"};
  const size_t begins[] = {0, reduces - 1, products[1] - 1, statements.size()};
  for (size_t part = 0; part < kParts; ++part) parts_[part] = {begins[part], begins[part + 1], ""};
  parts_[kScores].sum = statements[products[0]].name;
  parts_[kResult].sum = statements[products[1]].name;
  for (const size_t first : {size_t{0}, reduces - 1, products[1] - 1}) {
    const bool initialises =
        at(first).reduction == Reduction::None && at(first).write.buffer == at(first + 1).write.buffer;
    if (!initialises) throw NotApplicable{"a reduction whose initialisation is elsewhere"};
  }
}

// The one buffer that a part passes on to the next; it is all that others read of the part.
int Bands::passed(const Part& from, const Part& to) const {
  std::set<int> written, read;
  for (size_t i = from.begin; i < from.end; ++i) written.insert(at(i).write.buffer);
  for (size_t i = from.end; i < kernel().statements.size(); ++i) {
    visit_accesses(at(i), [&](const Access& access, bool) {
      if (written.count(access.buffer) == 0) return;
      read.insert(access.buffer);
      if (i >= to.end) throw NotApplicable{"a result that more than the next part reads"};
    });
  }
  if (read.size() != 1) throw NotApplicable{"parts that pass on several results"};
  const Buffer& result = buffer(*read.begin());
  const bool known = std::all_of(result.shape.begin(), result.shape.end(),
                                 [](const Affine& size) { return size.is_constant(); });
  if (result.scope != Scope::Local || result.shape.size() < 2 || !known)
    throw NotApplicable{"parts that pass on no matrix"};
  return *read.begin();
}

// Derives the roles of a statement's iterators from those of the buffers' dimensions, and the other way
// round; true where that gave something new.
bool Bands::learn(const Statement& statement) {
  bool news = false;
  std::map<std::string, size_t>& own = roles_[statement.name];
  visit_accesses(statement, [&](const Access& access, bool) {
    const Scope scope = buffer(access.buffer).scope;
    if (scope != Scope::Local && scope != Scope::Output) return;
    for (size_t d = 0; d < access.index.size(); ++d) {
      const std::string name = access.index[d].affine.as_variable();
      if (name.empty() || access.index[d].dynamic) continue;
      const auto dimension = dimensions_.find({access.buffer, d});
      const auto iterator = own.find(name);
      if (dimension == dimensions_.end() && iterator == own.end()) continue;
      if (dimension != dimensions_.end() && iterator != own.end()) {
        if (dimension->second != iterator->second) throw NotApplicable{"rows that change their places"};
        continue;
      }
      news = true;
      if (iterator != own.end()) dimensions_[{access.buffer, d}] = iterator->second;
      else own[name] = dimension->second;
    }
  });
  return news;
}

void Bands::find_roles() {
  if (buffer(scores_).shape.size() != buffer(weights_).shape.size())
    throw NotApplicable{"a row program that reshapes"};
  for (size_t d = 0; d <= row_dimension(); ++d) {
    dimensions_[{scores_, d}] = d;
    dimensions_[{weights_, d}] = d;
  }
  for (bool news = true; news;) {
    news = false;
    for (const Statement& statement : kernel().statements) news = learn(statement) || news;
  }
  for (const Statement& statement : kernel().statements) {
    for (size_t role = 0; role <= row_dimension(); ++role) {
      if (size_of_scores(role) == 1) continue;
      const std::string name = iterator_of(statement, role);
      if (name.empty())
        throw NotApplicable{text("statement ", statement.name, " does not run along all heads and rows")};
      if (extent_or(statement, name, 0) != size_of_scores(role)) throw NotApplicable{"parts of other sizes"};
    }
  }
  if (size_of_scores(row_dimension()) < 2) throw NotApplicable{"one row"};
}

// The statement's iterator with this role; empty where it has none.
std::string Bands::iterator_of(const Statement& statement, size_t role) const {
  for (const auto& [name, own] : roles_.at(statement.name)) {
    if (own == role) return name;
  }
  return "";
}

// The kernel of one part, for one head and `rows` rows.
TraceBuilder Bands::part_alone(PartKind which, int64_t rows) const {
  Kernel alone = kernel();
  const Part& part = parts_[which];
  alone.statements.assign(kernel().statements.begin() + static_cast<std::ptrdiff_t>(part.begin),
                          kernel().statements.begin() + static_cast<std::ptrdiff_t>(part.end));
  std::map<std::pair<int, size_t>, int64_t> sizes;  // of dimensions that heads and rows count
  for (Statement& statement : alone.statements) {
    std::map<std::string, Affine> values;
    const std::map<std::string, size_t>& roles = roles_.at(statement.name);
    visit_accesses(statement, [&](const Access& access, bool) {
      for (size_t d = 0; d < access.index.size(); ++d) {
        const auto role = roles.find(access.index[d].affine.as_variable());
        if (role != roles.end()) sizes[{access.buffer, d}] = role->second == row_dimension() ? rows : 1;
      }
    });
    for (const auto& [name, role] : roles) {
      if (role != row_dimension()) values[name] = Affine(0);
    }
    statement.write = substitute(statement.write, values);
    statement.value = substitute(statement.value, values);
    for (Affine& constraint : statement.constraints) constraint = constraint.substitute(values);
    std::vector<Iterator> left;
    for (const Iterator& iterator : statement.iterators) {
      if (values.count(iterator.name) > 0) continue;
      left.push_back(iterator);
      if (roles.count(iterator.name) > 0) left.back().extent = Affine(rows);
    }
    statement.iterators = left;
  }
  for (const auto& [dimension, size] : sizes) {
    alone.buffers[static_cast<size_t>(dimension.first)].shape[dimension.second] = Affine(size);
  }
  if (which != kScores)
    alone.buffers[static_cast<size_t>(which == kRows ? scores_ : weights_)].scope = Scope::Input;
  if (which != kResult)
    alone.buffers[static_cast<size_t>(which == kRows ? weights_ : scores_)].scope = Scope::Output;
  return TraceBuilder(ScheduleAccess::state(Schedule(std::move(alone), start_.target())), 1);
}

// The cheapest choice of iterators whose columns run along the rows.
const ReductionChoice& Bands::choice_of(PartKind which, const PreparedReduction& prepared) const {
  const std::string columns = iterator_of(*kernel().find(parts_[which].sum), row_dimension());
  const ReductionChoice* taken = nullptr;
  for (const ReductionChoice& each : prepared.choices()) {
    if (each.choice.over_reduction || each.choice.columns != columns || each.choice.tile.cycles == INFINITY)
      continue;
    if (taken == nullptr || each.choice.tile.cycles < taken->choice.tile.cycles) taken = &each;
  }
  if (taken == nullptr) throw NotApplicable{"a product whose tiles have no columns along the rows"};
  return *taken;
}

// The tile with the least cycles whose columns divide the band: the buffers between the products are then no
// larger than a band.
TileChoice Bands::tile_of(TileProblem problem, int64_t rows) const {
  problem.columns = rows;
  TileChoice result;
  result.cycles = INFINITY;
  for (const auto& [vectors, widest] : start_.target().tiles) {
    const int64_t blocks = std::min<int64_t>(vectors, problem.blocks);
    int64_t width = std::min<int64_t>(widest, rows);
    while (rows % width != 0) --width;
    if (!leaves_registers(start_.target(), problem.lanes * problem.element_bytes, blocks * width)) continue;
    const double cycles = tile_cycles(problem, start_.target(), blocks, width);
    if (cycles < result.cycles) result = {blocks, width, cycles};
  }
  return result;
}

// Bytes that each band reads again: the right operands of both products, for one head.
double Bands::operand_bytes() const {
  double bytes = 0;
  for (const PartKind which : {kScores, kResult}) {
    const Statement& sum = *kernel().find(parts_[which].sum);
    double own = 4;
    for (const Iterator& iterator : sum.iterators) {
      if (roles_.at(sum.name).count(iterator.name) == 0)
        own *= static_cast<double>(extent_or(sum, iterator.name, 1));
    }
    bytes += own;
  }
  return bytes;
}

BandChoice Bands::choose() const {
  const int64_t rows = size_of_scores(row_dimension());
  const auto keys = static_cast<double>(size_of_scores(row_dimension() + 1));
  const Target& target = start_.target();
  double heads = 1;
  for (size_t role = 0; role < row_dimension(); ++role) heads *= static_cast<double>(size_of_scores(role));
  std::vector<int64_t> heights;
  if (rows <= kMaxHeight) heights.push_back(rows);
  for (int64_t height = kMinHeight; height < std::min(rows, kMaxHeight + 1); height += kHeightStep)
    heights.push_back(height);
  std::vector<TileProblem> problems;  // of both products; tiles along the rows
  for (const PartKind which : {kScores, kResult}) {
    problems.push_back(
        choice_of(which, PreparedReduction(part_alone(which, std::min(rows, kMaxHeight)), least_error_))
            .problem);
  }
  BandChoice best;
  best.cycles = INFINITY;
  for (const int64_t height : heights) {
    const double band = 2 * 4 * keys * static_cast<double>(height);  // bytes
    if (band > kShareOfBand * static_cast<double>(target.l2_bytes)) continue;
    double each = 0;
    for (const TileProblem& problem : problems) each += tile_of(problem, height).cycles;
    each = overlapped(each, operand_bytes() / target.l2_bandwidth);
    if (band > static_cast<double>(target.l1_bytes)) each += kPassesOfRows * band / 2 / target.l2_bandwidth;
    // The last band counts as a whole one, even where it has fewer rows.
    const double cycles = heads * each * static_cast<double>((rows + height - 1) / height);
    if (cycles < best.cycles) best = {height, cycles, text("bands of ", height, " rows")};
  }
  if (best.rows == 0) throw NotApplicable{"no band of rows that fits the second cache"};
  return best;
}

std::vector<std::string> Bands::lines_of(PartKind which, int64_t rows) const {
  TraceBuilder alone = part_alone(which, rows);
  if (which == kRows) {
    schedule_rows(alone);
    return alone.state().trace;
  }
  const PreparedReduction prepared(alone, least_error_);
  const ReductionChoice& choice = choice_of(which, prepared);
  const TileChoice tile = tile_of(choice.problem, rows);
  ReductionKnobs knobs;
  knobs.vectors = tile.vectors;
  knobs.columns = tile.columns;
  return prepared.plan(choice, knobs).result.state().trace;
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  for (const char c : line) {
    if (c == ' ') words.emplace_back();
    else words.back() += c;
  }
  return words;
}

bool is_rewrite(const std::string& line) {
  const std::string verb = words_of(line)[0];
  const auto& rows = primitive_table();
  return std::any_of(rows.begin(), rows.end(), [&](const PrimitiveRow& row) {
    return row.first_word() == verb && row.kind == PrimitiveKind::Rewrite;
  });
}

// Applies a part's rewrite to the whole. A copy of an operand gets the heads as outer dimensions; `copies`
// gets the statements that make such copies.
void Bands::rewrite(TraceBuilder& whole, const std::string& line, std::vector<std::string>& copies) const {
  const std::vector<std::string> words = words_of(line);
  if (words[0] != "pack") {
    whole.apply(line);
    return;
  }
  std::vector<std::string> heads;
  for (const PartKind which : {kScores, kResult}) {
    const Statement& sum = whole.statement(parts_[which].sum);
    for (const Access& load : loads_of(sum)) {
      if (whole.kernel().buffers[static_cast<size_t>(load.buffer)].name != words[1]) continue;
      for (size_t role = 0; role <= row_dimension(); ++role) {
        const std::string name = iterator_of(sum, role);
        if (name.empty() || !depends_on(load, name)) continue;
        if (role == row_dimension()) throw NotApplicable{text("each band would pack ", words[1])};
        heads.push_back(name);
      }
    }
  }
  const size_t statements = whole.kernel().statements.size();
  whole.apply("pack ", words[1], " :", joined(heads), joined({words.begin() + 3, words.end()}));
  if (whole.kernel().statements.size() > statements) copies.push_back(whole.kernel().statements.front().name);
}

// All statements get the loops over heads and bands in common, the copies of operands those over heads.
void Bands::share_loops(TraceBuilder& whole, int64_t rows, const std::vector<std::string>& copies) const {
  const std::string anchor = parts_[kResult].sum;
  const int64_t all = size_of_scores(row_dimension());
  std::vector<std::string> order;
  for (size_t role = 0; role < row_dimension(); ++role) {
    const std::string name = iterator_of(sum_of_result(), role);
    if (!name.empty()) order.push_back(anchor + "_" + name);
  }
  const std::string around = order.empty() ? "" : order.back();  // the innermost loop over heads
  const std::string row = anchor + "_" + iterator_of(sum_of_result(), row_dimension()), band = row + "_band";
  if (rows < all) {
    whole.apply("split ", row, " ", rows, " as ", band, " ", row);
    order.push_back(band);
  }
  if (order.empty()) throw NotApplicable{"one band"};
  const std::string common = order.back();
  for (const TraceBuilder::Loop& loop : whole.own_loops(anchor)) {
    if (std::find(order.begin(), order.end(), loop.name) == order.end()) order.push_back(loop.name);
  }
  whole.apply("order", joined(order));
  std::vector<std::string> before, behind;
  for (const Statement& statement : whole.kernel().statements) {
    if (statement.name == anchor || std::count(copies.begin(), copies.end(), statement.name) > 0) continue;
    (whole.index_of(statement.name) < whole.index_of(anchor) ? before : behind).push_back(statement.name);
  }
  // Each goes directly before or after what the loop holds by then.
  std::reverse(before.begin(), before.end());
  for (const std::vector<std::string>* names : {&before, &behind}) {
    for (const std::string& name : *names) whole.apply("compute_at ", name, " at ", common);
  }
  for (const std::string& copy : copies) {
    if (around.empty()) throw NotApplicable{"operands to pack, and one head"};
    whole.apply("compute_at ", copy, " at ", around);
  }
  if (rows < all && all % rows != 0) whole.apply("isolate ", common);
}

TraceBuilder Bands::schedule(const BandChoice& choice) const {
  TraceBuilder whole = start_;
  std::vector<std::string> orders, copies;
  for (const PartKind which : {kScores, kRows, kResult}) {
    for (const std::string& line : lines_of(which, choice.rows)) {
      if (is_rewrite(line)) rewrite(whole, line, copies);
      else orders.push_back(line);
    }
  }
  // Where operands are packed outside of the loop over bands, the threads can share the heads only.
  double heads = 1;
  for (size_t role = 0; role < row_dimension(); ++role) heads *= static_cast<double>(size_of_scores(role));
  const double rounds = std::ceil(heads / whole.threads());
  if (!copies.empty() && kMinBusy * rounds * whole.threads() > heads)
    throw NotApplicable{"too few heads for the threads"};
  {
    Trust trust;  // the order is checked once, as a whole
    share_loops(whole, choice.rows, copies);
    apply_orders(whole, orders, copies);
  }
  if (auto found = find_violation(whole.state().kernel, whole.state().tree)) throw NotApplicable{*found};
  whole.parallelise();
  return whole;
}

// Applies the parts' own orders and marks.
void Bands::apply_orders(TraceBuilder& whole, const std::vector<std::string>& orders,
                         const std::vector<std::string>& copies) const {
  for (const std::string& line : orders) {
    const std::vector<std::string> words = words_of(line);
    const bool places_copy =
        words[0] == "compute_at" && std::count(copies.begin(), copies.end(), words[1]) > 0;
    if (places_copy) continue;
    // In a part on its own, what comes from another part is an input, for which there may be a prefetch; here
    // it is refused.
    if (words[0] == "prefetch") whole.attempt(line);
    else whole.apply(line);
  }
}

}  // namespace

BandChoice choose_bands(const TraceBuilder& start, bool least_error) {
  return Bands(start, least_error).choose();
}

TraceBuilder schedule_bands(const TraceBuilder& start, const BandChoice& choice, bool least_error) {
  return Bands(start, least_error).schedule(choice);
}

}  // namespace tc
