// What passes, layouts and plans need to know about an operator, so that none of them asks for its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ir/loop.h"

namespace tc {

struct OpTraits {
  // Sums of products of two operands. Product: transposes of its operands and of its result can be fused into
  // its kernel. Convolution, TransposedConvolution: of input 0 by the weights, input 1, with the attributes
  // `group` and `pads`; with constant weights they compute channels in blocks.
  enum class Contraction : uint8_t { None, Product, Convolution, TransposedConvolution };
  Contraction contraction = Contraction::None;

  // Each element of the result is an element of an operand (or padding). Permute: axes in the order `perm`.
  // Part: a box of the operand or its broadcast, which elementwise kernels read in place. Pad: `pads`
  // elements around it. Join: the operands one after the other along `axis`. Split: the opposite; each output
  // is a part. Layout: the operand in another memory layout.
  enum class Movement : uint8_t { None, Permute, Part, Pad, Join, Split, Layout, Other };
  Movement movement = Movement::None;

  // How a node of kind Control runs its subgraphs. Branch: one of two. Loop: once per iteration while a
  // condition holds. Scan: once per element of axis 0. Size runs none: it binds the data symbol `symbol` to
  // its operand.
  enum class Control : uint8_t { None, Branch, Loop, Scan, Size };
  Control control = Control::None;

  // How the result may have blocked channels, where neither `contraction`, `movement` nor `elementwise`
  // determines it. Channelwise: each channel is computed from the same channel of input 0, so the result has
  // the layout of input 0. Neighbours: each channel is computed from neighbouring channels too, so all blocks
  // must be full.
  enum class Blocks : uint8_t { None, Channelwise, Neighbours };
  Blocks blocks = Blocks::None;
  // Can read blocked channels even where its result is not blocked.
  bool reads_blocks = false;
  // The padding lanes of a block's last channels hold 0. True where the op's results there are finite, also
  // when further such ops are applied to them.
  bool finite_at_zero = true;

  // Normalises or reduces along rows: elementwise producers of its operand can be fused into its kernel.
  bool row_program = false;
  // Maps each channel of input 0 by inputs 1 to 4 (scale, shift, mean, variance) and `epsilon`.
  bool channel_statistics = false;
  // Every element of the result is the attribute `value` (0 where it is left out).
  bool fill = false;

  // From floats to integers, or back, with a scale and a zero point: inputs 1 and 2.
  enum class Quantisation : uint8_t { None, Quantize, Dequantize };
  Quantisation quantisation = Quantisation::None;
  // For a contraction or a mean of floats: the name of the row that adds up products of 8-bit integers, or
  // such integers, exactly, in i32. Null where there is none.
  const char* of_bytes = nullptr;
  // Each element of the result is an element of input 0 that is chosen only by the order of elements, so an
  // increasing elementwise function may be applied before or after.
  bool selects = false;
  // The result's bytes are those of the only operand, reinterpreted as another type of the same width.
  bool reinterprets = false;
  // A function of one operand with f(k x) = k f(x) for every k > 0.
  bool homogeneous = false;

  // An elementwise op of one or two operands that is this function of them, with default attributes.
  std::optional<UnaryOp> unary;
  std::optional<BinaryOp> binary;
};

// Where the output channels of a contraction are in its constant weights (input 1): along axis `axis`. If
// `groups` is over 1, axis 0 has the input channels of all groups, and each group has its own output
// channels. In the result they are axis 1, and input 2, if given, adds a number to each.
struct OutputChannels {
  size_t axis = 0;
  int64_t groups = 1;
};

}  // namespace tc
