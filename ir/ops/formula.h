// Formulas and index equations: the text in a row that defines what an operator computes.
//
//   select(a < 0, alpha * (exp(a) - 1), a)                      a formula
//   add(a, b, …) / count
//   C[...,m?,n?] += A[...,m?,k] * B[...,k,n?]                   equations
//   O[n,g*F+f,y,x] += I[n,g*C+c,y*sh+r*dh-pt,x*sw+s*dw-pl] * K[g*F+f,c,r,s]
//   O[...,i] = max(O[...,i-1], X[...,i])
//
// A formula has operands, numbers, + - * /, comparisons, `select`, the names of the loop IR's unary and
// binary functions, and the names of element types, which convert. As a row's text it is applied to the
// elements at the same position, under broadcasting: a, b, c, … are the node's inputs, other names its float
// attributes, `count` the number of its inputs. `…` as the last operand of a binary function stands for all
// further inputs, which are combined from the left.
//
// In an equation letters with an extent are iterators: those of the left-hand side are the outer ones, in
// order of appearance, the others the inner ones. Other names in subscripts are integers. `=`, `+=`, `*=`,
// `max=` and `min=` tell how values are combined. A subscript `...` stands for any number of axes that an
// operand has in addition to its other subscripts; those of all operands broadcast against each other,
// aligned at the last, and their iterators are b0, b1, …. An operand whose rank is too small for all its
// subscripts lacks the axes marked by `?`, and so does the result.
//
// An equation that reads its own target at an earlier position, such as O[...,i-1], is a recurrence. At the
// positions that have no earlier one, the function that takes the read gives its other operand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/loop.h"

namespace tc {

struct Formula {
  enum class Kind { Number, Name, Access, Call, Binary, Ellipsis };  // Ellipsis: a subscript, or `…`
  Kind kind;
  std::string name;  // Name, Access, Call
  double number = 0;
  BinaryOp binary{};
  std::vector<std::shared_ptr<const Formula>> operands;  // subscripts of an Access
  bool may_lack = false;                                 // a subscript marked by `?`
};
using FormulaPtr = std::shared_ptr<const Formula>;

struct Equation {
  std::string target;
  std::vector<FormulaPtr> index;
  Reduction reduction = Reduction::None;
  FormulaPtr value;
};

// A row's text: a formula, which has no target, or an equation.
struct FormulaOrEquation {
  FormulaPtr formula;
  std::optional<Equation> equation;
};

// Model errors with the position where the text cannot be parsed.
FormulaPtr parse_formula(const std::string& text);
Equation parse_equation(const std::string& text);
FormulaOrEquation parse_row_text(const std::string& text);

// The function, where the formula is one function of its operands: `sqrt(a)`, `a + b`; nothing for other
// formulas.
std::optional<UnaryOp> unary_function(const Formula& formula);
std::optional<BinaryOp> binary_function(const Formula& formula);
// The element type that a call of this name converts to.
std::optional<DType> conversion(const std::string& name);

// The name of input `input` in a row's formula: a, b, c, ….
std::string operand_name(size_t input);

// The accesses of the formula, in order.
void collect_accesses(const Formula& formula, std::vector<const Formula*>& accesses);

// The element type of the formula's values. `leaf` gives the types of operands, and nothing for names of
// numbers. Nothing where no operand decides it.
std::optional<DType> type_of(const Formula& formula,
                             const std::function<std::optional<DType>(const Formula&)>& leaf);

// The expression of a formula whose numbers have the given type; `leaf` gives those of names and accesses.
// `inputs`: how many operands `…` completes the list to.
ExprPtr build_formula(const Formula& formula, const std::function<ExprPtr(const Formula&)>& leaf, DType type,
                      size_t inputs = 0);
// The same over the given operands; other names are looked up in `numbers`. Internal error for a name that is
// in neither.
ExprPtr build_formula(const Formula& formula, const std::map<std::string, ExprPtr>& operands,
                      const std::map<std::string, double>& numbers, DType type, size_t inputs = 0);

}  // namespace tc
