#include "codegen/c/kernel_context.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "ir/error.h"
#include "ir/scratch.h"
#include "ir/tile.h"

namespace tc::c {

std::string indented(const std::string& lines, int depth) {
  std::string result;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size() - 1);
    // Preprocessor directives are not indented.
    if (end > at && lines[at] != '#') result += std::string(static_cast<size_t>(2 * depth), ' ');
    result += lines.substr(at, end + 1 - at);
    at = end + 1;
  }
  return result;
}

std::string KernelContext::value_of(const Affine& affine) const {
  const Affine folded = fold_single_values(affine, ranges);
  std::string result;
  // A positive term comes first where there is one, so that the text does not begin with a minus.
  std::vector<std::pair<std::string, int64_t>> terms = folded.terms();
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [name, coefficient] : terms) {
    const auto found = variables.find(name);
    TC_CHECK(found != variables.end(), "in kernel '", kernel.name, "': unknown variable '", name, "' in '",
             affine.str(), "'");
    const int64_t size = coefficient < 0 ? -coefficient : coefficient;
    const char* sign = coefficient < 0 ? (result.empty() ? "-" : " - ") : result.empty() ? "" : " + ";
    result += sign + (size == 1 ? found->second : text(size, " * ", found->second));
  }
  const int64_t constant = folded.constant();
  if (result.empty()) return text(constant);
  if (constant != 0) result += text(constant < 0 ? " - " : " + ", constant < 0 ? -constant : constant);
  return result;
}

std::string KernelContext::condition(const Affine& affine) const {
  const Affine folded = fold_single_values(affine, ranges);
  return text(value_of(folded - Affine(folded.constant())), " >= ", -folded.constant());
}

std::string KernelContext::value_of(const LoopExpr& expr) const {
  using Kind = LoopExpr::Kind;
  if (expr.kind == Kind::Const) return expr.value < 0 ? text("(", expr.value, ")") : text(expr.value);
  if (expr.kind == Kind::Variable) {
    const auto found = variables.find(expr.name);
    TC_CHECK(found != variables.end(), "in kernel '", kernel.name, "': unknown loop variable '", expr.name,
             "'");
    const auto range = ranges.find(expr.name);
    return range != ranges.end() && range->second.low == range->second.high
               ? text("(", range->second.low, ")")
               : found->second;
  }
  TC_CHECK(!expr.operands.empty(), "in a loop expression");
  std::string a = value_of(*expr.operands[0]);
  if (expr.kind == Kind::Select)
    return text("(", a, " ? ", value_of(*expr.operands[1]), " : ", value_of(*expr.operands[2]), ")");
  const bool is_positive = range_of(*expr.operands[0], ranges).low >= 0;
  for (size_t i = 1; i < expr.operands.size(); ++i) {
    const std::string b = value_of(*expr.operands[i]);
    const auto infix = [&](const char* sign) { return text("(", a, " ", sign, " ", b, ")"); };
    const auto call = [&](const char* name) {
      functions.use_integers();
      return text(name, "(", a, ", ", b, ")");
    };
    switch (expr.kind) {
      case Kind::Add: a = infix("+"); break;
      case Kind::Sub: a = infix("-"); break;
      case Kind::Mul: a = infix("*"); break;
      case Kind::FloorDiv: a = is_positive ? infix("/") : call("tc_floor_divide"); break;
      case Kind::Mod: a = is_positive ? infix("%") : call("tc_floor_rest"); break;
      case Kind::Min: a = call("tc_minimum"); break;
      case Kind::Max: a = call("tc_maximum"); break;
      case Kind::Eq: a = infix("=="); break;
      case Kind::Le: a = infix("<="); break;
      case Kind::Lt: a = infix("<"); break;
      case Kind::Ge: a = infix(">="); break;
      case Kind::Gt: a = infix(">"); break;
      case Kind::And: a = infix("&&"); break;
      case Kind::Or: a = infix("||"); break;
      default: fail(ErrorKind::Internal, "internal error: loop expression of an unknown kind");
    }
  }
  return a;
}

}  // namespace tc::c
