// Index equations and scalar formulas: the text in a row that says what an operator computes.
//
//   O[n,g*F+f,y,x] += I[n,g*C+c,y*sh+r*dh-pt,x*sw+s*dw-pl] * K[g*F+f,c,r,s]
//   select(a < 0, alpha * (exp(a) - 1), a)
//
// In an equation letters with an extent are iterators, those on the left in order of appearance
// outside, the others inside; the other names in subscripts are integers. `=`, `+=`, `max=` and
// `min=` say how a value is combined. A formula has operands, numbers, + - * /, comparisons,
// `select`, and the names of the loop IR's unary and binary functions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/ops/op.h"

namespace tc {

struct Formula {
  enum class Kind { Number, Name, Access, Call, Binary };
  Kind kind;
  std::string name;                // Name, Access, Call
  double number = 0;
  BinaryOp binary{};
  std::vector<std::shared_ptr<const Formula>> operands;  // subscripts of an Access
};
using FormulaPtr = std::shared_ptr<const Formula>;

struct Equation {
  std::string target;
  std::vector<FormulaPtr> index;
  Reduction reduction = Reduction::None;
  FormulaPtr value;
};

// Both throw a Model error with the position where the text is no formula.
FormulaPtr parse_formula(const std::string& text);
Equation parse_equation(const std::string& text);

// The formula over the given operands, in arithmetic of the given type; names that are no operand
// are numbers. Internal error for a name that is neither.
ExprPtr build_formula(const Formula& formula, const std::map<std::string, ExprPtr>& operands,
                      const std::map<std::string, double>& numbers, DType type);

// What the letters and names of an equation stand for.
struct EquationNames {
  std::map<std::string, Dim> extents;        // iterators
  std::map<std::string, int64_t> integers;   // in subscripts
  std::map<std::string, int> buffers;        // of the kernel
  DType type = DType::F32;                   // of the arithmetic
};

// Adds the equation's statements: for a reduction the initialisation too. Iterators of extent 1 are
// left out. Subscripts that may leave their buffer become constraints: such points contribute
// nothing. `base` names the statement.
void lower_equation(LowerContext& context, const std::string& equation, const EquationNames& names,
                    const std::string& base);

}  // namespace tc
