// Constant tensor data: dense, row-major, little-endian.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ir/dtype.h"

namespace tc {

// Owns its bytes. Once it is in a graph, it is shared and never changes.
struct Tensor {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;

  Tensor() = default;
  // All zero. Throws a Shape error where the size overflows or exceeds 2^40 bytes.
  Tensor(DType dtype, std::vector<int64_t> shape);

  int64_t count() const;
  // Element access by flat index with conversion: integers and bool exactly through int64, floats
  // through double (round to nearest even on store; out-of-range integers wrap).
  double as_double(int64_t index) const;
  int64_t as_int(int64_t index) const;
  void set(int64_t index, double value);
  void set_int(int64_t index, int64_t value);

  template <class T>
  T* data() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
};

using TensorPtr = std::shared_ptr<const Tensor>;

// The product of the sizes; throws a Shape error on overflow, negative sizes or > 2^40 elements.
int64_t checked_count(const std::vector<int64_t>& shape);

// The integer wrapped to the range of an integer type; for bool, whether it is not 0.
int64_t wrapped_to(DType dtype, int64_t value);
// The number as a float type stores it: rounded once, to nearest even.
double rounded_to(DType dtype, double value);

// IEEE half and bfloat16 conversions, round to nearest even.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat_to_float(uint16_t bits);
uint16_t float_to_bfloat(float value);
// Double to half in one rounding.
uint16_t double_to_half(double value);

}  // namespace tc
