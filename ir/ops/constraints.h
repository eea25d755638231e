// The constraints that a row puts on its operands' types and its attributes' values, as data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/dim.h"
#include "ir/dtype.h"

namespace tc {

class InferContext;
struct Node;

// A set of element types, and the words by which errors name it.
struct TypeSet {
  const char* words = "any type";
  bool (*has)(DType) = nullptr;  // null: all
};

extern const TypeSet kAnyType;
extern const TypeSet kFloats;
extern const TypeSet kNumbers;  // all but bool
extern const TypeSet kIntegers;
extern const TypeSet kBools;
extern const TypeSet kIndices;      // i32, i64
extern const TypeSet kBytes;        // i8, u8
extern const TypeSet kWideNumbers;  // floats, and integers of 32 or 64 bits

// A type parameter as in ONNX (`T`: float types): the inputs have a type of the set, and all the same one
// unless `same` is false. An empty `inputs` means all inputs of the node.
struct TypeRule {
  TypeSet types;
  std::vector<int> inputs = {};
  bool same = true;
};

// What the value of an attribute, or each number of a list, may be.
struct AttributeRule {
  // Axis: an axis of input `input`, counted from the end where negative; `least` and `most` are how many axes
  // further down and up the allowed range reaches. Permutation: of that input's axes, or an empty list.
  // Range: from `least` to `most`. Choice: one of the texts.
  enum class Kind : uint8_t { Any, Axis, Permutation, Range, Choice };
  Kind kind = Kind::Any;
  int input = 0;
  int64_t least = 0, most = 0;
  std::vector<std::string> choices = {};
};

AttributeRule axis_of(int input, int64_t below = 0, int64_t above = 0);
AttributeRule permutation_of(int input);
AttributeRule from_to(int64_t least, int64_t most);
AttributeRule at_least(int64_t least);
AttributeRule one_of(std::vector<std::string> choices);
// For strides, dilations, extents of windows and groups: positive, and small enough for the arithmetic of
// shapes.
AttributeRule positive();

// Runs before a node is inferred. Checks that the numbers of inputs and outputs, their types and the
// attributes are those that the row allows. Model, Shape and (for choices) Unsupported errors name node,
// attribute, value and what is allowed.
void check_operands(const InferContext& context);
// Parts of check_operands: the inputs (`all`: also that there are not too many), the types of one rule, and
// one choice.
void check_inputs(const Node& node, bool all);
void check_types(const InferContext& context, const TypeRule& rule);
void check_choice(const Node& node, const std::string& attribute, const std::string& value,
                  const std::vector<std::string>& known);
// Runs on each result as it is inferred. Checks that its rank, extents and number of elements are within
// bounds.
void check_result(const InferContext& context, const Shape& shape);
// Runs after the node is inferred. Checks that each output has a shape.
void check_results(const InferContext& context);

}  // namespace tc
