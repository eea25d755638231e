#include "frontend/import/onnx/plain_form.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <utility>

#include "frontend/import/onnx/known_operators.h"
#include "frontend/import/onnx/model_file.h"
#include "frontend/import/onnx/tensor_reader.h"
#include "ir/error.h"

namespace tc {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<tc_onnx::NodeProto>;

// The most bytes that all sparse tensors of a file may take as dense ones: the larger of kMinDense and
// kDensePerByte times the file's size.
constexpr int64_t kMinDense = 128 << 20;
constexpr int64_t kDensePerByte = 3;
// The most nodes of a circle that an error names.
constexpr size_t kMaxNamed = 8;

void add_reads(const tc_onnx::NodeProto& node, int depth, std::vector<std::string>& names) {
  if (depth > kDeepestSubgraph) {
    fail(ErrorKind::Model, "subgraphs lie more than ", kDeepestSubgraph,
         " deep in the model; export it again");
  }
  names.insert(names.end(), node.input().begin(), node.input().end());
  const auto add_graph = [&](const tc_onnx::GraphProto& graph) {
    std::set<std::string> own;
    std::vector<std::string> used;
    for (const auto& input : graph.input()) own.insert(input.name());
    for (const auto& initializer : graph.initializer()) own.insert(initializer.name());
    for (const auto& inner : graph.node()) {
      own.insert(inner.output().begin(), inner.output().end());
      add_reads(inner, depth + 1, used);
    }
    for (const auto& output : graph.output()) used.push_back(output.name());
    std::copy_if(used.begin(), used.end(), std::back_inserter(names),
                 [&](const std::string& name) { return !own.count(name); });
  };
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) add_graph(attribute.g());
  }
}

// --- order --------------------------------------------------------------------------------------------

// The nodes of one graph, and which other nodes each of them needs.
class NodeOrder {
 public:
  NodeOrder(Nodes& nodes, const std::string& file_name) : nodes_(nodes), file_name_(file_name) {}

  // Sorts the nodes; true where they were in another order.
  bool sort() {
    std::map<std::string, int> makers;
    for (int i = 0; i < nodes_.size(); ++i) {
      for (const std::string& output : nodes_[i].output()) {
        if (!output.empty()) makers.emplace(output, i);
      }
    }
    needed_.resize(static_cast<size_t>(nodes_.size()));
    bool sorted = true;
    for (int i = 0; i < nodes_.size(); ++i) {
      for (const std::string& name : reads_of(nodes_[i])) {
        const auto maker = makers.find(name);
        if (maker == makers.end() || !needed_[static_cast<size_t>(i)].insert(maker->second).second) continue;
        sorted = sorted && maker->second < i;
      }
    }
    if (!sorted) rearrange();
    return !sorted;
  }

