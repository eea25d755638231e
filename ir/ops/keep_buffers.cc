// Removes buffers of a kernel.
#include "ir/ops/keep_buffers.h"

#include <functional>
#include <memory>
#include <utility>

namespace tc {

void keep_buffers(Kernel& kernel, const std::vector<bool>& kept) {
  std::vector<int> renumbered(kernel.buffers.size(), -1);
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    if (!kept.at(i)) continue;
    renumbered[i] = static_cast<int>(buffers.size());
    buffers.push_back(std::move(kernel.buffers[i]));
  }
  kernel.buffers = std::move(buffers);
  const std::function<ExprPtr(const ExprPtr&)> replace = [&](const ExprPtr& node) -> ExprPtr {
    if (node->kind != Expr::Kind::Load) return nullptr;
    auto changed = std::make_shared<Expr>(*node);
    changed->access.buffer = renumbered[static_cast<size_t>(node->access.buffer)];
    for (Subscript& subscript : changed->access.index) {
      if (subscript.dynamic) subscript.dynamic = rewrite(subscript.dynamic, replace);
    }
    return changed;
  };
  for (Statement& statement : kernel.statements) {
    statement.write.buffer = renumbered[static_cast<size_t>(statement.write.buffer)];
    for (Subscript& subscript : statement.write.index) {
      if (subscript.dynamic) subscript.dynamic = rewrite(subscript.dynamic, replace);
    }
    if (statement.value) statement.value = rewrite(statement.value, replace);
  }
}

}  // namespace tc
