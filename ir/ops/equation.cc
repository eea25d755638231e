// Index equations and scalar formulas: the text in a row that defines what an operator computes.
#include "ir/ops/equation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <unordered_map>

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
    do result.push_back(cursor_.try_token("...") ? make({Formula::Kind::Ellipsis, "", 0, {}, {}}) : sum());
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
      case Formula::Kind::Ellipsis: break;
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
#define X(enumerator, text) \
  if (name == text) return tc::unary(UnaryOp::enumerator, operands[0]);
      TC_FOR_EACH_UNARY(X)
#undef X
    }
    if (operands.size() == 2) {
#define X(enumerator, text) \
  if (name == text) return tc::binary(BinaryOp::enumerator, operands[0], operands[1]);
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
    const int target = buffer(equation.target);
    const std::vector<Affine> target_index = subscripts(equation.index, target, outer);
    collect(*equation.value, inner);
    std::vector<Affine> constraints;
    ExprPtr value =
        FormulaBuilder([&](const Formula& leaf) { return load(leaf, inner, constraints); }, names_.type)
            .build(*equation.value);
    if (equation.reduction == Reduction::None) {
      context_.assign(base, outer, target, target_index, value, constraints);
    } else {
      context_.reduce(base, {outer, inner, constraints}, target, target_index, equation.reduction, value);
    }
  }

 private:
  int buffer(const std::string& name) const {
    auto found = names_.buffers.find(name);
    TC_CHECK(found != names_.buffers.end(), "a buffer for '", name, "'");
    return found->second;
  }

  // The values of an access's subscripts, one for each dimension of the buffer.
  std::vector<Affine> subscripts(const std::vector<FormulaPtr>& formulas, int buffer,
                                 std::vector<Iterator>& fresh) {
    const std::vector<Affine>& shape = context_.kernel().buffers[buffer].shape;
    std::vector<Affine> result;
    for (const FormulaPtr& formula : formulas) {
      if (formula->kind != Formula::Kind::Ellipsis) {
        result.push_back(affine(*formula, fresh));
        continue;
      }
      const size_t own = shape.size() + 1 - formulas.size();
      for (size_t i = 0; i < own; ++i) {
        const bool repeated = shape[result.size()] == Affine(1);
        result.push_back(repeated ? Affine(0) : name(text("b", names_.batch_axes - own + i), fresh));
      }
    }
    TC_CHECK(result.size() == shape.size(), "a subscript per dimension of ",
             context_.kernel().buffers[buffer].name);
    return result;
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
      subscripts(formula.operands, buffer(formula.name), inner);
    } else {
      for (const FormulaPtr& operand : formula.operands) collect(*operand, inner);
    }
  }

  ExprPtr load(const Formula& leaf, std::vector<Iterator>& inner, std::vector<Affine>& constraints) {
    const int from = buffer(leaf.name);
    const Buffer& info = context_.kernel().buffers[from];
    const std::vector<Affine> index = subscripts(leaf.operands, from, inner);
    for (size_t i = 0; i < index.size(); ++i) restrict(index[i], info.shape[i], constraints);
    ExprPtr value = context_.read_buffer(from, index);
    return value->dtype == names_.type ? value : tc::cast(names_.type, value);
  }

  // Adds 0 <= index < extent where the iterators' ranges do not show it.
  void restrict(const Affine& index, const Affine& extent, std::vector<Affine>& constraints) {
    std::vector<Affine> needed = {index, extent - index - Affine(1)};
    for (const Affine& constraint : needed) {
      if (!holds(constraint) &&
          std::find(constraints.begin(), constraints.end(), constraint) == constraints.end()) {
        constraints.push_back(constraint);
      }
    }
  }

  // Whether the constraint's smallest value over the iterators' ranges is >= 0; false where parameters do not
  // cancel, so that the value is unknown.
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

// The accesses of the value, in order.
void collect_accesses(const Formula& formula, std::vector<const Formula*>& accesses) {
  if (formula.kind == Formula::Kind::Access) accesses.push_back(&formula);
  else
    for (const FormulaPtr& operand : formula.operands) collect_accesses(*operand, accesses);
}

