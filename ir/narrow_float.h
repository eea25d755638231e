// Floats of 8 and 4 bits: what their bits mean, and rounding to them.
#pragma once

#include <cstdint>

#include "ir/dtype.h"

namespace tc {

// The layout of a narrow float other than f8e8m0: sign, exponent, mantissa.
struct NarrowFloat {
  // Which bit patterns are not finite numbers. Ieee: those with the largest exponent are infinities and NaNs.
  // LargestIsNan: the patterns with all bits but the sign set are NaN. ZeroIsNan: the pattern of negative
  // zero is NaN. None: all are finite; casts saturate, and a NaN becomes -0.
  enum class Special : uint8_t { Ieee, LargestIsNan, ZeroIsNan, None };
  int exponent_bits, mantissa_bits, bias;
  Special special;

  int magnitude_bits() const { return exponent_bits + mantissa_bits; }
  uint8_t sign() const { return static_cast<uint8_t>(1 << magnitude_bits()); }
  uint8_t largest() const;  // bits of the largest finite number
  uint8_t nan() const;
  uint8_t overflow() const;  // bits, without the sign, that too large numbers become
};

// Internal error for other types.
NarrowFloat narrow_float(DType dtype);
// The largest finite number of a narrow float.
double largest_number(DType dtype);

// f8e8m0 has the powers of two from 2^-127 to 2^127 and a NaN. A cast drops the sign and rounds to the
// nearest power, ties upwards; larger numbers and infinities become the NaN.
constexpr uint8_t kExponentNan = 0xff;

double narrow_to_double(DType dtype, uint8_t bits);
// Rounds to nearest even. Numbers that are too large become infinity or NaN, if the type has one.
uint8_t double_to_narrow(DType dtype, double value);

}  // namespace tc
