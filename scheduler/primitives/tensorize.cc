// tensorize: the innermost loops of a sum of products become one instruction of the matrix unit.
#include <array>

#include "ir/target/register_groups.h"
#include "scheduler/core/primitive.h"
#include "scheduler/core/statements.h"

namespace tc {
namespace {

const MarkRow kMark = {.word = marks::kMatrix, .adjective = "tensorized"};

// The products of a sum, as pairs of factors.
void collect_products(const ExprPtr& value, std::vector<std::pair<const Expr*, const Expr*>>& products) {
  if (value->kind == Expr::Kind::Binary && value->binary == BinaryOp::Add) {
    for (const ExprPtr& operand : value->operands) collect_products(operand, products);
    return;
  }
  if (value->kind != Expr::Kind::Binary || value->binary != BinaryOp::Mul)
    refuse("its value is no sum of products");
  products.emplace_back(value->operands[0].get(), value->operands[1].get());
}

// By how many elements an access moves for each row, column, group and packed element.
using Steps = std::array<int64_t, 4>;

class Checker {
 public:
  Checker(const ScheduleState& state, const std::array<const TreeNode*, 4>& loops)
      : kernel_(state.kernel->kernel), unit_(state.target.matrix) {
    const int which = loops[3]->children[0].statement;
    statement_ = &kernel_.statements[static_cast<size_t>(which)];
    find_format(constant_extent(state, *loops[2]));
    const std::array<const char*, 4> meaning = {"rows", "columns", "groups", "packed elements"};
    std::array<int64_t, 4> sizes = {unit_.rows, unit_.columns, format_.groups, format_.pack};
    // Two loops may count the numbers of one vector: neighbours, and channels of these.
    const int64_t neighbours = constant_extent(state, *loops[2]).value_or(0);
    if (sums_are_scalars(unit_) && neighbours > 1 && sizes[3] % neighbours == 0) {
      joined_ = sizes[3] / neighbours;
      sizes = {sizes[0], sizes[1], neighbours, joined_};
    }
    for (size_t i = 0; i < 4; ++i) {
      const auto extent = constant_extent(state, *loops[i]);
      if (!extent || *extent > sizes[i] || (i > 0 && *extent != sizes[i])) {
        refuse("loop ", loops[i]->name, " has ", extent ? text(*extent) : "no constant number of",
               " trips, but the unit has ", sizes[i], " ", meaning[i]);
      }
    }
    for (size_t i = 0; i < 4; ++i) {
      const LoopPart& part = loops[i]->iterator_parts.at(which);
      if (!part.steps.empty())
        refuse("loop ", loops[i]->name, " counts a part of ", part.iterator, " only: strip it");
      iterators_[i] = part.iterator;
    }
  }

  void check() const {
    for (const Affine& constraint : statement_->constraints) {
      for (const std::string& iterator : iterators_) {
        if (constraint.coefficient(iterator) != 0)
          refuse("statement ", statement_->name, " has the condition ", constraint.str(), " >= 0");
      }
    }
    const Steps result = steps(statement_->write);
    require_type(statement_->write, format_.accumulator);
    if (result[0] < unit_.columns || result[1] != 1 || result[2] != 0 || result[3] != 0) {
      refuse("statement ", statement_->name, " does not write rows of columns");
    }
    for (auto [a, b] : products_) {
      const Access *left = &operand(*a), *right = &operand(*b);
      if (steps(*left)[1] != 0) std::swap(left, right);
      require_type(*left, first_operand(format_));
      require_type(*right, second_operand(format_));
      const Steps rows = steps(*left), columns = steps(*right);
      if (rows[1] != 0 || (rows[3] != 1 && joined_ != 1) || !steps_to_group(rows[2], format_.pack)) {
        refuse("operand ", name(*left), " of ", statement_->name, " does not have the depth of ",
               format_.groups, " x ", format_.pack, " next to each other");
      }
      if (columns[0] != 0 || columns[1] != format_.pack || (columns[3] != 1 && joined_ != 1) ||
          !steps_to_group(columns[2], int64_t{unit_.columns} * format_.pack)) {
        refuse("operand ", name(*right), " of ", statement_->name,
               " is not packed as [groups][columns][packed elements]");
      }
    }
  }

