#include "runtime/agent/tensor.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "runtime/rpc/sample_data.h"
#include "runtime/tc_runtime.h"

namespace tc::agent {
namespace {

constexpr size_t kMaxDims = 16;
constexpr uint8_t kUndefined = 0xff;
constexpr int64_t kMaxBytes = int64_t{2} << 30;

// Rounds a value to the nearest float with that many exponent and mantissa bits; the value has to be within
// its range.
uint16_t narrow(float value, int exponent_bits, int mantissa_bits) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 31 << 15);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude == 0) return sign;
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // The mantissa as an integer: of mantissa_bits + 1 bits, or fewer where the number is denormal.
  const auto scaled = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
  // A carry out of the mantissa raises the exponent by itself.
  const uint32_t one = uint32_t{1} << mantissa_bits;
  const uint32_t field = scaled < one ? 0 : static_cast<uint32_t>(exponent + bias);
  return static_cast<uint16_t>(sign | ((field << mantissa_bits) + (scaled < one ? scaled : scaled - one)));
}

double widen(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int field = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  double value;
  if (field == (1 << exponent_bits) - 1) value = mantissa != 0 ? std::nan("") : HUGE_VAL;
  else if (field == 0) value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  else value = std::ldexp(mantissa + (1 << mantissa_bits), field - bias - mantissa_bits);
  return bits >> 15 != 0 ? -value : value;
}

