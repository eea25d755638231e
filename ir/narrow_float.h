// Floats of 8 and 4 bits: what their bits mean, and rounding to them.
#pragma once

#include <cstdint>

#include "ir/dtype.h"

namespace tc {

// The layout of a narrow float but f8e8m0: sign, exponent, mantissa.
struct NarrowFloat {
  // Which bits are no finite numbers. Ieee: the largest exponent has infinities and NaNs. LargestIsNan: all
  // bits but the sign set. ZeroIsNan: the negative zero. None: all are finite; casts saturate, and a NaN
  // becomes -0.
  enum class Special : uint8_t { Ieee, LargestIsNan, ZeroIsNan, None };
  int exponent_bits, mantissa_bits, bias;
  Special special;

  int magnitude_bits() const { return exponent_bits + mantissa_bits; }
  uint8_t sign() const { return static_cast<uint8_t>(1 << magnitude_bits()); }
  uint8_t largest() const;  // bits of the largest finite number
  uint8_t nan() const;
  uint8_t overflow() const;  // bits that numbers beyond the largest are rounded to, without the sign
};

// Internal error for other types.
NarrowFloat narrow_float(DType dtype);
// The largest finite number of a narrow float.
double largest_number(DType dtype);

// f8e8m0 has the powers of two from 2^-127 to 2^127 and a NaN. Numbers are rounded to the nearest, halves up,
// without their sign; larger ones and infinities become the NaN.
constexpr uint8_t kExponentNan = 0xff;

double narrow_to_double(DType dtype, uint8_t bits);
// To nearest even; numbers that are too large become infinity or the NaN, where there is one.
uint8_t double_to_narrow(DType dtype, double value);

}  // namespace tc
