// The operators of ONNX Runtime's own domain on weights of few bits that have a scale for each block: the
// product MatMulNBits and the embedding GatherBlockQuantized. They become BlockMatMul and BlockGather, which
// read blocks as the file stores them.
#include <algorithm>

#include "ir/ops/quantised_rows.h"
#include "ir/ops/sizes.h"
#include "ir/ops/weight_formats.h"

namespace tc {
namespace {

struct Blocks {
  int64_t n = 0, k = 0, bits = 4, size = 0;
  int64_t count() const { return (k + size - 1) / size; }
  int64_t bytes() const { return size * bits / 8; }
};

Blocks blocks_of(const Node& node) {
  return {int_attribute(node, "N"), int_attribute(node, "K"), int_attribute(node, "bits"),
          int_attribute(node, "block_size")};
}

// Inputs: a, the weights' bytes [N, blocks, bytes of a block], scales, zero points, group indices, the bias.
void infer_blocks(InferContext& context) {
  const Blocks blocks = blocks_of(context.node());
  if (blocks.bits != 2 && blocks.bits != 4 && blocks.bits != 8)
    context.unsupported("bits is ", blocks.bits, "; 2, 4 and 8 are supported");
  if ((blocks.size & (blocks.size - 1)) != 0)
    context.error("block_size is ", blocks.size, "; a power of two is needed");
  if (int_attribute(context.node(), "weight_prepacked") != 0)
    context.unsupported(
        "weights that are packed for one device are not supported; export without prepacking");
  if (context.has_input(4))
    context.unsupported("group indices (g_idx) are not supported; export the weights in their order");
  for (const int i : {1, 2, 3}) {
    if (context.has_input(i) && !context.input(i).constant)
      context.unsupported("input ", i, " is computed by the run; constant weights are needed");
  }
  const Shape bytes = {Dim(blocks.n), Dim(blocks.count()), Dim(blocks.bytes())};
  if (context.dtype(1) != DType::U8 || context.shape(1) != bytes) {
    context.error("the weights are ", name_of(context.dtype(1)), str(context.shape(1)), "; u8", str(bytes),
                  " is needed for ", blocks.n, " x ", blocks.k, " numbers of ", blocks.bits,
                  " bits in blocks of ", blocks.size);
  }
  const Dim scales(blocks.n * blocks.count());
  if (element_count(context.shape(2)) != scales)
    context.error("input 2 has shape ", str(context.shape(2)), "; ", scales.str(), " scales are needed");
  if (context.has_input(3)) {
    const bool packed = context.dtype(3) == DType::U8;
    const Dim zeros = packed ? Dim(blocks.n * ((blocks.count() * blocks.bits + 7) / 8)) : scales;
    if (element_count(context.shape(3)) != zeros) {
      context.error("input 3 has shape ", str(context.shape(3)), "; ", zeros.str(),
                    packed ? " bytes of zero points are needed" : " zero points are needed");
    }
  }
  check_bias(context, 5, Dim(blocks.n));
  Shape shape = context.shape(0);
  const std::string unfit = text("input 0 has shape ", str(shape), "; its last axis must be K, ", blocks.k);
  if (shape.empty()) context.error(unfit);
  need_equal(context, shape.back(), Dim(blocks.k), unfit);
  shape.back() = Dim(blocks.n);
  context.set_output(0, context.dtype(0), shape);
}

// Unpacks zero points to one byte each. They are packed with the lowest bits first, and each row begins with
// a new byte.
TensorPtr zero_bytes(const Tensor& packed, const Blocks& blocks) {
  const int64_t per_byte = 8 / blocks.bits, row_bytes = (blocks.count() + per_byte - 1) / per_byte;
  auto zeros = std::make_shared<Tensor>(DType::U8, std::vector<int64_t>{blocks.n, blocks.count(), 1});
  for (int64_t row = 0; row < blocks.n; ++row) {
    for (int64_t block = 0; block < blocks.count(); ++block) {
      const int byte = packed.bytes[static_cast<size_t>(row * row_bytes + block / per_byte)];
      const int code = byte >> (block % per_byte * blocks.bits) & ((1 << blocks.bits) - 1);
      zeros->bytes[static_cast<size_t>(row * blocks.count() + block)] = static_cast<uint8_t>(code);
    }
  }
  return zeros;
}

// Reorders the codes of each block as CodeBlocks requires: weights whose codes share a byte are not
// neighbours, but a fraction of the block away from each other.
TensorPtr reordered_codes(const TensorPtr& bytes, const Blocks& blocks) {
  const int64_t per_byte = 8 / blocks.bits, mask = (int64_t{1} << blocks.bits) - 1,
                apart = blocks.size / per_byte;
  if (per_byte == 1) return bytes;
  auto result = std::make_shared<Tensor>(DType::U8, bytes->shape);
  const uint8_t* from = bytes->bytes.data();
  uint8_t* to = result->bytes.data();
  for (int64_t block = 0; block < blocks.n * blocks.count(); ++block, from += apart, to += apart) {
    for (int64_t i = 0; i < blocks.size; ++i) {
      const int64_t code = from[i / per_byte] >> (i % per_byte * blocks.bits) & mask;
      to[i % apart] = static_cast<uint8_t>(to[i % apart] | code << (i / apart * blocks.bits));
    }
  }
  return result;
}

// A product by the blocks, without decoding them to a matrix.
std::vector<Node> expand_blocks(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Blocks blocks = blocks_of(node);
  const DType type = build.dtype(node.inputs[0]);
  const auto for_each_block = [&](const Tensor& values) {
    auto result = std::make_shared<Tensor>(values);
    result->shape = {blocks.n, blocks.count(), 1};
    return build.constant(result);
  };
  CodeBlocks format{blocks.bits, blocks.size, build.dtype(node.inputs[2]), input_given(node, 3)};
  std::vector<ValueId> inputs = {build.cast(node.inputs[0], DType::F32),
                                 build.constant(reordered_codes(graph[node.inputs[1]].constant, blocks)),
                                 for_each_block(*graph[node.inputs[2]].constant)};
  if (format.has_zero) {
    const Tensor& zeros = *graph[node.inputs[3]].constant;
    format.zero = zeros.dtype;
    inputs.push_back(zeros.dtype == DType::U8 ? build.constant(zero_bytes(zeros, blocks))
                                              : for_each_block(zeros));
  }
  ValueId real =
      build.add("BlockMatMul", inputs, {{"format", name_of(format)}, {"N", blocks.n}, {"K", blocks.k}});
  if (input_given(node, 5)) real = build.add("Add", {real, build.cast(node.inputs[5], DType::F32)});
  build.give(0, build.cast(real, type));
  return build.take();
}

// --- GatherBlockQuantized -----------------------------------------------------------------------------

// The blocks of the matrix [rows, columns] from which rows are gathered. A byte tensor holds 8 / bits codes
// per byte; a tensor of i4 or u4 one per element.
Blocks blocks_of_rows(const Node& node, const Graph& graph) {
  const Value& data = graph[node.inputs[0]];
  const int64_t bits = data.dtype == DType::U8 ? int_attribute(node, "bits") : 4;
  const int64_t codes = data.dtype == DType::U8 && bits != 0 ? 8 / bits : 1;
  return {(*data.shape)[0].constant(), (*data.shape)[1].constant() * codes, bits,
          int_attribute(node, "block_size")};
}

// Inputs: the matrix, the numbers of its rows, scales, zero points.
void infer_rows_of_blocks(InferContext& context) {
  for (const int i : {0, 2, 3}) {
    if (context.has_input(i) && !context.input(i).constant)
      context.unsupported("input ", i, " is computed by the run; constant weights are needed");
  }
  const int64_t rank = context.rank(0);
  const auto axis = [&](const char* name) { return context.axis(int_attribute(context.node(), name), rank); };
  if (rank != 2 || axis("gather_axis") != 0 || axis("quantize_axis") != 1)
    context.unsupported("data of shape ", str(context.shape(0)), " with gather_axis ",
                        int_attribute(context.node(), "gather_axis"), " and quantize_axis ",
                        int_attribute(context.node(), "quantize_axis"),
                        " is not supported; rows of a matrix with blocks along its columns are");
  const Blocks blocks = blocks_of_rows(context.node(), context.graph());
  if (blocks.bits != 4 && blocks.bits != 8)
    context.unsupported("bits is ", blocks.bits, "; 4 and 8 are supported");
  if ((blocks.size & (blocks.size - 1)) != 0)
    context.error("block_size is ", blocks.size, "; a power of two is needed");
  need_shape(context, 2, {Dim(blocks.n), Dim(blocks.count())});
  const int64_t codes = context.dtype(0) == DType::U8 ? 8 / blocks.bits : 1;
  if (context.has_input(3)) {
    if (context.dtype(3) != context.dtype(0))
      context.error("the zero points are ", name_of(context.dtype(3)), " and the data ",
                    name_of(context.dtype(0)), "; one type is needed");
    need_shape(context, 3, {Dim(blocks.n), Dim((blocks.count() + codes - 1) / codes)});
  }
  Shape shape = context.shape(1);
  shape.push_back(Dim(blocks.k));
  context.set_output(0, context.dtype(2), shape);
}

// Packs 4-bit codes, one per element, two to a byte, the first in the low half; each row begins with a new
// byte. i4 codes are offset by 8.
TensorPtr packed_codes(const Tensor& each, int64_t rows, int64_t columns) {
  const int64_t row_bytes = (columns + 1) / 2;
  const int bias = each.dtype == DType::I4 ? 8 : 0;
  auto result = std::make_shared<Tensor>(DType::U8, std::vector<int64_t>{rows, row_bytes});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; ++i) {
      const int code = (each.bytes[static_cast<size_t>(row * columns + i)] + bias) & 15;
      uint8_t& byte = result->bytes[static_cast<size_t>(row * row_bytes + i / 2)];
      byte = static_cast<uint8_t>(byte | code << (i % 2 * 4));
    }
  }
  return result;
}

