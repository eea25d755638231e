// Index equations and scalar formulas: the text in a row that defines what an operator computes.
//
//   O[n,g*F+f,y,x] += I[n,g*C+c,y*sh+r*dh-pt,x*sw+s*dw-pl] * K[g*F+f,c,r,s]
//   select(a < 0, alpha * (exp(a) - 1), a)
//
//   C[...,m,n] += A[...,m,k] * B[...,k,n]
//
// In an equation letters with an extent are iterators: those of the left-hand side are the outer ones, in
// order of appearance, the others the inner ones. Other names in subscripts are integers. `=`, `+=`, `max=`
// and `min=` tell how values are combined. A formula has operands, numbers, + - * /, comparisons, `select`,
// and the names of the loop IR's unary and binary functions. A subscript `...` stands for any number of axes
// that an operand has in addition to its other subscripts; those of all operands broadcast against each
// other, aligned at the last, and their iterators are b0, b1, ….
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/ops/op.h"

namespace tc {

struct Formula {
  enum class Kind { Number, Name, Access, Call, Binary, Ellipsis };  // Ellipsis: a subscript alone
  Kind kind;
  std::string name;  // Name, Access, Call
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

// Both throw a Model error with the position where the text cannot be parsed.
FormulaPtr parse_formula(const std::string& text);
Equation parse_equation(const std::string& text);

// The function, where the formula is one function of its operands: `sqrt(a)`, `a + b`; nothing for other
// formulas.
std::optional<UnaryOp> unary_function(const Formula& formula);
std::optional<BinaryOp> binary_function(const Formula& formula);

// The formula over the given operands, in arithmetic of the given type; other names are looked up in
// `numbers`. Internal error for a name that is in neither.
ExprPtr build_formula(const Formula& formula, const std::map<std::string, ExprPtr>& operands,
                      const std::map<std::string, double>& numbers, DType type);

// The meanings of the letters and names of an equation.
struct EquationNames {
  std::map<std::string, Dim> extents;       // iterators
  std::map<std::string, int64_t> integers;  // in subscripts
  size_t batch_axes = 0;                    // of `...` in the result; b0, b1, … have extents too
  std::map<std::string, int> buffers;       // indices in the kernel
  DType type = DType::F32;                  // of the arithmetic
};

// Adds the equation's statements: for a reduction the initialisation too. Iterators of extent 1 are
// left out. Subscripts that may leave their buffer become constraints: such points contribute
// nothing. `base` names the statement.
void lower_equation(LowerContext& context, const std::string& equation, const EquationNames& names,
                    const std::string& base);

// For equations whose subscripts are all letters, numbers or `...`, and whose operands are inputs 0, 1, … of
// the node, in the order in which the equation first names them: the letters' extents come from the inputs'
// shapes.
//
// Sets the type and shape of output 0 and returns the shape. Shape errors where an operand does not have the
// rank in the equation, where a letter has two extents, and where types differ. Types may differ if `result`
// gives the output's type.
Shape infer_equation(InferContext& context, const std::string& equation,
                     std::optional<DType> result = std::nullopt);
// Adds the statements; the result goes to the buffer `target`.
void lower_equation(LowerContext& context, const std::string& equation, const std::string& base, int target);

// The extents of letters, collected from the operands one by one. `broadcasts`: extents of 1 fit all others.
class LetterExtents {
 public:
  struct Axis {
    std::string operand;  // as errors name it: "A", "operand 0"
    const Shape* shape;
    size_t axis;
  };
  // Calls `error`, which must throw, with both extents where the letter already has another one. `letter` is
  // the text by which errors name it.
  using Refuse = std::function<void(const std::string& message, const Dim& before, const Dim& now)>;
  void bind(const std::string& letter, const Axis& axis, bool broadcasts, const Refuse& error);
  const Dim& operator[](const std::string& letter) const;  // Internal error for one that is not bound

 private:
  std::map<std::string, Axis> found_;
};

}  // namespace tc