// `A[...,m,k]`, for an access that is letters and numbers.
std::string str(const Formula& access) {
  std::string result;
  for (const FormulaPtr& index : access.operands) {
    result += result.empty() ? "" : ",";
    result += index->kind == Formula::Kind::Ellipsis ? "..."
              : index->kind == Formula::Kind::Name   ? index->name
                                                     : text(index->number);
  }
  return access.name + "[" + result + "]";
}

// The extents of an equation's letters, found from the shapes of its operands.
class EquationBinding {
 public:
  // `shapes`: of the operands by name; `error` throws.
  EquationBinding(const Equation& equation, const std::map<std::string, const Shape*>& shapes,
                  LetterExtents::Refuse error)
      : equation_(equation), error_(std::move(error)) {
    std::vector<const Formula*> accesses;
    collect_accesses(*equation.value, accesses);
    for (const Formula* access : accesses)
      batch_axes_ = std::max(batch_axes_, batch_axes_of(*access, *shapes.at(access->name)));
    for (const Formula* access : accesses) bind(*access, *shapes.at(access->name));
  }

  EquationNames names() const {
    EquationNames result;
    result.batch_axes = batch_axes_;
    for (size_t i = 0; i < batch_axes_; ++i) result.extents[text("b", i)] = extents_[batch_axis(i)];
    for (const std::string& letter : letters_) result.extents[letter] = extents_["`" + letter + "`"];
    return result;
  }

  Shape result_shape() const {
    Shape shape;
    for (const FormulaPtr& index : equation_.index) {
      if (index->kind == Formula::Kind::Ellipsis) {
        for (size_t i = 0; i < batch_axes_; ++i) shape.push_back(extents_[batch_axis(i)]);
      } else {
        shape.push_back(index->kind == Formula::Kind::Number ? Dim(1) : extents_["`" + index->name + "`"]);
      }
    }
    return shape;
  }

 private:
  // Reports an error about ranks.
  void error(const std::string& message) const { error_(message, Dim(0), Dim(1)); }
  static std::string batch_axis(size_t i) { return text("batch axis ", i); }

  // How many axes the ellipsis of an access stands for; an error where the rank does not fit.
  size_t batch_axes_of(const Formula& access, const Shape& shape) const {
    const bool any = std::any_of(access.operands.begin(), access.operands.end(), [](const FormulaPtr& index) {
      return index->kind == Formula::Kind::Ellipsis;
    });
    const size_t least = access.operands.size() - (any ? 1 : 0);
    if (any ? shape.size() < least : shape.size() != least) {
      error(text(access.name, " has shape ", tc::str(shape), " of rank ", shape.size(), "; rank ", least,
                 any ? " or more" : "", " is needed, as in `", str(access), "`"));
    }
    return shape.size() - least;
  }

  void bind(const Formula& access, const Shape& shape) {
    size_t axis = 0;
    for (const FormulaPtr& index : access.operands) {
      if (index->kind == Formula::Kind::Ellipsis) {
        const size_t own = batch_axes_of(access, shape);
        for (size_t i = 0; i < own; ++i, ++axis) {
          extents_.bind(batch_axis(batch_axes_ - own + i), {access.name, &shape, axis}, true, error_);
        }
        continue;
      }
      if (index->kind == Formula::Kind::Name) {
        letters_.insert(index->name);
        extents_.bind("`" + index->name + "`", {access.name, &shape, axis}, false, error_);
      }
      ++axis;
    }
  }

  const Equation& equation_;
  LetterExtents::Refuse error_;
  LetterExtents extents_;
  std::set<std::string> letters_;
  size_t batch_axes_ = 0;
};

// The names of the operands in order of appearance: inputs 0, 1, … of the node.
std::vector<std::string> operand_names(const Equation& equation) {
  std::vector<const Formula*> accesses;
  collect_accesses(*equation.value, accesses);
  std::vector<std::string> names;
  for (const Formula* access : accesses) {
    if (std::find(names.begin(), names.end(), access->name) == names.end()) names.push_back(access->name);
  }
  return names;
}

