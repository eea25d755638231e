// Reduction of the arguments of sin, cos and tan to an octant around a multiple of a right angle.
#pragma once

#include "codegen/llvm/emit/kernel_context.h"
#include "codegen/llvm/emit/number.h"

namespace tc {

// An f64 as quadrant * pi/2 + angle, where the angle is within pi/4, apart from rounding. Only the lowest
// two bits of the integer `quadrant` are right.
struct Angle {
  Number angle, quadrant;
};

// Reduces any f64, to about one unit in the last place of the angle; the angle of NaN and infinities does
// not matter. Lanes of 2^30 and more take many more steps, which are skipped where there are no such lanes.
Angle reduce_double(Builder& builder, Number x);

// Reduces an f32 (`single`); `wide` is the same number as an f64.
Angle reduce_single(Builder& builder, Number single, Number wide);

}  // namespace tc
