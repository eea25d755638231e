// Signed bytes that sums of products read become unsigned bytes, or the other way round.
//
// Weights are signed. Most instructions that sum up products of bytes multiply unsigned bytes by signed ones
// (`vpdpbusd`); some accelerators multiply signed ones. For the former, a number V is stored as V + 128, and
// its zero point likewise. 128 times the sum of a channel's weights, a constant, is subtracted from that
// channel's sums before they are scaled. Often the zero point becomes 0, as after an activation that clamps
// at 0; then padding needs no step of its own. For the latter, an unsigned number V is stored as V - 128.
#include <algorithm>
#include <map>
#include <set>

#include "ir/ops/rows.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"
#include "ir/passes/quantised.h"

namespace tc {
namespace {

using Contraction = OpTraits::Contraction;
using Movement = OpTraits::Movement;
using Quantisation = OpTraits::Quantisation;

constexpr int64_t kOffset = 128;

// Bytes of which type become which, by adding `offset`.
struct Change {
  DType from, to;
  int64_t offset;
  const char* suffix;  // of names
};
constexpr Change kToUnsigned = {DType::I8, DType::U8, kOffset, "_unsigned"};
constexpr Change kToSigned = {DType::U8, DType::I8, -kOffset, "_signed"};

// The constant with so much added to each number.
TensorPtr shifted(const Tensor& tensor, DType type, int64_t offset) {
  auto result = std::make_shared<Tensor>(type, tensor.shape);
  for (int64_t i = 0; i < tensor.count(); ++i) result->set_int(i, tensor.as_int(i) + offset);
  return result;
}

bool is_cast(const Node& node, DType to) {
  return node.op->name == "Cast" && dtype_from_name(string_attribute(node, "to")) == to;
}

bool joins(const Node& node) { return node.op->traits.movement == Movement::Join; }

// How many of its inputs a movement takes elements from.
size_t operands(const Node& node) { return joins(node) ? node.inputs.size() : 1; }

// Whether the node pads by what becomes 0.
bool pads_by_zero(const Graph& graph, const Node& node, const Change& change) {
  if (node.op->traits.movement != Movement::Pad || string_attribute(node, "mode") != "constant") return false;
  const double value = input_given(node, 1) ? scalar_of(graph, node.inputs[1]).value_or(0) : 0;
  return value + static_cast<double>(change.offset) == 0;
}

bool is_grouped(const Node& node) { return has_attribute(node, "group") && int_attribute(node, "group") > 1; }

class Signs {
 public:
  // With `only_padded`, values that an ungrouped product reads keep their sign unless padding becomes 0.
  Signs(Graph& graph, const Change& change, bool only_padded = false)
      : graph_(graph),
        change_(change),
        only_padded_(only_padded),
        producers_(graph.producers()),
        consumers_(graph.consumers()) {}

  void run() {
    connect();
    choose();
    if (chosen_.empty()) return;
    for (const ValueId id : chosen_)
      fresh_[id] = graph_.fresh_value(graph_[id].name + change_.suffix, change_.to, graph_[id].shape);
    merge_additions();
    old_ = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (const ValueId id : graph_.inputs) {
      if (is_chosen(id)) convert(old_.front(), id, fresh_[id], change_.to);
    }
    for (size_t i = 0; i < old_.size(); ++i) {
      if (absorbed_.count(i) > 0) continue;
      rewrite(old_[i], i);
      for (const ValueId id : old_[i].outputs) {
        if (is_chosen(id) && is_output(graph_, id)) convert(old_[i], fresh_[id], id, change_.from);
      }
    }
  }

 private:
  bool is_candidate(ValueId id) const {
    return id != kNoValue && graph_[id].dtype == change_.from && !graph_[id].constant;
  }
  bool is_chosen(ValueId id) const { return id != kNoValue && chosen_.count(id) > 0; }
  const Node* maker(ValueId id) const {
    const int node = producers_[static_cast<size_t>(id)];
    return node < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(node)];
  }

