// layout: one dimension of a buffer in blocks, the block innermost.
#include <algorithm>

#include "ir/access.h"
#include "ir/domain.h"
#include "scheduler/core/primitive.h"
#include "scheduler/core/rewriting.h"

namespace tc {
namespace {

// Writes the index as block * outer + inner with 0 <= inner < block; false where it has no such form.
bool divide(const Affine& index, int64_t block, const std::map<std::string, Interval>& box, Affine& outer,
            Affine& inner) {
  const int64_t constant = index.constant();
  const int64_t rest = ((constant % block) + block) % block;
  outer = Affine((constant - rest) / block);
  inner = Affine(rest);
  for (const auto& [name, coefficient] : index.terms()) {
    if (coefficient % block == 0) outer = outer + Affine::variable(name, coefficient / block);
    else inner = inner + Affine::variable(name, coefficient);
  }
  const Interval range = range_of(inner, box);
  return range.low >= 0 && range.high < block;
}

// Whether the condition is on iterators of the index and on others. It may then exclude elements from
// `extent` on, for which the ranges of the other iterators were not made.
bool is_joint(const Affine& condition, const Affine& index, const std::map<std::string, Interval>& box) {
  bool own = false, other = false;
  for (const auto& [name, coefficient] : condition.terms()) {
    (index.coefficient(name) != 0 ? own : other) = true;
  }
  return own && other && range_of(condition, box).low < 0;
}

// Whether a condition excludes elements from `extent` on that the loops of the statement reach, other than
// the condition `index < extent` itself, which settle_padding() removes.
bool cuts_padding(const Statement& statement, const Affine& index, const Affine& extent, int64_t block,
                  const std::map<std::string, Interval>& box) {
  const Affine inside = extent - Affine(1) - index;
  if (statement.reduction != Reduction::None || range_of(inside, box).low >= 0) return false;
  const Domain padding(box, {index - extent, extent + Affine(block - 2) - index});
  return std::any_of(
      statement.constraints.begin(), statement.constraints.end(), [&](const Affine& condition) {
        if (condition == inside) return false;
        if (is_joint(condition, index, box) ||
            Domain(box, {condition}).is_nonnegative(inside, nullptr) == Domain::Answer::Yes)
          return true;
        // An iterator that was skewed by another one has a last value of its own for each value of the other.
        const bool is_own = std::any_of(condition.terms().begin(), condition.terms().end(),
                                        [&](const auto& term) { return index.coefficient(term.first) != 0; });
        return is_own && padding.is_nonnegative(condition, nullptr) != Domain::Answer::Yes;
      });
}

// Strip-mines the iterator that keeps the index from being divided: the one that moves along a block, or
// the one that steps over equal parts of a block where the others stay in such a part (`4*g + f`).
void strip_for(const Kernel& kernel, Statement& statement, const Affine& index, int64_t block,
               const std::string& buffer, bool whole_blocks) {
  std::string name;
  int64_t step = 0;
  Affine within(index.constant() % block);
  for (const auto& [each, coefficient] : index.terms()) {
    if (coefficient % block == 0) continue;
    within = within + Affine::variable(each, coefficient);
    if (coefficient > step) {
      step = coefficient;
      name = each;
    }
  }
  size_t position = 0;
  while (position < statement.iterators.size() && statement.iterators[position].name != name) ++position;
  const Interval part = range_of(within - Affine::variable(name, step), box_of(kernel, statement));
  const bool divides = step == 1 ? within.terms().size() == 1 && within.constant() == 0
                                 : whole_blocks && step != 0 && block % step == 0;
  if (!divides || part.low < 0 || part.high >= step || position == statement.iterators.size() ||
      !has_parts(statement.iterators[position].extent, block / step)) {
    refuse("statement ", statement.name, " accesses ", buffer, " at ", index.str(),
           ", which does not divide into blocks of ", block);
  }
  const std::string outer = fresh_iterator(kernel, statement, name + "_o");
  const std::string inner = fresh_iterator(kernel, statement, name + "_i");
  strip_iterator(statement, position, block / step, outer, inner);
}

// An index whose window extends beyond its block; its block and lane, with one more iterator.
struct Window {
  Affine index, outer, inner;
};

// Where a window moves along whole blocks (`c + k - 1`), strip-mines what it is a window of and adds an
// iterator that counts the blocks that it reaches; conditions leave one of these blocks for each element.
// False where the index is of another kind. Reads before the first block or after the last have the same
// condition as before.
bool window_for(const Kernel& kernel, Statement& statement, const Affine& index, int64_t block,
                const Affine& extent, std::vector<Window>& windows) {
  constexpr int64_t kMaxBlocks = 3;
  if (statement.reduction == Reduction::None || !extent.is_constant() || extent.constant() % block != 0)
    return false;
  Affine home, rest(index.constant());
  size_t moving = statement.iterators.size();
  for (const auto& [name, coefficient] : index.terms()) {
    if (coefficient % block == 0) {
      home = home + Affine::variable(name, coefficient / block);
      continue;
    }
    rest = rest + Affine::variable(name, coefficient);
    if (!depends_on(statement.write, name)) continue;
    if (coefficient != 1 || moving != statement.iterators.size()) return false;
    for (moving = 0; moving < statement.iterators.size() && statement.iterators[moving].name != name;)
      ++moving;
  }
  if (moving == statement.iterators.size() || !statement.iterators[moving].extent.is_constant()) return false;
  const std::string name = statement.iterators[moving].name;
  const int64_t count = statement.iterators[moving].extent.constant();
  if (count > block) {
    if (count % block != 0) return false;
    strip_iterator(statement, moving, block, fresh_iterator(kernel, statement, name + "_o"),
                   fresh_iterator(kernel, statement, name + "_i"));
    return true;
  }
  const Interval range = range_of(rest, box_of(kernel, statement));
  const int64_t first = (range.low - block + 1) / block, last = range.high / block;
  if (range.low >= 0 || range.high < 0 || last - first >= kMaxBlocks) return false;
  const std::string blocks = fresh_iterator(kernel, statement, name + "_b");
  statement.iterators.push_back({blocks, Affine(last - first + 1)});
  const Affine reached = Affine::variable(blocks) + first;
  const Window window{index, home + reached, rest - reached * block};
  const Affine blocks_of_all(extent.constant() / block);
  for (Affine& condition : statement.constraints) {
    if (condition == index) condition = window.outer;
    else if (condition == extent - 1 - index) condition = blocks_of_all - 1 - window.outer;
  }
  statement.constraints.push_back(window.inner);
  statement.constraints.push_back(Affine(block - 1) - window.inner);
  windows.push_back(window);
  return true;
}

// One dimension of a buffer that is to be stored in blocks.
struct Blocking {
  int buffer = -1;
  std::string name;  // of the buffer
  size_t dim = 0;
  int64_t block = 1;
  Affine extent;  // of the dimension
  bool divides() const { return extent.is_multiple_of(block); }
};

void refuse_blocking(const ScheduleState& state, const Kernel& kernel, const Blocking& blocking) {
  if (!has_parts(blocking.extent, blocking.block)) {
    refuse("dimension ", blocking.dim, " of ", blocking.name, " is symbolic, and ", blocking.block,
           " need not divide it: ", blocking.extent.str());
  }
  if (blocking.block > 1024) refuse("blocks of more than 1024");
  for (const BlockedDim& other : state.blocked) {
    if (other.buffer == blocking.name) refuse("buffer ", blocking.name, " is in blocks already");
  }
  if (packing_of(kernel, blocking.name) != nullptr) refuse("constant ", blocking.name, " is packed already");
}

// Makes one statement access the buffer by blocks, strip-mining iterators where that is necessary.
class StatementBlocker {
 public:
  StatementBlocker(const Kernel& kernel, Statement& statement, const Blocking& blocking)
      : kernel_(kernel), statement_(statement), blocking_(blocking) {}