// The matrix with rows padded to whole blocks: [rows, blocks, bytes of a block]. The padding in the last
// block is 0 and is never read.
TensorPtr whole_blocks(const Tensor& bytes, const Blocks& blocks) {
  const int64_t row_bytes = bytes.shape[1], whole = blocks.count() * blocks.bytes();
  auto result =
      std::make_shared<Tensor>(DType::U8, std::vector<int64_t>{blocks.n, blocks.count(), blocks.bytes()});
  for (int64_t row = 0; row < blocks.n; ++row)
    std::copy_n(bytes.bytes.data() + row * row_bytes, row_bytes, result->bytes.data() + row * whole);
  return result;
}

std::vector<Node> expand_rows_of_blocks(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Blocks blocks = blocks_of_rows(node, graph);
  const DType type = build.dtype(node.inputs[2]);
  TensorPtr data = graph[node.inputs[0]].constant;
  const DType stored = data->dtype;
  if (stored != DType::U8) data = packed_codes(*data, blocks.n, blocks.k);
  auto scales = std::make_shared<Tensor>(*graph[node.inputs[2]].constant);
  scales->shape.push_back(1);
  CodeBlocks format{blocks.bits, blocks.size, type, input_given(node, 3) || stored == DType::U4};
  std::vector<ValueId> inputs = {node.inputs[1],
                                 build.constant(reordered_codes(whole_blocks(*data, blocks), blocks)),
                                 build.constant(scales)};
  if (format.has_zero) {
    // u4 codes have zero point 0 if the file gives none.
    auto zeros = std::make_shared<Tensor>(
        DType::U8, std::vector<int64_t>{blocks.n, (blocks.count() * blocks.bits + 7) / 8});
    if (input_given(node, 3)) {
      const Tensor& given = *graph[node.inputs[3]].constant;
      zeros = std::make_shared<Tensor>(stored == DType::U8 ? given
                                                           : *packed_codes(given, blocks.n, blocks.count()));
    }
    inputs.push_back(build.constant(zero_bytes(*zeros, blocks)));
  }
  const ValueId rows =
      build.add("BlockGather", inputs, {{"format", name_of(format)}, {"N", blocks.n}, {"K", blocks.k}});
  build.give(0, build.cast(rows, type));
  return build.take();
}

