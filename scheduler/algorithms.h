// What defaults and reports know of the algorithms' errors and gains.
#pragma once

namespace tc {

// Layers of a network whose errors may add up within its tolerance.
constexpr double kLayers = 20;
// Of the plain schedule's cycles: what an algorithm has to gain, as the closed forms are no more exact.
constexpr double kGain = 0.8;
// Of one layer whose numbers are two bf16 numbers, without the product of the low ones: relative to its
// largest output, such that whole networks keep their tolerance. (Layers alone have 5e-6, but they add up to
// more than 1e-4 in networks of some sixty: 1.7e-4 in YOLOv7-tiny.)
constexpr double kTwoTermsError = 1e-5;
// Of one layer whose numbers are three digits to base 256 of whole numbers, in units of the largest of a
// band and of a feature.
constexpr double kDigitsError = 1e-6;

}  // namespace tc
