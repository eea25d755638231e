// Parses formulas and index equations, and builds expressions from them.
#include "ir/ops/formula.h"

#include <limits>

#include "ir/error.h"
#include "ir/text_cursor.h"

namespace tc {
namespace {

FormulaPtr make(Formula formula) { return std::make_shared<const Formula>(std::move(formula)); }

class FormulaParser {
 public:
  explicit FormulaParser(const std::string& text) : cursor_(text, "formula") {}

  FormulaPtr formula() {
    FormulaPtr result = comparison();
    if (!cursor_.at_end()) cursor_.error("an operator or the end is missing");
    return result;
  }

  // A row's text is an equation if it begins with a name and subscripts.
  FormulaOrEquation row_text() {
    const size_t start = cursor_.position();
    bool has_target = false;
    if (cursor_.peek_identifier()) {
      cursor_.identifier();
      has_target = cursor_.peek("[");
    }
    cursor_.set_position(start);
    if (has_target) return {nullptr, equation()};
    return {formula(), std::nullopt};
  }

  Equation equation() {
    Equation result;
    result.target = cursor_.identifier();
    result.index = subscripts();
    const std::pair<const char*, Reduction> signs[] = {{"+=", Reduction::Sum},
                                                       {"*=", Reduction::Product},
                                                       {"max=", Reduction::Max},
                                                       {"min=", Reduction::Min},
                                                       {"=", Reduction::None}};
    bool found = false;
    for (const auto& [sign, reduction] : signs) {
      if (found || !cursor_.try_token(sign)) continue;
      result.reduction = reduction;
      found = true;
    }
    if (!found) cursor_.error("`=`, `+=`, `*=`, `max=` or `min=` is missing");
    result.value = formula();
    return result;
  }

 private:
  std::vector<FormulaPtr> subscripts() {
    std::vector<FormulaPtr> result;
    cursor_.expect("[");
    if (cursor_.try_token("]")) return result;
    do result.push_back(subscript());
    while (cursor_.try_token(","));
    cursor_.expect("]");
    return result;
  }

  FormulaPtr subscript() {
    if (cursor_.try_token("...")) return make({Formula::Kind::Ellipsis, "", 0, {}, {}});
    FormulaPtr result = sum();
    if (!cursor_.try_token("?")) return result;
    if (result->kind != Formula::Kind::Name) cursor_.error("`?` follows a letter");
    Formula lacking = *result;
    lacking.may_lack = true;
    return make(std::move(lacking));
  }

  static FormulaPtr binary(BinaryOp op, FormulaPtr a, FormulaPtr b) {
    return make({Formula::Kind::Binary, "", 0, op, {std::move(a), std::move(b)}});
  }

  FormulaPtr comparison() {
    TextCursor::Nesting nesting(cursor_);
    FormulaPtr left = sum();
    const std::pair<const char*, BinaryOp> signs[] = {{"<=", BinaryOp::Le}, {">=", BinaryOp::Ge},
                                                      {"==", BinaryOp::Eq}, {"!=", BinaryOp::Ne},
                                                      {"<", BinaryOp::Lt},  {">", BinaryOp::Gt}};
    for (const auto& [sign, op] : signs) {
      if (cursor_.try_token(sign)) return binary(op, left, sum());
    }
    return left;
  }

  FormulaPtr sum() {
    FormulaPtr left = product();
    while (true) {
      if (cursor_.peek_char() == '+' && !cursor_.peek("+=") && cursor_.try_token("+")) {
        left = binary(BinaryOp::Add, left, product());
      } else if (cursor_.try_token("-")) {
        left = binary(BinaryOp::Sub, left, product());
      } else {
        return left;
      }
    }
  }

  FormulaPtr product() {
    FormulaPtr left = factor();
    while (true) {
      if (cursor_.try_token("*")) {
        left = binary(BinaryOp::Mul, left, factor());
      } else if (cursor_.try_token("/")) {
        left = binary(BinaryOp::Div, left, factor());
      } else {
        return left;
      }
    }
  }

