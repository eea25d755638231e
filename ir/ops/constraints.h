// What a row says of its operands' types and of its attributes' values, as data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/dim.h"
#include "ir/dtype.h"

namespace tc {

class InferContext;
struct Node;

// A set of element types under the words that errors name it by.
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

// A type parameter in ONNX's manner (`T`: float types): the inputs have a type of the set, and all the same
// one unless `same` is false. No inputs named: all that the node has.
struct TypeRule {
  TypeSet types;
  std::vector<int> inputs = {};
  bool same = true;
};

// What the value of an attribute, or each number of a list, may be.
struct AttributeRule {
  // Axis: of input `input`, counted from the end where negative; `least` and `most` widen the range by so
  // many axes below and above. Permutation: of that input's axes, or an empty list. Range: from `least` to
  // `most`. Choice: one of the texts.
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
// Strides, dilations, extents of windows, groups: what the arithmetic of shapes has room for.
AttributeRule positive();

// Before a node is inferred: its inputs and outputs are as many as its row takes, their types and its
// attributes are what the row allows. Model, Shape and (for choices) Unsupported errors name node, attribute,
// value and what is allowed.
void check_operands(const InferContext& context);
// The parts of it that are about the inputs (`all`: also that they are not too many), the types of one rule,
// and one choice.
void check_inputs(const Node& node, bool all);
void check_types(const InferContext& context, const TypeRule& rule);
void check_choice(const Node& node, const std::string& attribute, const std::string& value,
                  const std::vector<std::string>& known);
// Of each result as it is inferred: its rank, extents and number of elements are bounded.
void check_result(const InferContext& context, const Shape& shape);
// After the node is inferred: each output has got a shape.
void check_results(const InferContext& context);

}  // namespace tc
