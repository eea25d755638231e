// What defaults and reports know of the algorithms' errors and gains.
#pragma once

#include "ir/loop.h"
#include "ir/target/target.h"

namespace tc {

// Layers of a network whose errors may add up within its tolerance.
constexpr double kLayers = 20;
// Of the plain schedule's cycles: what an algorithm has to gain, as the analytic cost model is no more exact.
constexpr double kGain = 0.8;
// Of one layer whose numbers are two bf16 numbers, without the product of the low ones: relative to its
// largest output, such that whole networks keep their tolerance. (Layers alone have 5e-6, but they add up to
// more than 1e-4 in networks of some sixty: 1.7e-4 in YOLOv7-tiny.)
constexpr double kTwoTermsError = 1e-5;
// Of one layer whose numbers are bf16: most have 3e-3, networks of the zoo 0.005 to 0.1.
constexpr double kOneTermError = 1e-2;
// Of one layer whose numbers are whole numbers of 16 bits: most have 1e-4, some 7e-4, networks of the zoo up
// to 5e-3.
constexpr double kWholeError = 3e-4;
// Of one layer whose numbers are two digits: like whole numbers of 16 bits.
constexpr double kTwoDigitsError = 3e-4;
// Of one layer whose numbers are three digits to base 256 of whole numbers, in units of the largest of a
// band and of a feature.
constexpr double kDigitsError = 1e-6;

// Of one layer whose weights are numbers of 21 bits, in units of a feature's largest: normal weights have
// 1e-6; by such a last layer the largest error of MobileNetV2 grew by 5e-6, that of TinyBERT by 4e-6.
constexpr double kWordsError = 5e-6;
// A tolerance that does not allow such weights, nor what errs by more.
constexpr double kWithoutWords = 0.99 * kWordsError * kLayers;
// Whether schedules for the target may store weights so. On processors that reorder instructions what is
// gained depends on how many streams they fetch ahead: on two cores of an x86 AlexNet took 0.80 of the time,
// on one as long as before, and nsNet2, whose weights lie in the third cache, 1.03 and 1.13.
inline bool has_words(const Target& target) {
  return !target.out_of_order() && target.vector_bits > 0 && target.wider_targets.empty();
}

// How a matrix unit computes products of floats from products of shorter numbers, their terms. Products of
// terms i and j are summed up where i + j is less than the number of terms; what is left out is below what
// the last term holds.
struct TermsAlgorithm {
  const char* name;  // in traces
  DType operand;
  int terms;
  bool digits;    // of whole numbers to base 256, which have a scale; else a sum of floats
  double error;   // of a layer, relative to its largest output
  double divide;  // cycles per native vector of the input that is divided
  double slower;  // than the unit at its best

  // Of the input's whole numbers.
  double largest() const { return operand == DType::I16 ? kLargestFactor : largest_of_digits(terms); }
  int sums() const { return digits ? terms : 1; }  // accumulators for a tile of results
};
// The best first.
inline constexpr TermsAlgorithm kTermsAlgorithms[] = {
    {"bf16", DType::BF16, 1, false, kOneTermError, 4, 1.15},
    {"int16", DType::I16, 1, true, kWholeError, 3, 1.15},
    {"int8x3", DType::I8, 2, true, kTwoDigitsError, 6, 1.15},
    {"int8x6", DType::I8, 3, true, kDigitsError, 8, 1.15},
    {"bf16x3", DType::BF16, 2, false, kTwoTermsError, 8, 1.15}};

}  // namespace tc
