#include "codegen/llvm/emit/window_operands.h"

#include <algorithm>

#include "ir/access.h"

namespace tc {
namespace {

// The load of a byte that is converted to i32; null for others.
const Expr* byte_load(const Expr& expr) {
  if (expr.kind != Expr::Kind::Cast || expr.dtype != DType::I32) return nullptr;
  const Expr* load = expr.operands[0].get();
  const bool byte = load->kind == Expr::Kind::Load && (load->dtype == DType::I8 || load->dtype == DType::U8);
  return byte ? load : nullptr;
}

}  // namespace

WindowOperands::WindowOperands(const KernelContext& context, const TileStatement& tile, Ranges inner)
    : context_(context),
      tile_(tile),
      loops_(tile.loops),
      statement_(context.kernel.statements[static_cast<size_t>(tile.statement)]),
      inner_(std::move(inner)) {
  for (const TileLoop& loop : loops_) inner_[loop.name] = {0, loop.extent - 1};
}

bool WindowOperands::find_operands() {
  const Expr& value = *statement_.value;
  if (statement_.reduction != Reduction::Sum || value.kind != Expr::Kind::Binary ||
      value.binary != BinaryOp::Mul)
    return false;
  pixels_ = byte_load(*value.operands[0]);
  weights_ = byte_load(*value.operands[1]);
  if (pixels_ == nullptr || weights_ == nullptr) return false;
  if (scope_of(*weights_) != Scope::Constant) std::swap(pixels_, weights_);
  return scope_of(*weights_) == Scope::Constant && scope_of(*pixels_) == Scope::Input &&
         is_plain(*weights_) && is_plain(*pixels_);
}

Scope WindowOperands::scope_of(const Expr& load) const {
  return context_.kernel.buffers[static_cast<size_t>(load.access.buffer)].scope;
}

bool WindowOperands::is_plain(const Expr& load) const {
  const BufferSlot& slot = slot_of(load);
  for (size_t d = 0; d < load.access.index.size(); ++d) {
    if (load.access.index[d].dynamic != nullptr || slot.symbolic_stride[d] != nullptr ||
        !slot.shape[d].is_constant())
      return false;
  }
  return true;
}

Affine WindowOperands::subscript(const Expr& load, size_t d) const {
  return load.access.index[d].affine.substitute(tile_.iterators);
}

bool WindowOperands::is_bound(const Affine& affine) const {
  return std::all_of(affine.terms().begin(), affine.terms().end(), [&](const auto& term) {
    return context_.variables.count(term.first) > 0 && inner_.count(term.first) == 0;
  });
}

bool WindowOperands::is_padding(const Affine& constraint, const std::vector<size_t>& dims) const {
  Ranges ranges = context_.ranges;
  for (const auto& [name, range] : inner_) ranges[name] = range;
  if (proves_nonnegative(constraint, ranges, {})) return true;
  return std::any_of(dims.begin(), dims.end(), [&](size_t d) {
    const Affine index = subscript(*pixels_, d);
    return constraint == index || constraint == slot_of(*pixels_).shape[d] - Affine(1) - index;
  });
}

Affine bound_bytes(const KernelContext& context, const TileStatement& tile, const Expr& load,
                   const std::vector<size_t>& zero) {
  const BufferSlot& slot = context.buffers[static_cast<size_t>(load.access.buffer)];
  Affine bytes;
  for (size_t d = 0; d < load.access.index.size(); ++d) {
    if (std::find(zero.begin(), zero.end(), d) != zero.end()) continue;
    const Affine index = load.access.index[d].affine.substitute(tile.iterators);
    Affine bound(index.constant());
    for (const auto& [name, coefficient] : index.terms()) {
      if (context.variables.count(name) > 0) bound = bound + Affine::variable(name, coefficient);
    }
    bytes = bytes + bound * slot.stride[d];
  }
  return bytes;
}

}  // namespace tc
