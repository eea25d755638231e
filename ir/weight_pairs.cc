#include "ir/weight_pairs.h"

namespace tc {

Tensor in_pairs(const Tensor& values, size_t dimension, const std::vector<int64_t>& shape) {
  int64_t inner = 1;
  for (size_t d = dimension + 1; d < shape.size(); ++d) inner *= shape[d];
  Tensor result(DType::I32, shape);
  auto *to = result.data<int32_t>(), *end = to + result.count();
  for (const auto* from = values.data<int8_t>(); to != end; from += kValuesInPair * inner) {
    for (int64_t i = 0; i < inner; ++i)
      *to++ = int32_t{from[i]} - int32_t{from[inner + i]} * (int32_t{1} << kPairShift);
  }
  return result;
}

}  // namespace tc
