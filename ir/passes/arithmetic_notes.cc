// How each node of a quantised network is computed, recorded for the report while the pass that decides it
// runs.
#include "ir/passes/arithmetic_notes.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/edit.h"
#include "ir/passes/quantised.h"

namespace tc {
namespace {

using Quantisation = OpTraits::Quantisation;
using Kind = ArithmeticNote::Kind;

std::string called(const Origin& origin) { return text("node '", origin.node, "' (", origin.op_type, ")"); }

bool is_sum(const Node& node) { return node.op->traits.contraction != OpTraits::Contraction::None; }

}  // namespace

int ArithmeticNotes::root(int value) const {
  for (auto found = parents_.find(value); found != parents_.end() && found->second != value;
       found = parents_.find(value))
    value = found->second;
  return value;
}

// All inputs and outputs of the node, except constants, belong to one region.
void ArithmeticNotes::join(const Node& node) {
  int first = kNoValue;
  for (const std::vector<ValueId>* ids : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *ids) {
      if (id == kNoValue || graph_[id].constant) continue;
      if (first == kNoValue) first = root(id);
      parents_[root(id)] = first;
    }
  }
}

bool ArithmeticNotes::is_float_result(const Node& node) const {
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId id) { return id != kNoValue && is_float(graph_[id].dtype); });
}

bool ArithmeticNotes::of_constants(const Node& node) const {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return id == kNoValue || graph_[id].constant; });
}

bool ArithmeticNotes::reads_quantised(const Node& node) const {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return near_integers_.count(id) > 0; });
}

void ArithmeticNotes::note(const Node& node, Kind kind, const std::string& reason) {
  for (const ValueId id : node.outputs) {
    if (kind != Kind::Floats) near_integers_.insert(id);
  }
  if (kind != Kind::Floats) join(node);
  ArithmeticNote made;
  made.kind = kind;
  made.node = node.origin.node;
  made.op = node.origin.op_type;
  made.reason = reason;
  // An operator may have been expanded to several nodes: its sums and row programs tell more than its
  // elementwise nodes.
  const int weight = 2 * static_cast<int>(!node.op->elementwise) + static_cast<int>(kind == Kind::Floats);
  entries_.push_back({made, node.outputs.empty() ? kNoValue : node.outputs[0], weight});
}

// Why an elementwise node is not computed in a kernel that reads and writes integers; empty where it is.
std::string ArithmeticNotes::why_not_bytes(const Node& node) const {
  for (const ValueId id : node.inputs) {
    if (id != kNoValue && !graph_[id].constant && !near_integers_.count(id)) return "its operands are floats";
  }
  const ValueId out = node.outputs[0];
  if (is_output(graph_, out)) return "its result is an output of the model, as floats";
  for (const int reader : consumers_[static_cast<size_t>(out)]) {
    const Node& by = nodes_[static_cast<size_t>(reader)];
    if (by.op->traits.quantisation == Quantisation::Quantize || by.op->elementwise) continue;
    return text("its result is read as floats, by ", called(by.origin));
  }
  return "";
}

void ArithmeticNotes::decide(const Node& node, bool made, const std::string& reason) {
  const Quantisation direction = node.op->traits.quantisation;
  if (of_constants(node) || node.origin.node.empty()) return;
  if (direction != Quantisation::None) {
    quantised_ = true;
    join(node);
    if (direction == Quantisation::Dequantize)
      near_integers_.insert(node.outputs.begin(), node.outputs.end());
    return;
  }
  if (node.op->kind == OpRow::Kind::View) {
    if (made || reads_quantised(node)) near_integers_.insert(node.outputs.begin(), node.outputs.end());
    return join(node);
  }
  if (made) return note(node, Kind::Integers, "");
  if (!is_float_result(node)) {
    const DType of = graph_[node.inputs[0]].dtype;
    const bool bytes = of == DType::I8 || of == DType::U8;
    const bool moves =
        bytes && (moves_elements(graph_, node) || node.op->traits.movement == OpTraits::Movement::Pad);
    if (is_float(of) || !(is_sum(node) || moves)) return;
    quantised_ = quantised_ || is_sum(node);
    return note(node, Kind::Integers, bits_of(of) > 8 ? reason : "");
  }
  if (!reason.empty()) return note(node, Kind::Floats, reason);
  if (node.op->elementwise) {
    // The conversion of an integer sum to float, which is then scaled.
    const bool whole = node.inputs.size() == 1 && !is_float(graph_[node.inputs[0]].dtype);
    const std::string why = whole ? "" : why_not_bytes(node);
    return note(node, why.empty() ? Kind::Bytes : Kind::Floats, why);
  }
  note(node, Kind::Floats,
       reads_quantised(node) ? "there is no form of it for integers" : "its operands are floats");
}

