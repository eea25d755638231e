// What the classifiers and regressors of ai.onnx.ml share: labels, and what becomes of their scores.
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

// Adds `classlabels_int64s` (and its old name) and `classlabels_strings` to the row.
void add_label_attributes(OpRow& row);
// The numbers of the classes; Model error naming the node where there are none. Names are no longer in a
// graph.
std::vector<int64_t> class_labels(const Node& node);

// Scores [samples, classes] by NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO (a softmax of the scores that are not 0)
// or PROBIT.
ValueId post_transformed(NodeBuilder& build, ValueId scores, const std::string& transform);

// Makes the label of the largest of `raw` the first output of the node, and `scores` the second.
void give_classes(NodeBuilder& build, const Node& node, ValueId raw, ValueId scores);

// How one score for the second of two classes is read.
struct TwoClasses {
  bool probability = false;  // the label is the second one from over 0.5, else over 0, on
  bool complement = false;   // the scores are 1 - s and s, else -s and s
  std::string transform = "NONE";
};
// The same for `raw` [samples, 1].
void give_two_classes(NodeBuilder& build, const Node& node, ValueId raw, const TwoClasses& how);

}  // namespace tc