template <class T>
T load(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

double float_at(int32_t dtype, const void* data, int64_t index) {
  switch (dtype) {
    case TC_F32: return static_cast<double>(load<float>(data, index));
    case TC_F64: return load<double>(data, index);
    case TC_F16: return widen(load<uint16_t>(data, index), 5, 10);
    default: return widen(load<uint16_t>(data, index), 8, 7);
  }
}

std::string integer_at(int32_t dtype, const void* data, int64_t index) {
  switch (dtype) {
    case TC_I8: return std::to_string(load<int8_t>(data, index));
    case TC_I16: return std::to_string(load<int16_t>(data, index));
    case TC_I32: return std::to_string(load<int32_t>(data, index));
    case TC_I64: return std::to_string(load<int64_t>(data, index));
    case TC_U16: return std::to_string(load<uint16_t>(data, index));
    case TC_U32: return std::to_string(load<uint32_t>(data, index));
    case TC_U64: return std::to_string(load<uint64_t>(data, index));
    default: return std::to_string(load<uint8_t>(data, index));
  }
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

// "output 'y', element [1, 2]".
std::string place(const Port& port, int64_t element) {
  std::string text;
  for (size_t axis = port.shape.size(); axis-- > 0;) {
    text = std::to_string(element % port.shape[axis]) + (text.empty() ? "" : ", ") + text;
    element /= port.shape[axis];
  }
  return "output '" + port.name + "', element [" + text + "]";
}

bool is_poison(const void* data, int64_t index, int64_t size, uint8_t poison) {
  const auto* bytes = static_cast<const uint8_t*>(data) + index * size;
  for (int64_t i = 0; i < size; ++i)
    if (bytes[i] != poison) return false;
  return true;
}

// 0 for equal values and where both are NaN, infinite where only one is NaN or infinite; else the difference
// relative to the largest magnitude.
double error_of(double have, double want, double largest) {
  if (std::isnan(want) || std::isnan(have)) return std::isnan(want) && std::isnan(have) ? 0 : HUGE_VAL;
  if (have == want) return 0;
  if (std::isinf(want) || std::isinf(have)) return HUGE_VAL;
  return largest > 0 ? std::fabs(have - want) / largest : HUGE_VAL;
}

double largest_magnitude(const Port& port, const void* data) {
  if (port.dtype == TC_F32) {
    // Without their signs, finite floats have the same order as their bits as integers.
    constexpr uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
    uint32_t largest = 0;
    for (int64_t i = 0; i < port.elements; ++i) {
      const uint32_t bits = load<uint32_t>(data, i) & kMagnitude;
      if (bits > largest && bits < kInfinity) largest = bits;
    }
    return static_cast<double>(std::bit_cast<float>(largest));
  }
  double largest = 0;
  for (int64_t i = 0; i < port.elements; ++i) {
    const double value = std::fabs(float_at(port.dtype, data, i));
    if (std::isfinite(value) && value > largest) largest = value;
  }
  return largest;
}

// The largest magnitude of a tensor, computed when it is first needed: equal tensors do not need it.
class Scale {
 public:
  Scale(const Port& port, const void* data) : port_(port), data_(data) {}
  double operator()() {
    if (largest_ < 0) largest_ = largest_magnitude(port_, data_);
    return largest_;
  }

 private:
  const Port& port_;
  const void* data_;
  double largest_ = -1;
};

// The first element from `begin` on whose bits differ; the number of elements where none does.
int64_t next_difference(const Port& port, const void* left, const void* right, int64_t begin) {
  const int64_t size = tc_dtype_size(port.dtype), bytes = port.elements * size;
  const auto* a = static_cast<const uint8_t*>(left);
  const auto* b = static_cast<const uint8_t*>(right);
  constexpr int64_t kBlock = 256;
  int64_t at = begin * size;
  const auto same_word = [&] { return load<uint64_t>(a + at, 0) == load<uint64_t>(b + at, 0); };
  if (at + kBlock <= bytes && same_word())
    while (at + kBlock <= bytes && std::memcmp(a + at, b + at, kBlock) == 0) at += kBlock;
  while (at + 8 <= bytes && same_word()) at += 8;
  while (at < bytes && a[at] == b[at]) ++at;
  return at / size;
}

Comparison compare_floats(const Port& port, const void* got, const void* expected, double tolerance,
                          uint8_t poison) {
  const int64_t size = tc_dtype_size(port.dtype);
  Scale largest(port, expected);
  Comparison result;
  int64_t worst_element = -1;
  double worst = -1;
  for (int64_t i = 0; i < port.elements; ++i) {
    if (is_poison(expected, i, size, kUndefined)) continue;
    const double want = float_at(port.dtype, expected, i), have = float_at(port.dtype, got, i);
    if (is_poison(got, i, size, poison)) {
      result.worst = HUGE_VAL;
      result.text = place(port, i) + " was not written; expected " + number(want);
      return result;
    }
    const double error = have == want ? 0 : error_of(have, want, largest());
    if (error > worst) {
      worst = error;
      worst_element = i;
    }
  }
  result.worst = std::max(worst, 0.0);
  result.good = result.worst <= tolerance;
  if (!result.good)
    result.text = place(port, worst_element) + ": got " + number(float_at(port.dtype, got, worst_element)) +
                  ", expected " + number(float_at(port.dtype, expected, worst_element)) + ", an error of " +
                  number(result.worst) + " relative to the largest magnitude, " + number(largest()) +
                  "; allowed is " + number(tolerance);
  return result;
}

template <class T>
void store(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

bool is_float(int32_t dtype) {
  return dtype == TC_F32 || dtype == TC_F64 || dtype == TC_F16 || dtype == TC_BF16;
}

Port make_port(const std::string& name, const std::string& dtype, std::vector<int64_t> shape) {
  Port port;
  port.name = name;
  port.dtype = -1;
  for (int32_t type = TC_F32; type <= TC_BOOL; ++type)
    if (dtype == tc_dtype_name(type)) port.dtype = type;
  if (port.dtype < 0) throw std::runtime_error("tensor '" + name + "': '" + dtype + "' is no element type");
  if (shape.size() > kMaxDims)
    throw std::runtime_error("tensor '" + name + "' has " + std::to_string(shape.size()) +
                             " dimensions, more than " + std::to_string(kMaxDims));
  port.elements = 1;
  const int64_t size = tc_dtype_size(port.dtype);
  for (const int64_t dim : shape) {
    if (dim < 0)
      throw std::runtime_error("tensor '" + name + "' has the negative size " + std::to_string(dim));
    if (dim > kMaxBytes || __builtin_mul_overflow(port.elements, dim, &port.elements) ||
        port.elements > kMaxBytes / size)
      throw std::runtime_error("tensor '" + name + "' is larger than " + std::to_string(kMaxBytes) +
                               " bytes");
  }
  port.bytes = port.elements * size;
  port.shape = std::move(shape);
  return port;
}

void fill_sample(const Port& port, uint64_t seed, uint64_t index, void* data) {
  const int64_t size = tc_dtype_size(port.dtype);
  for (int64_t i = 0; i < port.elements; ++i) {
    const auto element = static_cast<uint64_t>(i);
    if (is_float(port.dtype)) {
      const double value = runtime::sample_float(seed, index, element);
      switch (port.dtype) {
        case TC_F32: store(data, i, static_cast<float>(value)); break;
        case TC_F64: store(data, i, value); break;
        case TC_F16: store(data, i, narrow(static_cast<float>(value), 5, 10)); break;
        default: store(data, i, narrow(static_cast<float>(value), 8, 7));
      }
      continue;
    }
    const int64_t value = runtime::sample_integer(seed, index, element);
    switch (size) {
      case 1: store(data, i, static_cast<uint8_t>(value)); break;
      case 2: store(data, i, static_cast<uint16_t>(value)); break;
      case 4: store(data, i, static_cast<uint32_t>(value)); break;
      default: store(data, i, static_cast<uint64_t>(value));
    }
  }
}

uint8_t poison(int data_set) { return data_set % 2 == 0 ? 0xff : 0x7f; }

Comparison compare(const Port& port, const void* got, const void* expected, double tolerance,
                   uint8_t poison) {
  if (is_float(port.dtype)) return compare_floats(port, got, expected, tolerance, poison);
  Comparison result;
  const int64_t size = tc_dtype_size(port.dtype);
  const auto* left = static_cast<const uint8_t*>(got);
  const auto* right = static_cast<const uint8_t*>(expected);
  for (int64_t i = 0; i < port.elements; ++i) {
    if (std::memcmp(left + i * size, right + i * size, static_cast<size_t>(size)) == 0) continue;
    result.worst = HUGE_VAL;
    result.text = place(port, i) + ": got " + integer_at(port.dtype, got, i) + ", expected " +
                  integer_at(port.dtype, expected, i);
    return result;
  }
  result.good = true;
  return result;
}

int64_t count_differences(const Port& port, const void* got, const void* expected, double tolerance,
                          uint8_t poison) {
  const int64_t size = tc_dtype_size(port.dtype);
  const bool floats = is_float(port.dtype);
  Scale largest(port, expected);
  int64_t count = 0;
  for (int64_t i = next_difference(port, got, expected, 0); i < port.elements;
       i = next_difference(port, got, expected, i + 1)) {
    if (is_poison(expected, i, size, floats ? kUndefined : poison)) continue;
    if (floats && !is_poison(got, i, size, poison) &&
        error_of(float_at(port.dtype, got, i), float_at(port.dtype, expected, i), largest()) <= tolerance)
      continue;
    ++count;
  }
  return count;
}

void copy_undefined(const Port& port, const void* reference, void* data) {
  if (!is_float(port.dtype)) return;
  const int64_t size = tc_dtype_size(port.dtype);
  for (int64_t i = 0; i < port.elements; ++i)
    if (is_poison(reference, i, size, kUndefined))
      std::memset(static_cast<uint8_t*>(data) + i * size, kUndefined, static_cast<size_t>(size));
}

double value_at(const Port& port, const void* data, int64_t element) {
  if (is_float(port.dtype)) return float_at(port.dtype, data, element);
  return std::strtod(integer_at(port.dtype, data, element).c_str(), nullptr);
}

bool is_filled(const Port& port, const void* data, int64_t element, uint8_t byte) {
  return is_poison(data, element, tc_dtype_size(port.dtype), byte);
}

}  // namespace tc::agent
