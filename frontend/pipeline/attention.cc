// Attentions whose two products and row program become one kernel, and the kernels of groups.
#include "frontend/pipeline/attention.h"

#include <algorithm>

#include "frontend/pipeline/kernel_names.h"
#include "ir/error.h"
#include "ir/ops/op.h"
#include "scheduler/scheduler.h"

namespace tc {
namespace {

// Where the scores are less than so many times as large as the second-level cache, the row program still
// finds most of them there. Three kernels took 4 % less time than one kernel at 1.5 times the cache, and one
// kernel in bands of rows 6 % less at 1.8 times (measured on x86-64).
constexpr double kMinOfCache = 1.75;

KernelPart lowered(const Graph& graph, const Group& group) {
  KernelPart part;
  part.kernel = lower_group(graph, group.nodes, group.outputs, &part.arguments);
  inline_locals(part.kernel);
  return part;
}

KernelPart lowered(const Graph& graph, const GroupsOfAttention& groups) {
  std::vector<KernelPart> parts;
  for (const Group& group : groups) parts.push_back(lowered(graph, group));
  return join_kernels(parts);
}

// Whether all that the group reads and writes has a plain (not blocked) layout and sizes that are numbers.
bool is_plain(const Graph& graph, const Group& group, const std::map<ValueId, int>& layouts) {
  const auto plain = [&](ValueId id) {
    return id == kNoValue ||
           (layouts.count(id) == 0 && graph[id].shape && element_count(*graph[id].shape).is_constant());
  };
  return std::all_of(group.outputs.begin(), group.outputs.end(), plain) &&
         std::all_of(group.nodes.begin(), group.nodes.end(), [&](int node) {
           const std::vector<ValueId>& inputs = graph.nodes[static_cast<size_t>(node)].inputs;
           return std::all_of(inputs.begin(), inputs.end(), plain);
         });
}

}  // namespace

KernelPart AttentionJoiner::kernel_of(const Graph& graph, const Group& group) const {
  const auto parts = group.outputs.empty() ? parts_.end() : parts_.find({&graph, group.outputs[0]});
  KernelPart part = parts == parts_.end() ? lowered(graph, group) : lowered(graph, parts->second);
  part.kernel.name = label_of(graph, group);
  rename_buffers(part.kernel);
  return part;
}

// Whether the scores are too large for the second-level cache.
bool AttentionJoiner::leaves_cache(const Graph& graph, const GroupsOfAttention& parts) const {
  const Value& scores = graph[parts[0].outputs[0]];
  const Dim bytes = element_count(*scores.shape) * Dim(size_of(scores.dtype));
  return bytes.is_constant() &&
         static_cast<double>(bytes.constant()) > kMinOfCache * static_cast<double>(options_.target.l2_bytes);
}

bool AttentionJoiner::has_bands(const Kernel& kernel) const {
  const std::vector<StrategyReport> report =
      default_report(Schedule(kernel, options_.target), options_.threads, options_.tolerance);
  return std::any_of(report.begin(), report.end(),
                     [](const StrategyReport& each) { return each.taken && each.name == "bands of rows"; });
}

std::vector<Group> AttentionJoiner::join(const Graph& graph, const std::vector<Group>& groups,
                                         const std::map<ValueId, int>& layouts) {
  const auto wanted = [&](const GroupsOfAttention& parts) {
    const bool plain = std::all_of(parts.begin(), parts.end(),
                                   [&](const Group& part) { return is_plain(graph, part, layouts); });
    if (!plain || !leaves_cache(graph, parts)) return false;
    Kernel kernel = lowered(graph, parts).kernel;
    rename_buffers(kernel);
    const auto [found, fresh] = has_bands_.try_emplace(workload_key(kernel), false);
    if (fresh) found->second = has_bands(kernel);
    return found->second;
  };
  // The keys are addresses: an earlier graph may have been at the address of this one.
  std::erase_if(parts_, [&](const auto& each) { return each.first.first == &graph; });
  return join_products(graph, groups, wanted, [&](const Group& group, const GroupsOfAttention& parts) {
    parts_[{&graph, group.outputs[0]}] = parts;
  });
}

}  // namespace tc