OpRow block_op(const std::string& name, const std::string& doc, const InputCount& inputs,
               std::function<void(InferContext&)> infer,
               std::function<std::vector<Node>(Graph&, const Node&)> expand) {
  return expanded_quantised({name, 1, nullptr, "com.microsoft"}, doc, inputs, std::move(infer),
                            std::move(expand));
}

}  // namespace

void register_block_weight_ops(OpTable& table) {
  OpRow blocks =
      block_op("MatMulNBits", "Matrix product by weights of 2, 4 or 8 bits with a scale for each block.",
               {3, 6}, infer_blocks, expand_blocks);
  blocks.attributes = {{"N", int64_t{0}, true, "", from_to(1, int64_t{1} << 31)},
                       {"K", int64_t{0}, true, "", from_to(1, int64_t{1} << 31)},
                       {"bits", int64_t{4}},
                       {"block_size", int64_t{0}, true, "", from_to(16, 1 << 20)},
                       {"accuracy_level", int64_t{0}},
                       {"weight_prepacked", int64_t{0}}};
  blocks.types = {{kFloats, {0, 2, 5}}};
  table.add(std::move(blocks));

  OpRow rows = block_op("GatherBlockQuantized",
                        "Rows, by their numbers, of a matrix of 4 or 8 bits with a scale for each block.",
                        {3, 4}, infer_rows_of_blocks, expand_rows_of_blocks);
  rows.attributes = {{"bits", int64_t{4}},
                     {"block_size", int64_t{128}, false, "", from_to(16, 1 << 20)},
                     {"gather_axis", int64_t{0}},
                     {"quantize_axis", int64_t{1}}};
  const TypeSet codes{"u8, i4 or u4",
                      [](DType type) { return type == DType::U8 || type == DType::I4 || type == DType::U4; }};
  rows.types = {{codes, {0}}, {kIndices, {1}}, {kFloats, {2}}};
  table.add(std::move(rows));
}

}  // namespace tc
