// The table of all operators and its look-ups.
#include <algorithm>

#include "ir/ops/quantised_rows.h"

namespace tc {
namespace {

struct Form {
  const OpRow* row;
  const OnnxName* name;
};

// Forms of one ONNX operator, ordered by the first opset that they hold for.
using OnnxIndex = std::map<std::pair<std::string, std::string>, std::vector<Form>>;

std::map<std::string, OpRow> make_table() {
  OpTable table;
  register_activation_ops(table);
  register_arithmetic_ops(table);
  register_attention_ops(table);
  register_rotary_ops(table);
  register_causal_product_ops(table);
  register_compare_ops(table);
  register_contributed_attention_ops(table);
  register_control_ops(table);
  register_convolution_ops(table);
  register_determinant_ops(table);
  register_einsum_ops(table);
  register_gather_ops(table);
  register_linear_attention_ops(table);
  register_loss_ops(table);
  register_machine_learning_ops(table);
  register_matmul_ops(table);
  register_movement_ops(table);
  register_ngram_ops(table);
  register_normalization_ops(table);
  register_packed_weight_ops(table);
  register_part_ops(table);
  register_pooling_ops(table);
  register_quantize_ops(table);
  register_random_ops(table);
  register_recurrent_ops(table);
  register_region_ops(table);
  register_reduction_ops(table);
  register_resize_ops(table);
  register_sampling_ops(table);
  register_selection_ops(table);
  register_shape_ops(table);
  register_sorting_ops(table);
  register_suppression_ops(table);
  register_transformer_ops(table);
  register_tree_ops(table);
  register_signal_ops(table);
  register_unpooling_ops(table);
  register_view_ops(table);
  register_contributed_quantised_ops(table);  // copies rows registered above
  register_block_weight_ops(table);
  register_optimised_ops(table);
  register_old_forms(table);
  return std::move(table.rows);
}

OnnxIndex make_index() {
  OnnxIndex index;
  for (const auto& [name, row] : op_table()) {
    for (const OnnxName& form : row.onnx) {
      index[{form.domain, form.name}].push_back({&row, &form});
    }
  }
  for (auto& [name, forms] : index) {
    std::stable_sort(forms.begin(), forms.end(),
                     [](const Form& a, const Form& b) { return a.name->since < b.name->since; });
  }
  return index;
}

}  // namespace

OpRow& OpTable::add(OpRow row) {
  TC_CHECK(!rows.count(row.name), "operator ", row.name, " has one row");
  return rows.emplace(row.name, std::move(row)).first->second;
}

const std::map<std::string, OpRow>& op_table() {
  static const std::map<std::string, OpRow> table = make_table();
  return table;
}

const OpRow* find_op(const std::string& name) {
  auto found = op_table().find(name);
  return found == op_table().end() ? nullptr : &found->second;
}

const OpRow* find_onnx_op(const std::string& domain, const std::string& type, int opset,
                          const OnnxName** form) {
  static const OnnxIndex index = make_index();
  auto found = index.find({domain == "ai.onnx" ? "" : domain, type});
  const OpRow* row = nullptr;
  if (found == index.end()) return row;
  for (const Form& candidate : found->second) {
    if (candidate.name->since > opset) break;
    row = candidate.row;
    if (form) *form = candidate.name;
  }
  return row;
}

const AttributeRow* OpRow::attribute(const std::string& attribute) const {
  for (const AttributeRow& candidate : attributes) {
    if (candidate.name == attribute) return &candidate;
  }
  return nullptr;
}

}  // namespace tc
