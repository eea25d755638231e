// Tiles, registers and order of the products of a matrix statement; uses no LLVM.
#include "codegen/llvm/emit/matrix_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>

#include "ir/access.h"
#include "ir/error.h"
#include "ir/target/register_groups.h"

namespace tc {
namespace {

using Kind = TileLoop::Kind;

// The register of each use, and whether the tile has to be loaded into it. A load replaces the tile whose
// next use comes last.
struct Assignment {
  std::vector<int> registers;
  std::vector<bool> loads;
  int count = 0;
};

Assignment assign(const std::vector<int>& uses, int registers) {
  Assignment result;
  std::vector<int> held;  // tile of each register
  for (size_t at = 0; at < uses.size(); ++at) {
    auto place = std::find(held.begin(), held.end(), uses[at]);
    const bool load = place == held.end();
    if (load && static_cast<int>(held.size()) < registers) {
      held.push_back(uses[at]);
      place = held.end() - 1;
    } else if (load) {
      const auto next_use = [&](int tile) {
        return std::find(uses.begin() + static_cast<std::ptrdiff_t>(at), uses.end(), tile);
      };
      place = std::max_element(held.begin(), held.end(),
                               [&](int left, int right) { return next_use(left) < next_use(right); });
      *place = uses[at];
    }
    result.registers.push_back(static_cast<int>(place - held.begin()));
    result.loads.push_back(load);
    result.count += load;
  }
  return result;
}

// The group's products in the order of a's tiles, or of b's; the other operand's tiles go forwards and
// backwards in turn.
std::vector<MatrixProduct> along(std::vector<MatrixProduct> group, bool a_first) {
  std::stable_sort(group.begin(), group.end(), [&](const MatrixProduct& left, const MatrixProduct& right) {
    return a_first ? std::pair(left.a, left.b) < std::pair(right.a, right.b)
                   : std::pair(left.b, left.a) < std::pair(right.b, right.a);
  });
  bool forth = true;
  for (auto begin = group.begin(); begin != group.end(); forth = !forth) {
    const auto end = std::find_if(begin, group.end(), [&](const MatrixProduct& product) {
      return a_first ? product.a != begin->a : product.b != begin->b;
    });
    if (!forth) std::reverse(begin, end);
    begin = end;
  }
  return group;
}

int64_t extent_of(const TileLoop& loop) {
  TC_CHECK(loop.extent >= 1, "for loop '", loop.name, "' of a matrix statement");
  return loop.extent;
}

// Elements from one index of a dimension to the next; nothing where a shape is not a number.
std::vector<std::optional<int64_t>> element_strides(const Buffer& buffer) {
  std::vector<std::optional<int64_t>> result(buffer.shape.size());
  std::optional<int64_t> stride = 1;
  for (size_t d = buffer.shape.size(); d-- > 0;) {
    result[d] = stride;
    if (!buffer.shape[d].is_constant()) {
      stride.reset();
    } else if (stride) {
      *stride *= std::max<int64_t>(1, buffer.shape[d].constant());
    }
  }
  return result;
}

// A text of the indices, equal for equal elements.
std::string key_of(const Access& access) {
  std::string key = std::to_string(access.buffer);
  for (const Subscript& subscript : access.index) key += " " + subscript.affine.str();
  return key;
}

class Planner {
 public:
  Planner(const Kernel& kernel, const TileStatement& tile, const Target& target)
      : kernel_(kernel),
        tile_(tile),
        target_(target),
        unit_(target.matrix),
        statement_(kernel.statements.at(static_cast<size_t>(tile.statement))) {
    TC_CHECK(unit_.registers >= 3, "of target '", target.name, "', which has no matrix unit, for ", where());
  }

