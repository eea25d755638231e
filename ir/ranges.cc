// Interval analysis of loop bounds and affine expressions.
#include "ir/ranges.h"

#include <algorithm>

#include "ir/error.h"

namespace tc {
namespace {

constexpr int64_t kUnbounded = int64_t{1} << 62;

int64_t saturate(__int128 value) {
  if (value > kUnbounded) return kUnbounded;
  if (value < -kUnbounded) return -kUnbounded;
  return static_cast<int64_t>(value);
}

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

Interval truth(bool always, bool never) { return {always ? 1 : 0, never ? 0 : 1}; }

Interval multiply(Interval a, Interval b) {
  const __int128 products[] = {static_cast<__int128>(a.low) * b.low, static_cast<__int128>(a.low) * b.high,
                               static_cast<__int128>(a.high) * b.low, static_cast<__int128>(a.high) * b.high};
  return {saturate(*std::min_element(products, products + 4)),
          saturate(*std::max_element(products, products + 4))};
}

}  // namespace

Interval range_of(const LoopExpr& expr, const Ranges& ranges) {
  using Kind = LoopExpr::Kind;
  if (expr.kind == Kind::Const) return {expr.value, expr.value};
  if (expr.kind == Kind::Variable) {
    const auto found = ranges.find(expr.name);
    return found == ranges.end() ? Interval{-kUnbounded, kUnbounded} : found->second;
  }
  if (expr.kind == Kind::Select) {
    const Interval condition = range_of(*expr.operands[0], ranges);
    const Interval a = range_of(*expr.operands[1], ranges);
    const Interval b = range_of(*expr.operands[2], ranges);
    if (condition.low > 0) return a;
    if (condition.high <= 0) return b;
    return {std::min(a.low, b.low), std::max(a.high, b.high)};
  }
  TC_CHECK(!expr.operands.empty(), "in a loop expression");
  Interval a = range_of(*expr.operands[0], ranges);
  for (size_t i = 1; i < expr.operands.size(); ++i) {
    const Interval b = range_of(*expr.operands[i], ranges);
    switch (expr.kind) {
      case Kind::Add:
        a = {saturate(static_cast<__int128>(a.low) + b.low),
             saturate(static_cast<__int128>(a.high) + b.high)};
        break;
      case Kind::Sub:
        a = {saturate(static_cast<__int128>(a.low) - b.high),
             saturate(static_cast<__int128>(a.high) - b.low)};
        break;
      case Kind::Mul: a = multiply(a, b); break;
      case Kind::FloorDiv:
        TC_CHECK(b.low == b.high && b.low > 0, "as the divisor of a loop expression");
        a = {floor_divide(a.low, b.low), floor_divide(a.high, b.low)};
        break;
      case Kind::Mod:
        TC_CHECK(b.low == b.high && b.low > 0, "as the divisor of a loop expression");
        if (floor_divide(a.low, b.low) == floor_divide(a.high, b.low)) {
          const int64_t base = floor_divide(a.low, b.low) * b.low;
          a = {a.low - base, a.high - base};
        } else {
          a = {0, b.low - 1};
        }
        break;
      case Kind::Min: a = {std::min(a.low, b.low), std::min(a.high, b.high)}; break;
      case Kind::Max: a = {std::max(a.low, b.low), std::max(a.high, b.high)}; break;
      case Kind::Eq:
        a = truth(a.low == a.high && b.low == b.high && a.low == b.low, a.high < b.low || b.high < a.low);
        break;
      case Kind::Le: a = truth(a.high <= b.low, a.low > b.high); break;
      case Kind::Lt: a = truth(a.high < b.low, a.low >= b.high); break;
      case Kind::Ge: a = truth(a.low >= b.high, a.high < b.low); break;
      case Kind::Gt: a = truth(a.low > b.high, a.high <= b.low); break;
      case Kind::And: a = truth(a.low > 0 && b.low > 0, a.high <= 0 || b.high <= 0); break;
      case Kind::Or: a = truth(a.low > 0 || b.low > 0, a.high <= 0 && b.high <= 0); break;
      default: fail(ErrorKind::Internal, "internal error: loop expression of an unknown kind");
    }
  }
  return a;
}

bool proves_nonnegative(const Affine& affine, const Ranges& ranges, const std::vector<Affine>& known) {
  if (range_of(affine, ranges).low >= 0) return true;
  for (const Affine& other : known) {
    if (range_of(affine - other, ranges).low >= 0) return true;
  }
  return false;
}

bool refutes_nonnegative(const Affine& affine, const Ranges& ranges) {
  return range_of(affine, ranges).high < 0;
}

bool mentions(const Affine& affine, const std::string& variable) { return affine.coefficient(variable) != 0; }

Affine fold_single_values(const Affine& affine, const Ranges& ranges) {
  std::map<std::string, Affine> values;
  for (const auto& [name, coefficient] : affine.terms()) {
    const auto found = ranges.find(name);
    if (found != ranges.end() && found->second.low == found->second.high) {
      values[name] = Affine(found->second.low);
    }
  }
  return values.empty() ? affine : affine.substitute(values);
}

}  // namespace tc