 private:
  // Repeatedly takes, of the nodes that may come next, the one that is first in the file.
  void rearrange() {
    std::vector<std::vector<int>> readers(needed_.size());
    std::vector<size_t> missing;
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (size_t i = 0; i < needed_.size(); ++i) {
      for (int maker : needed_[i]) readers[static_cast<size_t>(maker)].push_back(static_cast<int>(i));
      missing.push_back(needed_[i].size());
      if (missing[i] == 0) ready.push(static_cast<int>(i));
    }
    std::vector<int> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (int reader : readers[static_cast<size_t>(order.back())]) {
        if (--missing[static_cast<size_t>(reader)] == 0) ready.push(reader);
      }
    }
    if (order.size() < needed_.size()) refuse_circle(missing);
    Nodes sorted;
    sorted.Reserve(nodes_.size());
    for (int i : order) sorted.Add()->Swap(nodes_.Mutable(i));
    nodes_.Swap(&sorted);
  }

  [[noreturn]] void refuse_circle(const std::vector<size_t>& missing) const {
    // Each node left needs another one that is left, so following these long enough ends in a circle.
    std::vector<int> path;
    std::map<int, size_t> seen;
    int at = static_cast<int>(
        std::find_if(missing.begin(), missing.end(), [](size_t count) { return count > 0; }) -
        missing.begin());
    while (seen.emplace(at, path.size()).second) {
      path.push_back(at);
      const std::set<int>& needed = needed_[static_cast<size_t>(at)];
      at = *std::find_if(needed.begin(), needed.end(),
                         [&](int maker) { return missing[static_cast<size_t>(maker)] > 0; });
    }
    path.erase(path.begin(), path.begin() + static_cast<int64_t>(seen.at(at)));
    std::string circle = named(path[0]);
    for (size_t i = 1; i < path.size(); ++i) {
      if (i == kMaxNamed) circle += text(", and so on through ", path.size() - i, " more");
      if (i < kMaxNamed) circle += text(i > 1 ? ", which" : "", " needs ", named(path[i]));
    }
    circle += path.size() > 1 ? text(", which needs ", named(path[0])) : " needs itself";
    fail(ErrorKind::Model, "'", file_name_, "' has nodes that cannot be computed in any order: ", circle,
         "; export it again");
  }

  std::string named(int i) const { return text("'", node_name(nodes_[i]), "' (", nodes_[i].op_type(), ")"); }

  Nodes& nodes_;
  const std::string& file_name_;
  std::vector<std::set<int>> needed_;
};

// --- sparse tensors -----------------------------------------------------------------------------------

// The sparse tensors of one file.
class Densifier {
 public:
  Densifier(const std::string& file_name, int64_t file_bytes)
      : file_name_(file_name),
        most_(std::min<int64_t>(std::max(kMinDense, kDensePerByte * file_bytes), INT32_MAX)) {}

  tc_onnx::TensorProto dense(const tc_onnx::SparseTensorProto& sparse) {
    const std::string where = text("sparse tensor '", sparse.values().name(), "' of ", file_name_);
    for (const auto* part : {&sparse.values(), &sparse.indices()}) {
      if (part->data_location() == tc_onnx::TensorProto::EXTERNAL) {
        fail(ErrorKind::Unsupported, where,
             " has external data, which is not read for sparse tensors; keep them in the model's file");
      }
    }
    const TensorPtr values = read_tensor(sparse.values(), "", file_name_),
                    indices = read_tensor(sparse.indices(), "", file_name_);
    if (bits_of(values->dtype) < 8)
      fail(ErrorKind::Unsupported, where, " has elements of type ", name_of(values->dtype),
           "; make it dense");
    const std::vector<int64_t> shape(sparse.dims().begin(), sparse.dims().end());
    const int64_t count = counted(shape, where), size = size_of(values->dtype);
    if (count > (most_ - spent_) / size) {
      fail(ErrorKind::Unsupported, where, " has ", count,
           " elements; as dense tensors all sparse ones of this model may take ", most_,
           " bytes (128 MB, or 3 "
           "times what the model has); write it dense");
    }
    spent_ += count * size;
    std::string bytes(static_cast<size_t>(count * size), '\0');
    const std::vector<int64_t> places = places_of(*indices, values->shape, shape, count, where);
    for (size_t i = 0; i < places.size(); ++i) {
      std::memcpy(bytes.data() + places[i] * size, values->bytes.data() + static_cast<int64_t>(i) * size,
                  static_cast<size_t>(size));
    }
    tc_onnx::TensorProto result;
    result.set_name(sparse.values().name());
    result.set_data_type(onnx_number_of(values->dtype));
    for (int64_t extent : shape) result.add_dims(extent);
    result.set_raw_data(std::move(bytes));
    return result;
  }

  void in_graph(tc_onnx::GraphProto& graph, int depth) {
    for (const auto& sparse : graph.sparse_initializer()) *graph.add_initializer() = dense(sparse);
    graph.clear_sparse_initializer();
    in_nodes(*graph.mutable_node(), depth);
  }

