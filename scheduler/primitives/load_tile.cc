// load_tile: what a tile of a statement reads of an argument is copied into a memory of the accelerator
// first.
#include <algorithm>

#include "ir/domain.h"
#include "scheduler/core/accelerator_memory.h"
#include "scheduler/core/primitive.h"
#include "scheduler/core/rewriting.h"
#include "scheduler/core/statements.h"

namespace tc {
namespace {

// One dimension of the argument within a tile: where the tile's part begins, and how long it is.
struct Part {
  Affine begin;  // in the iterators that count tiles
  int64_t size = 1;
};

class TileLoader {
 public:
  TileLoader(const ScheduleState& state, const Arguments& given)
      : state_(state), kernel_(state.kernel->kernel), which_(static_cast<int>(given.buffer("BUFFER"))) {
    for (const std::string& each : given.words("ITERATOR")) counters_.push_back(each);
    memory_ = given.word("MEMORY");
    copies_ = given.number("COPIES");
  }

  Kernel run() {
    find_reader();
    for (const Subscript& subscript : access_.index) parts_.push_back(part_of(subscript));
    const int local = add_tile();
    std::vector<Statement> before;
    add_borders(local, before);
    before.push_back(copy(local));
    read_tile(local);
    kernel_.statements.insert(kernel_.statements.begin(), before.begin(), before.end());
    return std::move(kernel_);
  }

 private:
  const Buffer& argument() const { return kernel_.buffers[static_cast<size_t>(which_)]; }
  Statement& reader() { return kernel_.statements[reader_]; }
  bool counts_tiles(const std::string& name) const {
    return std::find(counters_.begin(), counters_.end(), name) != counters_.end();
  }

  void find_reader() {
    if (!is_argument(argument()) || argument().scope == Scope::Output)
      refuse("buffer ", argument().name, " is neither an input nor a constant");
    int count = 0;
    for (size_t i = 0; i < kernel_.statements.size(); ++i) {
      visit_accesses(kernel_.statements[i], [&](const Access& each, bool) {
        if (each.buffer != which_ || (count > 0 && reader_ == i && same_access(access_, each))) return;
        ++count;
        reader_ = i;
        access_ = each;
      });
    }
    if (count != 1) refuse("buffer ", argument().name, " is read at ", count, " places, not at one");
    for (const std::string& name : counters_) {
      const std::vector<Iterator>& all = reader().iterators;
      if (std::none_of(all.begin(), all.end(), [&](const Iterator& each) { return each.name == name; }))
        refuse("statement ", reader().name, " has no iterator '", name, "'");
    }
    for (const Iterator& each : reader().iterators) {
      if (!each.extent.is_constant()) refuse("iterator ", each.name, " has a symbolic extent");
    }
  }

  Part part_of(const Subscript& subscript) {
    if (subscript.dynamic) refuse("data decides where buffer ", argument().name, " is read");
    Part part{Affine(subscript.affine.constant()), 1};
    for (const auto& [name, factor] : subscript.affine.terms()) {
      if (counts_tiles(name)) {
        part.begin = part.begin + Affine::variable(name, factor);
        continue;
      }
      const int64_t last = iterator_extent(reader(), name).constant() - 1;
      part.size += std::abs(factor) * last;
      if (factor < 0) part.begin = part.begin + Affine(factor * last);
    }
    return part;
  }

  std::string fresh_buffer(const std::string& stem) const {
    std::string name = stem;
    for (int number = 2; kernel_.buffer_index(name) >= 0; ++number) name = stem + std::to_string(number);
    return name;
  }

  std::string fresh_statement(const std::string& stem, const std::vector<Statement>& others = {}) const {
    std::string name = stem;
    const auto taken = [&] {
      return kernel_.find(name) != nullptr ||
             std::any_of(others.begin(), others.end(),
                         [&](const Statement& each) { return each.name == name; });
    };
    for (int number = 2; taken(); ++number) name = stem + std::to_string(number);
    return name;
  }

  int add_tile() {
    Buffer tile;
    tile.name = fresh_buffer(argument().name + "_tile");
    tile.dtype = argument().dtype;
    tile.scope = Scope::Local;
    for (const std::string& name : counters_) tile.shape.push_back(iterator_extent(reader(), name));
    for (const Part& part : parts_) tile.shape.push_back(Affine(part.size));
    put_in_memory(state_.target, tile, memory_, copies_);
    kernel_.buffers.push_back(std::move(tile));
    return static_cast<int>(kernel_.buffers.size()) - 1;
  }

  // The name of the iterator along a dimension of the tile.
  std::string along(size_t dimension) const {
    std::string name = text("d", dimension);
    while (counts_tiles(name)) name += '_';
    return name;
  }

  // The index in the argument of a tile's element.
  Affine place(size_t dimension) const {
    return parts_[dimension].begin + Affine::variable(along(dimension));
  }

  // A statement that writes all of the tile; without value and conditions.
  Statement writes_tile(int local, const std::string& name) {
    Statement statement;
    statement.name = name;
    statement.write.buffer = local;
    for (const std::string& counter : counters_) {
      statement.iterators.push_back({counter, iterator_extent(reader(), counter)});
      statement.write.index.push_back({Affine::variable(counter), nullptr});
    }
    for (size_t d = 0; d < parts_.size(); ++d) {
      statement.iterators.push_back({along(d), Affine(parts_[d].size)});
      statement.write.index.push_back({Affine::variable(along(d)), nullptr});
    }
    return statement;
  }

