// A matrix of which rows are chosen and which is also multiplied, transposed, is stored once.
#include <algorithm>
#include <vector>

#include "ir/ops/rows.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

// Smaller matrices are not worth a node.
constexpr size_t kLeastBytes = 64 << 10;

using Consumers = std::vector<std::vector<int>>;

bool is_matrix(const Value& value) {
  return value.constant && value.constant->shape.size() == 2 && value.constant->bytes.size() >= kLeastBytes;
}

// Whether b is a transposed. Most pairs differ in one of the first elements.
bool is_transpose(const Tensor& a, const Tensor& b) {
  const int64_t rows = a.shape[0], columns = a.shape[1], size = size_of(a.dtype);
  if (a.dtype != b.dtype || b.shape[0] != columns || b.shape[1] != rows) return false;
  if (bits_of(a.dtype) != 8 * size) return false;  // elements that share a byte
  constexpr int64_t kTile = 64;                    // so that both are read by whole lines of the cache
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c) {
          const auto* of_a = a.bytes.data() + (r * columns + c) * size;
          if (!std::equal(of_a, of_a + size, b.bytes.data() + (c * rows + r) * size)) return false;
        }
      }
    }
  }
  return true;
}

bool is_product(const Node& node) { return node.op->traits.contraction == OpTraits::Contraction::Product; }

// Whether all nodes that read the value, or (`all` is false) not all of them, are products of matrices.
bool products_read(const Graph& graph, const Consumers& consumers, ValueId id, bool all) {
  const std::vector<int>& readers = consumers[static_cast<size_t>(id)];
  if (readers.empty() || is_output(graph, id)) return false;
  return all == std::all_of(readers.begin(), readers.end(),
                            [&](int node) { return is_product(graph.nodes[static_cast<size_t>(node)]); });
}

}  // namespace

void share_transposed(Graph& graph) {
  const Consumers consumers = graph.consumers();
  std::vector<ValueId> tables, factors;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    if (!is_matrix(graph[id])) continue;
    if (products_read(graph, consumers, id, false)) tables.push_back(id);
    if (products_read(graph, consumers, id, true)) factors.push_back(id);
  }
  std::vector<Node> nodes;
  Replacements readers;
  for (const ValueId table : tables) {
    for (const ValueId factor : factors) {
      if (!is_transpose(*graph[table].constant, *graph[factor].constant)) continue;
      NodeBuilder build(graph, graph.nodes[static_cast<size_t>(consumers[static_cast<size_t>(factor)][0])]);
      readers.replace(factor, build.add("Transpose", {table}, {{"perm", std::vector<int64_t>{1, 0}}}));
      for (Node& each : build.take()) nodes.push_back(std::move(each));
    }
  }
  if (nodes.empty()) return;
  readers.apply(graph);
  graph.nodes.insert(graph.nodes.begin(), nodes.begin(), nodes.end());
}

}  // namespace tc