  void in_nodes(Nodes& nodes, int depth) {
    if (depth > kDeepestSubgraph) return;  // the importer refuses it
    for (auto& node : nodes) {
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) in_graph(*attribute.mutable_g(), depth + 1);
        if (!attribute.has_sparse_tensor()) continue;
        *attribute.mutable_t() = dense(attribute.sparse_tensor());
        attribute.clear_sparse_tensor();
        attribute.set_type(tc_onnx::AttributeProto::TENSOR);
      }
    }
  }

 private:
  static int64_t counted(const std::vector<int64_t>& shape, const std::string& where) {
    try {
      return checked_count(shape);
    } catch (const Error& error) {
      fail(ErrorKind::Model, where, ": ", error.what());
    }
  }

  // The row-major position of each value. `indices` are of shape [values] or [values, axes].
  static std::vector<int64_t> places_of(const Tensor& indices, const std::vector<int64_t>& values,
                                        const std::vector<int64_t>& shape, int64_t count,
                                        const std::string& where) {
    const auto rank = static_cast<int64_t>(shape.size());
    const bool coordinates = indices.shape.size() == 2;
    const bool fits = values.size() == 1 && (coordinates || indices.shape.size() == 1) &&
                      indices.shape[0] == values[0] && (!coordinates || indices.shape[1] == rank);
    if (!fits || indices.dtype != DType::I64) {
      fail(ErrorKind::Model, where, " has values of shape ", str(shape_of(values)), " and indices of type ",
           name_of(indices.dtype), " and shape ", str(shape_of(indices.shape)), "; [n] and i64, [n] or [n, ",
           rank, "], are needed");
    }
    std::vector<int64_t> places;
    for (int64_t i = 0; i < values[0]; ++i) {
      int64_t place = coordinates ? 0 : indices.as_int(i);
      bool inside = place >= 0 && place < count;
      for (int64_t axis = 0; coordinates && axis < rank; ++axis) {
        const int64_t at = indices.as_int(i * rank + axis), extent = shape[static_cast<size_t>(axis)];
        inside = inside && at >= 0 && at < extent;
        if (inside) place = place * extent + at;
      }
      if (!inside)
        fail(ErrorKind::Model, where, ": index ", i, " is outside of its shape ", str(shape_of(shape)));
      if (!places.empty() && place <= places.back())
        fail(ErrorKind::Model, where, ": index ", i, " does not come behind the one before it");
      places.push_back(place);
    }
    return places;
  }

  const std::string& file_name_;
  int64_t most_, spent_ = 0;  // bytes
};

// --- both ---------------------------------------------------------------------------------------------

// Sorts the nodes of a graph and of its subgraphs. Returns how many of these graphs were in another order.
int sort_all(Nodes& nodes, const std::string& file_name, int depth) {
  if (depth > kDeepestSubgraph) return 0;
  int count = NodeOrder(nodes, file_name).sort() ? 1 : 0;
  for (auto& node : nodes) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) count += sort_all(*attribute.mutable_g()->mutable_node(), file_name, depth + 1);
    }
  }
  return count;
}

}  // namespace

std::vector<std::string> reads_of(const tc_onnx::NodeProto& node) {
  std::vector<std::string> names;
  add_reads(node, 0, names);
  return names;
}

void bring_to_plain_form(tc_onnx::ModelProto& model, const std::string& file_name) {
  model.clear_note();
  Densifier densifier(file_name, static_cast<int64_t>(model.ByteSizeLong()));
  densifier.in_graph(*model.mutable_graph(), 0);
  int sorted = sort_all(*model.mutable_graph()->mutable_node(), file_name, 0);
  for (auto& function : *model.mutable_functions()) {
    densifier.in_nodes(*function.mutable_node(), 1);
    sorted += sort_all(*function.mutable_node(), file_name, 1);
  }
  if (sorted > 0) {
    model.set_note(text("the nodes of ", sorted, sorted == 1 ? " graph" : " graphs",
                        " of the file stood in another order than they are computed in, and were sorted"));
  }
}

}  // namespace tc
