#include "ir/access.h"

#include <algorithm>

namespace tc {
namespace {

// Whether the computed part of a subscript changes with the iterator.
bool depends_on(const ExprPtr& expr, const std::string& iterator) {
  if (!expr) return false;
  if (expr->kind == Expr::Kind::Index) return expr->affine.coefficient(iterator) != 0;
  if (expr->kind == Expr::Kind::Load) return tc::depends_on(expr->access, iterator);
  return std::any_of(expr->operands.begin(), expr->operands.end(),
                     [&](const ExprPtr& operand) { return depends_on(operand, iterator); });
}

}  // namespace

std::optional<int64_t> element_stride(const Kernel& kernel, const Access& access,
                                      const std::string& iterator) {
  const Buffer& buffer = kernel.buffers[static_cast<size_t>(access.buffer)];
  int64_t stride = 0, size = 1;
  bool known = true;  // whether the sizes of the inner dimensions are numbers
  for (size_t d = access.index.size(); d-- > 0;) {
    const Subscript& subscript = access.index[d];
    if (depends_on(subscript.dynamic, iterator)) return std::nullopt;
    const int64_t coefficient = subscript.affine.coefficient(iterator);
    if (coefficient != 0 && !known) return std::nullopt;
    stride += coefficient * size;
    if (!buffer.shape[d].is_constant()) known = false;
    else size *= buffer.shape[d].constant();
  }
  return stride;
}

bool depends_on(const Access& access, const std::string& iterator) {
  for (const Subscript& subscript : access.index) {
    if (subscript.affine.coefficient(iterator) != 0 || depends_on(subscript.dynamic, iterator)) return true;
  }
  return false;
}

}  // namespace tc
