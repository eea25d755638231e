// pairs: a sum of products of bytes whose constant is stored as words of two weights each.
//
// A word w holds the weights of two features as w0 - 2^16 w1. For two steps, t = w x + w' x' is s0 - 2^16 s1,
// where s0 and s1 are what the steps add to each feature's sum. Products of signed bytes are -127 * 128 to
// 128 * 128, so s0 is -32512 to 32768, and t + 32512 shifted right by 16 bits is -s1, whatever the weights
// are. The features' sums S0 and S1 are kept as A, the sum of all t, which is S0 - 2^16 S1 modulo 2^32, and
// B, the sum of all -s1: S1 is -B, and S0 is A - 2^16 B.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ir/access.h"
#include "ir/weight_pairs.h"
#include "scheduler/core/primitive.h"
#include "scheduler/primitives/product_rewrite.h"

namespace tc {
namespace {

constexpr int64_t kSteps = 2;
// Minus the least sum of so many products of signed bytes.
constexpr int64_t kLeastSum = kSteps * 127 * 128;

class PairsRewrite : ProductRewrite {
 public:
  PairsRewrite(const ScheduleState& state, size_t statement, std::string counter, std::string steps)
      : ProductRewrite(state, statement), counter_(std::move(counter)), steps_(std::move(steps)) {
    bytes_ = true;
  }

  Kernel run() {
    find_product();
    refuse_dynamic();
    find_packing();
    find_dimension();
    check_statements();
    for (size_t i = 0; i < kernel_.statements.size(); ++i) {
      if (i != which_) take_apart(kernel_.statements[i]);
    }
    multiply_pairs();
    return std::move(kernel_);
  }

 private:
  void find_packing() {
    const Buffer& constant = buffer(constant_.buffer);
    const Packing* packing = packing_of(kernel_, constant.name);
    if (packing == nullptr) refuse("constant ", constant.name, " is not packed");
    const bool plain = packing->terms.empty() && packing->words.empty() && packing->scales_of.empty() &&
                       packing->combinations.empty() && packing->scaled.empty() && packing->fill == 0;
    if (!plain) refuse("constant ", constant.name, " is packed as an algorithm needs it");
    if (constant.dtype != DType::I8 || buffer(input_.buffer).dtype != DType::I8)
      refuse("statement ", macc_.name, " does not multiply signed bytes");
    packing_ = static_cast<size_t>(packing - kernel_.packings.data());
    for (size_t d = 0; d < constant_.index.size(); ++d) {
      const std::string& iterator = packing->iterators[d];
      if (constant_.index[d].affine.as_variable() != iterator)
        refuse("constant ", constant.name, " is packed by other iterators than those of ", macc_.name);
      if (iterator == counter_) place_ = d;
      counts_ += iterator == counter_ || iterator == steps_;
    }
    if (counts_ != 2 || counter_ == steps_)
      refuse("constant ", constant.name, " is not packed by ", counter_, " and ", steps_);
    if (extent(counter_) != kValuesInPair || !depends_on(macc_.write, counter_))
      refuse("iterator ", counter_, " does not count two results");
    if (extent(steps_) % kSteps != 0 || depends_on(macc_.write, steps_))
      refuse("iterator ", steps_, " does not count pairs of steps of the sum");
    for (const Affine& constraint : macc_.constraints) {
      if (constraint.coefficient(steps_) != 0 || constraint.coefficient(counter_) != 0)
        refuse("statement ", macc_.name, " has conditions on ", steps_, " or ", counter_);
    }
    if (depends_on(input_, counter_))
      refuse("what ", counter_, " counts does not share the elements of ", buffer(input_.buffer).name);
  }

  // Finds the dimension of the results that counts pairs: an even number plus the counter.
  void find_dimension() {
    int found = 0;
    for (size_t d = 0; d < macc_.write.index.size(); ++d) {
      const Affine& index = macc_.write.index[d].affine;
      if (index.coefficient(counter_) == 0) continue;
      dimension_ = d;
      found += is_even(index - var(counter_)) ? 1 : 2;
    }
    if (found != 1 || buffer(macc_.write.buffer).scope != Scope::Local)
      refuse("what statement ", macc_.name, " writes is no private buffer in which ", counter_,
             " counts neighbours");
  }

  static bool is_even(const Affine& index) {
    return index.constant() % kValuesInPair == 0 &&
           std::all_of(index.terms().begin(), index.terms().end(),
                       [](const auto& term) { return term.second % kValuesInPair == 0; });
  }

  // Refuses other statements that write sums, but for zeros.
  void check_statements() const {
    for (size_t i = 0; i < kernel_.statements.size(); ++i) {
      const Statement& other = kernel_.statements[i];
      if (i == which_ || other.write.buffer != macc_.write.buffer) continue;
      const bool zero = i < which_ && other.reduction == Reduction::None &&
                        other.value->kind == Expr::Kind::Const && other.value->integer == 0;
      if (!zero)
        refuse("statement ", other.name, " writes more than zeros to what statement ", macc_.name,
               " adds up");
    }
  }

