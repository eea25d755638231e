// The text form of the loop IR; ir/loop_parse.cc reads it back.
//
//   kernel conv1
//     parameter p0 = seq in [1, 1000]
//     input I f32[1, 64, 56, 56] as "n c y x"
//     init[f:64, y:56, x:56]: T[0, f, y, x] = 0
//     macc[f:64, c:64] where f + c >= 0: T[f] += I[c] * K[f, c]
//
// Constants are written without type where the type follows from the buffer that is stored or from
// another operand, else with it: `0:f32`.
#include <cmath>

#include "ir/loop.h"
#include "ir/text_cursor.h"

namespace tc {
namespace {

std::string join(const std::vector<Affine>& parts) {
  std::string result;
  for (const Affine& part : parts) result += (result.empty() ? "" : ", ") + part.str();
  return result;
}

const char* infix_symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add: return "+";
    case BinaryOp::Sub: return "-";
    case BinaryOp::Mul: return "*";
    case BinaryOp::Div: return "/";
    case BinaryOp::Eq: return "==";
    case BinaryOp::Ne: return "!=";
    case BinaryOp::Lt: return "<";
    case BinaryOp::Le: return "<=";
    case BinaryOp::Gt: return ">";
    case BinaryOp::Ge: return ">=";
    default: return nullptr;
  }
}

// How tightly an expression binds: comparison, sum, product, everything else.
enum Level { kComparison, kSum, kProduct, kPrimary };

Level level_of(const Expr& expr) {
  if (expr.kind != Expr::Kind::Binary) return kPrimary;
  switch (expr.binary) {
    case BinaryOp::Add:
    case BinaryOp::Sub: return kSum;
    case BinaryOp::Mul:
    case BinaryOp::Div: return kProduct;
    default: return infix_symbol(expr.binary) ? kComparison : kPrimary;
  }
}

bool is_comparison(BinaryOp op) { return op >= BinaryOp::Eq && op <= BinaryOp::Ge; }

// True where the expression's type follows from its text alone.
bool has_own_type(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::Const: return false;
    case Expr::Kind::Unary:
      return expr.unary == UnaryOp::IsNan || expr.unary == UnaryOp::IsInf || has_own_type(*expr.operands[0]);
    case Expr::Kind::Binary:
      return is_comparison(expr.binary) || has_own_type(*expr.operands[0]) || has_own_type(*expr.operands[1]);
    case Expr::Kind::Select: return has_own_type(*expr.operands[1]) || has_own_type(*expr.operands[2]);
    default: return true;
  }
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) {}

  // `known`: the reader expects the expression's type here. `level`: the loosest that needs no
  // parentheses.
  std::string expr(const Expr& e, bool known, Level level = kComparison) const {
    std::string text = bare(e, known);
    return level_of(e) < level ? "(" + text + ")" : text;
  }

  std::string access(const Access& access) const {
    bool valid = access.buffer >= 0 && access.buffer < static_cast<int>(kernel_.buffers.size());
    std::string result = valid ? kernel_.buffers[static_cast<size_t>(access.buffer)].name
                               : "buffer" + std::to_string(access.buffer);
    result += "[";
    for (size_t i = 0; i < access.index.size(); ++i) {
      const Subscript& subscript = access.index[i];
      if (i) result += ", ";
      if (!subscript.dynamic) {
        result += subscript.affine.str();
      } else {
        if (subscript.affine != Affine()) result += subscript.affine.str() + " + ";
        result += "{" + expr(*subscript.dynamic, true) + "}";
      }
    }
    return result + "]";
  }

  std::string statement(const Statement& s) const {
    std::string result = s.name + "[";
    for (size_t i = 0; i < s.iterators.size(); ++i) {
      result += (i ? ", " : "") + s.iterators[i].name + ":" + s.iterators[i].extent.str();
    }
    result += "]";
    for (size_t i = 0; i < s.constraints.size(); ++i) {
      result += (i ? ", " : " where ") + s.constraints[i].str() + " >= 0";
    }
    bool known = s.write.buffer >= 0 && s.write.buffer < static_cast<int>(kernel_.buffers.size()) &&
                 kernel_.buffers[static_cast<size_t>(s.write.buffer)].dtype == s.value->dtype;
    return result + ": " + access(s.write) + " " + store_symbol(s.reduction) + " " + expr(*s.value, known);
  }

 private:
  static const char* store_symbol(Reduction reduction) {
    switch (reduction) {
      case Reduction::None: return "=";
      case Reduction::Sum: return "+=";
      case Reduction::Product: return "*=";
      case Reduction::Max: return "max=";
      case Reduction::Min: return "min=";
      case Reduction::And: return "and=";
      case Reduction::Or: return "or=";
      case Reduction::MaxNumber: return "maxnum=";
    }
    return "=";
  }

  static std::string constant_text(const Expr& e, bool known) {
    std::string value;
    if (e.dtype == DType::Bool) {
      // Boolean words carry their type.
      return e.integer ? "true" : "false";
    } else if (is_float(e.dtype)) {
      value = e.dtype == DType::F64 ? number_text(e.number) : number_text(static_cast<float>(e.number));
    } else {
      value = e.dtype == DType::U64 ? std::to_string(static_cast<uint64_t>(e.integer))
                                    : std::to_string(e.integer);
    }
    return known ? value : value + ":" + name_of(e.dtype);
  }

  std::string bare(const Expr& e, bool known) const {
    switch (e.kind) {
      case Expr::Kind::Const: return constant_text(e, known);
      case Expr::Kind::Load: return access(e.access);
      case Expr::Kind::Index: return "index(" + e.affine.str() + ")";
      case Expr::Kind::Cast: return std::string(name_of(e.dtype)) + "(" + expr(*e.operands[0], false) + ")";
      case Expr::Kind::Unary: {
        bool operand_known = e.dtype == e.operands[0]->dtype && known;
        return std::string(name_of(e.unary)) + "(" + expr(*e.operands[0], operand_known) + ")";
      }
      case Expr::Kind::Select: {
        known = known || has_own_type(e);
        return "select(" + expr(*e.operands[0], true) + ", " + expr(*e.operands[1], known) + ", " +
               expr(*e.operands[2], known) + ")";
      }
      case Expr::Kind::Binary: break;
    }
    const Expr &a = *e.operands[0], &b = *e.operands[1];
    known = (known && !is_comparison(e.binary)) || has_own_type(a) || has_own_type(b);
    if (const char* symbol = infix_symbol(e.binary)) {
      Level level = level_of(e);
      // Left-associative: an equal level on the right needs parentheses; comparisons do not chain.
      Level left = level == kComparison ? kSum : level;
      Level right = level == kComparison ? kSum : level == kSum ? kProduct : kPrimary;
      return expr(a, known, left) + " " + symbol + " " + expr(b, known, right);
    }
    return std::string(name_of(e.binary)) + "(" + expr(a, known) + ", " + expr(b, known) + ")";
  }

  const Kernel& kernel_;
};

