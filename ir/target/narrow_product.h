// Instructions that multiply narrow numbers and add the products up in wider sums: one row each, in the
// tables of each instruction set (ir/target/*_instructions.cc), whoever uses them.
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

// A RISC-V instruction of format R on vector registers, for those that LLVM does not know: rd has the sums,
// rs1 the numbers of a, rs2 those of b.
struct ProductEncoding {
  int opcode = 0, function3 = 0, function7 = 0;  // opcode of 0: there is none
  // While it executes, the vector unit's elements have so many bits, and there are as many as one operand's
  // numbers fill (`vsetvli`).
  int element_bits = 8;
};

// One multiply-accumulate instruction: sums[row, column] += a[row, n] * b[column, n], over all n of the
// depth.
struct NarrowProduct {
  const char* name;       // as assemblers spell it
  const char* intrinsic;  // as LLVM spells it; empty where LLVM has none and the row an encoding
  const char* feature;    // that a machine needs for it; LLVM's name
  // Types of the rows, the columns and the sums. Under `tensorize`, what is multiplied as rows has a's type,
  // and columns of unsigned bytes are allowed as well; in lanes the operands may come in either order.
  DType a, b, sum;
  int rows, columns, depth;  // columns of 0: vectors of any length
  int pack;       // how many consecutive n of a column of b are adjacent in memory, before the next column
  double cycles;  // per instruction, when several are in flight
  DType kept = DType::I32;  // the type in which kernels add up the sums: floats where integers would overflow
  // How many instructions after each other make up one step of a kernel's depth loop under `tensorize`: the
  // choices, the largest first; 0: none.
  std::array<int, 3> depth_multiples = {};
  const char* tuning = "";  // LLVM feature without which LLVM splits the instruction
  ProductEncoding encoding = {};
  // The instruction takes a's numbers, which are unsigned bytes, as signed ones. Kernels store each of them
  // less 128, and add 128 times the sum of a column's numbers to the column's sums.
  bool centred = false;
};

// The instruction of the target that register tiles use for vectors of so many sums; null where it has none.
const NarrowProduct* lane_product(const Target& target, int64_t lanes, DType a, DType b, DType sum);

// How many products of bytes kernels add up at a time in each lane of 32 bits: 4, or 0 where multiplying them
// one at a time is better.
int byte_products(const Target& target);

// Whether one instruction does so in vectors of `lanes` lanes.
bool has_byte_instruction(const Target& target, int64_t lanes, DType a, DType b);

// The instruction that multiplies a byte, the same in all lanes, by unsigned bytes, and adds the products to
// sums of 16 bits; null where the target has none. Sums of few products fit, which are then added to wider
// ones: half as many cycles as with sums of 32 bits on cores whose products take as long as their results are
// wide.
const NarrowProduct* short_product(const Target& target, int64_t lanes);

// How many products of the digits of a number by bytes a step of a kernel adds up in each lane of 32 bits: 4,
// or 1 where `short_product` adds them to sums of 16 bits; 0 where multiplying floats is better.
int digit_products(const Target& target);

// Whether instructions on general-purpose registers, of one sum each, add up products of 16-bit numbers: each
// lane of a register tile is then such a register.
bool adds_products_in_scalars(const Target& target);

// Whether tiles of such products may read words whose bytes were widened to 16 bits beforehand (mark
// "widen"): tiles of so many columns. All general-purpose registers are taken then, and where the words end
// is in a floating-point register.
bool reads_widened_words(const Target& target);
constexpr int kWidenedColumns = 4;

}  // namespace tc
