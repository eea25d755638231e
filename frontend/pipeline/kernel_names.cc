// What kernels and their buffers are called.
#include "frontend/pipeline/kernel_names.h"

#include <map>
#include <set>

#include "ir/error.h"
#include "ir/ops/op.h"

namespace tc {

std::string label_of(const Graph& graph, const Group& group) {
  std::string label;
  std::set<std::string> named;  // many nodes here may come from one node of the model, such as a GRU
  for (int node : group.nodes) {
    const Node& n = graph.nodes[node];
    if (!n.origin.node.empty() && !named.insert(n.origin.node).second) continue;
    if (!label.empty()) label += " + ";
    label += n.origin.node.empty() ? n.op->name : printable(n.origin.node);
    if (n.op->traits.movement == OpTraits::Movement::Layout) label += " (reorder)";
  }
  return label;
}

void rename_buffers(Kernel& kernel) {
  std::map<Scope, std::pair<const char*, int>> roles = {{Scope::Input, {"in", 0}},
                                                        {Scope::Constant, {"const", 0}},
                                                        {Scope::Output, {"out", 0}},
                                                        {Scope::Local, {"tmp", 0}}};
  std::map<std::string, std::string> names;
  for (Buffer& buffer : kernel.buffers) {
    auto& [stem, count] = roles.at(buffer.scope);
    names[buffer.name] = text(stem, count++);
    buffer.name = names[buffer.name];
  }
}

}  // namespace tc