std::string str(const Buffer& buffer) {
  std::string result =
      text(name_of(buffer.scope), " ", buffer.name, " ", name_of(buffer.dtype), "[", join(buffer.shape), "]");
  if (!buffer.logical.empty()) result += " as " + quote(buffer.logical);
  if (!buffer.memory.empty()) result += " in " + buffer.memory;
  if (buffer.copies != 1) result += text(" copies ", buffer.copies);
  return result;
}

std::string str(const Packing& packing) {
  if (!packing.scales_of.empty())
    return text("packing ", packing.buffer, packing.sums ? " sums" : " scales", " of ", packing.scales_of);
  std::string result = "packing " + packing.buffer + "[";
  for (size_t i = 0; i < packing.iterators.size(); ++i) {
    result += (i ? ", " : "") + packing.iterators[i];
  }
  result += "] of [";
  for (size_t i = 0; i < packing.original_shape.size(); ++i) {
    result += (i ? ", " : "") + std::to_string(packing.original_shape[i]);
  }
  for (const Combination& each : packing.combinations) {
    result += text("] combining ", each.dimension, " [");
    for (size_t i = 0; i < each.rows.size(); ++i) {
      result += i ? ", [" : "[";
      for (size_t k = 0; k < each.rows[i].size(); ++k) {
        result += (k ? ", " : "") + number_text(each.rows[i][k]);
      }
      result += "]";
    }
  }
  result += "] at [" + join(packing.index) + "] fill " + number_text(packing.fill);
  if (!packing.terms.empty()) result += " terms " + packing.terms;
  if (!packing.words.empty()) result += " words " + packing.words;
  for (size_t i = 0; i < packing.scaled.size(); ++i) result += (i ? ", " : " scaled [") + packing.scaled[i];
  return packing.scaled.empty() ? result : result + "]";
}

}  // namespace

std::string str(const Expr& expr, const Kernel& kernel) { return Printer(kernel).expr(expr, false); }

std::string str(const Statement& statement, const Kernel& kernel) {
  return Printer(kernel).statement(statement);
}

std::string str(const Kernel& kernel) {
  std::string result = "kernel ";
  result += is_identifier(kernel.name) ? kernel.name : quote(kernel.name);
  result += "\n";
  for (const Parameter& parameter : kernel.parameters) {
    result += text("  parameter ", parameter.name, " = ", parameter.value.str(), " in [", parameter.minimum,
                   ", ", parameter.maximum, "]\n");
  }
  for (const Buffer& buffer : kernel.buffers) result += "  " + str(buffer) + "\n";
  for (const Packing& packing : kernel.packings) result += "  " + str(packing) + "\n";
  for (const Statement& statement : kernel.statements) {
    result += "  " + str(statement, kernel) + "\n";
  }
  for (const std::string& origin : kernel.origins) result += "  origin " + quote(origin) + "\n";
  return result;
}

}  // namespace tc
