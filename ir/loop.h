// The loop IR: one kernel is a few statements with affine domains and accesses over buffers.
//
// MEANING
//
// A kernel computes the contents of its output buffers from those of its inputs and constants.
// Without a schedule it runs its statements one after the other in the order of `statements`; each
// runs all its instances, in lexicographic order of its iterators. A schedule may change the order
// to any that keeps every dependence (see scheduler/legality/legality.h).
//
// Instances. A statement has iterators i_0..i_n, each over 0 <= i < extent, and constraints
// (affine >= 0) that cut the box. Extents and constraints are affine in parameters and iterators;
// parameters are integers bound before the run, within their declared range.
//
// One instance evaluates `value` and then stores it at `write`: `buffer[index] = value`, or, for a
// reduction, `buffer[index] = buffer[index] (op) value`. The buffer must have been initialised by an
// earlier statement. Reductions may be reassociated and commuted freely, those of floats included (the only
// freedom that tolerance 0 leaves); no other operation may.
//
// Integers are two's complement and wrap. Integer division truncates and x/0 is 0; shifts by the width or
// more give 0. Float arithmetic is IEEE with round to nearest even, no exceptions, no flush of denormals; NaN
// payloads are not kept. a*b + c may be contracted to a fused multiply-add. Max and min return NaN where an
// operand is NaN, but for the reduction MaxNumber. Functions (exp, erf, …) are within 2 ULP for f32 (erf
// within 7 on vectors of RISC-V) unless an error budget allows more. Arithmetic happens in f32, f64, bool and
// the integer types of 8 to 64 bits; f16, bf16, narrower floats and shorter integers are storage types: every
// load of them is followed, and every store preceded, by a cast. A cast to a narrow float rounds once, to
// nearest even, and does not saturate (ir/narrow_float.h).
//
// Indices. Every load and store must be inside the buffer's shape for every instance of the domain:
// the verifier proves it for affine indices. A subscript may add a `dynamic` part (an integer expression, for
// gathers); the code that builds it must clamp it to the shape. `select` evaluates only the chosen side, so
// loads of the other side may be out of range (padding).
//
// Buffers do not overlap.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/affine.h"
#include "ir/dim.h"
#include "ir/dtype.h"
#include "ir/tensor.h"

