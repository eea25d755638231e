// Finds 64-bit products whose factors fit 32 bits: most vector instruction sets have an instruction for
// these.
#include <limits>

#include "ir/ops/rows.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

// The constant as numbers of 32 bits; null where one does not fit, or none is a constant of 64 bits.
TensorPtr narrowed(const TensorPtr& wide) {
  if (!wide || wide->dtype != DType::I64) return nullptr;
  auto result = std::make_shared<Tensor>(DType::I32, wide->shape);
  for (int64_t i = 0; i < wide->count(); ++i) {
    const int64_t number = wide->as_int(i);
    if (number < std::numeric_limits<int32_t>::min() || number > std::numeric_limits<int32_t>::max())
      return nullptr;
    result->set_int(i, number);
  }
  return result;
}

}  // namespace

void wide_products(Graph& graph) {
  const auto producers = graph.producers();
  for (Node& node : graph.nodes) {
    if (node.op->traits.binary != BinaryOp::Mul || graph[node.outputs[0]].dtype != DType::I64) continue;
    const int maker = producers[static_cast<size_t>(node.inputs[0])];
    if (maker < 0) continue;
    const Node& cast = graph.nodes[static_cast<size_t>(maker)];
    if (cast.op->name != "Cast" || graph[cast.inputs[0]].dtype != DType::I32) continue;
    const TensorPtr factors = narrowed(graph[node.inputs[1]].constant);
    if (!factors) continue;
    Node product = node;
    product.op = find_op("WideProduct");
    product.inputs = {cast.inputs[0], graph.add_constant(graph[node.inputs[1]].name + "_narrow", factors)};
    node = std::move(product);
  }
}

}  // namespace tc
