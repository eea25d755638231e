#include "frontend/pipeline/block_products.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

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

// The largest code of a format, or 255.
int64_t largest_code(const ExprPtr& code) {
  if (code->kind != Expr::Kind::Binary) return 255;
  const ExprPtr &left = code->operands[0], &right = code->operands[1];
  if (code->binary == BinaryOp::And && right->kind == Expr::Kind::Const) return right->integer;
  if (code->binary == BinaryOp::Or && right->kind == Expr::Kind::Binary && right->binary == BinaryOp::Shl)
    return largest_code(left) | largest_code(right->operands[0]) << right->operands[1]->integer;
  return 255;
}

// The number of digits with which products take the fewest cycles on a target that adds products to sums of
// 16 bits; 0 where floats take fewer. Cycles are those of 16 weights on a unit of 128 bits, whose
// instructions take as long as their results are wide (docs/riscv.md).
int64_t cheaper_digits(const WeightFormat& format, int64_t digits) {
  constexpr int64_t kLargest = 32767, kDigit = 128, kLeastProducts = 3;
  constexpr double kShort = 2, kWide = 4;  // results of 16 and of 32 bits
  const ReadPlane read = [&](size_t plane, const Affine& element) {
    const DType dtype = format.planes[plane].dtype;
    return cast(is_float(dtype) ? DType::F32 : DType::I32, load(dtype, 0, {element}));
  };
  const int64_t largest = largest_code(format.decode(read).code);
  const int64_t together = std::min(kLargest / (kDigit * largest), format.group());
  const auto count = static_cast<double>(digits);
  const double floats = kShort + kWide + kWide;
  // The sums of a group as floats, and their sum.
  const double group_end = 2 * kWide * count / static_cast<double>(format.group());
  const double with_wide_sums = kShort + kWide * count,
               with_short_sums =
                   count * (kShort + kWide / static_cast<double>(std::max<int64_t>(together, 1)));
  return (together >= kLeastProducts ? with_short_sums : with_wide_sums) + group_end < floats ? digits : 0;
}

}  // namespace

void use_integer_products(Graph& graph, const Target& target, double tolerance) {
  // Products, and what each becomes.
  static const std::map<const OpRow*, const OpRow*> dots = {{find_op("BlockMatMul"), find_op("BlockDot")},
                                                            {find_op("ExpertMatMul"), find_op("ExpertDot")}};
  const int64_t digits = digits_for(tolerance);
  const int64_t step = digit_products(target);
  if (digits == 0 || step == 0) return;
  // By operand, group and digits.
  std::map<std::tuple<ValueId, int64_t, int64_t>, std::vector<ValueId>> quantised;
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    const auto dot = dots.find(node.op);
    const int64_t group = dot != dots.end() ? weight_format(string_attribute(node, "format")).group() : 1;
    const bool whole =
        group > 1 && int_attribute(node, "K") % weight_format(string_attribute(node, "format")).block == 0;
    if (whole && group % step == 0) {
      const ValueId operand = node.inputs[0];
      const WeightFormat& format = weight_format(string_attribute(node, "format"));
      const int64_t own = step == 1 ? cheaper_digits(format, digits) : digits;
      std::vector<ValueId>& parts = quantised[{operand, group, own}];
      if (parts.empty()) {
        NodeBuilder build(graph, node);
        parts = build.add_many("BlockQuantize", {operand}, 3, {{"group", group}, {"digits", own}});
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
