#include "frontend/import/onnx/scan_forms.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

constexpr int64_t kMaxBatch = 256;
constexpr int64_t kMaxNodes = 1 << 12;
constexpr int kFirstWithAxes = 9;  // opset

const tc_onnx::AttributeProto* find_attribute(const tc_onnx::NodeProto& node, const std::string& name) {
  for (const auto& each : node.attribute()) {
    if (each.name() == name) return &each;
  }
  return nullptr;
}

void erase_attribute(tc_onnx::NodeProto& node, const std::string& name) {
  auto& all = *node.mutable_attribute();
  for (int i = all.size() - 1; i >= 0; --i) {
    if (all.Get(i).name() == name) all.DeleteSubrange(i, 1);
  }
}

class OtherScan {
 public:
  OtherScan(const tc_onnx::NodeProto& proto, NameScope& scope, int depth, NodeImporter& importer)
      : proto_(proto),
        scope_(scope),
        depth_(depth),
        importer_(importer),
        node_(importer.described(proto, scope)),
        who_(node_.origin.str()),
        opsets_(*scope.opsets) {}

  void run() {
    batched_ = node_.origin.opset < kFirstWithAxes;
    const tc_onnx::AttributeProto* body = find_attribute(proto_, "body");
    if (!body || !body->has_g()) fail(ErrorKind::Model, who_, " lacks attribute 'body'");
    const std::vector<int64_t> count = integers("num_scan_inputs");
    const int first = batched_ ? 1 : 0, inputs = proto_.input_size() - first;
    if (count.size() != 1 || count[0] < 1 || count[0] > inputs ||
        inputs - count[0] > body->g().output_size() || proto_.output_size() > body->g().output_size()) {
      fail(ErrorKind::Model, who_, " has ", proto_.input_size(), " inputs and num_scan_inputs ",
           count.empty() ? 0 : count[0], ", which do not fit its body");
    }
    states_ = static_cast<size_t>(inputs - count[0]);
    for (int i = 0; i < inputs; ++i)
      operands_.push_back(importer_.resolve(proto_.input(i + first), scope_, who_));
    if (batched_) scan_batch();
    else scan_axes();
  }

 private:
  Graph& graph() { return *scope_.graph; }
  int64_t rank(ValueId id) { return static_cast<int64_t>(graph()[id].shape->size()); }

  std::vector<int64_t> integers(const std::string& name) const {
    const auto found = node_.attributes.find(name);
    if (found == node_.attributes.end()) return {};
    if (const auto* one = std::get_if<int64_t>(&found->second)) return {*one};
    return unchecked_attribute<std::vector<int64_t>>(node_, name);
  }

  // The axis that the attribute gives for the i-th tensor, which has `rank` axes.
  size_t axis(const std::string& name, size_t i, int64_t rank) const {
    const std::vector<int64_t> axes = integers(name);
    const int64_t given = i < axes.size() ? axes[i] : 0;
    if (given < -rank || given >= rank)
      fail(ErrorKind::Model, who_, ": ", name, " has ", given, ", which is none of the ", rank, " axes");
    return static_cast<size_t>(given < 0 ? given + rank : given);
  }

  ValueId made(const std::string& op_type, std::vector<ValueId> inputs,
               std::map<std::string, std::vector<int64_t>> lists, const std::string& name) {
    MadeNode node{op_type, std::move(inputs), {}, {name}};
    for (auto& [attribute, values] : lists) node.lists[attribute] = std::move(values);
    return import_made(importer_, node, proto_, scope_, depth_)[0];
  }

