// Binds the letters of index equations to the shapes of operands, and lowers equations to statements.
#include "ir/ops/equation.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <unordered_map>

#include "ir/error.h"

namespace tc {
namespace {

bool reads(const Formula& formula, const std::string& target) {
  std::vector<const Formula*> accesses;
  collect_accesses(formula, accesses);
  return std::any_of(accesses.begin(), accesses.end(),
                     [&](const Formula* access) { return access->name == target; });
}

// The value of a recurrence at positions without an earlier one: the function that takes the read of the
// target gives its other operand.
FormulaPtr first_value(const FormulaPtr& formula, const std::string& target) {
  const auto& operands = formula->operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]->kind != Formula::Kind::Access || operands[i]->name != target) continue;
    TC_CHECK(operands.size() == 2, "a function of two operands for a read of ", target);
    return operands[1 - i];
  }
  auto result = std::make_shared<Formula>(*formula);
  for (FormulaPtr& operand : result->operands) {
    if (operand->kind != Formula::Kind::Access) operand = first_value(operand, target);
  }
  return result;
}

// An equation with its letters bound.
class EquationLowering {
 public:
  EquationLowering(LowerContext& context, const EquationNames& names) : context_(context), names_(names) {}

  void run(const Equation& equation, const std::string& base) {
    std::vector<Iterator> outer, inner;
    const int target = buffer(equation.target);
    const std::vector<Affine> target_index = subscripts(equation.index, target, outer);
    if (reads(*equation.value, equation.target)) return recurrence(equation, outer, target, target_index);
    collect(*equation.value, inner);
    std::vector<Affine> constraints;
    ExprPtr value = build_formula(
        *equation.value, [&](const Formula& leaf) { return load(leaf, inner, constraints); }, names_.type);
    if (equation.reduction == Reduction::None) {
      context_.assign(base, outer, target, target_index, value, constraints);
    } else {
      context_.reduce(base, {outer, inner, constraints}, target, target_index, equation.reduction, value);
    }
  }

 private:
  // One statement for the positions that have an earlier one, and one for those that have none.
  void recurrence(const Equation& equation, std::vector<Iterator>& outer, int target,
                  const std::vector<Affine>& index) {
    TC_CHECK(equation.reduction == Reduction::None, "a recurrence that is no reduction");
    std::vector<Affine> constraints, none;
    auto value_of = [&](const Formula& formula, std::vector<Affine>& needed) {
      return build_formula(
          formula, [&](const Formula& leaf) { return load(leaf, outer, needed); }, names_.type);
    };
    const size_t iterators = outer.size();
    const ExprPtr next = value_of(*equation.value, constraints);
    TC_CHECK(outer.size() == iterators, "a recurrence whose letters are all on its left-hand side");
    TC_CHECK(constraints.size() == 1, "one subscript of a recurrence that is an earlier position");
    const ExprPtr first = value_of(*first_value(equation.value, equation.target), none);
    TC_CHECK(none.empty(), "a recurrence that reads its operands inside of them");
    if (constraints[0].is_constant()) return context_.assign("first", outer, target, index, first);
    context_.assign("first", outer, target, index, first, {Affine(-1) - constraints[0]});
    context_.assign("next", outer, target, index, next, constraints);
  }

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

// A subscript as it is written.
std::string subscript_text(const Formula& index) {
  switch (index.kind) {
    case Formula::Kind::Ellipsis: return "...";
    case Formula::Kind::Name: return index.name;
    case Formula::Kind::Number: return text(index.number);
    case Formula::Kind::Binary: {
      const char* sign = index.binary == BinaryOp::Add ? "+" : index.binary == BinaryOp::Sub ? "-" : "*";
      return subscript_text(*index.operands[0]) + sign + subscript_text(*index.operands[1]);
    }
    default: fail(ErrorKind::Internal, "a subscript of an equation is not affine");
  }
}

// An access as it is written: `A[...,m,k]`.
std::string str(const Formula& access) {
  std::string result;
  for (const FormulaPtr& index : access.operands)
    result += (result.empty() ? "" : ",") + subscript_text(*index);
  return access.name + "[" + result + "]";
}

bool is_ellipsis(const FormulaPtr& index) { return index->kind == Formula::Kind::Ellipsis; }

using Shapes = std::map<std::string, const Shape*>;  // of the operands by name

// The formula without the subscripts marked by `?` of operands whose rank is too small for them; their
// letters are added to `lacking`.
FormulaPtr without_lacking(const FormulaPtr& formula, const Shapes& shapes, std::set<std::string>& lacking) {
  auto result = std::make_shared<Formula>(*formula);
  auto& operands = result->operands;
  if (formula->kind != Formula::Kind::Access) {
    for (FormulaPtr& operand : operands) operand = without_lacking(operand, shapes, lacking);
    return result;
  }
  const auto found = shapes.find(formula->name);
  if (found == shapes.end()) return formula;  // the target
  size_t needed =
      operands.size() - static_cast<size_t>(std::count_if(operands.begin(), operands.end(), is_ellipsis));
  for (size_t i = 0; i < operands.size() && needed > found->second->size();) {
    if (!operands[i]->may_lack) {
      ++i;
      continue;
    }
    lacking.insert(operands[i]->name);
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(i));
    --needed;
  }
  return result;
}

