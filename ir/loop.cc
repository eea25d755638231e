// Building and rewriting expressions and kernels of the loop IR.
#include "ir/loop.h"

#include <cmath>
#include <limits>
#include <unordered_map>

#include "ir/error.h"

namespace tc {
namespace {

constexpr const char* kUnaryNames[] = {
#define X(name, text) text,
    TC_FOR_EACH_UNARY(X)
#undef X
};
constexpr const char* kBinaryNames[] = {
#define X(name, text) text,
    TC_FOR_EACH_BINARY(X)
#undef X
};

bool is_predicate(UnaryOp op) { return op == UnaryOp::IsNan || op == UnaryOp::IsInf; }

bool is_comparison(BinaryOp op) { return op >= BinaryOp::Eq && op <= BinaryOp::Ge; }

std::shared_ptr<Expr> make(Expr::Kind kind, DType dtype) {
  auto expr = std::make_shared<Expr>();
  expr->kind = kind;
  expr->dtype = dtype;
  return expr;
}

// The access with each dynamic part mapped; null where nothing changed.
std::optional<Access> map_dynamic(const Access& access, const std::function<ExprPtr(const ExprPtr&)>& map) {
  std::optional<Access> changed;
  for (size_t i = 0; i < access.index.size(); ++i) {
    const ExprPtr& before = access.index[i].dynamic;
    if (!before) continue;
    ExprPtr after = map(before);
    if (after == before) continue;
    if (!changed) changed = access;
    changed->index[i].dynamic = after;
  }
  return changed;
}

// One rewriting of a whole expression; shared subexpressions are rewritten once and stay shared.
class Rewriter {
 public:
  explicit Rewriter(const std::function<ExprPtr(const ExprPtr&)>& replace) : replace_(replace) {}

  ExprPtr run(const ExprPtr& expr) {
    if (!expr) return expr;
    auto found = done_.find(expr.get());
    if (found != done_.end()) return found->second;
    ExprPtr result = replace_(expr);
    if (!result) result = inside(expr);
    return done_[expr.get()] = result;
  }

 private:
  ExprPtr inside(const ExprPtr& expr) {
    std::shared_ptr<Expr> changed;
    auto edit = [&] {
      if (!changed) changed = std::make_shared<Expr>(*expr);
      return changed;
    };
    for (size_t i = 0; i < expr->operands.size(); ++i) {
      ExprPtr operand = run(expr->operands[i]);
      if (operand != expr->operands[i]) edit()->operands[i] = operand;
    }
    auto access = map_dynamic(expr->access, [&](const ExprPtr& dynamic) { return run(dynamic); });
    if (access) edit()->access = *access;
    return changed ? ExprPtr(changed) : expr;
  }

