// What the rewrites share.
#include "scheduler/core/rewriting.h"

#include "ir/error.h"

namespace tc {

void strip_iterator(Statement& statement, size_t position, int64_t size, const std::string& outer,
                    const std::string& inner) {
  const Iterator old = statement.iterators.at(position);
  const Affine value = Affine::variable(outer, size) + Affine::variable(inner);
  const std::map<std::string, Affine> values{{old.name, value}};
  statement.write = substitute(statement.write, values);
  statement.value = substitute(statement.value, values);
  for (Affine& constraint : statement.constraints) constraint = constraint.substitute(values);
  const auto place = statement.iterators.begin() + static_cast<std::ptrdiff_t>(position);
  *place = {outer, parts_of(old.extent, size)};
  statement.iterators.insert(place + 1, {inner, Affine(size)});
  if (!old.extent.is_multiple_of(size)) statement.constraints.push_back(old.extent - Affine(1) - value);
}

Affine parts_of(const Affine& extent, int64_t size) {
  if (extent.is_multiple_of(size)) return extent.divided_by(size);
  return Affine((extent.constant() + size - 1) / size);
}

bool has_parts(const Affine& extent, int64_t size) {
  return extent.is_constant() || extent.is_multiple_of(size);
}

std::string fresh_iterator(const Kernel& kernel, const Statement& statement, const std::string& base) {
  auto taken = [&](const std::string& name) {
    for (const Iterator& iterator : statement.iterators) {
      if (iterator.name == name) return true;
    }
    for (const Parameter& parameter : kernel.parameters) {
      if (parameter.name == name) return true;
    }
    return false;
  };
  std::string name = base;
  for (int number = 2; taken(name); ++number) name = base + std::to_string(number);
  return name;
}

namespace {

ExprPtr edit_loads(const ExprPtr& expr, const std::function<Access(const Access&)>& edit) {
  return rewrite(expr, [&](const ExprPtr& node) -> ExprPtr {
    if (node->kind != Expr::Kind::Load) return nullptr;
    Access access = node->access;
    for (Subscript& subscript : access.index) {
      if (subscript.dynamic) subscript.dynamic = edit_loads(subscript.dynamic, edit);
    }
    access = edit(access);
    return load(node->dtype, access.buffer, access.index);
  });
}

}  // namespace

void edit_accesses(Statement& statement, const std::function<Access(const Access&)>& edit) {
  statement.value = edit_loads(statement.value, edit);
  for (Subscript& subscript : statement.write.index) {
    if (subscript.dynamic) subscript.dynamic = edit_loads(subscript.dynamic, edit);
  }
  statement.write = edit(statement.write);
}

void visit_accesses(const Statement& statement, const std::function<void(const Access&, bool)>& visit) {
  visit(statement.write, true);
  auto loads = [&](const ExprPtr& expr) {
    for_each_load(expr, [&](const Expr& load) { visit(load.access, false); });
  };
  loads(statement.value);
  for (const Subscript& subscript : statement.write.index) loads(subscript.dynamic);
}

bool moves_along(const Kernel& kernel, int buffer, int statement, const LoopPart& part) {
  bool moves = false;
  visit_accesses(kernel.statements[static_cast<size_t>(statement)], [&](const Access& access, bool) {
    if (access.buffer != buffer) return;
    for (const Subscript& subscript : access.index) {
      moves = moves || subscript.affine.coefficient(part.iterator) != 0;
    }
  });
  return moves;
}

std::map<std::string, Interval> box_of(const Kernel& kernel, const Statement& statement) {
  std::map<std::string, Interval> box;
  for (const Parameter& parameter : kernel.parameters) {
    box[parameter.name] = {parameter.minimum, parameter.maximum};
  }
  const auto parameters = box;
  for (const Iterator& iterator : statement.iterators) {
    box[iterator.name] = {0, range_of(iterator.extent, parameters).high - 1};
  }
  return box;
}

}  // namespace tc
