// The errors of the algorithms, and the gain that each has to bring: for the default and its reports.
#pragma once

#include "ir/loop.h"
#include "ir/target/target.h"

namespace tc {

// The number of layers whose errors, added up, have to stay within a network's tolerance.
constexpr double kLayers = 20;
// The share of the plain schedule's cycles within which an algorithm has to stay: the analytic cost model is
// too inexact for smaller gains.
constexpr double kGain = 0.8;
// The error of one layer, relative to its largest output, whose numbers are sums of two bf16 numbers, without
// the product of the low ones. It is set such that whole networks keep their tolerance: single layers have
// 5e-6, but these add up to more than 1e-4 in networks of about sixty layers (1.7e-4 in YOLOv7-tiny).
constexpr double kTwoTermsError = 1e-5;
// The same for numbers that are rounded to bf16: most layers have 3e-3, whole networks of the zoo 0.005 to
// 0.1.
constexpr double kOneTermError = 1e-2;
// The same for whole numbers of 16 bits: most layers have 1e-4, some 7e-4, whole networks of the zoo up to
// 5e-3.
constexpr double kWholeError = 3e-4;
// The same for numbers of two digits: like whole numbers of 16 bits.
constexpr double kTwoDigitsError = 3e-4;
// The same for whole numbers of three digits to base 256, whose unit follows from the largest number of a
// band (of the input) or of a feature (of the constant).
constexpr double kDigitsError = 1e-6;

// The same for weights of 21 bits, whose unit follows from a feature's largest weight: normal weights have
// 1e-6; with such a last layer the largest error of MobileNetV2 grew by 5e-6, that of TinyBERT by 4e-6.
constexpr double kWordsError = 5e-6;
// A tolerance just too small for such weights, and so for every algorithm with a larger error.
constexpr double kWithoutWords = 0.99 * kWordsError * kLayers;
// Whether schedules for the target may store weights as numbers of 21 bits. On out-of-order cores the gain
// depends on how many streams they prefetch: on two cores of an x86 AlexNet took 0.80 of the time, on one
// core as long as before; nsNet2, whose weights are in the third cache, took 1.03 and 1.13.
inline bool has_words(const Target& target) {
  return !target.out_of_order() && target.vector_bits > 0 && target.wider_targets.empty();
}

// How a matrix unit computes products of floats from products of shorter numbers, their terms; and, last,
// products of bytes, which are their own terms. Products of
// terms i and j are summed up where i + j is less than the number of terms; the products that are left out
// are smaller than what the last term can represent.
struct TermsAlgorithm {
  const char* name;  // in traces
  DType operand;
  int terms;
  bool digits;    // terms are digits of scaled whole numbers, base 256; else floats that add up
  double error;   // of a layer, relative to its largest output
  double divide;  // cycles to divide a native vector of the input into terms
  double slower;  // factor: how much slower the unit is than at its best

  // Whether the products are those of the kernel, in whole numbers: the algorithm only orders them.
  bool whole() const { return operand == DType::U8; }
  // The largest of the input's whole numbers.
  double largest() const { return operand == DType::I16 ? kLargestFactor : largest_of_digits(terms); }
  int sums() const { return digits ? terms : 1; }  // accumulators for a tile of results
};
// In the order of preference.
inline constexpr TermsAlgorithm kTermsAlgorithms[] = {
    {"bf16", DType::BF16, 1, false, kOneTermError, 4, 1.15},
    {"int16", DType::I16, 1, true, kWholeError, 3, 1.15},
    {"int8x3", DType::I8, 2, true, kTwoDigitsError, 6, 1.15},
    {"int8x6", DType::I8, 3, true, kDigitsError, 8, 1.15},
    {"bf16x3", DType::BF16, 2, false, kTwoTermsError, 8, 1.15},
    {"uint8", DType::U8, 1, false, 0, 2, 1.15}};

}  // namespace tc
