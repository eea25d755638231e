// int21: a sum of products whose constant is stored as numbers of 21 bits, three in two words.
#include <algorithm>
#include <string>
#include <vector>

#include "ir/access.h"
#include "scheduler/algebra/algorithms.h"
#include "scheduler/core/primitive.h"
#include "scheduler/primitives/product_rewrite.h"

namespace tc {
namespace {

class WordsRewrite : ProductRewrite {
 public:
  WordsRewrite(const ScheduleState& state, size_t statement, std::string counter)
      : ProductRewrite(state, statement), counter_(std::move(counter)) {}

  Kernel run() {
    find_product();
    refuse_dynamic();
    find_packing();
    result_ = macc_.write.buffer;
    refuse_other_writers();
    const int before = constant_.buffer;
    scales_ = insert_scales();
    result_ += result_ > before;
    store_words();
    multiply_words();
    scale_results();
    return std::move(kernel_);
  }

 private:
  // Finds the iterators by which the constant is packed, the one that counts three vectors among them.
  void find_packing() {
    const std::string& name = buffer(constant_.buffer).name;
    const Packing* packing = packing_of(kernel_, name);
    if (packing == nullptr) refuse("constant ", name, " is not packed");
    const bool plain = packing->terms.empty() && packing->words.empty() && packing->scales_of.empty() &&
                       packing->combinations.empty();
    if (!plain) refuse("constant ", name, " is packed as the algorithm needs it");
    packing_ = static_cast<size_t>(packing - kernel_.packings.data());
    for (size_t d = 0; d < constant_.index.size(); ++d) {
      const std::string& iterator = packing->iterators[d];
      if (constant_.index[d].affine.as_variable() != iterator)
        refuse("constant ", name, " is packed by other iterators than those of ", macc_.name);
      if (iterator == counter_) place_ = d;
      if (depends_on(macc_.write, iterator)) features_.push_back(iterator);
    }
    const bool counts = std::count(features_.begin(), features_.end(), counter_) == 1;
    if (!counts || extent(counter_) != kValuesInWords)
      refuse("iterator ", counter_, " does not count three vectors of ", name);
    if (buffer(macc_.write.buffer).scope != Scope::Local)
      refuse("what statement ", macc_.name, " writes is not private to the kernel");
  }

  // Refuses other statements that write the result: what they write would be multiplied by the scales, too.
  void refuse_other_writers() const {
    for (size_t i = 0; i < kernel_.statements.size(); ++i) {
      const Statement& other = kernel_.statements[i];
      if (i == which_ || other.write.buffer != result_) continue;
      const bool zero = i < which_ && other.reduction == Reduction::None &&
                        other.value->kind == Expr::Kind::Const && other.value->number == 0;
      if (!zero)
        refuse("statement ", other.name, " writes more than zeros to what statement ", macc_.name,
               " adds up");
    }
  }

  // The dimensions of the result that count features, which the scales get as well. In each of them the
  // feature iterators together form one number, in the order of the packing.
  std::vector<size_t> feature_dimensions() {
    std::vector<size_t> result;
    size_t next = 0;
    for (size_t d = 0; d < macc_.write.index.size(); ++d) {
      const Affine& index = macc_.write.index[d].affine;
      Affine counted;
      int64_t size = 1;
      const size_t first = next;
      for (; next < features_.size() && index.coefficient(features_[next]) != 0; ++next) {
        counted = counted * extent(features_[next]) + var(features_[next]);
        size *= extent(features_[next]);
      }
      if (next == first) continue;
      const Affine& held = buffer(result_).shape[d];
      if (counted != index || !held.is_constant() || held.constant() > size) next = features_.size() + 1;
      result.push_back(d);
      kernel_.buffers[static_cast<size_t>(scales_)].shape.push_back(Affine(size));
    }
    if (next != features_.size())
      refuse("what statement ", macc_.name, " writes does not count features as ",
             buffer(constant_.buffer).name, " does");
    return result;
  }

  void store_words() {
    Buffer& constant = kernel_.buffers[static_cast<size_t>(constant_.buffer)];
    constant.dtype = DType::I32;
    constant.shape[place_] = Affine(kWordsOfValues);
    constant.logical = "three numbers in two words";
    kernel_.packings[packing_].words = counter_;
    kernel_.packings[packing_].scaled = features_;
    Packing of_scales;
    of_scales.buffer = buffer(scales_).name;
    of_scales.scales_of = constant.name;
    kernel_.packings.push_back(std::move(of_scales));
  }

  // Makes the sum multiply by the numbers that the words hold: each of the three numbers is a sum of both
  // words, multiplied by powers of two that shift them up.
  void multiply_words() {
    Statement& sum = kernel_.statements[which_];
    const auto share = [&](int64_t first, int64_t middle, int64_t last) {
      const auto below = [&](int64_t number) {
        return binary(BinaryOp::Lt, index_value(var(counter_)), int_constant(DType::I64, number));
      };
      const auto factor = [](int64_t value) { return int_constant(DType::I32, value); };
      return select(below(1), factor(first), select(below(2), factor(middle), factor(last)));
    };
    const auto word = [&](int64_t number, const ExprPtr& factor) {
      Access at = constant_;
      at.index[place_].affine = Affine(number);
      return binary(BinaryOp::Mul, load(DType::I32, at.buffer, at.index), factor);
    };
    const ExprPtr number = binary(BinaryOp::Add, word(0, share(1, int64_t{1} << kFirstWordShift, 0)),
                                  word(1, share(0, int64_t{1} << kSecondWordShift, 1)));
    sum.value =
        binary(BinaryOp::Mul, load(DType::F32, input_.buffer, input_.index), cast(DType::F32, number));
  }

  // Multiplies the sums by their scales wherever they are read.
  void scale_results() {
    const std::vector<size_t> dimensions = feature_dimensions();
    for (Statement& statement : kernel_.statements) {
      statement.value = rewrite(statement.value, [&](const ExprPtr& each) -> ExprPtr {
        if (each->kind != Expr::Kind::Load || each->access.buffer != result_) return nullptr;
        std::vector<Subscript> index;
        for (const size_t d : dimensions) index.push_back(each->access.index[d]);
        return binary(BinaryOp::Mul, each, load(DType::F32, scales_, index));
      });
    }
  }

  const std::string counter_;
  size_t packing_ = 0;                 // of the kernel's packings
  size_t place_ = 0;                   // of the counter in the packing
  std::vector<std::string> features_;  // of the packing's iterators
  int result_ = -1, scales_ = -1;      // buffers
};

}  // namespace

Primitive int21_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "int21",
      PrimitiveKind::Rewrite,
      {statement("STATEMENT"), keyword("int21"), iterator_name("ITERATOR")},
      "O[v] += I * K[v]  ->  O[v] += I * f32(number v of K), and what reads O takes it times a feature's scale. K is a packed "
      "constant; of the three numbers that ITERATOR counts each has 21 or 22 bits, in units of a feature's largest / 2^31, and "
      "all three lie in two words of i32: the upper parts of the words are the first and the last, what is left of both is the "
      "middle one."};
  primitive.row.verb = "algorithm";
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    WordsRewrite rewrite(state, given.statement("STATEMENT"), given.words("ITERATOR").front());
    replace_kernel(state, rewrite.run());
  };
  primitive.algorithm = [](const PrimitiveLine&) {
    return TraceAlgorithm{"int21", kWordsError, kWordsError * kLayers};
  };
  return primitive;
}

}  // namespace tc