  void run() {
    while (const auto obstacle = find_obstacle()) {
      if (window_for(kernel_, statement_, *obstacle, blocking_.block, blocking_.extent, windows_)) continue;
      strip_for(kernel_, statement_, *obstacle, blocking_.block, blocking_.name, blocking_.divides());
    }
    const auto box = box_of(kernel_, statement_);
    edit_accesses(statement_, [&](const Access& access) {
      if (access.buffer != blocking_.buffer) return access;
      Access result = access;
      Affine outer, inner;
      parts(access.index[blocking_.dim].affine, box, outer, inner);
      result.index[blocking_.dim].affine = outer;
      result.index.push_back({inner, nullptr});
      return result;
    });
  }

 private:
  bool parts(const Affine& index, const std::map<std::string, Interval>& box, Affine& outer,
             Affine& inner) const {
    for (const Window& window : windows_) {
      if (window.index != index) continue;
      outer = window.outer;
      inner = window.inner;
      return true;
    }
    return divide(index, blocking_.block, box, outer, inner);
  }

  // The last index that does not divide into whole blocks; nothing where all do.
  std::optional<Affine> find_obstacle() const {
    const auto box = box_of(kernel_, statement_);
    std::optional<Affine> obstacle;
    visit_accesses(statement_, [&](const Access& access, bool is_write) {
      if (access.buffer == blocking_.buffer && is_obstacle(access.index[blocking_.dim], box, is_write)) {
        obstacle = access.index[blocking_.dim].affine;
      }
    });
    return obstacle;
  }

