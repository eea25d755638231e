// Maps sampled at positions that are data: the indices and weights of each axis are computed once into
// tables, which all channels read.
#pragma once

#include <vector>

#include "ir/ops/rows.h"

namespace tc {

// One axis of the map while a result element is computed: the tables' shape is [taps, …].
struct SampledAxis {
  int64_t taps = 1;
  int index = -1;   // buffer of i64, inside the map; or -1 for what counts as 0, where `marked`
  int weight = -1;  // buffer of floats; -1 where there is one tap of weight 1
  bool marked = false;
  std::vector<Affine> position;  // of the result element in the tables, behind the tap
};

// The weighted element of input 0 of one combination of taps; `leading` are the subscripts before the sampled
// axes.
ExprPtr tap_value(LowerContext& context, std::vector<Subscript> leading, const std::vector<SampledAxis>& axes,
                  const std::vector<Affine>& taps);

// Adds `target[position] = sum over all combinations of taps`, times `factor` if it is given. The iterators
// run over the result.
struct SampleLoops {
  std::vector<Iterator> iterators;
  std::vector<Affine> position;
  std::vector<Subscript> leading;
  Shape shape;  // of the result
  ExprPtr factor = nullptr;
};
void lower_samples(LowerContext& context, const SampleLoops& loops, const std::vector<SampledAxis>& axes,
                   int target);

// Tables of an axis for linear interpolation at the positions that a buffer of floats holds. What lies
// outside of 0 … size-1 counts as 0 where `zeros`; else the index is clamped.
struct TableSpace {
  std::vector<Iterator> iterators;
  std::vector<Affine> position;
  Shape shape;
};
SampledAxis linear_axis(LowerContext& context, const TableSpace& space, int coordinates, const Dim& size,
                        bool zeros);

// An axis with tables to be filled; the weights have the type given.
SampledAxis make_axis(LowerContext& context, const TableSpace& space, int64_t taps, DType type, bool zeros);
// Stores the whole number `at` as the index of one tap: clamped to 0 … size-1, or -1 outside where the axis
// is marked.
void store_index(LowerContext& context, const TableSpace& space, const SampledAxis& axis, int64_t tap,
                 ExprPtr at, const Dim& size);
void store_weight(LowerContext& context, const TableSpace& space, const SampledAxis& axis, int64_t tap,
                  ExprPtr weight);

// The extent of an axis as a float.
ExprPtr float_extent(LowerContext& context, const Dim& size, DType type);

}  // namespace tc