 private:
  // Finds the unit's format: the type of the first operand decides, and between several formats the number of
  // groups.
  void find_format(std::optional<int64_t> groups) {
    if (statement_->reduction != Reduction::Sum) refuse("statement ", statement_->name, " is no sum");
    collect_products(statement_->value, products_);
    const Expr& first = *products_.at(0).first;
    const Expr& read = first.kind == Expr::Kind::Cast ? *first.operands[0] : first;
    const MatrixUnit::Format* format = format_of_stored(unit_, read.dtype);
    if (format == nullptr)
      refuse("statement ", statement_->name, " multiplies ", name_of(read.dtype),
             ", which the unit does not");
    format_ = *format;
    for (const MatrixUnit::Format& each : unit_.formats) {
      if (first_operand(each) == read.dtype && groups == each.groups) format_ = each;
    }
  }

  // Whether the next group of an operand is where the unit expects it. Units of vectors load each group
  // alone; groups that are one vector follow each other.
  bool steps_to_group(int64_t step, int64_t expected) const {
    return joined_ > 0 ? step == joined_ : unit_.vectors || step == expected;
  }

  const std::string& name(const Access& access) const {
    return kernel_.buffers[static_cast<size_t>(access.buffer)].name;
  }

  void require_type(const Access& access, DType dtype) const {
    const Buffer& buffer = kernel_.buffers[static_cast<size_t>(access.buffer)];
    if (buffer.dtype != dtype) {
      refuse("buffer ", buffer.name, " is ", name_of(buffer.dtype), ", but the unit takes ", name_of(dtype));
    }
  }

  // The access of an operand of a product, which has to be cast to the accumulator's type.
  const Access& operand(const Expr& expr) const {
    const bool known = expr.kind == Expr::Kind::Cast && expr.dtype == format_.accumulator &&
                       expr.operands[0]->kind == Expr::Kind::Load;
    if (!known)
      refuse("an operand of ", statement_->name, " is not read and cast to ", name_of(format_.accumulator));
    return expr.operands[0]->access;
  }

  Steps steps(const Access& access) const {
    Steps result{};
    for (size_t i = 0; i < 4; ++i) {
      const auto step = element_stride(kernel_, access, iterators_[i]);
      if (!step) refuse("buffer ", name(access), " is not read at fixed steps");
      result[i] = *step;
    }
    return result;
  }

  const Kernel& kernel_;
  const MatrixUnit& unit_;
  const Statement* statement_ = nullptr;
  MatrixUnit::Format format_{};
  int64_t joined_ = 0;  // packed elements of a neighbour, where several neighbours are one vector
  std::vector<std::pair<const Expr*, const Expr*>> products_;
  std::array<std::string, 4> iterators_;
};

}  // namespace

Primitive tensorize_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "tensorize",
      PrimitiveKind::Mark,
      {loop("ROWS", "the loop over rows"), loop("COLUMNS", "the loop over columns"),
       loop("GROUPS", "the loop over groups"), loop("PACKED", "the loop over packed elements")},
      "The four innermost loops of a sum of products become one instruction of the target's "
      "matrix unit: O[.., row, .., column] += A[.., group, member] * B[.., group, column, member]."};
  primitive.row.mark = kMark;
  primitive.row.matrix_unit = true;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    const std::array<TreeNode*, 4> loops = {&given.loop("ROWS"), &given.loop("COLUMNS"),
                                            &given.loop("GROUPS"), &given.loop("PACKED")};
    for (size_t i = 0; i < 4; ++i) {
      refuse_mark(state, *loops[i], kMark);
      if (i > 0 && &loops[i - 1]->children[0] != loops[i]) {
        refuse("loop ", loops[i]->name, " is not directly inside loop ", loops[i - 1]->name);
      }
    }
    if (loops[3]->children[0].kind != TreeNode::Kind::Leaf) {
      refuse("loop ", loops[3]->name, " is not the innermost loop of one statement");
    }
    Checker(state, {loops[0], loops[1], loops[2], loops[3]}).check();
    for (TreeNode* loop : loops) loop->marks.push_back({kMark.word, 0, {}});
  };
  return primitive;
}

}  // namespace tc
