// Matrix products by constant weights that are dequantised block by block become products by packed weights.
#include <map>
#include <memory>
#include <optional>

#include "ir/held_constants.h"
#include "ir/ops/rows.h"
#include "ir/ops/weight_formats.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

// A matrix [rows, columns] quantised in blocks of consecutive columns, as DequantizeLinear stores it.
// `columns_first`: its tensors are transposed.
struct BlockMatrix {
  TensorPtr codes, scales, zeros;  // zeros: null where there are none
  int64_t rows = 0, columns = 0, block = 0;
  bool columns_first = false;

  int64_t blocks() const { return (columns + block - 1) / block; }
  int64_t bits() const { return bits_of(codes->dtype); }
  // Flat index of an element in a tensor of shape [rows, width], or in its transpose.
  int64_t at(int64_t row, int64_t column, int64_t width) const {
    return columns_first ? column * rows + row : row * width + column;
  }
  // Added to the codes, it makes them unsigned.
  int64_t shift() const { return is_signed(codes->dtype) ? int64_t{1} << (bits() - 1) : 0; }
};

class BlockWeights {
 public:
  explicit BlockWeights(Graph& graph) : graph_(graph), producers_(graph.producers()) {}

  void run() {
    std::vector<Node> nodes;
    for (const Node& node : graph_.nodes) {
      if (!replace(node, nodes)) nodes.push_back(node);
    }
    graph_.nodes = std::move(nodes);
  }

 private:
  const Node* producer(ValueId id, const OpRow* op) const {
    const int index = producers_[static_cast<size_t>(id)];
    return index >= 0 && graph_.nodes[static_cast<size_t>(index)].op == op
               ? &graph_.nodes[static_cast<size_t>(index)]
               : nullptr;
  }

  bool replace(const Node& node, std::vector<Node>& nodes) {
    static const OpRow* const product = find_op("MatMul");
    if (node.op != product || graph_[node.inputs[0]].dtype != DType::F32) return false;
    const auto matrix = matrix_of(node.inputs[1]);
    if (!matrix) return false;
    NodeBuilder build(graph_, node);
    const std::string format = planes_of(node.inputs[1], *matrix);
    std::vector<ValueId> inputs = planes_.at(node.inputs[1]);
    inputs.insert(inputs.begin(), node.inputs[0]);
    build.add_to("BlockMatMul", inputs, node.outputs,
                 {{"format", format}, {"N", matrix->rows}, {"K", matrix->columns}});
    for (Node& each : build.take()) nodes.push_back(std::move(each));
    return true;
  }

  // The weights that a product's second operand holds, if they are quantised in such blocks.
  std::optional<BlockMatrix> matrix_of(ValueId operand) const {
    static const OpRow *const transpose = find_op("Transpose"), *const dequantize =
                                                                    find_op("DequantizeLinear");
    const Node* turned = producer(operand, transpose);
    if (turned != nullptr && ints_attribute(*turned, "perm") != std::vector<int64_t>{1, 0})
      return std::nullopt;
    const Node* node = producer(turned != nullptr ? turned->inputs[0] : operand, dequantize);
    if (node == nullptr || int_attribute(*node, "block_size") == 0) return std::nullopt;
    BlockMatrix matrix;
    matrix.codes = graph_[node->inputs[0]].constant;
    matrix.scales = graph_[node->inputs[1]].constant;
    if (input_given(*node, 2)) matrix.zeros = graph_[node->inputs[2]].constant;
    if (!matrix.codes || !matrix.scales || (input_given(*node, 2) && !matrix.zeros)) return std::nullopt;
    if (matrix.codes->shape.size() != 2 || matrix.scales->shape.size() != 2 ||
        is_float(matrix.codes->dtype) || matrix.bits() > 8)
      return std::nullopt;
    matrix.columns_first = turned == nullptr;
    const int64_t axis = int_attribute(*node, "axis");
    if ((axis + 2) % 2 != (matrix.columns_first ? 0 : 1)) return std::nullopt;
    matrix.block = int_attribute(*node, "block_size");
    matrix.rows = matrix.codes->shape[matrix.columns_first ? 1 : 0];
    matrix.columns = matrix.codes->shape[matrix.columns_first ? 0 : 1];
    const bool fits = matrix.block >= 8 && matrix.block % 8 == 0 && matrix.rows > 0 && matrix.columns > 0 &&
                      matrix.block <= matrix.columns;
    return fits ? std::optional(matrix) : std::nullopt;
  }