// The equation for operands of these shapes.
Equation resolved(const Equation& equation, const Shapes& shapes) {
  Equation result = equation;
  std::set<std::string> lacking;
  result.value = without_lacking(equation.value, shapes, lacking);
  std::erase_if(result.index, [&](const FormulaPtr& index) { return lacking.count(index->name) > 0; });
  return result;
}

// The extents of an equation's letters, found from the shapes of its operands: first those of letters that
// are whole subscripts, then those of letters in sums, which reach as far as all reads lie inside.
class EquationBinding {
 public:
  // Requires that what reads reach over is at most the size of the axis.
  using Require = std::function<void(const Dim& reach, const Dim& size, const std::string& message)>;
  // `error` throws.
  EquationBinding(const Equation& equation, const Shapes& shapes, std::map<std::string, int64_t> integers,
                  LetterExtents::Refuse error, Require require)
      : equation_(equation),
        integers_(std::move(integers)),
        error_(std::move(error)),
        require_(std::move(require)) {
    std::vector<const Formula*> accesses;
    collect_accesses(*equation.value, accesses);
    std::erase_if(accesses, [&](const Formula* access) { return access->name == equation.target; });
    for (const Formula* access : accesses)
      batch_axes_ = std::max(batch_axes_, batch_axes_of(*access, *shapes.at(access->name)));
    for (const bool sums : {false, true}) {
      for (const Formula* access : accesses) bind(*access, *shapes.at(access->name), sums);
    }
  }

  EquationNames names() const {
    EquationNames result;
    result.batch_axes = batch_axes_;
    result.integers = integers_;
    for (size_t i = 0; i < batch_axes_; ++i) result.extents[text("b", i)] = extents_[batch_axis(i)];
    for (const std::string& letter : letters_) result.extents[letter] = extents_["`" + letter + "`"];
    result.extents.insert(solved_.begin(), solved_.end());
    return result;
  }

  Shape result_shape() const {
    Shape shape;
    for (const FormulaPtr& index : equation_.index) {
      if (index->kind == Formula::Kind::Ellipsis) {
        for (size_t i = 0; i < batch_axes_; ++i) shape.push_back(extents_[batch_axis(i)]);
      } else {
        shape.push_back(index->kind == Formula::Kind::Number ? Dim(1) : extent(index->name));
      }
    }
    return shape;
  }

 private:
  // Reports an error about ranks.
  void error(const std::string& message) const { error_(message, Dim(0), Dim(1)); }
  static std::string batch_axis(size_t i) { return text("batch axis ", i); }

  const Dim& extent(const std::string& letter) const {
    const auto found = solved_.find(letter);
    return found != solved_.end() ? found->second : extents_["`" + letter + "`"];
  }