namespace tc {

// Unary operators: X(enumerator, text). Results have the operand's type, predicates are bool.
// clang-format off
#define TC_FOR_EACH_UNARY(X)                                                                     \
  X(Neg, "neg") X(Abs, "abs") X(Sign, "sign") X(Floor, "floor") X(Ceil, "ceil")                   \
  X(Round, "round") /* half to even */ X(Trunc, "trunc") X(Sqrt, "sqrt") X(Exp, "exp")            \
  X(Log, "log") X(Sin, "sin") X(Cos, "cos") X(Tan, "tan") X(Asin, "asin") X(Acos, "acos")         \
  X(Atan, "atan") X(Sinh, "sinh") X(Cosh, "cosh") X(Tanh, "tanh") X(Asinh, "asinh")               \
  X(Acosh, "acosh") X(Atanh, "atanh") X(Erf, "erf") X(Sigmoid, "sigmoid") X(Not, "not")           \
  X(BitNot, "bitnot") X(IsNan, "isnan") X(IsInf, "isinf") X(Log1p, "log1p")
// clang-format on

// Binary operators: X(enumerator, text). Both operands have one type; comparisons give bool.
// Mod takes the sign of the divisor (integers and floats); Fmod that of the dividend.
// clang-format off
#define TC_FOR_EACH_BINARY(X)                                                                    \
  X(Add, "add") X(Sub, "sub") X(Mul, "mul") X(Div, "div") X(Mod, "mod") X(Fmod, "fmod")           \
  X(Pow, "pow") X(Max, "max") X(Min, "min") X(And, "and") X(Or, "or") X(Xor, "xor")               \
  X(Shl, "shl") X(Shr, "shr") X(Eq, "eq") X(Ne, "ne") X(Lt, "lt") X(Le, "le") X(Gt, "gt")         \
  X(Ge, "ge") X(Atan2, "atan2")
// clang-format on

enum class UnaryOp : uint8_t {
#define X(name, text) name,
  TC_FOR_EACH_UNARY(X)
#undef X
};
enum class BinaryOp : uint8_t {
#define X(name, text) name,
  TC_FOR_EACH_BINARY(X)
#undef X
};
const char* name_of(UnaryOp op);
const char* name_of(BinaryOp op);

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;

// One subscript: affine + dynamic (an integer expression of type i64, or null).
struct Subscript {
  Affine affine;
  ExprPtr dynamic;
};

struct Access {
  int buffer = -1;               // index into Kernel::buffers
  std::vector<Subscript> index;  // one per dimension of the buffer
};

// A scalar expression tree. Immutable; shared freely.
struct Expr {
  enum class Kind : uint8_t { Const, Load, Index, Unary, Binary, Select, Cast };
  Kind kind;
  DType dtype;          // of the result
  double number = 0;    // Const of a float type
  int64_t integer = 0;  // Const of an integer or bool type
  Access access;        // Load
  Affine affine;        // Index: the value of an affine expression, type i64
  UnaryOp unary{};
  BinaryOp binary{};
  std::vector<ExprPtr> operands;  // Unary 1, Binary 2, Select 3 (condition, then, else), Cast 1
};

ExprPtr constant(DType dtype, double value);
ExprPtr int_constant(DType dtype, int64_t value);
ExprPtr load(DType dtype, int buffer, std::vector<Subscript> index);
ExprPtr load(DType dtype, int buffer, const std::vector<Affine>& index);
ExprPtr index_value(Affine affine);
ExprPtr unary(UnaryOp op, ExprPtr a);
ExprPtr binary(BinaryOp op, ExprPtr a, ExprPtr b);
ExprPtr select(ExprPtr condition, ExprPtr then_value, ExprPtr else_value);
// Float to integer truncates and saturates, NaN gives 0; to bool is `!= 0`.
ExprPtr cast(DType dtype, ExprPtr a);

// Where a buffer lives. Register and Stack are private to one instance of the leaf (register tile)
// or to one thread; the lowering declares such buffers Local, and the scheduler decides between the two.
enum class Scope : uint8_t { Input, Output, Constant, Local, Stack, Register };
const char* name_of(Scope scope);

// A dense array, row-major over `shape` (affine in the parameters). Blocked layouts are ordinary
// shapes such as [n, c/16, y, x, 16]; `logical` describes the layout for people ("n c y x, c by 16").
struct Buffer {
  std::string name;  // unique in the kernel, a C identifier
  DType dtype = DType::F32;
  std::vector<Affine> shape;
  Scope scope = Scope::Input;
  std::string logical;
  // Stack: the memory of the target's accelerator that holds it (ir/accelerator.h); empty: the host's.
  std::string memory = {};
  // Where an accelerator's memory holds it: how many places it has there. Each trip of the loop that fills it
  // takes the next one, so that one can be filled while another is read.
  int copies = 1;
};

// True for buffers that the caller passes: inputs, outputs and constants.
inline bool is_argument(const Buffer& buffer) {
  return buffer.scope == Scope::Input || buffer.scope == Scope::Output || buffer.scope == Scope::Constant;
}

// MaxNumber is the largest of the operands that are not NaN (IEEE 754's maximumNumber); the buffer must hold
// a number before the first operand.
enum class Reduction : uint8_t { None, Sum, Product, Max, Min, And, Or, MaxNumber };
const char* name_of(Reduction reduction);
// The value that leaves the other operand unchanged.
ExprPtr identity(Reduction reduction, DType dtype);

struct Iterator {
  std::string name;  // unique in its statement, a C identifier
  Affine extent;     // 0 <= name < extent; affine in the parameters only
};

struct Statement {
  std::string name;  // unique in the kernel, a C identifier
  std::vector<Iterator> iterators;
  std::vector<Affine> constraints;  // each >= 0; affine in iterators and parameters
  Access write;                     // dynamic subscripts only where `reduction` is None
  Reduction reduction = Reduction::None;
  ExprPtr value;
};

// An integer that is known only when the kernel is called: a symbolic dimension.
struct Parameter {
  std::string name;  // C identifier: p0, p1, …
  Dim value;         // what the plan passes
  int64_t minimum = 0, maximum = int64_t{1} << 40;
};

// Linear combinations along one dimension of a constant: element i of the result is the sum over k of
// rows[i][k] times element k.
struct Combination {
  size_t dimension = 0;
  std::vector<std::vector<double>> rows;
};

// How a packed constant is made from an original one at compile time: the combinations replace
// dimensions of the original, one after the other, computed in double and rounded once; then element [j...]
// of the buffer takes original[index(j...)] where every index is inside the original's shape after the
// combinations, else `fill`. `iterators` name the buffer's dimensions.
//
// Where `terms` is not empty, a value is stored as several elements, its terms: `terms` names the iterator
// that counts them, which no index contains. The original is f32, f16 or bf16, whatever the buffer's type.
// - Buffers of floats: the value is the terms' sum. Term 0 is the value rounded to the buffer's type; each
//   further term is the difference between the value and the terms before it (in f32), rounded.
// - Buffers of i8: the terms are the digits, -128 to 127, of a whole number to base 256, the highest first.
//   Values that agree in the iterators `scaled` share a scale: a value is its number times the scale, which
//   is the largest of their magnitudes divided by largest_of_digits.
// - Buffers of i16: the only term is a whole number. The scales are such that the magnitudes of the numbers
//   add up to no more than kLargestSum along the iterators that follow `terms` and are not in `scaled`.
//
// Where `words` is not empty, three values are stored in two words of i32: `words` names the iterator that
// counts the values, and the buffer has two elements along that dimension. The original is f32. Values that
// agree in the iterators `scaled` share a scale, their largest magnitude divided by kLargestInWords. In units
// of the scale, modulo 2^32, value 0 is word 0, value 2 is word 1 (errors of at most 2^10), and value 1 is
// word 0 * 2^21 + word 1 * 2^10 (at most 2^9). The upper 21 bits of a word belong to its own value. The lower
// 11 bits of word 1 are the low half of value 1; those of word 0 are its high half minus what word 1 * 2^10
// already adds there.
//
// Without scales, a word of i32 holds two numbers of i8, of which `words` counts: the first minus 2^16 times
// the second (ir/weight_pairs.h). The buffer has one element along that dimension.
//
// Where `scales_of` is not empty, the buffer is f32 and holds the scales of the packed constant that
// `scales_of` names, in the order of that constant's `scaled`, the last innermost; no other member is set.
// Where `sums` is set as well, the buffer is i32 and holds, in the same order, 128 times the sum of the
// constant's numbers, which are i8 without terms.
struct Packing {
  std::string buffer;  // a Constant buffer of the kernel
  std::vector<std::string> iterators;
  std::vector<int64_t> original_shape;
  std::vector<Affine> index;  // one per dimension of the original
  double fill = 0;
  std::vector<Combination> combinations;
  std::string terms;
  std::string words;
  std::vector<std::string> scaled;
  std::string scales_of;
  bool sums = false;

