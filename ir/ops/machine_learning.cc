// Operators of the domain ai.onnx.ml, as exporters of scikit-learn, XGBoost and LightGBM write them.
#include "ir/ops/rows.h"

namespace tc {

void register_machine_learning_ops(OpTable& table) {
  OpRow binarizer = elementwise({"Binarizer", 1, "select(a > threshold, 1, 0)", 1, "1 where the element is over `threshold`, else 0.",
                                 {{"threshold", 0.0}}});
  binarizer.onnx = {{"Binarizer", 1, nullptr, "ai.onnx.ml"}};
  table.add(binarizer);
}

}  // namespace tc
