// Runs one of the node tests that the ONNX project publishes and compares with its outputs.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "ir/graph.h"
#include "ir/ops/op.h"

namespace tc {

// Through the interpreter, or as a compiled artefact for this machine that the runtime opens.
enum class NodeTestWay { AsImported, AfterPasses, Native };

struct NodeTestResult {
  // Refused: an Unsupported error.
  enum class Outcome { Pass, Refused, Fail };
  Outcome outcome = Outcome::Fail;
  std::string reason;  // why it does not pass
  // The operator rows of the graph that runs, and the forms of the rows that the file uses.
  std::set<std::string> rows;
};

// Compiles the graph, which has been through the passes, for this machine, links it, opens it with the
// runtime and runs it with one and with two threads, which must give the same bytes.
std::map<std::string, Tensor> run_native(Graph graph, const std::map<std::string, Tensor>& inputs);

// "Sum as Sum 8": a row and one of its ONNX names.
std::string str(const OpRow& row, const OnnxName& form);

NodeTestResult run_node_test(const std::filesystem::path& folder, NodeTestWay way);

}  // namespace tc
