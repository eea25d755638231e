// What the classifiers and regressors of ai.onnx.ml share: labels, and transforms of their scores.
#pragma once

#include <string>
#include <vector>

#include "ir/ops/rows.h"

namespace tc {

// Further rows of ai.onnx.ml, which register_machine_learning_ops registers.
void register_label_encoder(OpTable& table);
void register_support_vector_ops(OpTable& table);

// A row of ai.onnx.ml, which expands into others.
OpRow ml_row(const std::string& name, const std::string& doc, void (*infer)(InferContext&),
             std::vector<Node> (*expand)(Graph&, const Node&));

extern const std::vector<std::string> kPostTransforms;

// Adds the attributes `classlabels_int64s` (and its older name) and `classlabels_strings` to the row.
void add_label_attributes(OpRow& row);
// The integer labels of the classes; Model error naming the node where there are none. String labels have
// been replaced before a graph exists.
std::vector<int64_t> class_labels(const Node& node);

// Scores [samples, classes] transformed by NONE, SOFTMAX, LOGISTIC or SOFTMAX_ZERO (a softmax of the scores
// that are not 0).
ValueId post_transformed(NodeBuilder& build, ValueId scores, const std::string& transform);

// Makes the label of the largest of `raw` the first output of the node, and `scores` the second.
void give_classes(NodeBuilder& build, const Node& node, ValueId raw, ValueId scores);

// How a single score, that of the second of two classes, is interpreted.
struct TwoClasses {
  bool probability = false;  // the second label is given where the score is over 0.5, else where it is over 0
  bool complement = false;   // the two classes' scores are 1 - s and s, else -s and s
  std::string transform = "NONE";
};
// The same for `raw` [samples, 1].
void give_two_classes(NodeBuilder& build, const Node& node, ValueId raw, const TwoClasses& how);

}  // namespace tc
