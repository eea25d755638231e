// Floats of 8 and 4 bits: what their bits mean, and rounding to them.
#include "ir/narrow_float.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <limits>

#include "ir/error.h"

namespace tc {
namespace {

constexpr int kExponentBias = 127;  // of f8e8m0

uint8_t double_to_exponent(double value) {
  const double magnitude = std::fabs(value);
  if (!std::isfinite(magnitude)) return kExponentNan;
  if (magnitude < 0x1.8p-127) return 0;
  int exponent;
  const double fraction = std::frexp(magnitude, &exponent);  // 0.5 <= fraction < 1
  const int nearest = exponent - 1 + (fraction >= 0.75 ? 1 : 0);
  return static_cast<uint8_t>(std::min(nearest + kExponentBias, static_cast<int>(kExponentNan)));
}

}  // namespace

uint8_t NarrowFloat::largest() const {
  const int all = (1 << magnitude_bits()) - 1;
  if (special == Special::Ieee) return static_cast<uint8_t>(all - (1 << mantissa_bits));
  return static_cast<uint8_t>(special == Special::LargestIsNan ? all - 1 : all);
}

uint8_t NarrowFloat::nan() const {
  if (special == Special::Ieee) return static_cast<uint8_t>((largest() + 1) | 1 << (mantissa_bits - 1));
  return special == Special::LargestIsNan ? static_cast<uint8_t>(largest() + 1) : sign();
}

uint8_t NarrowFloat::overflow() const {
  if (special == Special::Ieee) return static_cast<uint8_t>(largest() + 1);
  return special == Special::None ? largest() : nan();
}

NarrowFloat narrow_float(DType dtype) {
  using Special = NarrowFloat::Special;
  switch (dtype) {
    case DType::F8E4M3FN: return {4, 3, 7, Special::LargestIsNan};
    case DType::F8E4M3FNUZ: return {4, 3, 8, Special::ZeroIsNan};
    case DType::F8E5M2: return {5, 2, 15, Special::Ieee};
    case DType::F8E5M2FNUZ: return {5, 2, 16, Special::ZeroIsNan};
    case DType::F4E2M1: return {2, 1, 1, Special::None};
    default: fail(ErrorKind::Internal, name_of(dtype), " has no sign, exponent and mantissa in a byte");
  }
}

double largest_number(DType dtype) {
  return dtype == DType::F8E8M0 ? 0x1p127 : narrow_to_double(dtype, narrow_float(dtype).largest());
}

double narrow_to_double(DType dtype, uint8_t bits) {
  if (dtype == DType::F8E8M0) {
    return bits == kExponentNan ? std::numeric_limits<double>::quiet_NaN()
                                : std::ldexp(1.0, bits - kExponentBias);
  }
  const NarrowFloat format = narrow_float(dtype);
  const int magnitude = bits & (format.sign() - 1);
  const bool negative = (bits & format.sign()) != 0;
  if (format.special == NarrowFloat::Special::ZeroIsNan && negative && magnitude == 0)
    return std::numeric_limits<double>::quiet_NaN();
  if (magnitude > format.largest()) {
    const bool infinite = format.special == NarrowFloat::Special::Ieee && magnitude == format.overflow();
    if (!infinite) return std::numeric_limits<double>::quiet_NaN();
    return negative ? -HUGE_VAL : HUGE_VAL;
  }
  const int exponent = magnitude >> format.mantissa_bits, one = 1 << format.mantissa_bits;
  const int mantissa = (magnitude & (one - 1)) + (exponent == 0 ? 0 : one);
  const double value = std::ldexp(mantissa, std::max(exponent, 1) - format.bias - format.mantissa_bits);
  return negative ? -value : value;
}

uint8_t double_to_narrow(DType dtype, double value) {
  if (dtype == DType::F8E8M0) return double_to_exponent(value);
  const NarrowFloat format = narrow_float(dtype);
  if (std::isnan(value)) return format.nan();
  const uint8_t sign = std::signbit(value) ? format.sign() : 0;
  const double magnitude = std::fabs(value);
  int exponent = INT_MIN / 2;  // that of 0, which is below all others
  if (std::isfinite(magnitude) && magnitude != 0) std::frexp(magnitude, &exponent);
  // The unit of the last place; below the smallest normal exponent it does not shrink further.
  const int lowest = 1 - format.bias, unit = std::max(exponent - 1, lowest) - format.mantissa_bits;
  const double units = std::isfinite(magnitude) ? std::nearbyint(std::ldexp(magnitude, -unit)) : 0;
  const double field =
      (unit + format.mantissa_bits - lowest) * static_cast<double>(1 << format.mantissa_bits) + units;
  const bool beyond = !std::isfinite(magnitude) || field > format.largest();
  const uint8_t bits = beyond ? format.overflow() : static_cast<uint8_t>(field);
  if (format.special == NarrowFloat::Special::ZeroIsNan && (bits == 0 || bits == format.nan())) return bits;
  return static_cast<uint8_t>(sign | bits);
}

}  // namespace tc
