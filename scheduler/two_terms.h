// What default and reports know of products of floats as sums of two numbers of half the size.
#pragma once

namespace tc {

// Layers of a network whose errors may add up within its tolerance.
constexpr double kLayers = 20;
// Of one layer whose numbers are two bf16 numbers, without the product of the low ones: relative to its
// largest output, a bound for sensible data.
constexpr double kTwoTermsError = 5e-6;

}  // namespace tc
