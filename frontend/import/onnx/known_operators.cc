#include "frontend/import/onnx/known_operators.h"

#include <algorithm>

#include "frontend/import/onnx/scan_forms.h"
#include "frontend/import/onnx/sequences.h"
#include "ir/error.h"
#include "ir/ops/op.h"

namespace tc {
namespace {

constexpr int64_t kMostNodes = 1 << 20;
constexpr const char* kTraining = "ai.onnx.preview.training";
// Its weights lie in blocks whose size is that of the vectors of the machine on which the file was written, and stands nowhere.
constexpr const char* kBlocked = "com.microsoft.nchwc";
constexpr const char* kOfOneProcessor = "of a file that ONNX Runtime optimised for one processor; write it again with ORT_ENABLE_EXTENDED";

const char* reason_of(const std::string& domain) {
  if (domain == kTraining) return "it trains models, which is not supported";
  return domain == kBlocked ? kOfOneProcessor : "no operator of this name and version";
}

class Scan {
 public:
  Scan(const Functions& functions, const std::string& file_name) : functions_(functions), file_name_(file_name) {}

  void run(const google::protobuf::RepeatedPtrField<tc_onnx::NodeProto>& nodes, const Opsets& opsets, int depth) {
    if (depth > kDeepestSubgraph) {
      fail(ErrorKind::Model, "'", file_name_, "' nests subgraphs or functions more than ", kDeepestSubgraph, " deep");
    }
    for (const auto& node : nodes) {
      if (++scanned_ > kMostNodes) fail(ErrorKind::Model, "'", file_name_, "' has more than ", kMostNodes, " nodes");
      const auto function = functions_.find({node.domain(), node.op_type()});
      const std::string domain = is_default_domain(node.domain()) ? "" : node.domain();
      const auto version = opsets.find(domain);
      const int opset = version == opsets.end() ? 0 : version->second;
      if (function != functions_.end()) {
        run(function->second->node(), opsets_of(function->second->opset_import()), depth + 1);
      } else if (!(domain.empty() && node.op_type() == "Constant") && !is_sequence_operator(domain, node.op_type(), opset) &&
                 !is_other_scan(node, opset) &&
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
  std::vector<ImportProblem> problems_;
  int64_t scanned_ = 0;
};

}  // namespace

std::string full_type(const tc_onnx::NodeProto& node) {
  return is_default_domain(node.domain()) ? node.op_type() : node.domain() + "::" + node.op_type();
}

std::string node_name(const tc_onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : "";
}

std::vector<ImportProblem> unknown_operators(const tc_onnx::GraphProto& graph, const Opsets& opsets, const Functions& functions,
                                             const std::string& file_name) {
  Scan scan(functions, file_name);
  scan.run(graph.node(), opsets, 0);
  return scan.take();
}

std::string describe(const std::vector<ImportProblem>& problems, const std::string& file_name) {
  constexpr size_t kShown = 20;
  std::string list;
  bool trains = false, blocked = false;
  for (size_t i = 0; i < problems.size(); ++i) {
    trains = trains || problems[i].op_type.rfind(kTraining, 0) == 0;
    blocked = blocked || problems[i].op_type.rfind(kBlocked, 0) == 0;
    if (i >= kShown) continue;
    list += text(i ? "; " : "", problems[i].op_type, " (node '", problems[i].node, "', opset ", problems[i].opset, ")");
  }
  if (problems.size() > kShown) list += text("; and ", problems.size() - kShown, " more");
  return text("'", file_name, "' has ", problems.size(),
              problems.size() == 1 ? " node whose operator is" : " nodes whose operators are",
              " not supported: ", list, trains ? text("; operators of ", kTraining, " train models, and models are only run") : "",
              blocked ? text("; operators of ", kBlocked, " are ", kOfOneProcessor) : "",
              "; docs/operators.md lists the supported ones");
}

}  // namespace tc
