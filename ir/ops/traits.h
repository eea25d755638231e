// What passes, layouts and plans ask of an operator, so that none of them needs its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ir/loop.h"

namespace tc {

struct OpTraits {
  // Sums of products of two operands. Product: its kernel takes transposes of its operands and of its
  // result. Convolution, TransposedConvolution: of input 0 by the weights, input 1, with the attributes
  // `group` and `pads`; with constant weights they compute blocked channels.
  enum class Contraction : uint8_t { None, Product, Convolution, TransposedConvolution };
  Contraction contraction = Contraction::None;

  // Each element of the result is one element of an operand (or what it is padded with).
  // Permute: axes in the order `perm`. Part: a box of the operand or its broadcast, which elementwise
  // kernels read in place. Pad: `pads` elements around it. Join: the operands one after the other along
  // `axis`. Split: the opposite; each output is a part. Layout: the operand in another memory layout.
  enum class Movement : uint8_t { None, Permute, Part, Pad, Join, Split, Layout, Other };
  Movement movement = Movement::None;

  // The subgraphs that a node of kind Control runs: one of two; one per iteration while a condition
  // holds; one per element of axis 0. Size runs none: it binds the data symbol `symbol` to its operand.
  enum class Control : uint8_t { None, Branch, Loop, Scan, Size };
  Control control = Control::None;

  // How the result may have blocked channels, where neither `contraction`, `movement` nor `elementwise`
  // says it. Channelwise: each channel is computed from the same channel of input 0, so the result has
  // the layout of input 0. Neighbours: from neighbouring channels too, so the blocks must be whole.
  enum class Blocks : uint8_t { None, Channelwise, Neighbours };
  Blocks blocks = Blocks::None;
  // Reads blocked channels also where its result is plain.
  bool reads_blocks = false;
  // The lanes that fill up a block's last channels hold 0; results of an elementwise op there stay
  // finite, also through further such ops.
  bool finite_at_zero = true;

  // Normalises or reduces along rows: its kernel takes the elementwise producers of its operand.
  bool row_program = false;
  // Maps each channel of input 0 by inputs 1 to 4 (scale, shift, mean, variance) and `epsilon`.
  bool channel_statistics = false;
  // Every element of the result is the one of the attribute `value` (0 where it is left out).
  bool fill = false;

  // From floats to integers, or back, with a scale and a zero point: inputs 1 and 2.
  enum class Quantisation : uint8_t { None, Quantize, Dequantize };
  Quantisation quantisation = Quantisation::None;
  // Of a contraction or a mean of floats: the row that adds up products of 8-bit integers, or these integers,
  // exactly, in i32. Null where there is none.
  const char* of_bytes = nullptr;
  // Each element of the result is an element of input 0 that its order alone chooses: an increasing function
  // of each element may as well come behind.
  bool selects = false;
  // The bytes of the result are those of the only operand, whose type has another meaning and the same width.
  bool reinterprets = false;
  // Of one operand: f(k x) = k f(x) for every k > 0.
  bool homogeneous = false;

  // An elementwise op of one or two operands that is this function of them, with default attributes.
  std::optional<UnaryOp> unary;
  std::optional<BinaryOp> binary;
};

// Where the output channels of a contraction are in its constant weights (input 1): at axis `axis`;
// with `groups` over 1 axis 0 has the input channels of all groups, and each group its own output
// channels. They are axis 1 of the result, and input 2, if given, is added to each.
struct OutputChannels {
  size_t axis = 0;
  int64_t groups = 1;
};

}  // namespace tc
