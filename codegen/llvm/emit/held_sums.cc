#include "codegen/llvm/emit/held_sums.h"

#include <algorithm>
#include <set>

namespace tc {
namespace {

// How often the statement reads the buffer or writes to it.
int accesses(const Statement& statement, int buffer) {
  int result = statement.write.buffer == buffer ? 1 : 0;
  for_each_load(statement.value, [&](const Expr& load) { result += load.access.buffer == buffer ? 1 : 0; });
  return result;
}

// Whether each instance runs always, as copies or lanes of the leaf.
bool runs_as_copies(const TileStatement& tile) {
  return tile.constraints.empty() &&
         std::all_of(tile.loops.begin(), tile.loops.end(), [](const TileLoop& loop) {
           return loop.kind == TileLoop::Kind::Unroll || loop.kind == TileLoop::Kind::Vector;
         });
}

}  // namespace

std::optional<HeldSums> held_sums(const Kernel& kernel, const LoopNode& loop) {
  std::set<std::string> variables;
  const LoopNode* leaf = &loop;
  for (; leaf->kind == LoopNode::Kind::For; leaf = leaf->children.at(0).get())
    variables.insert(leaf->variable);
  if (leaf->kind != LoopNode::Kind::Leaf) return std::nullopt;
  for (const TileStatement& tile : leaf->statements) {
    const Statement& statement = kernel.statements[static_cast<size_t>(tile.statement)];
    const int buffer = statement.write.buffer;
    int all = 0;
    for (const TileStatement& each : leaf->statements)
      all += accesses(kernel.statements[static_cast<size_t>(each.statement)], buffer);
    const bool moves = std::any_of(
        statement.write.index.begin(), statement.write.index.end(), [&](const Subscript& subscript) {
          const Affine affine = subscript.affine.substitute(tile.iterators);
          return subscript.dynamic != nullptr ||
                 std::any_of(variables.begin(), variables.end(),
                             [&](const std::string& name) { return affine.coefficient(name) != 0; });
        });
    const DType dtype = kernel.buffers[static_cast<size_t>(buffer)].dtype;
    if (kernel.buffers[static_cast<size_t>(buffer)].scope != Scope::Register && !moves && all == 1 &&
        statement.reduction != Reduction::None && dtype != DType::Bool && runs_as_copies(tile))
      return HeldSums{buffer, nullptr, {}};
  }
  return std::nullopt;
}

void store_held(KernelContext& context, const HeldSums& held) {
  const DType dtype = context.kernel.buffers[static_cast<size_t>(held.buffer)].dtype;
  for (const auto& [name, element] : held.elements) {
    llvm::Value* value = context.builder.CreateLoad(element.variable->getAllocatedType(), element.variable);
    context.builder.CreateAlignedStore(value, element.address,
                                       llvm::Align(static_cast<uint64_t>(size_of(dtype))));
  }
}

}  // namespace tc