  // Adds the planes of the matrix, once per value; returns the format's name.
  std::string planes_of(ValueId value, const BlockMatrix& matrix) {
    CodeBlocks format{matrix.bits(), matrix.block, matrix.scales->dtype,
                      matrix.zeros != nullptr || !is_signed(matrix.codes->dtype)};
    const bool half = format.scale == DType::F32 && fit_half(*matrix.scales);
    if (half) format.scale = DType::F16;
    std::vector<ValueId>& planes = planes_[value];
    if (planes.empty()) {
      const std::string name = graph_[value].name;
      const auto add = [&](const char* plane, const std::shared_ptr<Tensor>& tensor) {
        planes.push_back(graph_.add_constant(name + plane, held(tensor, name)));
      };
      add("_codes", codes_of(matrix));
      add("_scales", of_blocks(matrix, *matrix.scales, format.scale));
      if (format.has_zero) {
        add("_zeros", matrix.zeros ? of_blocks(matrix, *matrix.zeros, DType::U8)
                                   : std::make_shared<Tensor>(
                                         DType::U8, std::vector<int64_t>{matrix.rows, matrix.blocks(), 1}));
      }
    }
    return name_of(format);
  }

  // Whether all scales are exact in 16 bits.
  static bool fit_half(const Tensor& scales) {
    for (int64_t i = 0; i < scales.count(); ++i) {
      const double scale = scales.as_double(i);
      if (!(rounded_to(DType::F16, scale) == scale)) return false;
    }
    return true;
  }

  static std::shared_ptr<Tensor> codes_of(const BlockMatrix& matrix) {
    const int64_t per_byte = 8 / matrix.bits(), apart = matrix.block / per_byte;
    auto codes =
        std::make_shared<Tensor>(DType::U8, std::vector<int64_t>{matrix.rows, matrix.blocks(), apart});
    for (int64_t row = 0; row < matrix.rows; ++row) {
      for (int64_t column = 0; column < matrix.columns; ++column) {
        const int64_t code = matrix.codes->as_int(matrix.at(row, column, matrix.columns)) + matrix.shift(),
                      inside = column % matrix.block;
        uint8_t& byte = codes->bytes[static_cast<size_t>(
            (row * matrix.blocks() + column / matrix.block) * apart + inside % apart)];
        byte = static_cast<uint8_t>(byte | code << (inside / apart * matrix.bits()));
      }
    }
    return codes;
  }

  // A plane with one number for each block: scales, or zero points of unsigned codes.
  static std::shared_ptr<Tensor> of_blocks(const BlockMatrix& matrix, const Tensor& numbers, DType type) {
    auto plane = std::make_shared<Tensor>(type, std::vector<int64_t>{matrix.rows, matrix.blocks(), 1});
    for (int64_t row = 0; row < matrix.rows; ++row) {
      for (int64_t block = 0; block < matrix.blocks(); ++block) {
        const int64_t from = matrix.at(row, block, matrix.blocks()), to = row * matrix.blocks() + block;
        if (is_float(type)) plane->set(to, numbers.as_double(from));
        else plane->set_int(to, numbers.as_int(from) + matrix.shift());
      }
    }
    return plane;
  }

  Graph& graph_;
  const std::vector<int> producers_;
  std::map<ValueId, std::vector<ValueId>> planes_;
};

}  // namespace

void block_weights(Graph& graph) { BlockWeights(graph).run(); }

}  // namespace tc