  MatrixPlan run() {
    find_format(*statement_.value);
    check_loops();
    const std::vector<Term> terms = terms_of(statement_.value);
    const Access write = substitute(statement_.write, tile_.iterators);
    const int64_t accumulator_bytes = size_of(format_.accumulator);
    check_steps(write, {std::nullopt, 1, 0, 0}, "the accumulators");
    TC_CHECK(kernel_.buffers[static_cast<size_t>(write.buffer)].dtype == format_.accumulator &&
                 statement_.reduction == Reduction::Sum && statement_.value->dtype == format_.accumulator,
             "for ", where());
    for (size_t i = 0; i < plan_.batch; ++i) {
      for (const Subscript& subscript : write.index) {
        TC_CHECK(subscript.affine.coefficient(tile_.loops[i].name) == 0, "for serial loop '",
                 tile_.loops[i].name, "' around the accumulators of ", where());
      }
    }
    std::vector<std::vector<MatrixProduct>> groups;
    for_each_copy([&](const std::map<std::string, Affine>& copy) {
      const int accumulator = number_of(plan_.accumulators, statement_.write, write, copy,
                                        step(write, rows_).value() * accumulator_bytes);
      // Copies of another depth form groups of their own, after the others.
      const size_t depth = uses_[accumulator]++;
      if (groups.size() < (depth + 1) * terms.size()) groups.resize((depth + 1) * terms.size());
      for (size_t t = 0; t < terms.size(); ++t) {
        const int64_t bytes = size_of(format_.operand);
        const int a =
            number_of(plan_.a, *terms[t].a_source, terms[t].a, copy, *step(terms[t].a, rows_) * bytes);
        const int b =
            number_of(plan_.b, *terms[t].b_source, terms[t].b, copy, *step(terms[t].b, groups_) * bytes);
        groups[depth * terms.size() + t].push_back({accumulator, a, b});
      }
    });
    plan_.format = format_;
    plan_.groups = joins_groups() ? 1 : groups_.extent;
    plan_.rows = static_cast<int>(rows_.extent);
    unit_.vectors ? order_vectors(groups) : order_tiles(groups);
    return std::move(plan_);
  }

 private:
  void order_tiles(const std::vector<std::vector<MatrixProduct>>& groups) {
    const int accumulators = static_cast<int>(plan_.accumulators.size());
    TC_CHECK(accumulators + 2 <= unit_.registers, "for ", accumulators, " accumulators of ", where());
    plan_.order = order_products(groups, unit_.registers - accumulators);
    shape_registers();
  }

  // One operand stays in registers, the other passes through one register. For an instruction that takes
  // signed numbers of b as unsigned, each a has a second register, for the sums of what the offset adds, and
  // one more register holds what is added to the b's.
  void order_vectors(const std::vector<std::vector<MatrixProduct>>& groups) {
    const int a = static_cast<int>(plan_.a.size()), b = unit_.parts * static_cast<int>(plan_.b.size());
    plan_.offset_sums = is_signed(format_.operand) && !is_signed(format_.instruction->b);
    plan_.by_a = !plan_.offset_sums && b + 1 < a + unit_.parts;
    const int of_sums = unit_.parts * sum_registers(target_, *format_.instruction);
    if (sums_are_scalars(unit_)) {
      plan_.by_a = false;
      plan_.in_steps = true;
      plan_.order = order_in_steps(groups);
    }
    const int operands = plan_.in_steps ? plan_.order.a_registers + unit_.parts * plan_.order.b_registers
                                        : std::min(b + 1, a + unit_.parts);
    const int all =
        of_sums * static_cast<int>(plan_.accumulators.size()) + (plan_.offset_sums ? 2 * a + 2 : operands);
    TC_CHECK(all <= unit_.registers, "for ", all, " vectors of ", where());
    if (!plan_.in_steps) plan_.order = order_one_by_one(groups, plan_.by_a);
  }

  struct Term {
    Access a, b;  // in the tile's loops and outer variables
    const Access *a_source, *b_source;
  };

  // Finds the unit's format for the type that the first product multiplies.
  void find_format(const Expr& value) {
    const Expr* first = &value;
    while (!first->operands.empty()) first = first->operands[0].get();
    const MatrixUnit::Format* format = format_of_stored(unit_, first->dtype);
    TC_CHECK(format != nullptr, "of target '", target_.name, "', whose unit does not multiply ",
             name_of(first->dtype), ", for ", where());
    TC_CHECK(format->instruction != nullptr, "for ", name_of(first->dtype), " on target '", target_.name,
             "'");
    format_ = *format;
  }

  std::string where() const {
    return text("statement '", statement_.name, "' of kernel '", kernel_.name, "'");
  }

