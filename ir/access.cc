#include "ir/access.h"

namespace tc {

std::optional<int64_t> element_stride(const Kernel& kernel, const Access& access,
                                      const std::string& iterator) {
  const Buffer& buffer = kernel.buffers[static_cast<size_t>(access.buffer)];
  int64_t stride = 0, size = 1;
  bool known = true;   // sizes of the inner dimensions
  for (size_t d = access.index.size(); d-- > 0;) {
    const Subscript& subscript = access.index[d];
    bool dynamic = false;
    for_each_load(subscript.dynamic, [&](const Expr& load) {
      dynamic = dynamic || depends_on(load.access, iterator);
    });
    if (dynamic) return std::nullopt;
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
    if (subscript.affine.coefficient(iterator) != 0) return true;
    bool inside = false;
    for_each_load(subscript.dynamic, [&](const Expr& load) {
      inside = inside || depends_on(load.access, iterator);
    });
    if (inside) return true;
  }
  return false;
}

}  // namespace tc
