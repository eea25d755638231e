// Runs one of the node tests that the ONNX project publishes and compares with its outputs.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace tc {

// Through the interpreter, or as a compiled artefact for this machine that the runtime opens.
enum class NodeTestWay { AsImported, AfterPasses, Native };

struct NodeTestResult {
  // Constant: passes only with inputs turned into constants. Refused: an Unsupported error.
  enum class Outcome { Pass, Constant, Refused, Fail };
  Outcome outcome = Outcome::Fail;
  // Why it does not pass; for Constant, why not with inputs as they are.
  std::string reason;
  // The operator rows that the model uses, as it is and after all passes.
  std::set<std::string> rows;
};

NodeTestResult run_node_test(const std::filesystem::path& folder, NodeTestWay way);

}  // namespace tc
