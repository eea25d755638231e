#include "frontend/import/onnx/known_operators.h"

#include <algorithm>

#include "frontend/import/onnx/flex_attention.h"
#include "frontend/import/onnx/scan_forms.h"
#include "frontend/import/onnx/sequences.h"
#include "ir/error.h"
#include "ir/interrupt.h"
#include "ir/ops/onnx_versions.h"
#include "ir/ops/op.h"

namespace tc {
namespace {

constexpr const char* kTraining = "ai.onnx.preview.training";
constexpr const char* kNoOperator = "no operator of this name and version";
// Weights in this domain are blocked for the vector length of the machine on which the file was written, and
// the file does not tell the block size.
constexpr const char* kBlocked = "com.microsoft.nchwc";
constexpr const char* kOfOneProcessor =
    "of a file that ONNX Runtime optimised for one processor; write it again with ORT_ENABLE_EXTENDED";

const char* reason_of(const std::string& domain) {
  if (domain == kTraining) return "it trains models, which is not supported";
  return domain == kBlocked ? kOfOneProcessor : kNoOperator;
}

// Counts the nodes with every function call replaced by its body, the calls included. The time is
// proportional to the size of the file, though the number doubles where a function calls another twice.
class NodeCount {
 public:
  NodeCount(const Functions& functions, const NodeLimit& limit) : functions_(functions), limit_(limit) {}

  int64_t of(const google::protobuf::RepeatedPtrField<tc_onnx::NodeProto>& nodes, int depth) {
    int64_t count = 0;
    for (const auto& node : nodes) {
      const tc_onnx::FunctionProto* function = called_function(functions_, node);
      count += 1 + (function ? of(*function, depth + 1) : 0);
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) count += of(attribute.g().node(), depth + 1);
      }
      if (count > limit_.most) limit_.refuse(called_.empty() ? "" : called_.back());
    }
    return count;
  }

 private:
  // Functions that nest too deep or call themselves are refused later, when the operators are checked.
  int64_t of(const tc_onnx::FunctionProto& function, int depth) {
    if (depth > kDeepestSubgraph) return 0;
    const auto [found, fresh] = counts_.try_emplace(&function, 0);
    if (!fresh) return found->second;
    called_.push_back(function.name());
    const int64_t count = of(function.node(), depth);
    called_.pop_back();
    return counts_[&function] = count;
  }

  const Functions& functions_;
  const NodeLimit& limit_;
  std::vector<std::string> called_;
  std::map<const tc_onnx::FunctionProto*, int64_t> counts_;
};

class Scan {
 public:
  Scan(const Functions& functions, const std::string& file_name, const NodeLimit& limit)
      : functions_(functions), file_name_(file_name), limit_(limit) {}

  void run(const google::protobuf::RepeatedPtrField<tc_onnx::NodeProto>& nodes, const Opsets& opsets,
           int depth) {
    if (depth > kDeepestSubgraph) {
      fail(ErrorKind::Model, "'", file_name_, "' nests subgraphs or functions more than ", kDeepestSubgraph,
           " deep");
    }
    for (const auto& node : nodes) {
      interruption_point();
      if (++scanned_ > limit_.most) limit_.refuse("");
      const tc_onnx::FunctionProto* function = called_function(functions_, node);
      const std::string domain = is_default_domain(node.domain()) ? "" : node.domain();
      const auto version = opsets.find(domain);
      const int opset = version == opsets.end() ? 0 : version->second;
      if (function) {
        run(function->node(), opsets_of(function->opset_import()), depth + 1);
      } else if (!node.overload().empty()) {
        problems_.push_back(
            {node_name(node), full_type(node), opset, "the model has no function of this name and overload"});
      } else if (const std::string why = unknown_version(domain, node.op_type(), opset); !why.empty()) {
        problems_.push_back({node_name(node), full_type(node), opset, why});
      } else if (!(domain.empty() && node.op_type() == "Constant") &&
                 !is_sequence_operator(domain, node.op_type(), opset) && !is_other_scan(node, opset) &&
                 !is_flex_attention(node) &&
                 !find_onnx_op(domain, node.op_type(), std::max(1, opset), nullptr)) {
        problems_.push_back({node_name(node), full_type(node), opset, reason_of(domain)});
      }
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) run(attribute.g().node(), opsets, depth + 1);
      }
    }
  }

  std::vector<ImportProblem> take() { return std::move(problems_); }

 private:
  const Functions& functions_;
  const std::string& file_name_;
  const NodeLimit& limit_;
  std::vector<ImportProblem> problems_;
  int64_t scanned_ = 0;
};

}  // namespace

void NodeLimit::refuse(const std::string& function) const {
  fail(
      ErrorKind::Unsupported, "'", file_name, "'",
      function.empty() ? "" : text(": function '", function, "'"), " has more than ", most,
      " nodes where functions stand in the place of their calls and loops are unrolled; give a larger max_nodes, or export a smaller model");
}

Functions functions_of(const tc_onnx::ModelProto& model, const std::string& file_name) {
  Functions functions;
  for (const auto& function : model.functions()) {
    const std::string domain = is_default_domain(function.domain()) ? "" : function.domain();
    if (functions.emplace(std::tuple(domain, function.name(), function.overload()), &function).second)
      continue;
    fail(ErrorKind::Model, "'", file_name, "' defines function '", domain,
         domain.empty() ? "" : "::", function.name(), function.overload().empty() ? "" : ":",
         function.overload(), "' twice; give one of them another overload");
  }
  return functions;
}

const tc_onnx::FunctionProto* called_function(const Functions& functions, const tc_onnx::NodeProto& node) {
  const auto found = functions.find(
      {is_default_domain(node.domain()) ? "" : node.domain(), node.op_type(), node.overload()});
  return found == functions.end() ? nullptr : found->second;
}

std::string full_type(const tc_onnx::NodeProto& node) {
  const std::string type =
      is_default_domain(node.domain()) ? node.op_type() : node.domain() + "::" + node.op_type();
  return node.overload().empty() ? type : type + ":" + node.overload();
}

std::string node_name(const tc_onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : "";
}

std::vector<ImportProblem> unknown_operators(const tc_onnx::GraphProto& graph, const Opsets& opsets,
                                             const Functions& functions, const NodeLimit& limit) {
  NodeCount(functions, limit).of(graph.node(), 0);
  Scan scan(functions, limit.file_name, limit);
  scan.run(graph.node(), opsets, 0);
  return scan.take();
}

std::string describe(const std::vector<ImportProblem>& problems, const std::string& file_name) {
  constexpr size_t kShown = 20;
  std::string list, why;
  for (size_t i = 0; i < problems.size(); ++i) {
    if (why.empty() && problems[i].op_type.rfind(kTraining, 0) == 0)
      why = text("operators of ", kTraining, " train models, and models are only run");
    if (why.empty() && problems[i].op_type.rfind(kBlocked, 0) == 0)
      why = text("operators of ", kBlocked, " are ", kOfOneProcessor);
    if (why.empty() && problems[i].reason != kNoOperator) why = problems[i].reason;
    if (i >= kShown) continue;
    list += text(i ? "; " : "", problems[i].op_type, " (node '", problems[i].node, "', opset ",
                 problems[i].opset, ")");
  }
  if (problems.size() > kShown) list += text("; and ", problems.size() - kShown, " more");
  return text("'", file_name, "' has ", problems.size(),
              problems.size() == 1 ? " node whose operator is" : " nodes whose operators are",
              " not supported: ", list, why.empty() ? "" : "; ", why,
              "; docs/operators.md lists the supported ones");
}

}  // namespace tc
