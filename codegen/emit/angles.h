// Reduction of the arguments of sin, cos and tan to an octant around a multiple of a right angle.
#pragma once

#include "codegen/emit/context.h"
#include "codegen/emit/numbers.h"

namespace tc {

// An f64 as quadrant * pi/2 + angle, the angle within pi/4 but for a rounding. The lowest two bits of the
// integer `quadrant` count.
struct Angle {
  Number angle, quadrant;
};

// Of any f64, to about one unit in the last place of the angle; NaN and infinities give an angle that does
// not matter. Lanes of 2^30 and more take many more steps, which are skipped where there are none.
Angle reduce_double(Builder& builder, Number x);

// Of an f32, that comes along as an f64 as well.
Angle reduce_single(Builder& builder, Number single, Number wide);

}  // namespace tc
