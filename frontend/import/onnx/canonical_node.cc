// Brings an imported node to the form that its row knows, infers it, and computes it where that is cheap.
#include "frontend/import/onnx/canonical_node.h"

#include <stdexcept>

#include "ir/error.h"
#include "ir/fold_node.h"
#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// The most operations on constants that one node may cost while importing.
constexpr double kMaxFolded = 4096;

// Converts attributes that are floats in the row, but that a file may write as integers.
void convert_numbers(Node& node) {
  for (auto& [name, value] : node.attributes) {
    const AttributeRow* row = node.op->attribute(name);
    if (row && std::holds_alternative<double>(row->fallback) && std::holds_alternative<int64_t>(value)) {
      value = static_cast<double>(std::get<int64_t>(value));
    }
  }
}

// Makes outputs whose elements are all known numbers constants; true where that holds for all outputs.
bool known_by_shape(Graph& graph, const Node& node) {
  for (ValueId id : node.outputs) {
    if (id == kNoValue) continue;
    Value& value = graph[id];
    if (!value.elements || !value.shape || !is_constant(*value.shape)) return false;
    for (const Dim& element : *value.elements) {
      if (!element.is_constant()) return false;
    }
    auto data = std::make_shared<Tensor>(value.dtype, constant_shape(*value.shape));
    if (data->count() != static_cast<int64_t>(value.elements->size())) return false;
    for (int64_t i = 0; i < data->count(); ++i)
      data->set_int(i, (*value.elements)[static_cast<size_t>(i)].constant());
    value.constant = data;
  }
  return true;
}

}  // namespace

void make_canonical(Graph& graph, Node& node, const OnnxName& form) {
  std::string why;
  try {
    // Before normalisation only the inputs that every form takes are checked; it turns later inputs into
    // attributes.
    check_inputs(node, /*all=*/false);

    // A hint in the first opsets that has no effect on results.
    if (node.origin.opset < 7) node.attributes.erase("consumed_inputs");
    if (form.normalize) form.normalize(graph, node);
    convert_numbers(node);
    infer_node(graph, node);
    return;
  } catch (const NeedsNumbers& error) {
    throw Error(error.kind(), error.what() + how_to_bind(graph, error.sizes()));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Internal) throw;
    why = error.what();
  } catch (const std::logic_error& error) {
    why = error.what();
  }
  fail(ErrorKind::Model, node.origin.str(), " is malformed: ", why);
}

bool compute_while_importing(Graph& graph, const Node& node) {
  try {
    if (known_by_shape(graph, node)) return true;
    // Quantised weights stay integers until a pass has seen what multiplies them.
    return node.op->traits.quantisation != OpTraits::Quantisation::Dequantize &&
           fold_node(graph, node, kMaxFolded);
  } catch (const Error& error) {
    const std::string who = node.origin.str(), what = error.what();
    if (what.rfind(who, 0) == 0) throw;
    throw Error(error.kind(), who + ": " + what);
  }
}

}  // namespace tc
