// Index equations and scalar formulas: the text in a row that says what an operator computes.
#include "ir/ops/equation.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

  Equation equation() {
    Equation result;
    result.target = cursor_.identifier();
    result.index = subscripts();
    const std::pair<const char*, Reduction> signs[] = {
        {"+=", Reduction::Sum}, {"*=", Reduction::Product}, {"max=", Reduction::Max},
        {"min=", Reduction::Min}, {"=", Reduction::None}};
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
    do result.push_back(sum());
    while (cursor_.try_token(","));
    cursor_.expect("]");
    return result;
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
    do operands.push_back(comparison());
    while (cursor_.try_token(","));
    cursor_.expect(")");
    return make({Formula::Kind::Call, name, 0, {}, std::move(operands)});
  }

  TextCursor cursor_;
};

class FormulaBuilder {
 public:
  FormulaBuilder(std::function<ExprPtr(const Formula&)> leaf, DType type)
      : leaf_(std::move(leaf)), type_(type) {}

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
    }
    fail(ErrorKind::Internal, "a formula of no kind");
  }

 private:
  ExprPtr call(const Formula& formula) const {
    std::vector<ExprPtr> operands;
    for (const FormulaPtr& operand : formula.operands) operands.push_back(build(*operand));
    const std::string& name = formula.name;
    if (name == "select" && operands.size() == 3) return tc::select(operands[0], operands[1], operands[2]);
    if (operands.size() == 1) {
#define X(enumerator, text) if (name == text) return tc::unary(UnaryOp::enumerator, operands[0]);
      TC_FOR_EACH_UNARY(X)
#undef X
    }
    if (operands.size() == 2) {
#define X(enumerator, text) if (name == text) return tc::binary(BinaryOp::enumerator, operands[0], operands[1]);
      TC_FOR_EACH_BINARY(X)
#undef X
    }
    fail(ErrorKind::Internal, "formula calls '", name, "' with ", operands.size(), " operands");
  }

  std::function<ExprPtr(const Formula&)> leaf_;
  DType type_;
};

// An equation with its letters bound.
class EquationLowering {
 public:
  EquationLowering(LowerContext& context, const EquationNames& names) : context_(context), names_(names) {}

  void run(const Equation& equation, const std::string& base) {
    std::vector<Iterator> outer, inner;
    std::vector<Affine> target_index;
    for (const FormulaPtr& index : equation.index) target_index.push_back(affine(*index, outer));
    collect(*equation.value, inner);
    std::vector<Affine> constraints;
    ExprPtr value = FormulaBuilder(
        [&](const Formula& leaf) { return load(leaf, inner, constraints); }, names_.type)
        .build(*equation.value);
    const int target = buffer(equation.target);
    if (equation.reduction == Reduction::None) {
      context_.assign(base, outer, target, target_index, value, constraints);
    } else {
      context_.reduce(base, outer, inner, target, target_index, equation.reduction, value, constraints);
    }
  }

 private:
  int buffer(const std::string& name) const {
    auto found = names_.buffers.find(name);
    TC_CHECK(found != names_.buffers.end(), "a buffer for '", name, "'");
    return found->second;
  }

  // The value of a subscript; new iterators are added to `fresh`.
  Affine affine(const Formula& formula, std::vector<Iterator>& fresh) {
    switch (formula.kind) {
      case Formula::Kind::Number: return static_cast<int64_t>(formula.number);
      case Formula::Kind::Name: return name(formula.name, fresh);
      case Formula::Kind::Binary: {
        Affine a = affine(*formula.operands[0], fresh), b = affine(*formula.operands[1], fresh);
        if (formula.binary == BinaryOp::Add) return a + b;
        if (formula.binary == BinaryOp::Sub) return a - b;
        TC_CHECK(formula.binary == BinaryOp::Mul && (a.is_constant() || b.is_constant()),
                 "an affine subscript");
        return a.is_constant() ? b * a.constant() : a * b.constant();
      }
      default: fail(ErrorKind::Internal, "a subscript of an equation is not affine");
    }
  }

  Affine name(const std::string& name, std::vector<Iterator>& fresh) {
    auto integer = names_.integers.find(name);
    if (integer != names_.integers.end()) return integer->second;
    auto extent = names_.extents.find(name);
    TC_CHECK(extent != names_.extents.end(), "an extent or a number for '", name, "'");
    if (extent->second == Dim(1)) return 0;
    if (!ranges_.count(name)) {
      Affine size = context_.dim(extent->second);
      fresh.push_back({name, size});
      ranges_[name] = size;
    }
    return Affine::variable(name);
  }

  void collect(const Formula& formula, std::vector<Iterator>& inner) {
    if (formula.kind == Formula::Kind::Access) {
      for (const FormulaPtr& index : formula.operands) affine(*index, inner);
    } else {
      for (const FormulaPtr& operand : formula.operands) collect(*operand, inner);
    }
  }

  ExprPtr load(const Formula& leaf, std::vector<Iterator>& inner, std::vector<Affine>& constraints) {
    const int from = buffer(leaf.name);
    const Buffer& info = context_.kernel().buffers[from];
    TC_CHECK(info.shape.size() == leaf.operands.size(), "a subscript per dimension of ", leaf.name);
    std::vector<Affine> index;
    for (const FormulaPtr& operand : leaf.operands) index.push_back(affine(*operand, inner));
    for (size_t i = 0; i < index.size(); ++i) restrict(index[i], info.shape[i], constraints);
    ExprPtr value = context_.read_buffer(from, index);
    return value->dtype == names_.type ? value : tc::cast(names_.type, value);
  }

  // Adds 0 <= index < extent where the iterators' ranges do not show it.
  void restrict(const Affine& index, const Affine& extent, std::vector<Affine>& constraints) {
    std::vector<Affine> needed = {index, extent - index - Affine(1)};
    for (const Affine& constraint : needed) {
      if (!holds(constraint) && std::find(constraints.begin(), constraints.end(), constraint) == constraints.end()) {
        constraints.push_back(constraint);
      }
    }
  }

  // The smallest value with every iterator at its end that makes it smallest; parameters that do
  // not cancel make it unknown.
  bool holds(const Affine& constraint) const {
    Affine least = constraint.constant();
    for (const auto& [name, coefficient] : constraint.terms()) {
      auto range = ranges_.find(name);
      if (range == ranges_.end()) {
        least = least + Affine::variable(name, coefficient);
      } else if (coefficient < 0) {
        least = least + (range->second - Affine(1)) * coefficient;
      }
    }
    return least.is_constant() && least.constant() >= 0;
  }

  LowerContext& context_;
  const EquationNames& names_;
  std::map<std::string, Affine> ranges_;
};

}  // namespace

FormulaPtr parse_formula(const std::string& text) { return FormulaParser(text).formula(); }

Equation parse_equation(const std::string& text) { return FormulaParser(text).equation(); }

ExprPtr build_formula(const Formula& formula, const std::map<std::string, ExprPtr>& operands,
                      const std::map<std::string, double>& numbers, DType type) {
  return FormulaBuilder(
             [&](const Formula& leaf) -> ExprPtr {
               auto operand = operands.find(leaf.name);
               if (operand != operands.end()) return operand->second;
               auto number = numbers.find(leaf.name);
               TC_CHECK(number != numbers.end(), "an operand or number '", leaf.name, "' of a formula");
               return constant(type, number->second);
             },
             type)
      .build(formula);
}

void lower_equation(LowerContext& context, const std::string& equation, const EquationNames& names,
                    const std::string& base) {
  EquationLowering(context, names).run(parse_equation(equation), base);
}

}  // namespace tc
