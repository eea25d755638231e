#include "frontend/pipeline/block_products.h"

#include <iterator>
#include <map>

#include "ir/ops/op.h"
#include "ir/ops/rows.h"
#include "ir/ops/weight_formats.h"
#include "ir/target/narrow_product.h"
#include "scheduler/algebra/algorithms.h"

namespace tc {
namespace {

// The error of a product whose operand has one, two or three digits, relative to the product's largest
// result, for normally distributed numbers. A number is off by at most 2^-8, 2^-16 or 2^-24 of the largest of
// its group, and the errors of a sum's terms add up as random ones do.
constexpr double kErrorOfDigits[] = {6e-3, 2.5e-5, 1e-7};

// How many digits the tolerance asks for; 0 where no number of digits is accurate enough.
int64_t digits_for(double tolerance) {
  for (size_t i = 0; i < std::size(kErrorOfDigits); ++i) {
    if (tolerance >= kErrorOfDigits[i] * kLayers) return static_cast<int64_t>(i) + 1;
  }
  return 0;
}

}  // namespace

void use_integer_products(Graph& graph, const Target& target, double tolerance) {
  // Products, and what each becomes.
  static const std::map<const OpRow*, const OpRow*> dots = {{find_op("BlockMatMul"), find_op("BlockDot")},
                                                            {find_op("ExpertMatMul"), find_op("ExpertDot")}};
  const int64_t digits = digits_for(tolerance);
  if (digits == 0 || byte_products(target) == 0) return;
  std::map<std::pair<ValueId, int64_t>, std::vector<ValueId>> quantised;  // by operand and group
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    const auto dot = dots.find(node.op);
    const int64_t group = dot != dots.end() ? weight_format(string_attribute(node, "format")).group() : 1;
    const bool whole =
        group > 1 && int_attribute(node, "K") % weight_format(string_attribute(node, "format")).block == 0;
    if (whole && group % byte_products(target) == 0) {
      const ValueId operand = node.inputs[0];
      std::vector<ValueId>& parts = quantised[{operand, group}];
      if (parts.empty()) {
        NodeBuilder build(graph, node);
        parts = build.add_many("BlockQuantize", {operand}, 3, {{"group", group}, {"digits", digits}});
        for (Node& each : build.take()) nodes.push_back(std::move(each));
      }
      node.op = dot->second;
      node.inputs.erase(node.inputs.begin());
      node.inputs.insert(node.inputs.begin(), parts.begin(), parts.end());
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace tc
