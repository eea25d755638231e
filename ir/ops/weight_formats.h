// Formats in which weight matrices are stored: a few bits for each weight, and scales for blocks of weights.
// A table with one row per format.
//
// A matrix of N rows and K columns is stored row by row, each row as K / block blocks. Files keep the parts
// of a block (its scale, its codes) next to each other; here each part is an array of its own, a *plane* of
// shape [N, K / block, elements], so that a plane has one element type and kernels read it by affine
// subscripts. Together the planes are as large as the blocks of the file, except that scales of 6 bits take a
// byte each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/loop.h"
#include "ir/tensor.h"

namespace tc {

// One part of each block.
struct WeightPlane {
  std::string name;
  DType dtype;
  int64_t elements;  // in each block
};

// A weight is scale * (code - bias) + offset.
struct DecodedWeight {
  ExprPtr code;  // i32, 0 to 255; f32 where the format has no codes (f16)
  int64_t bias = 0;
  ExprPtr scale;             // f32; null: 1
  ExprPtr offset = nullptr;  // f32; null: 0
};

// Loads an element of a plane in the current block: integers as i32, floats as f32.
using ReadPlane = std::function<ExprPtr(size_t plane, const Affine& element)>;

struct WeightFormat {
  std::string name;  // as in GGUF, in small letters: "q4_0"
  std::string doc;
  int64_t block = 1;  // weights
  // Bytes of a block in files that store blocks consecutively; 0: no such file has the format.
  int64_t bytes = 0;
  std::vector<WeightPlane> planes;
  // Loops over the weights of a block, and the weight's place in the block as an affine expression of the
  // loops. The last `group_loops` of them run over a group: consecutive weights that share scale and offset.
  // Within a group, codes that are adjacent in a plane belong to adjacent weights, so that instructions for
  // sums of products of bytes can multiply them.
  std::vector<Iterator> loops;
  size_t group_loops = 0;
  Affine place;
  std::function<DecodedWeight(const ReadPlane&)> decode;
  // Distributes one block of a file over the planes.
  std::function<void(const uint8_t* block, const std::vector<uint8_t*>& planes)> split;

  // The weight itself, f32.
  ExprPtr value(const ReadPlane& read) const;
  int64_t bytes_in_planes() const;  // of a block
  int64_t group() const;            // how many weights share scale and offset; 1 if there are no codes
};

// The formats that have names of their own, in the order of the documentation.
const std::vector<WeightFormat>& weight_formats();

// Blocks of unsigned codes of `bits` bits (2, 4 or 8). The planes are: codes, where byte i holds the code of
// weight i in its lowest bits, and above it those of the weights that follow at a distance of block * bits /
// 8; scales of type `scale`; and if `has_zero` is set, zero points of type `zero`. Without zero points, the
// zero point is 2^(bits - 1). The name is "u4:32:f32" or, with zero points, "u4:32:f32:u8".
struct CodeBlocks {
  int64_t bits = 4, block = 32;
  DType scale = DType::F32;
  bool has_zero = false;
  DType zero = DType::U8;
};
std::string name_of(const CodeBlocks& blocks);

// The format with this name; a Model error that lists the names if there is none. The reference stays valid
// until the program ends.
const WeightFormat& weight_format(const std::string& name);

// The planes of a matrix [rows, columns] from the bytes of a file. Model errors where the number of bytes is
// not what the matrix needs, or the columns are not a whole number of blocks.
std::vector<Tensor> split_blocks(const WeightFormat& format, const uint8_t* bytes, size_t size, int64_t rows,
                                 int64_t columns);

}  // namespace tc
