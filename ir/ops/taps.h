// Maps that are sampled at positions known only at run time: the indices and weights of each axis are
// computed once into tables, which all channels read.
#pragma once

#include <vector>

#include "ir/ops/rows.h"

namespace tc {

// One axis of the map, with its tables, whose shape is [taps, …].
struct SampledAxis {
  int64_t taps = 1;
  int index = -1;   // buffer of i64 indices inside the map; where `marked`, -1 means that the tap counts as 0
  int weight = -1;  // buffer of floats; -1 where there is one tap of weight 1
  bool marked = false;
  std::vector<Affine> position;  // of the result element in the tables, following the tap's index
};

// The element of input 0 for one combination of taps, times its weights; `leading` are the subscripts before
// the sampled axes.
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

// Tables of an axis for linear interpolation at the positions that a buffer of floats holds. Elements outside
// of 0 … size-1 count as 0 if `zeros`; else the index is clamped.
struct TableSpace {
  std::vector<Iterator> iterators;
  std::vector<Affine> position;
  Shape shape;
};
SampledAxis linear_axis(LowerContext& context, const TableSpace& space, int coordinates, const Dim& size,
                        bool zeros);

// An axis whose tables have still to be filled; the weights have the given type.
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
