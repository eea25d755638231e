#include "frontend/import/onnx/unrolled_loop.h"

#include <algorithm>
#include <optional>

#include "frontend/import/onnx/sequences.h"
#include "ir/error.h"
#include "ir/ops/depends_on_data.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

constexpr int64_t kMaxIterations = 1024;

bool has_sequence_operators(const tc_onnx::GraphProto& body) {
  return std::any_of(body.node().begin(), body.node().end(), [](const tc_onnx::NodeProto& node) {
    if (is_sequence_operator(node.domain(), node.op_type(), 1 << 20)) return true;
    const auto& attributes = node.attribute();
    return std::any_of(attributes.begin(), attributes.end(),
                       [](const auto& each) { return each.has_g() && has_sequence_operators(each.g()); });
  });
}

ValueId scalar(Graph& graph, const std::string& name, DType dtype, int64_t value) {
  auto tensor = std::make_shared<Tensor>(dtype, std::vector<int64_t>{});
  tensor->set_int(0, value);
  return graph.add_constant(name, tensor);
}

class Unrolling {
 public:
  Unrolling(const tc_onnx::NodeProto& proto, NameScope& scope, int depth, NodeImporter& importer)
      : proto_(proto),
        scope_(scope),
        depth_(depth),
        importer_(importer),
        node_(importer.described(proto, scope)),
        who_(node_.origin.str()),
        states_(static_cast<size_t>(std::max(0, proto.input_size() - 2))) {}

  void run() {
    find_body();
    std::optional<int64_t> trip_count;
    if (has(0)) trip_count = known_number(importer_.resolve(proto_.input(0), scope_, who_), "trip count");
    bool goes_on =
        !has(1) || known_number(importer_.resolve(proto_.input(1), scope_, who_), "condition") != 0;
    for (size_t i = 0; i < states_; ++i)
      carried_.push_back(binding_of(importer_, proto_.input(static_cast<int>(i) + 2), scope_, who_));
    for (int64_t i = 0; goes_on && (!trip_count || i < *trip_count); ++i) {
      if (i == kMaxIterations) {
        fail(ErrorKind::Unsupported, who_,
             " works on sequences, for which its iterations are compiled one by one; it has more than ",
             kMaxIterations);
      }
      goes_on = iterate(i);
    }
    give();
  }

 private:
  bool has(int i) const { return i < proto_.input_size() && !proto_.input(i).empty(); }

  void find_body() {
    for (const auto& attribute : proto_.attribute()) {
      if (attribute.name() == "body" && attribute.has_g()) body_ = &attribute.g();
    }
    if (!body_) fail(ErrorKind::Model, who_, " lacks attribute 'body'");
    if (body_->input_size() != static_cast<int>(states_) + 2 ||
        body_->output_size() < static_cast<int>(states_) + 1 ||
        proto_.output_size() > body_->output_size() - 1) {
      fail(ErrorKind::Model, who_, " has a body of ", body_->input_size(), " inputs and ",
           body_->output_size(), " outputs, which do not fit its own");
    }
    stacked_.resize(static_cast<size_t>(body_->output_size()) - 1 - states_);
  }

  int64_t known_number(ValueId id, const std::string& what) {
    const Value& value = (*scope_.graph)[id];
    if (value.constant && value.constant->count() == 1 && !is_float(value.dtype))
      return value.constant->as_int(0);
    const std::optional<std::vector<Dim>> known = known_elements(value);
    if (!known || known->size() != 1 || !(*known)[0].is_constant())
      throw DependsOnData(node_, *scope_.graph, id, what);
    return (*known)[0].constant();
  }

  // Imports one iteration. True where another one follows.
  bool iterate(int64_t number) {
    NameScope inner{scope_.graph, &scope_, {}, nullptr, scope_.opsets, scope_.function_attributes};
    const auto name = [&](size_t i) { return body_->input(static_cast<int>(i)).name(); };
    spend(scope_, name(0), 2 * kSpentByValue);
    importer_.define(name(0), scalar(*scope_.graph, name(0), DType::I64, number), inner);
    importer_.define(name(1), scalar(*scope_.graph, name(1), DType::Bool, 1), inner);
    for (size_t i = 0; i < states_; ++i) importer_.define(name(i + 2), carried_[i], inner);
    importer_.import_repeated(*body_, inner, depth_ + 1);
    const auto result = [&](size_t i) { return body_->output(static_cast<int>(i)).name(); };
    for (size_t i = 0; i < states_; ++i) carried_[i] = binding_of(importer_, result(i + 1), inner, who_);
    for (size_t i = 0; i < stacked_.size(); ++i)
      stacked_[i].push_back(importer_.resolve(result(i + 1 + states_), inner, who_));
    return known_number(importer_.resolve(result(0), inner, who_), "condition of iterations") != 0;
  }

  void give() {
    for (int i = 0; i < proto_.output_size(); ++i) {
      const std::string& name = proto_.output(i);
      if (name.empty()) continue;
      const size_t at = static_cast<size_t>(i);
      importer_.define(name, at < states_ ? carried_[at] : Binding(stack(stacked_[at - states_], name)),
                       scope_);
    }
  }

  // Joins the results of the iterations along a new first axis.
  ValueId stack(std::vector<ValueId> values, const std::string& name) {
    if (values.empty()) {
      fail(ErrorKind::Unsupported, who_,
           " works on sequences and has no iteration, from which the shape of output '", name,
           "' would follow");
    }
    const ValueId axes = constant_integers(*scope_.graph, "axes", {0});
    for (ValueId& value : values) value = made("Unsqueeze", {value, axes}, {}, (*scope_.graph)[value].name);
    return made("Concat", values, {{"axis", 0}}, name);
  }

  ValueId made(const std::string& op_type, std::vector<ValueId> inputs,
               std::map<std::string, int64_t> attributes, const std::string& output) {
    return import_made(importer_, {op_type, std::move(inputs), std::move(attributes), {output}}, proto_,
                       scope_, depth_)[0];
  }

  const tc_onnx::NodeProto& proto_;
  NameScope& scope_;
  int depth_;
  NodeImporter& importer_;
  Node node_;
  std::string who_;
  size_t states_;
  const tc_onnx::GraphProto* body_ = nullptr;
  std::vector<Binding> carried_;
  std::vector<std::vector<ValueId>> stacked_;  // for each output that is not a state
};

}  // namespace

bool needs_unrolling(const tc_onnx::NodeProto& node, NameScope& scope) {
  for (int i = 2; i < node.input_size(); ++i) {
    if (!node.input(i).empty() && find_composite(node.input(i), scope)) return true;
  }
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [](const auto& each) { return each.has_g() && has_sequence_operators(each.g()); });
}

void unroll_loop(const tc_onnx::NodeProto& node, NameScope& scope, int depth, NodeImporter& importer) {
  Unrolling(node, scope, depth, importer).run();
}

}  // namespace tc
