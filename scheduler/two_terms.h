// What default and reports know of products of floats as sums of two numbers of half the size.
#pragma once

namespace tc {

// Layers of a network whose errors may add up within its tolerance.
constexpr double kLayers = 20;
// Of one layer whose numbers are two bf16 numbers, without the product of the low ones: relative to its
// largest output, such that whole networks keep their tolerance. (Layers alone have 5e-6, but they add up to
// more than 1e-4 in networks of some sixty: 1.7e-4 in YOLOv7-tiny.)
constexpr double kTwoTermsError = 1e-5;

}  // namespace tc