  // --- which values ---

  // Whether the node is a movement: its results contain only elements of its operands and, if it pads, a
  // known constant.
  bool moves(const Node& node) const {
    if (node.op->traits.movement == Movement::Pad) {
      return string_attribute(node, "mode") != "constant" ||
             (input_given(node, 1) && scalar_of(graph_, node.inputs[1]).has_value());
    }
    return moves_elements(graph_, node);
  }

  ValueId root(ValueId id) {
    auto found = parents_.try_emplace(id, id).first;
    if (found->second == id) return id;
    return found->second = root(found->second);
  }

  void connect() {
    for (const Node& node : graph_.nodes) {
      if (node.inputs.empty() || !is_candidate(node.inputs[0]) || !moves(node)) continue;
      for (const ValueId result : node.outputs) {
        for (size_t i = 0; i < operands(node) && result != kNoValue; ++i) {
          if (is_candidate(node.inputs[i])) parents_[root(node.inputs[i])] = root(result);
        }
      }
    }
  }

  // Whether the value is an input of the graph, or the node that computes it can give it as unsigned bytes.
  bool can_make(ValueId id) const {
    const Node* node = maker(id);
    if (node == nullptr)
      return std::find(graph_.inputs.begin(), graph_.inputs.end(), id) != graph_.inputs.end();
    if (is_cast(*node, change_.from))
      return graph_[node->inputs[0]].dtype == DType::I32 ||
             (graph_[node->inputs[0]].dtype == DType::F32 && !saturates(*node));
    if (node->op->traits.quantisation == Quantisation::Quantize)
      return input_given(*node, 2) && graph_[node->inputs[2]].constant;
    if (is_table(*node)) return true;
    return !node->inputs.empty() && is_candidate(node->inputs[0]) && moves(*node);
  }
  // Whether negative numbers become 0 by the cast, which they do not by one to signed bytes.
  bool saturates(const Node& cast) const {
    return change_.from == DType::U8 && is_float(graph_[cast.inputs[0]].dtype);
  }
  // Whether the node looks elements up in a constant, as functions of one byte do.
  bool is_table(const Node& node) const {
    return node.op->name == "Gather" && graph_[node.inputs[0]].constant != nullptr;
  }

  bool can_read(const Node& node, ValueId id) const {
    if (std::count(node.inputs.begin(), node.inputs.end(), id) > 1 && !joins(node)) return false;
    if (sums(node, id)) return true;
    if (node.inputs[0] == id && is_cast(node, DType::I32)) return true;
    if (node.inputs[0] == id && node.op->traits.quantisation == Quantisation::Dequantize) {
      return !input_given(node, 2) || graph_[node.inputs[2]].constant;
    }
    return moves(node) && (node.inputs[0] == id || joins(node));
  }