  void check_loops() {
    TC_CHECK(tile_.loops.size() >= 4, "for ", where());
    const size_t first = tile_.loops.size() - 4;
    while (plan_.batch < first && tile_.loops[plan_.batch].kind == Kind::Serial) ++plan_.batch;
    for (size_t i = plan_.batch; i < tile_.loops.size(); ++i) {
      TC_CHECK(tile_.loops[i].kind == (i < first ? Kind::Unroll : Kind::Matrix), "for loop '",
               tile_.loops[i].name, "' of ", where());
    }
    const std::array<int, 4> largest = {unit_.rows, unit_.columns, format_.groups, format_.pack};
    groups_ = tile_.loops[first + 2], packed_ = tile_.loops[first + 3];
    for (size_t i = 0; i < (joins_groups() ? 2 : 4); ++i) {
      TC_CHECK(extent_of(tile_.loops[first + i]) <= largest[i], "for loop '", tile_.loops[first + i].name,
               "' of ", where());
    }
    TC_CHECK(!unit_.vectors || tile_.loops[first + 1].extent == unit_.columns, "for loop '",
             tile_.loops[first + 1].name, "' of ", where());
    rows_ = tile_.loops[first], columns_ = tile_.loops[first + 1];
    TC_CHECK(joins_groups() || packed_.extent == format_.pack, "for loop '", packed_.name, "' of ", where());
  }

  std::optional<int64_t> step(const Access& access, const TileLoop& loop) const {
    return loop.extent == 1 ? 0 : element_stride(kernel_, access, loop.name);
  }

  // Whether rows, columns, groups and packed elements move the access by these numbers of elements; nullopt
  // stands for any number.
  bool has_steps(const Access& access, const std::array<std::optional<int64_t>, 4>& wanted) const {
    const std::array<const TileLoop*, 4> loops = {&rows_, &columns_, &groups_, &packed_};
    for (size_t i = 0; i < 4; ++i) {
      const std::optional<int64_t> is = step(access, *loops[i]);
      if (!is || (wanted[i] && loops[i]->extent > 1 && *is != *wanted[i])) return false;
    }
    for (const Subscript& subscript : access.index) {
      if (subscript.dynamic != nullptr) return false;
    }
    return true;
  }

  void check_steps(const Access& access, const std::array<std::optional<int64_t>, 4>& wanted,
                   const char* what) const {
    TC_CHECK(has_steps(access, wanted), "from one element to the next of ", what, " of ", where());
  }

  // The operand under a cast to the accumulators' type, or null.
  const Expr* operand_of(const ExprPtr& expr) const {
    if (expr->kind != Expr::Kind::Cast || expr->dtype != format_.accumulator) return nullptr;
    const Expr& inner = *expr->operands[0];
    return inner.kind == Expr::Kind::Load ? &inner : nullptr;
  }

  // Whether two loops count the numbers of one vector: neighbours, and channels of these.
  bool joins_groups() const {
    return sums_are_scalars(unit_) && groups_.extent > 1 && groups_.extent * packed_.extent == format_.pack;
  }

  // The numbers between the groups of a row. Units of vectors take any, since each group is loaded alone.
  std::optional<int64_t> group_step() const {
    if (joins_groups()) return packed_.extent;
    return unit_.vectors ? std::nullopt : std::optional<int64_t>(format_.pack);
  }

  std::vector<Term> terms_of(const ExprPtr& value) const {
    if (value->kind == Expr::Kind::Binary && value->binary == BinaryOp::Add) {
      std::vector<Term> left = terms_of(value->operands[0]), right = terms_of(value->operands[1]);
      left.insert(left.end(), right.begin(), right.end());
      return left;
    }
    TC_CHECK(value->kind == Expr::Kind::Binary && value->binary == BinaryOp::Mul, "as a product in ",
             where());
    const Expr* left = operand_of(value->operands[0]);
    const Expr* right = operand_of(value->operands[1]);
    TC_CHECK(left != nullptr && right != nullptr, "as operands of the unit's type in ", where());
    for (const bool swapped : {false, true}) {
      const Expr* a = swapped ? right : left;
      const Expr* b = swapped ? left : right;
      Term term{substitute(a->access, tile_.iterators), substitute(b->access, tile_.iterators), &a->access,
                &b->access};
      if (a->dtype == first_operand(format_) && b->dtype == second_operand(format_) &&
          has_steps(term.a, {std::nullopt, 0, group_step(), 1}) &&
          has_steps(term.b, {0, format_.pack, joins_groups() ? group_step() : std::nullopt, 1})) {
        return {term};
      }
    }
    fail(ErrorKind::Internal, "internal error: the elements of a product of ", where(),
         " are not in the order of the matrix unit");
  }