  // How many axes the ellipsis of an access stands for; an error where the rank does not fit.
  size_t batch_axes_of(const Formula& access, const Shape& shape) const {
    const bool any = std::any_of(access.operands.begin(), access.operands.end(), is_ellipsis);
    const size_t least = access.operands.size() - (any ? 1 : 0);
    if (any ? shape.size() < least : shape.size() != least) {
      error(text(access.name, " has shape ", tc::str(shape), " of rank ", shape.size(), "; rank ", least,
                 any ? " or more" : "", " is needed, as in `", str(access), "`"));
    }
    return shape.size() - least;
  }

  void bind(const Formula& access, const Shape& shape, bool sums) {
    size_t axis = 0;
    for (const FormulaPtr& index : access.operands) {
      if (index->kind == Formula::Kind::Ellipsis) {
        const size_t own = batch_axes_of(access, shape);
        for (size_t i = 0; i < own; ++i, ++axis) {
          if (!sums)
            extents_.bind(batch_axis(batch_axes_ - own + i), {access.name, &shape, axis}, true, error_);
        }
        continue;
      }
      const bool letter = index->kind == Formula::Kind::Name && !integers_.count(index->name);
      if (letter && !sums) {
        letters_.insert(index->name);
        extents_.bind("`" + index->name + "`", {access.name, &shape, axis}, false, error_);
      }
      if (!letter && sums) solve(access, *index, shape, axis);
      ++axis;
    }
  }

  Affine affine(const Formula& index) const {
    switch (index.kind) {
      case Formula::Kind::Number: return static_cast<int64_t>(index.number);
      case Formula::Kind::Name: {
        const auto found = integers_.find(index.name);
        return found != integers_.end() ? Affine(found->second) : Affine::variable(index.name);
      }
      default: break;
    }
    TC_CHECK(index.kind == Formula::Kind::Binary, "an affine subscript");
    const Affine a = affine(*index.operands[0]), b = affine(*index.operands[1]);
    if (index.binary == BinaryOp::Add) return a + b;
    if (index.binary == BinaryOp::Sub) return a - b;
    TC_CHECK(index.binary == BinaryOp::Mul && (a.is_constant() || b.is_constant()), "an affine subscript");
    return a.is_constant() ? b * a.constant() : a * b.constant();
  }

  // Finds the extent of the one letter of a sum that no operand has as a subscript of its own.
  void solve(const Formula& access, const Formula& index, const Shape& shape, size_t axis) {
    const Affine sum = affine(index);
    std::string unknown;
    int64_t step = 0;
    Dim reach = sum.constant() + 1;  // how many elements the reads of one position reach over
    for (const auto& [letter, coefficient] : sum.terms()) {
      TC_CHECK(coefficient > 0, "a subscript that grows with ", letter);
      if (letters_.count(letter) || solved_.count(letter)) {
        reach = reach + (extent(letter) - Dim(1)) * Dim(coefficient);
        continue;
      }
      TC_CHECK(unknown.empty(), "extents of ", unknown, " and ", letter);
      unknown = letter;
      step = coefficient;
    }
    if (unknown.empty()) return;
    require_(reach, shape[axis],
             text("`", subscript_text(index), "` of ", str(access), " reaches over ", reach.str(),
                  " elements, but ", access.name, " has shape ", tc::str(shape), ", with ", shape[axis].str(),
                  " in dimension ", axis));
    solved_[unknown] = floor_div(shape[axis] - reach, Dim(step)) + Dim(1);
  }

  const Equation& equation_;
  std::map<std::string, int64_t> integers_;
  LetterExtents::Refuse error_;
  Require require_;
  LetterExtents extents_;
  std::set<std::string> letters_;
  std::map<std::string, Dim> solved_;
  size_t batch_axes_ = 0;
};