  const std::function<ExprPtr(const ExprPtr&)>& replace_;
  std::unordered_map<const Expr*, ExprPtr> done_;
};

}  // namespace

const char* name_of(UnaryOp op) { return kUnaryNames[static_cast<size_t>(op)]; }
const char* name_of(BinaryOp op) { return kBinaryNames[static_cast<size_t>(op)]; }

const char* name_of(Scope scope) {
  constexpr const char* names[] = {"input", "output", "constant", "local", "stack", "register"};
  return names[static_cast<size_t>(scope)];
}

const char* name_of(Reduction reduction) {
  constexpr const char* names[] = {"none", "sum", "product", "max", "min", "and", "or", "max_number"};
  return names[static_cast<size_t>(reduction)];
}

// Rounded to the type; for integer types the same as int_constant.
ExprPtr constant(DType dtype, double value) {
  if (!is_float(dtype)) return int_constant(dtype, static_cast<int64_t>(value));
  auto expr = make(Expr::Kind::Const, dtype);
  expr->number = rounded_to(dtype, value);
  return expr;
}

// Wraps to the type; for float types the same as constant.
ExprPtr int_constant(DType dtype, int64_t value) {
  if (is_float(dtype)) return constant(dtype, static_cast<double>(value));
  auto expr = make(Expr::Kind::Const, dtype);
  expr->integer = wrapped_to(dtype, value);
  return expr;
}

ExprPtr load(DType dtype, int buffer, std::vector<Subscript> index) {
  auto expr = make(Expr::Kind::Load, dtype);
  expr->access = {buffer, std::move(index)};
  return expr;
}

ExprPtr load(DType dtype, int buffer, const std::vector<Affine>& index) {
  std::vector<Subscript> subscripts;
  for (const Affine& affine : index) subscripts.push_back({affine, nullptr});
  return load(dtype, buffer, std::move(subscripts));
}

ExprPtr index_value(Affine affine) {
  auto expr = make(Expr::Kind::Index, DType::I64);
  expr->affine = std::move(affine);
  return expr;
}

ExprPtr unary(UnaryOp op, ExprPtr a) {
  auto expr = make(Expr::Kind::Unary, is_predicate(op) ? DType::Bool : a->dtype);
  expr->unary = op;
  expr->operands = {std::move(a)};
  return expr;
}

ExprPtr binary(BinaryOp op, ExprPtr a, ExprPtr b) {
  TC_CHECK(a->dtype == b->dtype, "for ", name_of(op), ": ", name_of(a->dtype), " and ", name_of(b->dtype));
  auto expr = make(Expr::Kind::Binary, is_comparison(op) ? DType::Bool : a->dtype);
  expr->binary = op;
  expr->operands = {std::move(a), std::move(b)};
  return expr;
}

ExprPtr select(ExprPtr condition, ExprPtr then_value, ExprPtr else_value) {
  TC_CHECK(condition->dtype == DType::Bool, "for a select");
  TC_CHECK(then_value->dtype == else_value->dtype, "for a select: ", name_of(then_value->dtype), " and ",
           name_of(else_value->dtype));
  auto expr = make(Expr::Kind::Select, then_value->dtype);
  expr->operands = {std::move(condition), std::move(then_value), std::move(else_value)};
  return expr;
}

ExprPtr cast(DType dtype, ExprPtr a) {
  auto expr = make(Expr::Kind::Cast, dtype);
  expr->operands = {std::move(a)};
  return expr;
}

ExprPtr identity(Reduction reduction, DType dtype) {
  bool floating = is_float(dtype);
  double infinity = std::numeric_limits<double>::infinity();
  int64_t bits = 8 * size_of(dtype);
  // The extreme values as bit patterns: int_constant wraps them to the type.
  auto largest = static_cast<int64_t>(is_signed(dtype) ? (uint64_t{1} << (bits - 1)) - 1 : ~uint64_t{0});
  auto smallest = static_cast<int64_t>(is_signed(dtype) ? uint64_t{1} << (bits - 1) : 0);
  switch (reduction) {
    case Reduction::None: break;
    case Reduction::Sum:
    case Reduction::Or: return int_constant(dtype, 0);
    case Reduction::Product: return int_constant(dtype, 1);
    case Reduction::Max:
    case Reduction::MaxNumber: return floating ? constant(dtype, -infinity) : int_constant(dtype, smallest);
    case Reduction::Min: return floating ? constant(dtype, infinity) : int_constant(dtype, largest);
    case Reduction::And: return int_constant(dtype, -1);
  }
  fail(ErrorKind::Internal, "a statement without a reduction has no identity");
}

std::vector<int64_t> Packing::combined_shape() const {
  std::vector<int64_t> shape = original_shape;
  for (const Combination& each : combinations) {
    shape.at(each.dimension) = static_cast<int64_t>(each.rows.size());
  }
  return shape;
}

int Kernel::buffer_index(const std::string& name) const {
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

const Statement* Kernel::find(const std::string& statement) const {
  for (const Statement& candidate : statements) {
    if (candidate.name == statement) return &candidate;
  }
  return nullptr;
}

void for_each_load(const ExprPtr& expr, const std::function<void(const Expr&)>& visit) {
  if (!expr) return;
  if (expr->kind == Expr::Kind::Load) visit(*expr);
  for (const Subscript& subscript : expr->access.index) for_each_load(subscript.dynamic, visit);
  for (const ExprPtr& operand : expr->operands) for_each_load(operand, visit);
}

ExprPtr rewrite(const ExprPtr& expr, const std::function<ExprPtr(const ExprPtr&)>& rewrite) {
  return Rewriter(rewrite).run(expr);
}

ExprPtr substitute(const ExprPtr& expr, const std::map<std::string, Affine>& values) {
  // A load's affine part changes in the callback, so its dynamic part is substituted there too.
  return rewrite(expr, [&](const ExprPtr& node) -> ExprPtr {
    if (node->kind == Expr::Kind::Index) return index_value(node->affine.substitute(values));
    if (node->kind != Expr::Kind::Load) return nullptr;
    auto changed = std::make_shared<Expr>(*node);
    changed->access = substitute(node->access, values);
    return changed;
  });
}

Access substitute(const Access& access, const std::map<std::string, Affine>& values) {
  Access result = access;
  for (Subscript& subscript : result.index) {
    subscript.affine = subscript.affine.substitute(values);
    if (subscript.dynamic) subscript.dynamic = substitute(subscript.dynamic, values);
  }
  return result;
}

}  // namespace tc