  // The original's shape after the combinations.
  std::vector<int64_t> combined_shape() const;
  // The type of the original of a buffer of the given type; where it has terms, that may be f16 or bf16 too.
  DType original_dtype(DType buffer) const {
    if (has_pairs()) return DType::I8;
    return terms.empty() && words.empty() ? buffer : DType::F32;
  }
  // Whether each word holds two numbers.
  bool has_pairs() const { return !words.empty() && scaled.empty(); }
};

struct Kernel {
  std::string name;  // for people; not part of the workload key
  std::vector<Parameter> parameters;
  std::vector<Buffer> buffers;  // arguments first, in calling order
  std::vector<Statement> statements;
  std::vector<Packing> packings;     // added by rewrites
  std::vector<std::string> origins;  // the model's nodes that it computes

  int buffer_index(const std::string& name) const;  // -1 where absent
  const Statement* find(const std::string& statement) const;
};

// Calls visit(buffer, number) for each argument of the kernel, which may be const, numbered in
// calling order.
template <class AnyKernel, class Visit>
void for_each_argument(AnyKernel& kernel, const Visit& visit) {
  size_t number = 0;
  for (auto& buffer : kernel.buffers) {
    if (is_argument(buffer)) visit(buffer, number++);
  }
}

// Text form; parse_kernel reads it back to an equal kernel.
std::string str(const Kernel& kernel);
std::string str(const Statement& statement, const Kernel& kernel);
std::string str(const Expr& expr, const Kernel& kernel);
Kernel parse_kernel(const std::string& text);

// Checks names, types, ranks, that affine indices stay inside the shapes over the domain (with parameters at
// their minimum and at their maximum), and that every buffer that is read is an argument or was written
// before. Throws an Internal error naming statement and rule.
void verify(const Kernel& kernel);

// Canonical text of the kernel's semantics: names replaced by numbers, no origins. Equal keys mean
// kernels that compute the same from the same arguments.
std::string workload_key(const Kernel& kernel);

// Calls visit(load) for each Load in the expression, dynamic subscripts included.
void for_each_load(const ExprPtr& expr, const std::function<void(const Expr&)>& visit);
// Rebuilds the expression with each node replaced by what `rewrite` returns for it (null: keep, go
// into the operands).
ExprPtr rewrite(const ExprPtr& expr, const std::function<ExprPtr(const ExprPtr&)>& rewrite);
// Substitutes iterators in all affine parts.
ExprPtr substitute(const ExprPtr& expr, const std::map<std::string, Affine>& values);
Access substitute(const Access& access, const std::map<std::string, Affine>& values);

// Runs the kernel slowly and exactly as MEANING defines: floats in double (rounded to the buffer's type when
// stored if `round_to_storage`), in the statements' order. `buffers` holds one tensor per kernel buffer by
// name (arguments given, locals made here); parameters by name. Out-of-range accesses throw an Internal error
// with the statement, the instance and the index.
void interpret(const Kernel& kernel, const std::map<std::string, int64_t>& parameters,
               std::map<std::string, Tensor>& buffers, bool round_to_storage = false);

// Float operations over the whole domain, with parameters bound; a multiply-add counts as two. Used by
// reports and the analytic cost model.
double flop_count(const Kernel& kernel, const std::map<std::string, int64_t>& parameters);

// Instances of a statement, with parameters bound.
double instance_count(const Statement& statement, const std::map<std::string, int64_t>& parameters);

// Applies a packing to data.
Tensor pack(const Packing& packing, const Kernel& kernel, const Tensor& original);
// The largest magnitude that a whole number of `digits` digits may have: it leaves room for rounding.
double largest_of_digits(int64_t digits);
// Limits by which no sum of products of 16-bit numbers overflows 32 bits: the largest magnitude in one
// operand, and the most that the magnitudes in the other operand may add up to.
constexpr double kLargestFactor = 16383, kLargestSum = 131000;
// Packings in words: the largest magnitude of a number (rounding up by 2^10 still fits 32 bits), how many
// values are stored in how many words, and by how many bits each word is shifted left where the two are added
// to give the middle value.
constexpr double kLargestInWords = 2147479552;  // 2^31 - 2^12
constexpr int64_t kValuesInWords = 3, kWordsOfValues = 2;
constexpr int kFirstWordShift = 21, kSecondWordShift = 10;
// How the constant is packed, or null.
const Packing* packing_of(const Kernel& kernel, const std::string& buffer);
// The argument of the kernel, as it was before all rewrites, that the constant is made from: the constant
// itself or, if it holds scales, the constant that they belong to.
const std::string& original_of(const Kernel& kernel, const std::string& buffer);
// True where the packed bytes are the original's bytes in the same order.
bool keeps_order(const Packing& packing, const Kernel& kernel);
// Text that is equal for packings that make equal bytes of equal originals.
std::string recipe(const Packing& packing, const Kernel& kernel);
// Whether two packings make equal bytes of one original, also where their loops are divided differently.
bool packs_alike(const Packing& a, const Kernel& of_a, const Packing& b, const Kernel& of_b);

}  // namespace tc
