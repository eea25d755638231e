// Loop expressions and the text form of scheduled kernels.
#include "ir/scheduled.h"

#include <algorithm>

#include "ir/error.h"

namespace tc {
namespace {

using Kind = LoopExpr::Kind;

bool is_infix(Kind kind) {
  switch (kind) {
    case Kind::Const:
    case Kind::Variable:
    case Kind::FloorDiv:
    case Kind::Mod:
    case Kind::Min:
    case Kind::Max:
    case Kind::Select: return false;
    default: return true;
  }
}

const char* symbol_of(Kind kind) {
  switch (kind) {
    case Kind::Add: return " + ";
    case Kind::Sub: return " - ";
    case Kind::Mul: return "*";
    case Kind::Eq: return " == ";
    case Kind::Le: return " <= ";
    case Kind::Lt: return " < ";
    case Kind::Ge: return " >= ";
    case Kind::Gt: return " > ";
    case Kind::And: return " and ";
    case Kind::Or: return " or ";
    case Kind::FloorDiv: return "floor";
    case Kind::Mod: return "mod";
    case Kind::Min: return "min";
    case Kind::Max: return "max";
    case Kind::Select: return "select";
    default: return "";
  }
}

// Or, and, comparison, sum, product, primary.
int level_of(Kind kind) {
  switch (kind) {
    case Kind::Or: return 0;
    case Kind::And: return 1;
    case Kind::Eq:
    case Kind::Le:
    case Kind::Lt:
    case Kind::Ge:
    case Kind::Gt: return 2;
    case Kind::Add:
    case Kind::Sub: return 3;
    case Kind::Mul: return 4;
    default: return 5;
  }
}

std::string print(const LoopExpr& expr, int level) {
  if (expr.kind == Kind::Const) return std::to_string(expr.value);
  if (expr.kind == Kind::Variable) return expr.name;
  std::string result;
  if (is_infix(expr.kind)) {
    int own = level_of(expr.kind);
    for (size_t i = 0; i < expr.operands.size(); ++i) {
      // Left-associative, and comparisons do not chain.
      int operand_level = own == 2 || i > 0 ? own + 1 : own;
      result += (i ? symbol_of(expr.kind) : "") + print(*expr.operands[i], operand_level);
    }
    return own < level ? "(" + result + ")" : result;
  }
  result = std::string(symbol_of(expr.kind)) + "(";
  for (size_t i = 0; i < expr.operands.size(); ++i) {
    const char* separator = expr.kind == Kind::FloorDiv ? "/" : ", ";
    int operand_level = expr.kind == Kind::FloorDiv ? 5 : 0;
    result += (i ? separator : "") + print(*expr.operands[i], operand_level);
  }
  return result + ")";
}

void refuse(bool overflowed) {
  if (overflowed) fail(ErrorKind::Shape, "a loop bound overflows 64 bits");
}

int64_t apply(Kind kind, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (kind) {
    case Kind::Add: refuse(__builtin_add_overflow(a, b, &result)); return result;
    case Kind::Sub: refuse(__builtin_sub_overflow(a, b, &result)); return result;
    case Kind::Mul: refuse(__builtin_mul_overflow(a, b, &result)); return result;
    case Kind::FloorDiv: TC_CHECK(b > 0, "as a divisor"); return a / b - (a % b < 0);
    case Kind::Mod: TC_CHECK(b > 0, "as a divisor"); return a % b < 0 ? a % b + b : a % b;
    case Kind::Min: return std::min(a, b);
    case Kind::Max: return std::max(a, b);
    case Kind::Eq: return a == b;
    case Kind::Le: return a <= b;
    case Kind::Lt: return a < b;
    case Kind::Ge: return a >= b;
    case Kind::Gt: return a > b;
    case Kind::And: return a != 0 && b != 0;
    case Kind::Or: return a != 0 || b != 0;
    default: fail(ErrorKind::Internal, "a loop expression of a kind without operands has operands");
  }
}

const char* name_of(TileLoop::Kind kind) {
  switch (kind) {
    case TileLoop::Kind::Serial: return "serial";
    case TileLoop::Kind::Unroll: return "unroll";
    case TileLoop::Kind::Vector: return "vector";
    case TileLoop::Kind::Matrix: return "matrix";
  }
  return "";
}

std::string str(const TileStatement& tile, const Kernel& kernel) {
  const Statement& statement = kernel.statements.at(static_cast<size_t>(tile.statement));
  std::string result = statement.name + "[";
  for (size_t i = 0; i < statement.iterators.size(); ++i) {
    const std::string& name = statement.iterators[i].name;
    auto found = tile.iterators.find(name);
    result += (i ? ", " : "") + name + "=" + (found == tile.iterators.end() ? "?" : found->second.str());
  }
  result += "]";
  for (size_t i = 0; i < tile.loops.size(); ++i) {
    const TileLoop& loop = tile.loops[i];
    std::string extent =
        loop.extent < 0 ? "(" + loop.symbolic_extent.str() + ")" : std::to_string(loop.extent);
    if (loop.symbolic_divisor > 1) extent += text("/", loop.symbolic_divisor, " rounded up");
    result += text(i ? ", " : " for ", name_of(loop.kind), " ", loop.name, ":", extent);
    if (loop.unroll > 1) result += text(" unroll ", loop.unroll);
    if (loop.sum_block > 0) result += text(" sum_blocks ", loop.sum_block);
  }
  for (size_t i = 0; i < tile.constraints.size(); ++i) {
    result += (i ? ", " : " where ") + tile.constraints[i].str() + " >= 0";
  }
  return result;
}

bool is_word(const LoopMark& mark) { return mark.count == 0 && mark.buffers.empty(); }

void print_node(const LoopNode& node, const Kernel& kernel, int depth, std::string& out) {
  std::string indent(static_cast<size_t>(2 * depth), ' ');
  auto children = [&](int child_depth) {
    for (const LoopNodePtr& child : node.children) print_node(*child, kernel, child_depth, out);
  };
  switch (node.kind) {
    case LoopNode::Kind::Block: children(depth); break;
    case LoopNode::Kind::For:
      // Marks that are a single word are written before the loop, marks with arguments after it.
      out += indent;
      for (const LoopMark& mark : node.marks) out += is_word(mark) ? str(mark) + " " : "";
      out += "for " + node.variable + " = " + str(*node.lower) + " .. " + str(*node.upper);
      for (const LoopMark& mark : node.marks) out += is_word(mark) ? "" : " " + str(mark);
      out += "\n";
      children(depth + 1);
      break;
    case LoopNode::Kind::If:
      out += indent + "if " + str(*node.condition) + "\n";
      children(depth + 1);
      break;
    case LoopNode::Kind::Leaf:
      out += indent + (node.command.empty() ? "leaf" : "command " + node.command) +
             (node.name.empty() ? "" : " " + node.name) + "\n";
      for (const TileStatement& tile : node.statements) {
        out += indent + "  " + str(tile, kernel) + "\n";
      }
      for (const Prefetch& prefetch : node.prefetches) {
        out += text(indent, "  prefetch ", kernel.buffers[static_cast<size_t>(prefetch.buffer)].name, " + ",
                    prefetch.ahead, ", share ", prefetch.share.str(), " of ", prefetch.shares, "\n");
      }
      break;
  }
}

}  // namespace

std::string str(const LoopExpr& expr) { return print(expr, 0); }

LoopExprPtr loop_constant(int64_t value) {
  auto expr = std::make_shared<LoopExpr>();
  expr->kind = Kind::Const;
  expr->value = value;
  return expr;
}

LoopExprPtr loop_variable(const std::string& name) {
  auto expr = std::make_shared<LoopExpr>();
  expr->kind = Kind::Variable;
  expr->name = name;
  return expr;
}

LoopExprPtr loop_expr(LoopExpr::Kind kind, std::vector<LoopExprPtr> operands) {
  TC_CHECK(!operands.empty(), "in a loop expression");
  auto expr = std::make_shared<LoopExpr>();
  expr->kind = kind;
  expr->operands = std::move(operands);
  return expr;
}

int64_t evaluate(const LoopExpr& expr, const std::map<std::string, int64_t>& values) {
  if (expr.kind == Kind::Const) return expr.value;
  if (expr.kind == Kind::Variable) {
    auto found = values.find(expr.name);
    TC_CHECK(found != values.end(), "a value for loop variable '", expr.name, "'");
    return found->second;
  }
  auto operand = [&](size_t i) { return evaluate(*expr.operands.at(i), values); };
  if (expr.kind == Kind::Select) return operand(0) ? operand(1) : operand(2);
  int64_t result = operand(0);
  for (size_t i = 1; i < expr.operands.size(); ++i) result = apply(expr.kind, result, operand(i));
  return result;
}

std::string str(const LoopMark& mark) {
  std::string result = mark.word;
  if (mark.count != 0) result += text(" ", mark.count);
  for (const std::string& buffer : mark.buffers) result += " " + buffer;
  if (!mark.instruction.empty()) result += " " + mark.instruction;
  return result;
}

const LoopMark* LoopNode::mark(const std::string& word) const {
  for (const LoopMark& each : marks) {
    if (each.word == word) return &each;
  }
  return nullptr;
}

int64_t LoopNode::copies() const {
  const LoopMark* unrolled = mark("unroll");
  return unrolled == nullptr ? 1 : std::max<int64_t>(1, unrolled->count);
}

std::string str(const ScheduledKernel& scheduled) {
  std::string result = str(scheduled.kernel) + "loops\n";
  if (scheduled.root) print_node(*scheduled.root, scheduled.kernel, 1, result);
  return result;
}

namespace {

// A function such as exp becomes a formula of about twenty operations.
double operation_count(const Expr& expr) {
  constexpr double kFunction = 20;
  const bool function =
      (expr.kind == Expr::Kind::Unary && expr.unary >= UnaryOp::Exp && expr.unary <= UnaryOp::Sigmoid) ||
      (expr.kind == Expr::Kind::Unary && expr.unary == UnaryOp::Log1p) ||
      (expr.kind == Expr::Kind::Binary && (expr.binary == BinaryOp::Pow || expr.binary == BinaryOp::Atan2));
  double count = function ? kFunction : 1;
  for (const ExprPtr& operand : expr.operands) count += operation_count(*operand);
  return count;
}

double leaf_size(const Kernel& kernel, const TileStatement& tile) {
  double copies = 1;
  for (const TileLoop& loop : tile.loops) {
    if (loop.kind == TileLoop::Kind::Unroll) copies *= static_cast<double>(loop.extent);
    // One more copy: a remainder loop runs the rest of the trips.
    if (loop.kind == TileLoop::Kind::Serial && loop.unroll > 1) copies *= loop.unroll + 1;
  }
  return copies * operation_count(*kernel.statements.at(static_cast<size_t>(tile.statement)).value);
}

double node_size(const Kernel& kernel, const LoopNode& node) {
  double size = 0;
  for (const LoopNodePtr& child : node.children) size += node_size(kernel, *child);
  for (const TileStatement& tile : node.statements) size += leaf_size(kernel, tile);
  const int64_t copies = node.kind == LoopNode::Kind::For ? node.copies() : 1;
  // The remainder loop is one more copy here too.
  return copies > 1 ? size * static_cast<double>(copies + 1) : size;
}

}  // namespace

bool alternates(const ScheduledKernel& scheduled) {
  const auto below = [](const LoopNode& node, const auto& self) -> bool {
    return node.mark("alternate") != nullptr ||
           std::any_of(node.children.begin(), node.children.end(),
                       [&](const LoopNodePtr& child) { return self(*child, self); });
  };
  return below(*scheduled.root, below);
}

double code_size(const ScheduledKernel& scheduled) { return node_size(scheduled.kernel, *scheduled.root); }

}  // namespace tc