bool is_operand(const Formula& formula, const char* name) {
  return formula.kind == Formula::Kind::Name && formula.name == name;
}

}  // namespace

void LetterExtents::bind(const std::string& letter, const Axis& axis, bool broadcasts, const Refuse& error) {
  auto [found, fresh] = found_.try_emplace(letter, axis);
  if (fresh) return;
  const Dim &before = (*found->second.shape)[found->second.axis], &now = (*axis.shape)[axis.axis];
  if (before == now || (broadcasts && now == Dim(1))) return;
  if (broadcasts && before == Dim(1)) {
    found->second = axis;
    return;
  }
  auto where = [](const Axis& at) {
    return text((*at.shape)[at.axis].str(), " in ", at.operand, " of shape ", tc::str(*at.shape),
                " (dimension ", at.axis, ")");
  };
  error(text(letter, " is ", where(found->second), " but ", where(axis)), before, now);
}

const Dim& LetterExtents::operator[](const std::string& letter) const {
  auto found = found_.find(letter);
  TC_CHECK(found != found_.end(), "an extent of ", letter);
  return (*found->second.shape)[found->second.axis];
}

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
  if (formula.kind == Formula::Kind::Binary) return formula.binary;
#define X(enumerator, text) \
  if (formula.name == text) return BinaryOp::enumerator;
  TC_FOR_EACH_BINARY(X)
#undef X
  return std::nullopt;
}

FormulaPtr parse_formula(const std::string& text) { return FormulaParser(text).formula(); }

Equation parse_equation(const std::string& text) { return FormulaParser(text).equation(); }

namespace {

// Like parse_equation, but keeps the equations that this thread has parsed recently, because shapes are
// inferred after each pass.
std::shared_ptr<const Equation> parsed_once(const std::string& text) {
  constexpr size_t kMaxKept = 256;
  thread_local std::unordered_map<std::string, std::shared_ptr<const Equation>> kept;
  if (const auto known = kept.find(text); known != kept.end()) return known->second;
  if (kept.size() >= kMaxKept) kept.clear();
  return kept[text] = std::make_shared<const Equation>(parse_equation(text));
}

}  // namespace

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

Shape infer_equation(InferContext& context, const std::string& equation_text, std::optional<DType> result) {
  const std::shared_ptr<const Equation> parsed = parsed_once(equation_text);
  const Equation& equation = *parsed;
  const std::vector<std::string> names = operand_names(equation);
  std::map<std::string, const Shape*> shapes;
  for (size_t i = 0; i < names.size(); ++i) shapes[names[i]] = &context.shape(static_cast<int>(i));
  const EquationBinding binding(equation, shapes,
                                [&](const std::string& message, const Dim& before, const Dim& now) {
                                  context.differ(before, now, message);
                                });
  const DType type = context.dtype(0);
  for (size_t i = 1; i < names.size(); ++i) {
    const DType other = context.dtype(static_cast<int>(i));
    if (!result && other != type)
      context.error(names[0], " has type ", name_of(type), " and ", names[i], " has type ", name_of(other));
  }
  Shape shape = binding.result_shape();
  context.set_output(0, result.value_or(type), shape);
  return shape;
}

void lower_equation(LowerContext& context, const std::string& equation_text, const std::string& base,
                    int target) {
  const Equation equation = parse_equation(equation_text);
  const std::vector<std::string> operands = operand_names(equation);
  std::map<std::string, const Shape*> shapes;
  for (size_t i = 0; i < operands.size(); ++i) shapes[operands[i]] = &context.shape(static_cast<int>(i));
  EquationNames names =
      EquationBinding(equation, shapes, [](const std::string& message, const Dim&, const Dim&) {
        fail(ErrorKind::Internal, "an equation that inference took: ", message);
      }).names();
  names.type = LowerContext::compute_type(context.output_value(0).dtype);
  names.buffers[equation.target] = target;
  for (size_t i = 0; i < operands.size(); ++i)
    names.buffers[operands[i]] = context.input(static_cast<int>(i));
  EquationLowering(context, names).run(equation, base);
}

}  // namespace tc