  void for_each_copy(const std::function<void(const std::map<std::string, Affine>&)>& visit) const {
    std::vector<Affine> conditions;
    for (const Affine& constraint : tile_.constraints) {
      if (is_of_copies(tile_, constraint)) conditions.push_back(constraint);
    }
    std::map<std::string, Affine> copy;
    const auto nest = [&](size_t position, const auto& self) -> void {
      if (position + 4 == tile_.loops.size()) {
        const bool exists = std::all_of(conditions.begin(), conditions.end(), [&](const Affine& condition) {
          return condition.substitute(copy).constant() >= 0;
        });
        return exists ? visit(copy) : void();
      }
      for (int64_t i = 0; i < extent_of(tile_.loops[position]); ++i) {
        copy[tile_.loops[position].name] = Affine(i);
        self(position + 1, self);
      }
    };
    nest(plan_.batch, nest);
  }

  int number_of(std::vector<MatrixTile>& tiles, const Access& source, const Access& access,
                const std::map<std::string, Affine>& copy, int64_t row_bytes) {
    std::map<std::string, Affine> start = copy;
    for (const TileLoop* loop : {&rows_, &columns_, &groups_, &packed_}) start[loop->name] = Affine(0);
    const Access first = substitute(access, start);
    const auto same = std::find_if(tiles.begin(), tiles.end(), [&](const MatrixTile& tile) {
      return key_of(tile.access) == key_of(first);
    });
    if (same != tiles.end()) return static_cast<int>(same - tiles.begin());
    const int64_t group_bytes = *step(access, groups_) * size_of(format_.operand);
    tiles.push_back({first, source, start, row_bytes, group_bytes});
    return static_cast<int>(tiles.size()) - 1;
  }

  void shape_registers() {
    const int64_t operand = size_of(format_.operand), depth = groups_.extent * packed_.extent;
    plan_.shapes.assign(plan_.accumulators.size(),
                        {rows_.extent, columns_.extent * size_of(format_.accumulator)});
    const auto add = [&](int count, const TileShape& shape) {
      plan_.shapes.insert(plan_.shapes.end(), static_cast<size_t>(count), shape);
    };
    add(plan_.order.a_registers, {rows_.extent, depth * operand});
    add(plan_.order.b_registers, {groups_.extent, columns_.extent * packed_.extent * operand});
  }

