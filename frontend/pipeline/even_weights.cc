#include "frontend/pipeline/even_weights.h"

#include <algorithm>

namespace tc {
namespace {

// Whether it is a matrix of float32 whose elements are all equal; dimensions of 1 do not count.
bool is_even_matrix(const TensorPtr& constant) {
  if (constant == nullptr || constant->dtype != DType::F32 || constant->count() < 2) return false;
  if (std::count_if(constant->shape.begin(), constant->shape.end(), [](int64_t size) { return size > 1; }) >
      2)
    return false;
  const std::vector<uint8_t>& bytes = constant->bytes;
  return std::equal(bytes.begin() + sizeof(float), bytes.end(), bytes.begin());
}

// Whether a sum of the kernel has the buffer as a factor.
bool is_multiplied(const Kernel& kernel, const std::string& buffer) {
  return std::any_of(kernel.statements.begin(), kernel.statements.end(), [&](const Statement& statement) {
    if (statement.reduction != Reduction::Sum || statement.value->kind != Expr::Kind::Binary ||
        statement.value->binary != BinaryOp::Mul)
      return false;
    return std::any_of(statement.value->operands.begin(), statement.value->operands.end(),
                       [&](const ExprPtr& each) {
                         return each->kind == Expr::Kind::Load &&
                                kernel.buffers.at(static_cast<size_t>(each->access.buffer)).name == buffer;
                       });
  });
}

}  // namespace

bool multiplies_even_matrix(const Kernel& kernel, const std::string& buffer, const TensorPtr& constant) {
  return is_even_matrix(constant) && is_multiplied(kernel, buffer);
}

}  // namespace tc