  // Makes the statement read sums of features where it reads what is kept for them.
  void take_apart(Statement& statement) {
    std::string odd;  // the iterator that counts the two of a pair
    bool reads = false;
    for_each_load(statement.value, [&](const Expr& each) {
      if (each.access.buffer != macc_.write.buffer || reads) return;
      reads = true;
      for (const auto& [name, coefficient] : each.access.index[dimension_].affine.terms()) {
        if (coefficient == 1) odd = name;
      }
    });
    if (!reads) return;
    const auto found = std::find_if(statement.iterators.begin(), statement.iterators.end(),
                                    [&](const Iterator& each) { return each.name == odd; });
    const bool even = found != statement.iterators.end() && found->extent.is_constant() &&
                      found->extent.constant() % kValuesInPair == 0;
    if (!even) refuse("statement ", statement.name, " does not read the sums in pairs");
    if (found->extent.constant() > kValuesInPair) {
      const std::string outer = fresh_iterator(kernel_, statement, odd + "t"),
                        inner = fresh_iterator(kernel_, statement, odd + "n");
      strip_iterator(statement, static_cast<size_t>(found - statement.iterators.begin()), kValuesInPair,
                     outer, inner);
      odd = inner;
    }
    statement.value = rewrite(statement.value, [&](const ExprPtr& each) -> ExprPtr {
      if (each->kind != Expr::Kind::Load || each->access.buffer != macc_.write.buffer) return nullptr;
      std::vector<Subscript> second = each->access.index;
      Affine& pair = second[dimension_].affine;
      pair = pair - var(odd);
      if (second[dimension_].dynamic || !is_even(pair))
        refuse("statement ", statement.name, " does not read the sums in pairs");
      pair = pair + Affine(1);
      const ExprPtr upper = binary(BinaryOp::Shl, load(DType::I32, each->access.buffer, second),
                                   int_constant(DType::I32, kPairShift));
      return select(is_first(odd), binary(BinaryOp::Sub, each, upper), unary(UnaryOp::Neg, each));
    });
  }

  static ExprPtr is_first(const std::string& counter) {
    return binary(BinaryOp::Lt, index_value(var(counter)), int_constant(DType::I64, 1));
  }

  void multiply_pairs() {
    Buffer& constant = kernel_.buffers[static_cast<size_t>(constant_.buffer)];
    constant.dtype = DType::I32;
    constant.shape[place_] = Affine(1);
    constant.logical = "two weights in a word";
    kernel_.packings[packing_].words = counter_;
    ExprPtr both;
    for (int64_t step = 0; step < kSteps; ++step) {
      const std::map<std::string, Affine> at{{steps_, var(steps_, kSteps) + Affine(step)},
                                             {counter_, Affine(0)}};
      const Access word = substitute(constant_, at), number = substitute(input_, at);
      const ExprPtr product = binary(BinaryOp::Mul, load(DType::I32, word.buffer, word.index),
                                     cast(DType::I32, load(DType::I8, number.buffer, number.index)));
      both = both ? binary(BinaryOp::Add, both, product) : product;
    }
    Statement& sum = kernel_.statements[which_];
    for (Iterator& each : sum.iterators) {
      if (each.name == steps_) each.extent = Affine(each.extent.constant() / kSteps);
    }
    const ExprPtr upper =
        binary(BinaryOp::Shr, binary(BinaryOp::Add, both, int_constant(DType::I32, kLeastSum)),
               int_constant(DType::I32, kPairShift));
    sum.value = select(is_first(counter_), both, upper);
  }

  const std::string counter_, steps_;
  size_t packing_ = 0;    // of the kernel's packings
  size_t place_ = 0;      // of the counter in the packing
  size_t dimension_ = 0;  // of the results
  int counts_ = 0;
};

}  // namespace

Primitive pairs_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "pairs",
      PrimitiveKind::Rewrite,
      {statement("STATEMENT"), keyword("pairs"), iterator_name("FEATURES"), iterator_name("STEPS")},
      "O[f, v] += i32(I[k]) * i32(K[k, v])  ->  with W = K[.., 0] - 2^16 * K[.., 1] and T = W[2k] * I[2k] + W[2k + 1] * "
      "I[2k + 1]: O[f, 0] += T; O[f, 1] += (T + 32512) >> 16, and what reads O takes both apart, exactly. All bytes are "
      "signed. K is a packed constant; FEATURES counts two results v, STEPS an even number of steps k of the sum."};
  primitive.row.verb = "algorithm";
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    PairsRewrite rewrite(state, given.statement("STATEMENT"), given.words("FEATURES").front(),
                         given.words("STEPS").front());
    replace_kernel(state, rewrite.run());
  };
  primitive.algorithm = [](const PrimitiveLine&) { return TraceAlgorithm{"pairs", 0, 0}; };
  return primitive;
}

}  // namespace tc
