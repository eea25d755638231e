// Activation functions: formulas of one element.
#include "ir/ops/rows.h"

namespace tc {

void register_activation_ops(OpTable& table) {
  // clang-format off
  const ElementwiseRow rows[] = {
      {"Relu", 1, "max(a, 0)", 1, "Larger of the element and 0."},
      {"LeakyRelu", 1, "select(a < 0, alpha * a, a)", 1, "Slope `alpha` below 0.", {{"alpha", 0.01}}},
      {"ThresholdedRelu", 10, "select(a > alpha, a, 0)", 1, "The element where it is over `alpha`, else 0.",
       {{"alpha", 1.0}}, ResultType::Same, {{"ThresholdedRelu", 1}}},
      {"Elu", 1, "select(a < 0, alpha * (exp(a) - 1), a)", 1, "Exponential linear unit.", {{"alpha", 1.0}}},
      {"Celu", 12, "max(a, 0) + min(alpha * (exp(a / alpha) - 1), 0)", 1,
       "Continuously differentiable exponential linear unit.", {{"alpha", 1.0}}},
      {"Selu", 1, "gamma * select(a > 0, a, alpha * exp(a) - alpha)", 1, "Scaled exponential linear unit.",
       {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}}},
      {"Sigmoid", 1, "sigmoid(a)", 1, "1 / (1 + exp(-a))."},
      {"HardSigmoid", 1, "max(0, min(1, alpha * a + beta))", 1, "Piecewise linear sigmoid.",
       {{"alpha", 0.2}, {"beta", 0.5}}},
      {"HardSwish", 14, "a * max(0, min(1, a * 0.16666666666666666 + 0.5))", 1,
       "The element times its hard sigmoid."},
      {"Swish", 24, "a * sigmoid(alpha * a)", 1, "The element times its sigmoid.", {{"alpha", 1.0}}},
      {"LogSigmoid", 1, "min(a, 0) - log1p(exp(-abs(a)))", 1, "Logarithm of the sigmoid.", {},
       ResultType::Same, {}, "tc"},
      {"Tanh", 1, "tanh(a)", 1, "Hyperbolic tangent."},
      {"Softplus", 1, "max(a, 0) + log1p(exp(-abs(a)))", 1, "log(1 + exp(a))."},
      {"Softsign", 1, "a / (1 + abs(a))", 1, "a / (1 + |a|)."},
      {"Mish", 18, "a * tanh(max(a, 0) + log1p(exp(-abs(a))))", 1, "a * tanh(softplus(a))."},
      {"PRelu", 1, "select(a < 0, a * b, a)", 2, "Slope b below 0, one per element under broadcasting."},
      {"Shrink", 9, "select(a < -lambd, a + bias, select(a > lambd, a - bias, 0))", 1,
       "Elements near 0 become 0, the others move towards it by `bias`.", {{"lambd", 0.5}, {"bias", 0.0}}},
      {"SwiGLU", 28, "a * sigmoid(alpha * a) * b", 2, "The first operand times its sigmoid times the second.",
       {{"alpha", 1.0}}},
      {"QuickGelu", 1, "a * sigmoid(alpha * a)", 1, "Gelu by a sigmoid of slope `alpha`.", {{"alpha", 1.702}},
       ResultType::Same, {}, "com.microsoft"},
  };
  // clang-format on
  for (const ElementwiseRow& row : rows) {
    OpRow& added = table.add(elementwise(row));
    added.traits.homogeneous = row.name == "Relu" || row.name == "LeakyRelu";
  }

  OpRow gelu = elementwise({"Gelu", 20, "0.5 * a * (1 + erf(a * 0.7071067811865475244))", 1,
                            "Gaussian error linear unit; `approximate` is `none` or `tanh`."});
  gelu.attributes = {{"approximate", std::string("none"), false, "", one_of({"none", "tanh"})}};
  gelu.cases = {{{{"approximate", std::string("tanh")}},
                 "0.5 * a * (1 + tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)))"}};
  gelu.onnx.push_back({"Gelu", 1, nullptr, "com.microsoft"});
  table.add(std::move(gelu));
}

}  // namespace tc
