// Branches that the bound shapes contradict.
#include "frontend/import/onnx/impossible_branch.h"

#include <cmath>

namespace tc {

GraphPtr poison_like(const Graph& other, const Error& refusal) {
  auto body = std::make_shared<Graph>();
  body->name = "impossible";
  for (ValueId id : other.outputs) {
    const Value& value = other[id];
    constexpr int64_t kMaxPoison = int64_t{1} << 22;
    if (!value.shape || !is_constant(*value.shape) || element_count(*value.shape).constant() > kMaxPoison)
      throw refusal;
    auto data = std::make_shared<Tensor>(value.dtype, constant_shape(*value.shape));
    for (int64_t i = 0; is_float(value.dtype) && i < data->count(); ++i) data->set(i, std::nan(""));
    body->outputs.push_back(body->add_constant(value.name, data));
  }
  return body;
}

}  // namespace tc
