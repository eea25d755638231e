// Constant tensor data: dense, row-major, little-endian.
#include "ir/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/error.h"
#include "ir/narrow_float.h"

namespace tc {
namespace {

constexpr int64_t kLargest = int64_t{1} << 40;

template <class T>
T read(const std::vector<uint8_t>& bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void write(std::vector<uint8_t>& bytes, int64_t index, T value) {
  std::memcpy(bytes.data() + static_cast<size_t>(index) * sizeof(T), &value, sizeof(T));
}

// The integer part modulo 2^64; NaN and infinities give 0.
int64_t wrap_to_int(double value) {
  if (!std::isfinite(value)) return 0;
  double truncated = std::trunc(value);
  if (truncated >= -0x1p63 && truncated < 0x1p63) return static_cast<int64_t>(truncated);
  double remainder = std::fmod(truncated, 0x1p64);
  if (remainder < 0) remainder += 0x1p64;
  return static_cast<int64_t>(static_cast<uint64_t>(remainder));
}

// Rounds a double to a binary float of `exponent_bits` and `mantissa_bits`, to nearest even, and
// returns its bits.
uint32_t round_to_float_bits(double value, int exponent_bits, int mantissa_bits) {
  const uint32_t sign = std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
  const uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  if (std::isnan(value)) return sign | infinity | 1u << (mantissa_bits - 1);
  double magnitude = std::fabs(value);
  if (std::isinf(value)) return sign | infinity;
  if (magnitude == 0) return sign;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, 0.5 <= f < 1
  // The unit of the last place: normal numbers have mantissa_bits after the leading one; below the smallest
  // normal exponent the unit does not shrink further.
  int unit = std::max(exponent - 1, 1 - bias) - mantissa_bits;
  double units = std::nearbyint(std::ldexp(magnitude, -unit));  // the only inexact step
  uint32_t integer = static_cast<uint32_t>(units);
  // Adding the integer to the exponent field also gives the right result where rounding carried into the next
  // power of two.
  uint32_t field = static_cast<uint32_t>(unit + mantissa_bits + bias - 1);
  uint32_t bits = (field << mantissa_bits) + integer;
  return sign | std::min(bits, infinity);
}

}  // namespace

int64_t wrapped_to(DType dtype, int64_t value) {
  if (dtype == DType::Bool) return value != 0;
  const int64_t unused = 64 - bits_of(dtype);
  const auto shifted = static_cast<uint64_t>(value) << unused;
  return is_signed(dtype) ? static_cast<int64_t>(shifted) >> unused : static_cast<int64_t>(shifted >> unused);
}

double rounded_to(DType dtype, double value) {
  switch (dtype) {
    case DType::F64: return value;
    case DType::F32: return static_cast<float>(value);
    case DType::F16: return half_to_float(double_to_half(value));
    case DType::BF16: return bfloat_to_float(static_cast<uint16_t>(round_to_float_bits(value, 8, 7)));
    default: return is_narrow_float(dtype) ? narrow_to_double(dtype, double_to_narrow(dtype, value)) : value;
  }
}

int64_t checked_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) fail(ErrorKind::Shape, "a tensor cannot have the negative size ", size);
    if (size == 0) {
      empty = true;
    } else if (count > kLargest / size) {
      fail(ErrorKind::Shape, "a tensor of more than 2^40 elements is not supported");
    } else {
      count *= size;
    }
  }
  return empty ? 0 : count;
}

Tensor::Tensor(DType dtype, std::vector<int64_t> shape) : dtype(dtype), shape(std::move(shape)) {
  int64_t elements = checked_count(this->shape);
  if (elements > kLargest / size_of(dtype)) {
    fail(ErrorKind::Shape, "a tensor of more than 2^40 bytes is not supported");
  }
  bytes.resize(static_cast<size_t>(elements * size_of(dtype)));
}

int64_t Tensor::count() const { return static_cast<int64_t>(bytes.size()) / size_of(dtype); }

double Tensor::as_double(int64_t index) const {
  switch (dtype) {
    case DType::F32: return read<float>(bytes, index);
    case DType::F64: return read<double>(bytes, index);
    case DType::F16: return half_to_float(read<uint16_t>(bytes, index));
    case DType::BF16: return bfloat_to_float(read<uint16_t>(bytes, index));
    case DType::U64: return static_cast<double>(read<uint64_t>(bytes, index));
    default: break;
  }
  if (is_narrow_float(dtype)) return narrow_to_double(dtype, read<uint8_t>(bytes, index));
  return static_cast<double>(as_int(index));
}

int64_t Tensor::as_int(int64_t index) const {
  if (!is_float(dtype) && bits_of(dtype) < 8) return wrapped_to(dtype, read<int8_t>(bytes, index));
  switch (dtype) {
    case DType::I8: return read<int8_t>(bytes, index);
    case DType::I16: return read<int16_t>(bytes, index);
    case DType::I32: return read<int32_t>(bytes, index);
    case DType::I64: return read<int64_t>(bytes, index);
    case DType::U8: return read<uint8_t>(bytes, index);
    case DType::U16: return read<uint16_t>(bytes, index);
    case DType::U32: return read<uint32_t>(bytes, index);
    case DType::U64: return static_cast<int64_t>(read<uint64_t>(bytes, index));
    case DType::Bool: return read<uint8_t>(bytes, index) != 0;
    default: return wrap_to_int(as_double(index));
  }
}

void Tensor::set(int64_t index, double value) {
  switch (dtype) {
    case DType::F32: return write(bytes, index, static_cast<float>(value));
    case DType::F64: return write(bytes, index, value);
    case DType::F16: return write(bytes, index, double_to_half(value));
    case DType::BF16: {
      auto bits = static_cast<uint16_t>(round_to_float_bits(value, 8, 7));
      return write(bytes, index, bits);
    }
    case DType::Bool: return write<uint8_t>(bytes, index, value != 0);
    default: break;
  }
  if (is_narrow_float(dtype)) return write(bytes, index, double_to_narrow(dtype, value));
  return set_int(index, wrap_to_int(value));
}

void Tensor::set_int(int64_t index, int64_t value) {
  if (dtype == DType::Bool) return write<uint8_t>(bytes, index, value != 0);
  if (is_float(dtype)) return set(index, static_cast<double>(value));
  if (bits_of(dtype) < 8) value = wrapped_to(dtype, value);
  switch (size_of(dtype)) {
    case 1: return write(bytes, index, static_cast<uint8_t>(value));
    case 2: return write(bytes, index, static_cast<uint16_t>(value));
    case 4: return write(bytes, index, static_cast<uint32_t>(value));
    default: return write(bytes, index, value);
  }
}

float half_to_float(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t float_to_half(float value) { return double_to_half(value); }

uint16_t double_to_half(double value) { return static_cast<uint16_t>(round_to_float_bits(value, 5, 10)); }

float bfloat_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t float_to_bfloat(float value) { return static_cast<uint16_t>(round_to_float_bits(value, 8, 7)); }

}  // namespace tc