// The names of the operands in order of appearance: inputs 0, 1, … of the node.
std::vector<std::string> operand_names(const Equation& equation) {
  std::vector<const Formula*> accesses;
  collect_accesses(*equation.value, accesses);
  std::vector<std::string> names;
  for (const Formula* access : accesses) {
    if (access->name != equation.target && std::find(names.begin(), names.end(), access->name) == names.end())
      names.push_back(access->name);
  }
  return names;
}

// The values of the node's integer attributes.
std::map<std::string, int64_t> integers_of(const Node& node) {
  std::map<std::string, int64_t> result;
  for (const AttributeRow& attribute : node.op->attributes) {
    if (std::holds_alternative<int64_t>(attribute.fallback))
      result[attribute.name] = int_attribute(node, attribute.name);
  }
  return result;
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

std::shared_ptr<const FormulaOrEquation> parsed_once(const std::string& text) {
  constexpr size_t kMaxKept = 256;
  thread_local std::unordered_map<std::string, std::shared_ptr<const FormulaOrEquation>> kept;
  if (const auto known = kept.find(text); known != kept.end()) return known->second;
  if (kept.size() >= kMaxKept) kept.clear();
  return kept[text] = std::make_shared<const FormulaOrEquation>(parse_row_text(text));
}

void lower_equation(LowerContext& context, const std::string& equation, const EquationNames& names,
                    const std::string& base) {
  EquationLowering(context, names).run(parse_equation(equation), base);
}

Shape infer_equation(InferContext& context, const std::string& text) {
  const auto parsed = parsed_once(text);
  const std::vector<std::string> names = operand_names(*parsed->equation);
  Shapes shapes;
  std::map<std::string, DType> types;
  for (size_t i = 0; i < names.size(); ++i) {
    shapes[names[i]] = &context.shape(static_cast<int>(i));
    types[names[i]] = context.dtype(static_cast<int>(i));
  }
  const Equation equation = resolved(*parsed->equation, shapes);
  const EquationBinding binding(
      equation, shapes, integers_of(context.node()),
      [&](const std::string& message, const Dim& before, const Dim& now) {
        context.differ(before, now, message);
      },
      [&](const Dim& reach, const Dim& size, const std::string& message) {
        context.require_at_most(reach, size, message);
      });
  const auto type = type_of(*equation.value, [&](const Formula& leaf) -> std::optional<DType> {
    const auto found = types.find(leaf.name);
    return found == types.end() ? std::nullopt : std::optional<DType>(found->second);
  });
  Shape shape = binding.result_shape();
  context.set_output(0, type.value_or(context.dtype(0)), shape);
  return shape;
}

void lower_equation(LowerContext& context, const std::string& text, const std::string& base, int target) {
  const auto parsed = parsed_once(text);
  const std::vector<std::string> operands = operand_names(*parsed->equation);
  Shapes shapes;
  for (size_t i = 0; i < operands.size(); ++i) shapes[operands[i]] = &context.shape(static_cast<int>(i));
  const Equation equation = resolved(*parsed->equation, shapes);
  const EquationBinding binding(
      equation, shapes, integers_of(context.node()),
      [](const std::string& message, const Dim&, const Dim&) {
        fail(ErrorKind::Internal, "an equation that inference took: ", message);
      },
      [](const Dim&, const Dim&, const std::string&) {});
  EquationNames names = binding.names();
  const Value& result = context.output_value(0);
  names.type = LowerContext::compute_type(result.dtype);
  // Later positions of a recurrence read its results before they are rounded to the stored type.
  const bool rounds = names.type != result.dtype && reads(*equation.value, equation.target);
  const int total = rounds ? context.local("total", names.type, *result.shape) : target;
  names.buffers[equation.target] = total;
  for (size_t i = 0; i < operands.size(); ++i)
    names.buffers[operands[i]] = context.input(static_cast<int>(i));
  EquationLowering(context, names).run(equation, base);
  if (!rounds) return;
  auto space = context.space("i", *result.shape);
  context.assign("store", space.iterators, target, space.position,
                 context.read_buffer(total, space.position));
}

}  // namespace tc