  FormulaPtr factor() {
    TextCursor::Nesting nesting(cursor_);
    if (cursor_.peek_number()) {
      return make({Formula::Kind::Number, "", number_value(cursor_.number()), {}, {}});
    }
    if (cursor_.try_token("-")) return make({Formula::Kind::Call, "neg", 0, {}, {factor()}});
    if (cursor_.try_token("(")) {
      FormulaPtr inside = comparison();
      cursor_.expect(")");
      return inside;
    }
    std::string name = cursor_.identifier();
    if (cursor_.peek("[")) return make({Formula::Kind::Access, name, 0, {}, subscripts()});
    if (!cursor_.try_token("(")) return make({Formula::Kind::Name, name, 0, {}, {}});
    std::vector<FormulaPtr> operands;
    do
      operands.push_back(cursor_.try_token("…") ? make({Formula::Kind::Ellipsis, "", 0, {}, {}})
                                                : comparison());
    while (cursor_.try_token(","));
    cursor_.expect(")");
    return make({Formula::Kind::Call, name, 0, {}, std::move(operands)});
  }

  TextCursor cursor_;
};

// The binary function with this name in the loop IR.
std::optional<BinaryOp> binary_named(const std::string& name) {
#define X(enumerator, text) \
  if (name == text) return BinaryOp::enumerator;
  TC_FOR_EACH_BINARY(X)
#undef X
  return std::nullopt;
}

class FormulaBuilder {
 public:
  FormulaBuilder(const std::function<ExprPtr(const Formula&)>& leaf, DType type, size_t inputs)
      : leaf_(leaf), type_(type), inputs_(inputs) {}

  ExprPtr build(const Formula& formula) const {
    switch (formula.kind) {
      case Formula::Kind::Number: return tc::constant(type_, formula.number);
      case Formula::Kind::Name:
        if (formula.name == "inf") return tc::constant(type_, std::numeric_limits<double>::infinity());
        return leaf_(formula);
      case Formula::Kind::Access: return leaf_(formula);
      case Formula::Kind::Binary:
        return tc::binary(formula.binary, build(*formula.operands[0]), build(*formula.operands[1]));
      case Formula::Kind::Call: return call(formula);
      case Formula::Kind::Ellipsis: break;
    }
    fail(ErrorKind::Internal, "a formula of no kind");
  }

 private:
  ExprPtr call(const Formula& formula) const {
    if (formula.operands.back()->kind == Formula::Kind::Ellipsis) return of_all_inputs(formula);
    std::vector<ExprPtr> operands;
    for (const FormulaPtr& operand : formula.operands) operands.push_back(build(*operand));
    const std::string& name = formula.name;
    if (name == "select" && operands.size() == 3) return tc::select(operands[0], operands[1], operands[2]);
    if (operands.size() == 1) {
#define X(enumerator, text) \
  if (name == text) return tc::unary(UnaryOp::enumerator, operands[0]);
      TC_FOR_EACH_UNARY(X)
#undef X
    }
    if (operands.size() == 2) {
      if (const auto op = binary_named(name)) return tc::binary(*op, operands[0], operands[1]);
    }
    if (const auto to = conversion(name); to && operands.size() == 1)
      return operands[0]->dtype == *to ? operands[0] : tc::cast(*to, operands[0]);
    fail(ErrorKind::Internal, "formula calls '", name, "' with ", operands.size(), " operands");
  }

  // `max(a, b, …)`: the function of all inputs, combined from the left.
  ExprPtr of_all_inputs(const Formula& formula) const {
    const auto op = binary_named(formula.name);
    TC_CHECK(op, "a binary function for `…`, not '", formula.name, "'");
    ExprPtr value;
    for (size_t i = 0; i < inputs_; ++i) {
      ExprPtr operand = leaf_({Formula::Kind::Name, operand_name(i), 0, {}, {}});
      value = value ? tc::binary(*op, value, operand) : operand;
    }
    return value;
  }

