// Formats in which weight matrices are stored: a few bits for each weight, and scales for blocks of them. One
// row each.
//
// A matrix of N rows and K columns is stored row by row, each row as K / block blocks. Files keep the parts
// of a block (its scale, its codes) next to each other; here each part is an array of its own, a *plane* of
// shape [N, K / block, elements], so that a plane has one element type and kernels read it by affine
// subscripts. Planes are as large as the blocks of the file, but for scales of 6 bits, which take a byte
// each.
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
  int64_t elements;  // of a block
};

// A weight is scale * (code - bias) + offset.
struct DecodedWeight {
  ExprPtr code;  // i32, 0 to 255; f32 where the format has no codes (f16)
  int64_t bias = 0;
  ExprPtr scale;             // f32; null: 1
  ExprPtr offset = nullptr;  // f32; null: 0
};

// Loads an element of a plane in the block at hand: integers as i32, floats as f32.
using ReadPlane = std::function<ExprPtr(size_t plane, const Affine& element)>;

struct WeightFormat {
  std::string name;  // of GGUF in small letters: "q4_0"
  std::string doc;
  int64_t block = 1;  // weights
  // Of a block in files that store blocks one behind the other; 0: no such file has the format.
  int64_t bytes = 0;
  std::vector<WeightPlane> planes;
  // Loops over the weights of a block, and the weight's place in the block as an affine expression of them.
  // The last `group_loops` of them run over consecutive weights that share scale and offset. Codes of a group
  // that lie next to each other in a plane are of weights that do, so that instructions for sums of products
  // of bytes can multiply them.
  std::vector<Iterator> loops;
  size_t group_loops = 0;
  Affine place;
  std::function<DecodedWeight(const ReadPlane&)> decode;
  // Divides one block of a file among the planes.
  std::function<void(const uint8_t* block, const std::vector<uint8_t*>& planes)> split;

  // The weight itself, f32.
  ExprPtr value(const ReadPlane& read) const;
  int64_t bytes_in_planes() const;  // of a block
  int64_t group() const;            // weights that share scale and offset; 1 where the format has no codes
};

// The formats that have names of their own, in the order of the documentation.
const std::vector<WeightFormat>& weight_formats();

// Blocks of unsigned codes of `bits` bits (2, 4 or 8). The planes: codes, where byte i holds those of weight
// i and of the weights 8 / bits-ths of the block further on, lowest bits first; scales of type `scale`; and
// where `has_zero` is set zero points of type `zero`. Without them the zero point is 2^(bits - 1). The name
// is "u4:32:f32" or, with zero points, "u4:32:f32:u8".
struct CodeBlocks {
  int64_t bits = 4, block = 32;
  DType scale = DType::F32;
  bool has_zero = false;
  DType zero = DType::U8;
};
std::string name_of(const CodeBlocks& blocks);

// The format of a name; a Model error that lists the names otherwise. The result lives as long as the
// program.
const WeightFormat& weight_format(const std::string& name);

// The planes of a matrix [rows, columns] out of the bytes of a file. Model errors where the bytes are not as
// many as the matrix needs, or the columns are no whole number of blocks.
std::vector<Tensor> split_blocks(const WeightFormat& format, const uint8_t* bytes, size_t size, int64_t rows,
                                 int64_t columns);

}  // namespace tc
