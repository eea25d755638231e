// The functions of the pass table; each says in one sentence what it does (see pass.cc).
#pragma once

#include "ir/graph.h"

namespace tc {

// A cast behind each result of a half type, but for those of operators that only move elements. What an
// operator of a front end is described by is rounded at its end alone.
void round_each(Graph& graph);

// Values of half types become float32, with casts behind graph inputs and before graph outputs. Results of
// casts to a half type keep it, and are cast back for their readers.
void promote_half(Graph& graph);

// Until no node of kind Expand is left. The new nodes' shapes are inferred.
void expand_composites(Graph& graph);

// Products by constant matrices that DequantizeLinear makes of blocks along the summed axis become products
// by packed weights.
void block_weights(Graph& graph);

// Loop nodes with a trip count of constants or shapes and a condition that stays true; others stay.
void counted_loops(Graph& graph);

// Nodes whose inputs are constants and whose work is bounded (results up to 2^28 elements for fills
// and copies, 2^24 operations otherwise).
void fold_constants(Graph& graph);

// Values whose elements follow from shapes become constants.
void fold_shapes(Graph& graph);

// Sizes that nodes were thought to compute: a number or what shapes give takes the place of one that turned
// out to be known, and one computed from the same value as another is the other.
void bind_sizes(Graph& graph);

// Readers take the source; a node that makes a graph output goes where its source can take the name.
void eliminate(Graph& graph);

// What GatherND chooses by constant tuples, Gather chooses along one axis.
void choose_by_place(Graph& graph);

// Chains of views become one Reshape, chains of transposes one Transpose, transposes that move only
// axes of extent 1 a Reshape.
void merge_views(Graph& graph);

// Concat of more than 128 tensors along an axis where that takes a kernel is one of several.
void divide_joins(Graph& graph);

// A running sum of i32 that becomes i64 before it and i32 again behind it is i32 throughout.
void narrow_sums(Graph& graph);

// QuantizeLinear of what joins, pads, moves or chooses elements, and has no other reader, is of each operand
// in its place: the same integers, of a byte each.
void quantise_early(Graph& graph);

// Bytes with a sign that products with constant weights are summed up of, and what moves their elements, are
// 128 more, without a sign; so are their zero points. Sums take the surplus, a constant for each channel,
// away.
void unsigned_numbers(Graph& graph);

// Convolutions and matrix products of dequantised 8-bit integers with constant weights, and means of such
// integers, add up integers, exactly, in 32 bits; their sums are scaled in f32. What only chooses elements,
// or moves them, does so before they are dequantised. Graph::arithmetic tells what became of each node, and
// why some stayed floats.
void integer_products(Graph& graph);

// Sums and products of quantised numbers become integers of the result's scale without floats, as TensorFlow
// Lite's reference kernels have it: by a multiplier of 31 bits and a power of two, rounded once. They are at
// most one step from the exact result.
void fixed_point(Graph& graph);

// A product of 64 bits of a widened i32 and a constant whose numbers fit 32 bits takes both as i32.
void wide_products(Graph& graph);

// Sums of dequantised values and of scaled integers are computed in units of the scale of the integer that
// they become, which then is not divided by. Rounding ties may fall to the other side.
void quantised_units(Graph& graph);

// Dequantised values that several nodes read are computed by each, from the integers.
void repeat_dequantisation(Graph& graph);

// Zero padding in front of a convolution that alone reads it becomes the convolution's.
void fold_pads(Graph& graph);

// Taps at the ends of constant filters that meet nothing but padding, as of 3 x 3 filters over a map of one
// element, go with that padding.
void cut_taps(Graph& graph);

// BatchNormalization with constant parameters, and products and sums with one constant per channel:
// into the weights and bias of Conv, ConvTranspose and Gemm (computed in double) where nothing else
// reads their result; what is left of BatchNormalization into Mul and Add.
void fold_batch_norm(Graph& graph);

// Nodes with equal operators, operands and attributes; constants of up to 4 KiB with equal bytes.
void merge_duplicates(Graph& graph);

// (x - mean) / sqrt(mean of squares + epsilon) * scale + bias over the last axis becomes
// LayerNormalization, and local response normalisation by a pool over channels LRN.
void recover_normalizations(Graph& graph);

// Values that nothing mentions go too, and captures that a subgraph does not read.
void dead_code(Graph& graph);

// Constants that a subgraph captures become constants of the subgraph.
void sink_constants(Graph& graph);

}  // namespace tc
