// Inference and lowering by index equations (ir/ops/formula.h). A row that has an equation and no functions
// of its own is inferred and lowered by it; the functions here are also for rows that make an equation for
// each node.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/ops/formula.h"
#include "ir/ops/op.h"

namespace tc {

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

// For equations whose operands are inputs 0, 1, … of the node, in the order in which the equation first names
// them. Names of the row's integer attributes stand for their values, all other names in subscripts are
// letters, and their extents come from the inputs' shapes. A letter that occurs in sums only, such as i in
// X[i+k], has the extent up to which all reads lie inside of the operand.
//
// Sets the type and shape of output 0 and returns the shape. Shape errors where an operand does not have the
// rank in the equation, where a letter has two extents, and where a sum reaches beyond its operand.
Shape infer_equation(InferContext& context, const std::string& equation);
// Lowers such an equation, with its result in `target`.
void lower_equation(LowerContext& context, const std::string& equation, const std::string& base, int target);

// The parsed text of a row. Recent ones are kept by this thread, because shapes are inferred after each pass.
std::shared_ptr<const FormulaOrEquation> parsed_once(const std::string& text);

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