  const Kernel& kernel_;
  const TileStatement& tile_;
  const Target& target_;
  const MatrixUnit& unit_;
  const Statement& statement_;
  MatrixUnit::Format format_{};
  TileLoop rows_, columns_, groups_, packed_;
  std::map<int, size_t> uses_;
  MatrixPlan plan_;
};

// The elements that an access reaches in its tile's loops: `outer` is the part in outer variables (a text
// for each dimension of symbolic stride, and one for all others), `offsets` are the sorted offsets from it.
// footprint() gives nothing where there are too many offsets, or where they are not numbers.
struct Footprint {
  std::vector<std::string> outer;
  std::vector<int64_t> offsets;
};

std::optional<Footprint> footprint(const Kernel& kernel, const Access& access, const TileStatement& tile) {
  constexpr size_t kLargest = 1 << 14;
  // An element, and the values of the conditions on copies there.
  struct Place {
    int64_t offset;
    std::vector<int64_t> conditions;
    bool operator<(const Place& other) const { return offset < other.offset; }
    bool operator==(const Place& other) const { return offset == other.offset; }
  };
  Place start{0, {}};
  for (const Affine& constraint : tile.constraints) {
    if (!is_of_copies(tile, constraint)) return std::nullopt;
    start.conditions.push_back(constraint.constant());
  }
  std::vector<Place> places = {start};
  for (const TileLoop& loop : tile.loops) {
    const std::optional<int64_t> step = element_stride(kernel, access, loop.name);
    if (!step || loop.extent < 0) return std::nullopt;
    const bool conditional =
        std::any_of(tile.constraints.begin(), tile.constraints.end(),
                    [&](const Affine& constraint) { return constraint.coefficient(loop.name) != 0; });
    if (*step == 0 && !conditional) continue;
    if (places.size() * static_cast<size_t>(loop.extent) > kLargest) return std::nullopt;
    std::vector<Place> next;
    for (int64_t i = 0; i < loop.extent; ++i) {
      for (Place place : places) {
        place.offset += i * *step;
        for (size_t c = 0; c < place.conditions.size(); ++c)
          place.conditions[c] += i * tile.constraints[c].coefficient(loop.name);
        next.push_back(std::move(place));
      }
    }
    places = std::move(next);
  }
  std::erase_if(places, [](const Place& place) {
    return std::any_of(place.conditions.begin(), place.conditions.end(),
                       [](int64_t value) { return value < 0; });
  });
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  Footprint result;
  for (const Place& place : places) result.offsets.push_back(place.offset);
  std::map<std::string, Affine> zeros;
  for (const TileLoop& loop : tile.loops) zeros[loop.name] = Affine(0);
  const Access first = substitute(access, zeros);
  const auto strides = element_strides(kernel.buffers[static_cast<size_t>(access.buffer)]);
  Affine linear;
  for (size_t d = 0; d < first.index.size(); ++d) {
    if (first.index[d].dynamic != nullptr) return std::nullopt;
    if (strides[d]) {
      linear = linear + first.index[d].affine * *strides[d];
    } else {
      result.outer.push_back(first.index[d].affine.str());
    }
  }
  for (int64_t& offset : result.offsets) offset += linear.constant();
  result.outer.push_back((linear - Affine(linear.constant())).str());
  return result;
}

// The products in this order, with so many registers for the operands.
MatrixOrder in_registers(std::vector<MatrixProduct> products, int a_registers, int b_registers) {
  std::vector<int> a, b;
  for (const MatrixProduct& product : products) {
    a.push_back(product.a);
    b.push_back(product.b);
  }
  const Assignment of_a = assign(a, a_registers), of_b = assign(b, b_registers);
  return {std::move(products), of_a.registers, of_b.registers, of_a.loads,
          of_b.loads,          a_registers,    b_registers,    of_a.count + of_b.count};
}

}  // namespace

MatrixOrder order_products(const std::vector<std::vector<MatrixProduct>>& groups, int registers) {
  TC_CHECK(registers >= 2, "for the operands of matrix products");
  constexpr size_t kTried = 6;  // the most groups of which all orders are compared
  std::vector<size_t> sequence(groups.size());
  std::iota(sequence.begin(), sequence.end(), size_t{0});
  MatrixOrder best;
  bool found = false;
  do {
    for (const bool a_first : {true, false}) {
      std::vector<MatrixProduct> products;
      std::vector<int> a, b;
      for (const size_t group : sequence) {
        for (const MatrixProduct& product : along(groups[group], a_first)) {
          products.push_back(product);
          a.push_back(product.a);
          b.push_back(product.b);
        }
      }
      for (int a_registers = 1; a_registers < registers; ++a_registers) {
        const Assignment of_a = assign(a, a_registers), of_b = assign(b, registers - a_registers);
        const int loads = of_a.count + of_b.count;
        const auto rank = [](int count, int b_registers) {
          return std::pair(count, std::abs(b_registers - 2));
        };
        if (found && rank(loads, registers - a_registers) >= rank(best.loads, best.b_registers)) continue;
        found = true;
        best = {products,   of_a.registers, of_b.registers,          of_a.loads,
                of_b.loads, a_registers,    registers - a_registers, loads};
      }
    }
  } while (groups.size() <= kTried && std::next_permutation(sequence.begin(), sequence.end()));
  return best;
}

MatrixOrder order_one_by_one(const std::vector<std::vector<MatrixProduct>>& groups, bool by_a) {
  std::vector<MatrixProduct> products;
  for (const std::vector<MatrixProduct>& group : groups)
    products.insert(products.end(), group.begin(), group.end());
  std::stable_sort(products.begin(), products.end(),
                   [&](const MatrixProduct& left, const MatrixProduct& right) {
                     return by_a ? left.a < right.a : left.b < right.b;
                   });
  std::set<int> held;
  for (const MatrixProduct& product : products) held.insert(by_a ? product.b : product.a);
  const int all = static_cast<int>(held.size());
  return in_registers(std::move(products), by_a ? 1 : all, by_a ? all : 1);
}

MatrixOrder order_in_steps(const std::vector<std::vector<MatrixProduct>>& groups) {
  std::vector<MatrixProduct> products;
  size_t most = 0;  // operands a of a step
  for (std::vector<MatrixProduct> group : groups) {
    std::stable_sort(group.begin(), group.end(),
                     [](const MatrixProduct& left, const MatrixProduct& right) { return left.b < right.b; });
    std::set<int> of_step;
    for (const MatrixProduct& product : group) of_step.insert(product.a);
    most = std::max(most, of_step.size());
    products.insert(products.end(), group.begin(), group.end());
  }
  return in_registers(std::move(products), static_cast<int>(most), 1);
}

bool is_matrix_product(const Kernel& kernel, const TileStatement& tile) {
  return !tile.loops.empty() && tile.loops.back().kind == Kind::Matrix &&
         kernel.statements.at(static_cast<size_t>(tile.statement)).reduction != Reduction::None;
}

bool uses_matrix_unit(const ScheduledKernel& scheduled) {
  const auto uses = [&](const LoopNode& node, const auto& self) -> bool {
    return std::any_of(
               node.statements.begin(), node.statements.end(),
               [&](const TileStatement& tile) { return is_matrix_product(scheduled.kernel, tile); }) ||
           std::any_of(node.children.begin(), node.children.end(),
                       [&](const LoopNodePtr& child) { return self(*child, self); });
  };
  return scheduled.root != nullptr && uses(*scheduled.root, uses);
}

std::set<int> matrix_operands(const ScheduledKernel& scheduled) {
  const Kernel& kernel = scheduled.kernel;
  std::set<int> products, operands;  // statements; buffers
  const auto visit = [&](const LoopNode& node, const auto& self) -> void {
    for (const TileStatement& tile : node.statements) {
      if (is_matrix_product(kernel, tile)) products.insert(tile.statement);
    }
    for (const LoopNodePtr& child : node.children) self(*child, self);
  };
  if (scheduled.root != nullptr) visit(*scheduled.root, visit);
  const auto for_each_read = [&](const auto& act) {
    for (size_t i = 0; i < kernel.statements.size(); ++i) {
      for_each_load(kernel.statements[i].value,
                    [&](const Expr& load) { act(static_cast<int>(i), load.access.buffer); });
    }
  };
  for_each_read([&](int statement, int buffer) {
    if (products.count(statement) != 0 && !is_argument(kernel.buffers[static_cast<size_t>(buffer)])) {
      operands.insert(buffer);
    }
  });
  for (size_t before = operands.size() + 1; before != operands.size();) {
    before = operands.size();
    for_each_read([&](int statement, int buffer) {
      if (products.count(statement) != 0) return;
      if (operands.count(kernel.statements[static_cast<size_t>(statement)].write.buffer) == 0)
        operands.erase(buffer);
    });
  }
  return operands;
}

bool is_of_copies(const TileStatement& tile, const Affine& constraint) {
  const auto& terms = constraint.terms();
  return std::all_of(terms.begin(), terms.end(), [&](const auto& term) {
    return std::any_of(tile.loops.begin(), tile.loops.end(), [&](const TileLoop& loop) {
      return loop.name == term.first && loop.kind == Kind::Unroll;
    });
  });
}

MatrixPlan plan_matrix(const Kernel& kernel, const TileStatement& tile, const Target& target) {
  return Planner(kernel, tile, target).run();
}

bool zeroes_accumulators(const Kernel& kernel, const TileStatement& tile, const TileStatement& product) {
  const Statement& zero = kernel.statements.at(static_cast<size_t>(tile.statement));
  const Statement& sum = kernel.statements.at(static_cast<size_t>(product.statement));
  if (zero.reduction != Reduction::None || zero.write.buffer != sum.write.buffer ||
      !tile.constraints.empty() || zero.value->kind != Expr::Kind::Const || zero.value->integer != 0 ||
      zero.value->number != 0 || std::signbit(zero.value->number)) {
    return false;
  }
  const auto set = footprint(kernel, substitute(zero.write, tile.iterators), tile);
  const auto needed = footprint(kernel, substitute(sum.write, product.iterators), product);
  return set && needed && set->outer == needed->outer && set->offsets == needed->offsets;
}

}  // namespace tc
