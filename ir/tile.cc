// Analyses of a leaf's statements.
#include "ir/tile.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "ir/error.h"

namespace tc {

bool is_open_loop(const std::string& name) { return name[0] == '%' && name.find('#') == std::string::npos; }

bool is_fixed(const Affine& affine) {
  return std::none_of(affine.terms().begin(), affine.terms().end(),
                      [](const auto& term) { return is_open_loop(term.first); });
}

TileStatement with_loop_names(TileStatement tile, const std::set<std::string>& outer) {
  std::map<std::string, Affine> names;
  for (TileLoop& loop : tile.loops) {
    const bool is_vector = loop.kind == TileLoop::Kind::Vector && loop.extent > 1;
    if (loop.kind == TileLoop::Kind::Vector && !is_vector) loop.kind = TileLoop::Kind::Unroll;
    const std::string name = is_vector ? kLaneLoop : "%" + loop.name;
    names[loop.name] = Affine::variable(name);
    loop.name = name;
  }
  for (auto& [name, affine] : tile.iterators) affine = affine.substitute(names);
  std::map<std::string, Affine> in_constraints = names;
  for (const auto& [name, affine] : tile.iterators) {
    if (outer.count(name) == 0) in_constraints.insert({name, affine});
  }
  for (Affine& constraint : tile.constraints) constraint = constraint.substitute(in_constraints);
  return tile;
}

int64_t last_trip(const TileLoop& loop, const Ranges& ranges) {
  if (loop.extent >= 0) return loop.extent - 1;
  TC_CHECK(loop.kind == TileLoop::Kind::Serial, "for loop '", loop.name, "' without a number");
  return (range_of(loop.symbolic_extent, ranges).high + loop.symbolic_divisor - 1) / loop.symbolic_divisor -
         1;
}

std::optional<Affine> worst_case(const Affine& constraint, const TileStatement& tile,
                                 const std::set<std::string>& outer) {
  std::map<std::string, Affine> iterators;
  for (const auto& [name, affine] : tile.iterators) {
    const bool is_loop = std::any_of(tile.loops.begin(), tile.loops.end(),
                                     [&](const TileLoop& loop) { return loop.name == name; });
    if (!is_loop && outer.count(name) == 0) iterators.insert({name, affine});
  }
  const Affine expanded = constraint.substitute(iterators);
  std::map<std::string, Affine> corner;
  bool guards_copies = false;
  for (const TileLoop& loop : tile.loops) {
    const int64_t coefficient = expanded.coefficient(loop.name);
    if (coefficient == 0) continue;
    guards_copies |= loop.kind != TileLoop::Kind::Serial && loop.extent > 1;
    if (coefficient > 0) {
      corner[loop.name] = Affine(0);
    } else {
      if (loop.extent < 0) return std::nullopt;  // the loop has trips of both kinds
      corner[loop.name] = Affine(loop.extent - 1);
    }
  }
  if (!guards_copies) return std::nullopt;
  return expanded.substitute(corner);
}

bool reads_itself(const Statement& statement) {
  bool result = false;
  for_each_load(statement.value,
                [&](const Expr& load) { result |= load.access.buffer == statement.write.buffer; });
  return result;
}

std::optional<size_t> accumulation_start(const Kernel& kernel, const TileStatement& tile) {
  const Statement& statement = kernel.statements[static_cast<size_t>(tile.statement)];
  const Access& write = statement.write;
  const Buffer& buffer = kernel.buffers[static_cast<size_t>(write.buffer)];
  const bool is_register = buffer.scope == Scope::Register;
  if (statement.reduction == Reduction::None && !is_register) return std::nullopt;
  size_t position = tile.loops.size();
  for (const Subscript& subscript : write.index)
    TC_CHECK(subscript.dynamic == nullptr, "in the write of statement '", statement.name, "'");
  while (position > 0) {
    const TileLoop& loop = tile.loops[position - 1];
    const bool moves = std::any_of(write.index.begin(), write.index.end(), [&](const Subscript& subscript) {
      return mentions(subscript.affine.substitute(tile.iterators), loop.name);
    });
    if (loop.kind == TileLoop::Kind::Serial && moves) break;
    --position;
  }
  if (is_register) {
    TC_CHECK(position == 0, "in statement '", statement.name,
             "': a serial loop moves along the register buffer '", buffer.name, "'");
    return 0;
  }
  return reads_itself(statement) ? tile.loops.size() : position;
}

bool are_disjoint(const std::vector<std::vector<Affine>>& writes, const std::string& lane, int lanes) {
  const auto are_apart = [&](const std::vector<Affine>& a, const std::vector<Affine>& b) {
    for (size_t d = 0; d < a.size(); ++d) {
      const Affine difference = a[d] - b[d];
      if (!difference.is_constant() || difference.constant() == 0) continue;
      const int64_t step = lanes > 1 ? a[d].coefficient(lane) : 0;
      if (step == 0 || difference.constant() % step != 0 || std::abs(difference.constant() / step) >= lanes)
        return true;
    }
    return false;
  };
  for (size_t i = 0; i < writes.size(); ++i) {
    for (size_t j = i + 1; j < writes.size(); ++j) {
      if (!are_apart(writes[i], writes[j])) return false;
    }
  }
  return true;
}

}  // namespace tc