  // Imports the plain Scan of these operands and returns its outputs.
  std::vector<ValueId> scan(tc_onnx::NodeProto plain, const std::vector<ValueId>& operands) {
    NameScope inner{scope_.graph, &scope_, {}, nullptr, &opsets_, scope_.function_attributes};
    plain.clear_input();
    plain.clear_output();
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::string name = text("scan input ", i);
      inner.names[name] = operands[i];
      plain.add_input(name);
    }
    for (int i = 0; i < proto_.output_size(); ++i)
      plain.add_output(proto_.output(i).empty() ? "" : text(proto_.output(i), " in steps"));
    importer_.import_node(plain, inner, depth_ + 1);
    std::vector<ValueId> results;
    for (const std::string& name : plain.output())
      results.push_back(name.empty() ? kNoValue : inner.names.at(name));
    return results;
  }

  void scan_axes() {
    std::vector<ValueId> operands = operands_;
    for (size_t i = states_; i < operands.size(); ++i) {
      const size_t from = axis("scan_input_axes", i - states_, rank(operands[i]));
      if (from == 0) continue;
      std::vector<int64_t> perm = {static_cast<int64_t>(from)};
      for (int64_t k = 0; k < rank(operands[i]); ++k) {
        if (k != static_cast<int64_t>(from)) perm.push_back(k);
      }
      operands[i] = made("Transpose", {operands[i]}, {{"perm", perm}}, graph()[operands[i]].name);
    }
    tc_onnx::NodeProto plain = proto_;
    erase_attribute(plain, "scan_input_axes");
    erase_attribute(plain, "scan_output_axes");
    const std::vector<ValueId> results = scan(plain, operands);
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] == kNoValue) continue;
      ValueId value = results[i];
      const size_t to = i < states_ ? 0 : axis("scan_output_axes", i - states_, rank(value));
      if (to != 0) {
        std::vector<int64_t> perm;
        for (int64_t k = 1; k < rank(value); ++k) perm.push_back(k);
        perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(to), 0);
        value = made("Transpose", {value}, {{"perm", perm}}, proto_.output(static_cast<int>(i)));
      }
      importer_.define(proto_.output(static_cast<int>(i)), value, scope_);
    }
  }

  // The body is read as if it were of opset 9, in which all operators but two are the same as in opset 8.
  void check_body(int64_t batch) {
    opsets_[""] = kFirstWithAxes;
    int64_t nodes = 0;
    const std::string other = read_otherwise(find_attribute(proto_, "body")->g(), nodes);
    if (!other.empty()) {
      fail(ErrorKind::Unsupported, who_, " has ", other,
           " in its body, which is not supported there; export the model with opset 9 or later");
    }
    if (batch * nodes > kMaxNodes) {
      fail(ErrorKind::Unsupported, who_, " scans each element of a batch by itself, of which ", batch * nodes,
           " nodes would come; at most ", kMaxNodes, " are supported");
    }
  }

  // The first operator of a body that means something else in opset 9 than in opset 8, or nothing. Counts the
  // nodes.
  static std::string read_otherwise(const tc_onnx::GraphProto& body, int64_t& nodes) {
    for (const auto& node : body.node()) {
      ++nodes;
      if (node.op_type() == "Upsample" || node.op_type() == "Scan") return node.op_type();
      for (const auto& attribute : node.attribute()) {
        const std::string inside = attribute.has_g() ? read_otherwise(attribute.g(), nodes) : "";
        if (!inside.empty()) return inside;
      }
    }
    return "";
  }

  // Scans each element of the batch by itself and joins the results.
  void scan_batch() {
    if (!proto_.input(0).empty()) {
      fail(ErrorKind::Unsupported, who_, " has lengths of sequences as input '", proto_.input(0),
           "', which are not supported; leave them out, or export the "
           "model with opset 9 or later");
    }
    const Shape shape = operands_.empty() ? Shape() : *graph()[operands_[0]].shape;
    if (shape.empty() || !shape[0].is_constant()) {
      fail(ErrorKind::Unsupported, who_,
           " scans each element of a batch, whose size is not known; bind it with shapes={…}");
    }
    const int64_t batch = shape[0].constant();
    if (batch < 1 || batch > kMaxBatch) {
      fail(ErrorKind::Unsupported, who_, " scans each element of a batch of ", batch, " by itself; at most ",
           kMaxBatch, " are supported");
    }
    check_body(batch);
    tc_onnx::NodeProto plain = proto_;
    for (const char* name : {"directions", "scan_input_axes", "scan_output_axes"})
      erase_attribute(plain, name);
    if (const tc_onnx::AttributeProto* directions = find_attribute(proto_, "directions")) {
      *plain.add_attribute() = *directions;
      plain.mutable_attribute(plain.attribute_size() - 1)->set_name("scan_input_directions");
    }
    std::vector<std::vector<ValueId>> parts(static_cast<size_t>(proto_.output_size()));
    for (int64_t at = 0; at < batch; ++at) {
      auto place = std::make_shared<Tensor>(DType::I64, std::vector<int64_t>{});
      place->set_int(0, at);
      const ValueId index = graph().add_constant("element", place);
      std::vector<ValueId> operands;
      for (ValueId each : operands_)
        operands.push_back(made("Gather", {each, index}, {}, graph()[each].name));
      const std::vector<ValueId> results = scan(plain, operands);
      for (size_t i = 0; i < results.size(); ++i) parts[i].push_back(results[i]);
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string& name = proto_.output(static_cast<int>(i));
      if (!name.empty()) importer_.define(name, join(parts[i], name), scope_);
    }
  }

  ValueId join(std::vector<ValueId> values, const std::string& name) {
    const ValueId axes = constant_integers(graph(), "axes", {0});
    for (ValueId& value : values) value = made("Unsqueeze", {value, axes}, {}, graph()[value].name);
    MadeNode node{"Concat", values, {{"axis", 0}}, {name}};
    return import_made(importer_, node, proto_, scope_, depth_)[0];
  }

  const tc_onnx::NodeProto& proto_;
  NameScope& scope_;
  int depth_;
  NodeImporter& importer_;
  Node node_;
  std::string who_;
  bool batched_ = false;
  size_t states_ = 0;
  std::vector<ValueId> operands_;
  Opsets opsets_;  // opsets with which the plain Scan is read
};

}  // namespace

bool is_other_scan(const tc_onnx::NodeProto& node, int opset) {
  if (!is_default_domain(node.domain()) || node.op_type() != "Scan") return false;
  if (opset < kFirstWithAxes) return node.input_size() > 0;
  return std::any_of(node.attribute().begin(), node.attribute().end(), [](const auto& each) {
    return (each.name() == "scan_input_axes" || each.name() == "scan_output_axes") &&
           (!each.ref_attr_name().empty() ||
            std::any_of(each.ints().begin(), each.ints().end(), [](int64_t axis) { return axis != 0; }));
  });
}

void import_other_scan(const tc_onnx::NodeProto& node, NameScope& scope, int depth, NodeImporter& importer) {
  OtherScan(node, scope, depth, importer).run();
}

}  // namespace tc