  // Two affine expressions that are not negative where the index is inside of the argument's dimension.
  std::pair<Affine, Affine> inside(size_t dimension, const Affine& index) const {
    return {index, argument().shape[dimension] - Affine(1) - index};
  }

  Statement copy(int local) {
    Statement statement = writes_tile(local, fresh_statement("load_" + argument().name));
    const Domain domain(box_of(kernel_, statement), {});
    std::vector<Subscript> index;
    for (size_t d = 0; d < parts_.size(); ++d) {
      const auto [low, high] = inside(d, place(d));
      for (const Affine& condition : {low, high}) {
        if (domain.is_nonnegative(condition, nullptr) != Domain::Answer::Yes)
          statement.constraints.push_back(condition);
      }
      index.push_back({place(d), nullptr});
    }
    statement.value = load(argument().dtype, which_, index);
    return statement;
  }

  // Whether a 0 that the reader reads of the argument changes no result: it is a factor of what a sum adds
  // up, in whole numbers, or the least of the numbers without a sign of which the reader keeps the largest.
  bool ignores_zeros() {
    if (reader().reduction == Reduction::Max) {
      const Expr& value = *reader().value;
      return value.kind == Expr::Kind::Load && value.access.buffer == which_ && value.dtype == DType::U8;
    }
    if (reader().reduction != Reduction::Sum || is_float(reader().value->dtype)) return false;
    const Expr& value = *reader().value;
    if (value.kind != Expr::Kind::Binary || value.binary != BinaryOp::Mul) return false;
    return std::any_of(value.operands.begin(), value.operands.end(), [&](const ExprPtr& factor) {
      const Expr& inner = factor->kind == Expr::Kind::Cast ? *factor->operands[0] : *factor;
      return inner.kind == Expr::Kind::Load && inner.access.buffer == which_;
    });
  }

  // Whether what the reader writes, and reads of other buffers, is inside of these under its conditions.
  bool others_stay_inside() {
    const Domain domain(box_of(kernel_, reader()), reader().constraints);
    bool all = true;
    visit_accesses(reader(), [&](const Access& access, bool) {
      if (access.buffer == which_) return;
      const Buffer& buffer = kernel_.buffers[static_cast<size_t>(access.buffer)];
      for (size_t d = 0; d < access.index.size(); ++d) {
        const Affine& index = access.index[d].affine;
        for (const Affine& each : {index, buffer.shape[d] - Affine(1) - index})
          all = all && domain.is_nonnegative(each, nullptr) == Domain::Answer::Yes;
      }
    });
    return all;
  }

  // Where the reader's conditions are that it reads inside of the argument, the tile has zeros outside, and
  // the conditions go.
  void add_borders(int local, std::vector<Statement>& before) {
    if (!ignores_zeros()) return;
    for (size_t d = 0; d < parts_.size(); ++d) {
      const auto [reads_low, reads_high] = inside(d, access_.index[d].affine);
      const auto [low, high] = inside(d, place(d));
      for (const auto& [read, tile] : {std::pair{reads_low, low}, std::pair{reads_high, high}}) {
        std::vector<Affine>& conditions = reader().constraints;
        const auto found = std::find(conditions.begin(), conditions.end(), read);
        if (found == conditions.end()) continue;
        const std::vector<Affine> with_it = conditions;
        conditions.erase(found);
        if (!others_stay_inside()) {
          conditions = with_it;
          continue;
        }
        Statement zero = writes_tile(local, fresh_statement("border_" + argument().name, before));
        zero.constraints.push_back(Affine(-1) - tile);
        zero.value =
            argument().dtype == DType::F32 ? constant(DType::F32, 0) : int_constant(argument().dtype, 0);
        before.push_back(std::move(zero));
      }
    }
  }

  void read_tile(int local) {
    std::vector<Subscript> index;
    for (const std::string& counter : counters_) index.push_back({Affine::variable(counter), nullptr});
    for (size_t d = 0; d < parts_.size(); ++d)
      index.push_back({access_.index[d].affine - parts_[d].begin, nullptr});
    edit_accesses(reader(),
                  [&](const Access& each) { return each.buffer == which_ ? Access{local, index} : each; });
  }

  const ScheduleState& state_;
  Kernel kernel_;
  int which_;
  std::vector<std::string> counters_;
  std::string memory_;
  int64_t copies_ = 1;
  size_t reader_ = 0;
  Access access_;
  std::vector<Part> parts_;  // of each dimension of the argument
};

}  // namespace

Primitive load_tile_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "load_tile",
      PrimitiveKind::Rewrite,
      {buffer("BUFFER"), name("MEMORY", "a memory of the accelerator"),
       number("COPIES", "the number of copies", 1), keyword(":"), list(iterator_name("ITERATOR"), 0)},
      "S[o, i] reads I[a*o + i]  ->  { T[o][i] = I[a*o + i]; S[o, i] reads T[o][i] }: the listed iterators of the one "
      "statement that reads BUFFER, an input or a constant, count tiles; what a tile reads is copied into MEMORY of "
      "the target's accelerator, by a statement before all others. Where S is a sum of products of whole numbers that leaves out what is outside of "
      "BUFFER, the tile has zeros there."};
  primitive.row.accelerator = true;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    replace_kernel(state, TileLoader(state, given).run());
  };
  return primitive;
}

}  // namespace tc
