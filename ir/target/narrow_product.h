// Instructions that multiply narrow numbers and add the products up in wider sums: one row each, in the tables
// of each instruction set (ir/target/*_instructions.cc), whoever uses them.
#pragma once

#include <array>
#include <cstdint>

#include "ir/dtype.h"

namespace tc {

struct Target;

// Who emits the instructions of a group.
enum class ProductRoute : uint8_t {
  Tiles,    // `tensorize`, on a matrix unit with registers of its own
  Vectors,  // `tensorize`, on a matrix unit whose accumulators are vectors
  Lanes     // register tiles: each lane of a vector of sums adds up `depth` products of its own
};

// One multiply-accumulate instruction: sums[row, column] += a[row, n] * b[column, n], over all n of the
// depth.
struct NarrowProduct {
  const char* name;       // as assemblers spell it
  const char* intrinsic;  // as LLVM does
  const char* feature;    // that a machine needs for it, by LLVM's name
  // Of rows, columns and sums. `tensorize` multiplies numbers of a's type: b's may be unsigned. In lanes the
  // operands may come in either order.
  DType a, b, sum;
  int rows, columns, depth;  // columns of 0: vectors of any length
  int pack;  // elements of the depth that lie next to each other in a column of b, before the next column
  double cycles;  // where others are in flight
  DType kept =
      DType::I32;  // where kernels add up the sums of a depth: in floats where integers would overflow
  // `tensorize`: how many of these depths make up the depth of a kernel, the deepest first; 0 is none.
  std::array<int, 3> depth_multiples = {};
  const char* tuning = "";  // LLVM's feature without which it takes the instruction apart
};

// The instruction of the target that register tiles use for vectors of so many sums; null where it has none.
const NarrowProduct* lane_product(const Target& target, int64_t lanes, DType a, DType b, DType sum);

// How many products of bytes each lane of 32 bits adds up in one step: 4, or 0 where kernels had better
// multiply one at a time.
int byte_products(const Target& target);

// Whether one instruction multiplies and adds so many in vectors of so many lanes.
bool has_byte_instruction(const Target& target, int64_t lanes, DType a, DType b);

}  // namespace tc
