// layout: one dimension of a buffer in blocks, the block innermost.
#include <algorithm>

#include "ir/access.h"
#include "ir/domain.h"
#include "scheduler/core/rewriting.h"

namespace tc {
namespace {

// The expression as block * outer + inner with 0 <= inner < block; nothing where it is not.
bool divide(const Affine& index, int64_t block, const std::map<std::string, Interval>& box,
            Affine& outer, Affine& inner) {
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

// Whether a condition keeps the statement from all elements from `extent` on that its loops reach, other
// than the very condition `index < extent`, which goes where padded lanes are settled.
bool cuts_padding(const Statement& statement, const Affine& index, const Affine& extent,
                  const std::map<std::string, Interval>& box) {
  const Affine inside = extent - Affine(1) - index;
  if (statement.reduction != Reduction::None || range_of(inside, box).low >= 0) return false;
  return std::any_of(statement.constraints.begin(), statement.constraints.end(), [&](const Affine& condition) {
    return condition != inside &&
           Domain(box, {condition}).is_nonnegative(inside, nullptr) == Domain::Answer::Yes;
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
      !statement.iterators[position].extent.is_constant()) {
    refuse("statement ", statement.name, " accesses ", buffer, " at ", index.str(),
           ", which does not divide into blocks of ", block);
  }
  const std::string outer = fresh_iterator(kernel, statement, name + "_o");
  const std::string inner = fresh_iterator(kernel, statement, name + "_i");
  strip_iterator(statement, position, block / step, outer, inner);
}

// An index whose window reaches over the ends of its block: its parts by one more iterator.
struct Window {
  Affine index, outer, inner;
};

// Where a window moves along whole blocks (`c + k - 1`), strip-mines what it is a window of and adds an iterator
// that counts the blocks it reaches into, of which conditions leave one for each element; false where the index is
// of another kind. What reads before the first block or behind the last has the same condition as before.
bool window_for(const Kernel& kernel, Statement& statement, const Affine& index, int64_t block, const Affine& extent,
                std::vector<Window>& windows) {
  constexpr int64_t kMostBlocks = 3;
  if (statement.reduction == Reduction::None || extent.constant() % block != 0) return false;
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
    for (moving = 0; moving < statement.iterators.size() && statement.iterators[moving].name != name;) ++moving;
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
  if (range.low >= 0 || range.high < 0 || last - first >= kMostBlocks) return false;
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

}  // namespace

Primitive layout_primitive() {
  Primitive primitive;
  primitive.row = {"layout", "rewrite", "layout BUFFER DIM BLOCK",
                   "A[.., i, ..]  ->  A[.., i/BLOCK, .., i%BLOCK]: dimension DIM is stored in blocks, "
                   "the block innermost; the last block is padded. Loops that index it are "
                   "strip-mined. Where a reduction's window moves along whole blocks (`c + k - 1`), one more "
                   "iterator counts the blocks it reaches. A constant is packed so while compiling, padded "
                   "with 0; padded lanes of activations hold any finite value."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    Kernel kernel = state.kernel->kernel;
    const std::string name = words.name("a buffer");
    const auto which = static_cast<int>(buffer_or_refuse(kernel, name));
    const auto dim = static_cast<size_t>(words.number("the dimension", 0));
    const int64_t block = words.number("the block", 2);
    Buffer& buffer = kernel.buffers[static_cast<size_t>(which)];
    if (dim >= buffer.shape.size()) {
      refuse("buffer ", name, " has ", buffer.shape.size(), " dimensions");
    }
    const Affine extent = buffer.shape[dim];
    if (!extent.is_constant()) refuse("dimension ", dim, " of ", name, " is symbolic: ", extent.str());
    if (block > 1024) refuse("blocks of more than 1024");
    for (const BlockedDim& other : state.blocked) {
      if (other.buffer == name) refuse("buffer ", name, " is in blocks already");
    }
    if (packing_of(kernel, name) != nullptr) refuse("constant ", name, " is packed already");
    for (Statement& statement : kernel.statements) {
      std::vector<Window> windows;
      auto parts = [&](const Affine& index, const std::map<std::string, Interval>& box, Affine& outer, Affine& inner) {
        for (const Window& window : windows) {
          if (window.index != index) continue;
          outer = window.outer;
          inner = window.inner;
          return true;
        }
        return divide(index, block, box, outer, inner);
      };
      while (true) {
        const auto box = box_of(kernel, statement);
        std::optional<Affine> obstacle;
        visit_accesses(statement, [&](const Access& access, bool is_write) {
          if (access.buffer != which) return;
          Affine outer, inner;
          if (access.index[dim].dynamic) {
            refuse("statement ", statement.name, " accesses ", name, " at an index that depends on data");
          }
          const Affine& index = access.index[dim].affine;
          const bool divided = parts(index, box, outer, inner);
          // Padded lanes belong to the loops: whole blocks are counted. Reads of single lanes leave
          // nothing unwritten.
          const bool whole = extent.constant() % block == 0 || !divided ||
                             (inner.is_constant() && !is_write) ||
                             range_of(inner, box).high == block - 1;
          if (!divided || (!whole && !index.as_variable().empty())) obstacle = index;
          const bool cut = is_write && divided && extent.constant() % block != 0 &&
                           cuts_padding(statement, index, extent, box);
          if (cut || (divided && !whole && is_write && index.as_variable().empty())) {
            refuse("statement ", statement.name, " writes ", name, " at ", index.str(),
                   ", which leaves lanes of the last block unwritten");
          }
        });
        if (!obstacle) break;
        if (window_for(kernel, statement, *obstacle, block, extent, windows)) continue;
        strip_for(kernel, statement, *obstacle, block, name, extent.constant() % block == 0);
      }
      const auto box = box_of(kernel, statement);
      edit_accesses(statement, [&](const Access& access) {
        if (access.buffer != which) return access;
        Access result = access;
        Affine outer, inner;
        parts(access.index[dim].affine, box, outer, inner);
        result.index[dim].affine = outer;
        result.index.push_back({inner, nullptr});
        return result;
      });
    }
    const int64_t blocks = (extent.constant() + block - 1) / block;
    if (buffer.scope == Scope::Constant) {
      Packing packing;
      packing.buffer = name;
      for (size_t d = 0; d <= buffer.shape.size(); ++d) packing.iterators.push_back("d" + std::to_string(d));
      for (size_t d = 0; d < buffer.shape.size(); ++d) {
        if (!buffer.shape[d].is_constant()) refuse("constant ", name, " has a symbolic shape");
        packing.original_shape.push_back(buffer.shape[d].constant());
        Affine index = Affine::variable(packing.iterators[d]);
        if (d == dim) index = index * block + Affine::variable(packing.iterators.back());
        packing.index.push_back(index);
      }
      kernel.packings.push_back(std::move(packing));
    }
    buffer.shape[dim] = Affine(blocks);
    buffer.shape.push_back(Affine(block));
    buffer.logical += text(buffer.logical.empty() ? "" : ", ", "dimension ", dim, " of ",
                           extent.str(), " by ", block);
    state.blocked.push_back({name, dim, buffer.shape.size() - 1, block, extent});
    replace_kernel(state, std::move(kernel));
  };
  return primitive;
}

}  // namespace tc