  bool is_obstacle(const Subscript& subscript, const std::map<std::string, Interval>& box,
                   bool is_write) const {
    if (subscript.dynamic) {
      refuse("statement ", statement_.name, " accesses ", blocking_.name,
             " at an index that depends on data");
    }
    const Affine& index = subscript.affine;
    Affine outer, inner;
    const bool divided = parts(index, box, outer, inner);
    // Loops run over padded lanes as well, in whole blocks. Reads of single lanes leave nothing unwritten.
    const bool whole = blocking_.divides() || !divided || (inner.is_constant() && !is_write) ||
                       range_of(inner, box).high == blocking_.block - 1;
    const bool cut = is_write && divided && !blocking_.divides() &&
                     cuts_padding(statement_, index, blocking_.extent, blocking_.block, box);
    if (cut || (divided && !whole && is_write && index.as_variable().empty())) {
      refuse("statement ", statement_.name, " writes ", blocking_.name, " at ", index.str(),
             ", which leaves lanes of the last block unwritten");
    }
    return !divided || (!whole && !index.as_variable().empty());
  }

  const Kernel& kernel_;
  Statement& statement_;
  const Blocking& blocking_;
  std::vector<Window> windows_;
};

Packing packing_in_blocks(const Buffer& constant, const Blocking& blocking) {
  Packing packing;
  packing.buffer = constant.name;
  for (size_t d = 0; d <= constant.shape.size(); ++d) packing.iterators.push_back("d" + std::to_string(d));
  for (size_t d = 0; d < constant.shape.size(); ++d) {
    if (!constant.shape[d].is_constant()) refuse("constant ", constant.name, " has a symbolic shape");
    packing.original_shape.push_back(constant.shape[d].constant());
    Affine index = Affine::variable(packing.iterators[d]);
    if (d == blocking.dim) index = index * blocking.block + Affine::variable(packing.iterators.back());
    packing.index.push_back(index);
  }
  return packing;
}

void apply_layout(ScheduleState& state, const Arguments& given) {
  Kernel kernel = state.kernel->kernel;
  const size_t which = given.buffer("BUFFER");
  Buffer& buffer = kernel.buffers[which];
  Blocking blocking{static_cast<int>(which),
                    buffer.name,
                    static_cast<size_t>(given.number("DIM")),
                    given.number("BLOCK"),
                    {}};
  if (blocking.dim >= buffer.shape.size())
    refuse("buffer ", buffer.name, " has ", buffer.shape.size(), " dimensions");
  blocking.extent = buffer.shape[blocking.dim];
  refuse_blocking(state, kernel, blocking);
  for (Statement& statement : kernel.statements) StatementBlocker(kernel, statement, blocking).run();
  if (buffer.scope == Scope::Constant) kernel.packings.push_back(packing_in_blocks(buffer, blocking));
  const int64_t block = blocking.block;
  buffer.shape[blocking.dim] = parts_of(blocking.extent, block);
  buffer.shape.push_back(Affine(block));
  buffer.logical += text(buffer.logical.empty() ? "" : ", ", "dimension ", blocking.dim, " of ",
                         blocking.extent.str(), " by ", block);
  state.blocked.push_back({buffer.name, blocking.dim, buffer.shape.size() - 1, block, blocking.extent});
  replace_kernel(state, std::move(kernel));
}

}  // namespace

Primitive layout_primitive() {
  using namespace argument;
  Argument stored = buffer("BUFFER");
  stored.changes_layout = true;
  Primitive primitive;
  primitive.row = {
      "layout",
      PrimitiveKind::Rewrite,
      {stored, number("DIM", "the dimension", 0), number("BLOCK", "the block", 2)},
      "A[.., i, ..]  ->  A[.., i/BLOCK, .., i%BLOCK]: dimension DIM is stored in blocks, "
      "the block innermost; the last block is padded, and a symbolic dimension is whole blocks whatever its size. Loops that "
      "index it are strip-mined. Where a reduction's window moves along whole blocks (`c + k - 1`), one more "
      "iterator counts the blocks it reaches. A constant is packed so while compiling, padded "
      "with 0; padded lanes of activations hold any finite value."};
  primitive.apply = apply_layout;
  return primitive;
}

}  // namespace tc