  const std::function<ExprPtr(const Formula&)>& leaf_;
  DType type_;
  size_t inputs_;
};

bool is_operand(const Formula& formula, const char* name) {
  return formula.kind == Formula::Kind::Name && formula.name == name;
}

bool is_comparison(BinaryOp op) { return op >= BinaryOp::Eq && op <= BinaryOp::Ge; }

}  // namespace

FormulaPtr parse_formula(const std::string& text) { return FormulaParser(text).formula(); }

Equation parse_equation(const std::string& text) { return FormulaParser(text).equation(); }

FormulaOrEquation parse_row_text(const std::string& text) { return FormulaParser(text).row_text(); }

std::optional<UnaryOp> unary_function(const Formula& formula) {
  if (formula.kind != Formula::Kind::Call || formula.operands.size() != 1 ||
      !is_operand(*formula.operands[0], "a"))
    return std::nullopt;
#define X(enumerator, text) \
  if (formula.name == text) return UnaryOp::enumerator;
  TC_FOR_EACH_UNARY(X)
#undef X
  return std::nullopt;
}

std::optional<BinaryOp> binary_function(const Formula& formula) {
  const auto& operands = formula.operands;
  if (operands.size() != 2 || !is_operand(*operands[0], "a") || !is_operand(*operands[1], "b"))
    return std::nullopt;
  return formula.kind == Formula::Kind::Binary ? formula.binary : binary_named(formula.name);
}

std::optional<DType> conversion(const std::string& name) {
#define X(enumerator, text, ...) \
  if (name == text) return DType::enumerator;
  TC_FOR_EACH_DTYPE(X)
#undef X
  return std::nullopt;
}

std::string operand_name(size_t input) {
  return input < 26 ? std::string(1, static_cast<char>('a' + input)) : text("a", input);
}

void collect_accesses(const Formula& formula, std::vector<const Formula*>& accesses) {
  if (formula.kind == Formula::Kind::Access) accesses.push_back(&formula);
  else
    for (const FormulaPtr& operand : formula.operands) collect_accesses(*operand, accesses);
}

std::optional<DType> type_of(const Formula& formula,
                             const std::function<std::optional<DType>(const Formula&)>& leaf) {
  switch (formula.kind) {
    case Formula::Kind::Number:
    case Formula::Kind::Ellipsis: return std::nullopt;
    case Formula::Kind::Name:
    case Formula::Kind::Access: return leaf(formula);
    case Formula::Kind::Binary:
      if (is_comparison(formula.binary)) return DType::Bool;
      break;
    case Formula::Kind::Call:
      if (formula.name == "isnan" || formula.name == "isinf") return DType::Bool;
      if (const auto to = conversion(formula.name)) return to;
      break;
  }
  // The condition does not decide the type of a selection.
  for (size_t i = formula.name == "select" ? 1 : 0; i < formula.operands.size(); ++i) {
    if (const auto type = type_of(*formula.operands[i], leaf)) return type;
  }
  return std::nullopt;
}

ExprPtr build_formula(const Formula& formula, const std::function<ExprPtr(const Formula&)>& leaf, DType type,
                      size_t inputs) {
  return FormulaBuilder(leaf, type, inputs).build(formula);
}

ExprPtr build_formula(const Formula& formula, const std::map<std::string, ExprPtr>& operands,
                      const std::map<std::string, double>& numbers, DType type, size_t inputs) {
  return build_formula(
      formula,
      [&](const Formula& leaf) -> ExprPtr {
        auto operand = operands.find(leaf.name);
        if (operand != operands.end()) return operand->second;
        auto number = numbers.find(leaf.name);
        TC_CHECK(number != numbers.end(), "an operand or number '", leaf.name, "' of a formula");
        return constant(type, number->second);
      },
      type, inputs);
}

}  // namespace tc
