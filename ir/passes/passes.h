// The functions of the pass table in pass.cc, which has a one-sentence description of each.
#pragma once

#include "ir/graph.h"

namespace tc {

// Adds a cast after each result of a half type, except results of operators that only move elements. Where a
// front end describes one operator by several nodes, only the last result is rounded.
void round_each(Graph& graph);

// Values of half types become float32, with casts after graph inputs and before graph outputs. Results of
// casts to a half type keep it, and are cast back for their readers.
void promote_half(Graph& graph);

// Expands composites until no node of kind Expand is left. The new nodes' shapes are inferred.
void expand_composites(Graph& graph);

// Matrix products whose constant weights DequantizeLinear decodes in blocks along the summed axis become
// products by packed weights.
void block_weights(Graph& graph);

// Loop nodes become Scan where constants or shapes give the trip count and the condition stays true.
void counted_loops(Graph& graph);

// Computes nodes whose inputs are constants and whose work is bounded (results up to 2^28 elements for fills
// and copies, 2^24 operations otherwise).
void fold_constants(Graph& graph);

// Values whose elements follow from shapes become constants.
void fold_shapes(Graph& graph);

// Data symbols whose size turned out to be a number, or to follow from shapes, are replaced by it; of two
// data symbols that are computed from the same value one is replaced by the other.
void bind_sizes(Graph& graph);

// Removes nodes that return one of their inputs: their readers read that input. A node that gives a graph
// output is removed only where the input can take the output's name.
void eliminate(Graph& graph);

// GatherND with constant index tuples becomes Gather along one axis.
void choose_by_place(Graph& graph);

// Chains of views become one Reshape, chains of transposes one Transpose, transposes that move only
// axes of extent 1 a Reshape.
void merge_views(Graph& graph);

// Concat of more than 128 tensors is divided into several, unless along its axis no kernel is needed; Sum,
// Max, Min and Mean of many tensors likewise.
void divide_joins(Graph& graph);

// A running sum whose operand is cast from i32 to i64 and whose result is cast back to i32 is computed in
// i32.
void narrow_sums(Graph& graph);

// QuantizeLinear that alone reads the result of joining, padding, moving or choosing elements is applied to
// each operand instead: the integers are the same, and bytes are moved instead of floats.
void quantise_early(Graph& graph);

// Signed bytes that are multiplied by constant weights and summed up become unsigned bytes that are 128
// larger, together with their zero points and with values that only move their elements. The surplus of the
// sums, a constant for each channel, is subtracted.
void unsigned_numbers(Graph& graph);
// The other way round: unsigned bytes become signed ones that are 128 smaller.
void signed_numbers(Graph& graph);
// As unsigned_numbers, but only for values that are padded by what becomes 0, or that no ungrouped product
// reads.
void unsigned_padded(Graph& graph);

// Convolutions and matrix products of dequantised 8-bit integers with constant weights, and means of such
// integers, add up integers, exactly, in 32 bits; their sums are scaled in f32. Nodes that only choose or
// move elements do so before dequantisation. Graph::arithmetic records how each node is computed, and why
// some stayed floats.
void integer_products(Graph& graph);

// Sums and products of quantised numbers are brought to the result's scale without floats, as in TensorFlow
// Lite's reference kernels: by a multiplier of 31 bits and a power of two, rounded once. The result may
// differ from the exact one by one step.
void fixed_point(Graph& graph);

// A 64-bit product of a widened i32 and a constant whose numbers fit 32 bits reads both operands as i32.
void wide_products(Graph& graph);

// Sums of dequantised values and of scaled integers that are quantised afterwards are computed in units of
// the result's scale, so that no division by it is needed. Rounding ties may go the other way.
void quantised_units(Graph& graph);

// A dequantised value that several nodes read is computed again from the integers for each of them.
void repeat_dequantisation(Graph& graph);

// Zero padding that only a convolution reads becomes the convolution's own padding.
void fold_pads(Graph& graph);

// Removes taps at the ends of constant filters that only ever read padding, as with 3 x 3 filters over a map
// of one element, together with that padding.
void cut_taps(Graph& graph);

// BatchNormalization with constant parameters, and products and sums with one constant per channel, are
// folded into the weights and bias of Conv, ConvTranspose and Gemm (computed in double) where nothing else
// reads the latter's result. Other such BatchNormalizations become Mul and Add.
void fold_batch_norm(Graph& graph);

// Merges nodes with equal operators, operands and attributes, and constants of up to 4 KiB with equal bytes.
void merge_duplicates(Graph& graph);

// (x - mean) / sqrt(mean of squares + epsilon) * scale + bias over the last axis becomes
// LayerNormalization, and local response normalisation by a pool over channels LRN.
void recover_normalizations(Graph& graph);

// Where a product of matrices reads a large constant that is the transpose of one from which other nodes
// choose rows, it reads a transposition of that one, which becomes part of its kernel.
void share_transposed(Graph& graph);

// Removes nodes that no output needs, values that nothing mentions, and captures that a subgraph does not
// read.
void dead_code(Graph& graph);

// Constants that a subgraph captures become constants of the subgraph.
void sink_constants(Graph& graph);

}  // namespace tc
