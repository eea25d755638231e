// join: two iterators of one statement become one.
#include "scheduler/core/primitive.h"
#include "scheduler/core/rewriting.h"

namespace tc {
namespace {

// The iterator that replaces two others; `size` is the extent of the inner one.
struct Joined {
  std::string statement, outer, inner, name;
  int64_t size = 1;

  // For a*outer + b*inner: in_name() is b*name, and rest() is what remains to be added for each value of
  // `outer`.
  Affine in_name(const Affine& affine) const {
    const int64_t step = affine.coefficient(inner);
    return affine - Affine::variable(outer, affine.coefficient(outer)) - Affine::variable(inner, step) +
           Affine::variable(name, step);
  }
  int64_t rest(const Affine& affine) const {
    return affine.coefficient(outer) - size * affine.coefficient(inner);
  }
  Affine exactly(const Affine& affine, const char* where) const {
    if (rest(affine) == 0) return in_name(affine);
    refuse("statement ", statement, " has ", affine.str(), " in ", where, ", which is not affine in ", size,
           "*", outer, " + ", inner);
  }

  Subscript in_name(const Subscript& subscript) const {
    Subscript result{in_name(subscript.affine), subscript.dynamic ? in_name(subscript.dynamic) : nullptr};
    if (const int64_t factor = rest(subscript.affine)) {
      const ExprPtr count =
          binary(BinaryOp::Div, index_value(Affine::variable(name)), int_constant(DType::I64, size));
      const ExprPtr added = binary(BinaryOp::Mul, count, int_constant(DType::I64, factor));
      result.dynamic = result.dynamic ? binary(BinaryOp::Add, result.dynamic, added) : added;
    }
    return result;
  }
  ExprPtr in_name(const ExprPtr& expr) const {
    return rewrite(expr, [&](const ExprPtr& node) -> ExprPtr {
      if (node->kind == Expr::Kind::Index) return index_value(exactly(node->affine, "a value"));
      if (node->kind != Expr::Kind::Load) return nullptr;
      std::vector<Subscript> index;
      for (const Subscript& subscript : node->access.index) index.push_back(in_name(subscript));
      return load(node->dtype, node->access.buffer, index);
    });
  }
};

}  // namespace

Primitive join_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "join", PrimitiveKind::Rewrite, neighbours("the joined iterator's name"),
      "S[i, j]  ->  S[NAME] with i = NAME/M and j = NAME%M, in the statement itself: the reverse "
      "of strip. What it writes stays affine; what it reads at i or j alone gets a computed "
      "subscript, so that lanes of several groups read each their own group's."};
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    Kernel kernel = state.kernel->kernel;
    const auto [which, position, inner] = given.neighbours();
    Statement& statement = kernel.statements[which];
    Joined joined{statement.name, statement.iterators[position].name, "", given.word("NAME"), 1};
    joined.inner = statement.iterators[inner].name;
    const Affine extent = statement.iterators[inner].extent;
    if (!extent.is_constant())
      refuse("iterator ", joined.inner, " of ", statement.name, " has a symbolic extent");
    joined.size = extent.constant();
    if (joined.name != joined.outer && joined.name != joined.inner &&
        fresh_iterator(kernel, statement, joined.name) != joined.name) {
      refuse("the name '", joined.name, "' is taken in statement ", statement.name);
    }
    for (Affine& constraint : statement.constraints) constraint = joined.exactly(constraint, "a condition");
    for (Subscript& subscript : statement.write.index) {
      joined.exactly(subscript.affine, "what it writes");
      subscript = joined.in_name(subscript);
    }
    statement.value = joined.in_name(statement.value);
    statement.iterators[position] = {joined.name, statement.iterators[position].extent * joined.size};
    statement.iterators.erase(statement.iterators.begin() + static_cast<std::ptrdiff_t>(inner));
    replace_kernel(state, std::move(kernel));
  };
  return primitive;
}

}  // namespace tc