std::vector<ArithmeticNote> ArithmeticNotes::take() const {
  std::vector<ArithmeticNote> result;
  if (!quantised_) return result;
  std::map<std::pair<std::string, std::string>, std::pair<size_t, int>>
      places;  // index and weight, by node and operator of the file
  std::map<int, int> regions;
  for (const Entry& entry : entries_) {
    ArithmeticNote note = entry.note;
    if (note.kind != Kind::Floats)
      note.region = regions.try_emplace(root(entry.value), static_cast<int>(regions.size())).first->second;
    const auto [place, fresh] = places.try_emplace({note.node, note.op}, result.size(), entry.weight);
    if (fresh) {
      result.push_back(note);
    } else if (entry.weight > place->second.second) {
      place->second.second = entry.weight;
      result[place->second.first] = note;
    }
  }
  return result;
}

std::vector<ArithmeticNote> all_arithmetic(const Graph& graph) {
  std::vector<ArithmeticNote> result = graph.arithmetic;
  auto append = [&](const Graph& body) {
    int next = 0;
    for (const ArithmeticNote& note : result) next = std::max(next, note.region + 1);
    for (ArithmeticNote note : all_arithmetic(body)) {
      if (note.region >= 0) note.region += next;
      result.push_back(note);
    }
  };
  for (const Node& node : graph.nodes) {
    for (const GraphPtr& body : subgraphs_of(node)) append(*body);
  }
  return result;
}

std::vector<std::string> arithmetic_lines(const std::vector<ArithmeticNote>& notes) {
  std::vector<std::string> lines;
  std::map<int, std::vector<const ArithmeticNote*>> regions;
  std::map<std::string, std::vector<const ArithmeticNote*>> reasons;  // nodes that stayed floats, by reason
  for (const ArithmeticNote& note : notes) {
    if (note.kind == Kind::Floats) reasons[note.reason].push_back(&note);
    else regions[note.region].push_back(&note);
  }
  auto quoted = [](const ArithmeticNote& note) { return text("'", note.node, "' (", note.op, ")"); };
  for (const auto& [region, members] : regions) {
    std::map<std::string, int> counts;
    for (const ArithmeticNote* note : members) ++counts[note->op];
    std::string operators;
    for (const auto& [op, count] : counts) operators += text(operators.empty() ? "" : ", ", count, " ", op);
    std::string line = text("region ", region + 1, " in integers, from ", quoted(*members.front()));
    if (members.size() > 1) line += " to " + quoted(*members.back());
    const auto scaled = std::count_if(members.begin(), members.end(),
                                      [](const ArithmeticNote* note) { return note->fixed_point; });
    lines.push_back(line + ": " + operators + (scaled ? text("; ", scaled, " scaled in fixed point") : ""));
    for (const ArithmeticNote* note : members) {
      if (!note->reason.empty()) lines.push_back(text("  ", quoted(*note), ": ", note->reason));
    }
  }
  for (const auto& [reason, members] : reasons) {
    std::string line = text("in floats, because ", reason, ": ");
    for (size_t i = 0; i < members.size(); ++i) line += (i ? ", " : "") + quoted(*members[i]);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace tc