  // Whether the node adds up products of the bytes by constant weights, without padding of its own.
  bool sums(const Node& node, ValueId id) const {
    const Contraction kind = node.op->traits.contraction;
    if ((kind != Contraction::Convolution && kind != Contraction::Product) ||
        graph_[node.outputs[0]].dtype != DType::I32)
      return false;
    if (node.inputs[0] != id || node.inputs.size() != 2 || !graph_[node.inputs[1]].constant) return false;
    if (kind == Contraction::Product) return graph_[node.inputs[1]].constant->shape.size() == 2;
    if (has_attribute(node, "pads")) {
      const auto pads = ints_attribute(node, "pads");
      if (std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; })) return false;
    }
    const std::string automatic = string_attribute(node, "auto_pad");
    return automatic == "VALID" || automatic == "NOTSET";
  }

  // Whether the bytes are dequantised and then multiplied by weights, which integer_products turns into a
  // product of the bytes.
  bool feeds_sums(const Node& node) const {
    if (node.op->traits.quantisation != Quantisation::Dequantize) return false;
    for (const int reader : consumers_[static_cast<size_t>(node.outputs[0])]) {
      const Node& next = graph_.nodes[static_cast<size_t>(reader)];
      if (next.op->traits.contraction != Contraction::None && next.op->traits.of_bytes != nullptr &&
          next.inputs[0] == node.outputs[0])
        return true;
    }
    return false;
  }

  void choose() {
    std::set<ValueId> summed, unfit, padded, whole;
    std::vector<ValueId> candidates;
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
      if (!is_candidate(id) || (maker(id) == nullptr && consumers_[static_cast<size_t>(id)].empty()))
        continue;
      candidates.push_back(id);
      if (!can_make(id)) unfit.insert(root(id));
      for (const int reader : consumers_[static_cast<size_t>(id)]) {
        const Node& node = graph_.nodes[static_cast<size_t>(reader)];
        if (!can_read(node, id)) unfit.insert(root(id));
        if (sums(node, id) || feeds_sums(node)) summed.insert(root(id));
        if (pads_by_zero(graph_, node, change_)) padded.insert(root(id));
        if (sums(node, id) && !is_grouped(node)) whole.insert(root(id));
      }
    }
    const auto keeps_sign = [&](ValueId id) {
      return only_padded_ && whole.count(root(id)) > 0 && padded.count(root(id)) == 0;
    };
    for (const ValueId id : candidates) {
      if (summed.count(root(id)) > 0 && unfit.count(root(id)) == 0 && !keeps_sign(id)) chosen_.insert(id);
    }
  }

  // --- constants that are added before and behind ---

  // The only reader of the value, if it adds or subtracts a constant; else -1.
  int addition_behind(ValueId id) const {
    const int reader = only_reader(graph_, consumers_, id);
    if (reader < 0) return -1;
    const Node& node = graph_.nodes[static_cast<size_t>(reader)];
    return is_addition(node) && node.inputs[0] == id ? reader : -1;
  }
  bool is_addition(const Node& node) const {
    const auto op = node.op->traits.binary;
    return (op == BinaryOp::Add || op == BinaryOp::Sub) && node.inputs.size() == 2 &&
           graph_[node.inputs[1]].constant && graph_[node.inputs[1]].dtype == DType::I32;
  }

  // An addition just before a value becomes a byte, or just after it is widened again or summed up, absorbs
  // the offset.
  void merge_additions() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const ValueId first = node.inputs.empty() ? kNoValue : node.inputs[0];
      if (is_cast(node, change_.from) && is_chosen(node.outputs[0])) {
        const int before = producers_[static_cast<size_t>(first)];
        if (before < 0 || only_reader(graph_, consumers_, first) != static_cast<int>(i)) continue;
        const Node& addition = graph_.nodes[static_cast<size_t>(before)];
        if (is_addition(addition) && graph_[addition.inputs[1]].constant->count() == 1)
          absorbed_.insert(static_cast<size_t>(before));
      } else if (is_chosen(first) && (is_cast(node, DType::I32) || sums(node, first))) {
        const int behind = addition_behind(node.outputs[0]);
        if (behind < 0) continue;
        const Tensor& added = *graph_[graph_.nodes[static_cast<size_t>(behind)].inputs[1]].constant;
        if (is_cast(node, DType::I32)) compensated_[static_cast<size_t>(behind)] = {change_.offset};
        else if (fits(node, added)) compensated_[static_cast<size_t>(behind)] = compensation(node);
      }
    }
    // An addition that is both subtracts the compensation and is not replaced.
    for (const auto& [place, amounts] : compensated_) absorbed_.erase(place);
  }

  int64_t channels(const Node& node) const {
    const std::vector<int64_t>& shape = graph_[node.inputs[1]].constant->shape;
    return node.op->traits.contraction == Contraction::Product ? shape[1] : shape[0];
  }
  // What has to be subtracted from each channel's sums: the offset times the sum of the channel's weights.
  std::vector<int64_t> compensation(const Node& node) const {
    const Tensor& weights = *graph_[node.inputs[1]].constant;
    const bool product = node.op->traits.contraction == Contraction::Product;
    const int64_t count = channels(node), each = weights.count() / std::max<int64_t>(count, 1);
    std::vector<int64_t> result(static_cast<size_t>(count), 0);
    for (int64_t i = 0; i < weights.count(); ++i)
      result[static_cast<size_t>(product ? i % count : i / each)] += change_.offset * weights.as_int(i);
    return result;
  }
  // The shape in which one number for each channel broadcasts to the result.
  std::vector<int64_t> shape_of_channels(const Node& node) const {
    std::vector<int64_t> shape = {channels(node)};
    if (node.op->traits.contraction == Contraction::Convolution)
      shape.resize(graph_[node.inputs[0]].shape->size() - 1, 1);
    return shape;
  }
  bool fits(const Node& node, const Tensor& added) const {
    const std::vector<int64_t> expected = shape_of_channels(node);
    std::vector<int64_t> shape = added.shape;
    while (shape.size() > expected.size() && shape.front() == 1) shape.erase(shape.begin());
    return shape == expected;
  }

  // --- rewriting ---

  ValueId now(ValueId id) const { return is_chosen(id) ? fresh_.at(id) : id; }

  void keep(NodeBuilder& build) {
    for (Node& each : build.take()) graph_.nodes.push_back(std::move(each));
  }

  // Converts bytes from signed to unsigned, or back.
  void convert(const Node& by, ValueId from, ValueId to, DType type) {
    NodeBuilder build(graph_, by);
    const ValueId sign = build.integer(DType::U8, kOffset);
    if (type == DType::U8) build.add_to("BitwiseXor", {build.cast(from, type), sign}, {to});
    else
      build.add_to("Cast", {build.add("BitwiseXor", {from, sign})}, {to},
                   {{"to", std::string(name_of(type))}});
    keep(build);
  }

  void rewrite(const Node& node, size_t place) {
    NodeBuilder build(graph_, node);
    const ValueId first = node.inputs.empty() ? kNoValue : node.inputs[0];
    if (const auto found = compensated_.find(place); found != compensated_.end()) {
      compensate(build, node, found->second);
    } else if (!node.outputs.empty() && is_chosen(node.outputs[0])) {
      make(build, node);
    } else if (is_chosen(first)) {
      read(build, node);
    } else {
      graph_.nodes.push_back(node);
    }
    keep(build);
  }

  // Emits an addition of constants with the compensation subtracted from them.
  void compensate(NodeBuilder& build, const Node& node, const std::vector<int64_t>& amounts) {
    const bool subtracts = node.op->traits.binary == BinaryOp::Sub;
    auto added = std::make_shared<Tensor>(*graph_[node.inputs[1]].constant);
    for (int64_t i = 0; i < added->count(); ++i) {
      const int64_t amount = amounts[amounts.size() == 1 ? 0 : static_cast<size_t>(i)];
      added->set_int(i, added->as_int(i) + (subtracts ? amount : -amount));
    }
    const bool none =
        std::all_of(added->bytes.begin(), added->bytes.end(), [](uint8_t byte) { return byte == 0; });
    if (none && *graph_[node.outputs[0]].shape == *graph_[node.inputs[0]].shape)
      build.add_to("Identity", {node.inputs[0]}, node.outputs);
    else build.add_to(node.op->name, {node.inputs[0], build.constant(added)}, node.outputs, node.attributes);
  }

  // Emits a node whose result is the bytes.
  void make(NodeBuilder& build, const Node& node) {
    std::vector<ValueId> inputs = node.inputs, outputs;
    for (const ValueId id : node.outputs) outputs.push_back(now(id));
    auto attributes = node.attributes;
    if (is_cast(node, change_.from)) {
      int64_t offset = change_.offset;
      const int before = producers_[static_cast<size_t>(inputs[0])];
      if (before >= 0 && absorbed_.count(static_cast<size_t>(before)) > 0) {
        const Node& addition = old_[static_cast<size_t>(before)];
        const int64_t added = graph_[addition.inputs[1]].constant->as_int(0);
        offset += addition.op->traits.binary == BinaryOp::Add ? added : -added;
        inputs[0] = addition.inputs[0];
      }
      if (graph_[inputs[0]].dtype != DType::I32) inputs[0] = build.cast(inputs[0], DType::I32);
      if (offset != 0) inputs[0] = build.add("Add", {inputs[0], build.integer(DType::I32, offset)});
      attributes["to"] = std::string(name_of(change_.to));
    } else if (node.op->traits.quantisation == Quantisation::Quantize) {
      inputs[2] = build.constant(shifted(*graph_[inputs[2]].constant, change_.to, change_.offset));
      attributes.erase("output_dtype");
    } else if (is_table(node)) {
      inputs[0] = build.constant(shifted(*graph_[inputs[0]].constant, change_.to, change_.offset));
    } else {
      for (size_t i = 0; i < operands(node); ++i) {
        if (is_chosen(inputs[i])) inputs[i] = now(inputs[i]);
        else inputs[i] = build.constant(shifted(*graph_[inputs[i]].constant, change_.to, change_.offset));
      }
      if (node.op->traits.movement == Movement::Pad && input_given(node, 1)) {
        inputs[1] = build.constant(shifted(*graph_[inputs[1]].constant, change_.to, change_.offset));
      }
    }
    build.add_to(node.op->name, inputs, outputs, attributes);
  }

  // Emits a node that reads the bytes and whose result is something else.
  void read(NodeBuilder& build, const Node& node) {
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = now(inputs[0]);
    if (node.op->traits.quantisation == Quantisation::Dequantize) {
      inputs.resize(3, kNoValue);
      const Tensor none(change_.from, fixed_shape(node.inputs[1]));
      inputs[2] = build.constant(
          shifted(inputs[2] == kNoValue ? none : *graph_[inputs[2]].constant, change_.to, change_.offset));
      build.add_to(node.op->name, inputs, node.outputs, node.attributes);
      return;
    }
    const int behind = only_reader(graph_, consumers_, node.outputs[0]);
    if (behind >= 0 && compensated_.count(static_cast<size_t>(behind)) > 0) {
      build.add_to(node.op->name, inputs, node.outputs, node.attributes);
      return;
    }
    const ValueId value = build.add(node.op->name, inputs, node.attributes);
    const bool summed = node.op->name != "Cast";
    const std::vector<int64_t> amounts = summed ? compensation(node) : std::vector<int64_t>{change_.offset};
    auto subtracted =
        std::make_shared<Tensor>(DType::I32, summed ? shape_of_channels(node) : std::vector<int64_t>());
    for (int64_t i = 0; i < subtracted->count(); ++i) subtracted->set_int(i, amounts[static_cast<size_t>(i)]);
    build.add_to("Sub", {value, build.constant(subtracted)}, node.outputs);
  }

  std::vector<int64_t> fixed_shape(ValueId id) const {
    std::vector<int64_t> result;
    for (const Dim& dim : *graph_[id].shape) result.push_back(dim.constant());
    return result;
  }

  Graph& graph_;
  const Change change_;
  const bool only_padded_;
  std::vector<Node> old_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> consumers_;
  std::map<ValueId, ValueId> parents_;  // union-find of values that movements connect
  std::set<ValueId> chosen_;
  std::map<ValueId, ValueId> fresh_;  // the values that take their places
  std::set<size_t> absorbed_;         // additions that the addition of the offset replaces
  std::map<size_t, std::vector<int64_t>>
      compensated_;  // additions that also subtract the compensation of each channel
};

}  // namespace

void unsigned_numbers(Graph& graph) { Signs(graph, kToUnsigned).run(); }

void signed_numbers(Graph& graph) { Signs(graph, kToSigned).run(); }

void unsigned_padded(Graph& graph) { Signs(graph, kToUnsigned, true).run(); }

}  // namespace tc
