// stage: a result is accumulated in a private buffer and stored at the end.
#include <algorithm>

#include "scheduler/core/primitive.h"
#include "scheduler/core/rewriting.h"

namespace tc {
namespace {

// Whether two statements certainly write the same elements: they are equal except for the names of iterators.
bool sets_the_same(const Statement& a, const Statement& b) {
  if (a.iterators.size() != b.iterators.size() || a.constraints.size() != b.constraints.size()) return false;
  std::map<std::string, Affine> names;
  for (size_t i = 0; i < a.iterators.size(); ++i) {
    if (a.iterators[i].extent != b.iterators[i].extent) return false;
    names[b.iterators[i].name] = Affine::variable(a.iterators[i].name);
  }
  for (size_t i = 0; i < a.constraints.size(); ++i) {
    if (a.constraints[i] != b.constraints[i].substitute(names)) return false;
  }
  for (size_t d = 0; d < a.write.index.size(); ++d) {
    if (a.write.index[d].affine != b.write.index[d].affine.substitute(names)) return false;
  }
  return true;
}

}  // namespace

Primitive stage_primitive() {
  using namespace argument;
  Primitive primitive;
  // clang-format off
  primitive.row = {"stage", PrimitiveKind::Rewrite, {buffer("BUFFER")},
      "{ O = 0; O += S }  ->  { T = 0; T += S; O = T }: what is written to an output, or to what later "
      "statements read, is computed in a private buffer of the same shape and copied by a statement "
      "behind all that write it."};
  // clang-format on
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    Kernel kernel = state.kernel->kernel;
    const auto which = static_cast<int>(given.buffer("BUFFER"));
    const Buffer original = kernel.buffers[static_cast<size_t>(which)];
    const std::string& name = original.name;
    const bool inside = original.scope == Scope::Local;
    if (original.scope != Scope::Output && !inside)
      refuse("buffer ", name, " is neither an output nor a private result");
    // Where the buffer is private, the statements up to the last one that writes it use the new buffer.
    size_t end = kernel.statements.size();
    while (inside && end > 0 && kernel.statements[end - 1].write.buffer != which) --end;
    // The copies store the elements that the setting statements set; reductions add to these elements only.
    std::vector<const Statement*> setters;
    for (const Statement& statement : kernel.statements) {
      if (statement.write.buffer != which) continue;
      if (statement.reduction != Reduction::None) {
        if (setters.empty()) refuse("statement ", statement.name, " adds to what the buffer held");
        continue;
      }
      for (const Subscript& subscript : statement.write.index) {
        if (subscript.dynamic)
          refuse("statement ", statement.name, " writes at an index that depends on data");
      }
      auto same = [&](const Statement* other) { return sets_the_same(*other, statement); };
      if (std::none_of(setters.begin(), setters.end(), same)) setters.push_back(&statement);
    }
    if (setters.empty()) refuse("no statement writes ", name);
    auto fresh = [&](std::string base, const std::string& suffix, const auto& taken) {
      for (int number = 2; taken(base); ++number) base = name + suffix + std::to_string(number);
      return base;
    };
    Buffer staged = original;
    staged.name = fresh(name + "_stage", "_stage",
                        [&](const std::string& each) { return kernel.buffer_index(each) >= 0; });
    staged.scope = Scope::Local;
    const auto local = static_cast<int>(kernel.buffers.size());
    std::vector<Statement> stores;
    for (const Statement* setter : setters) {
      Statement store;
      store.name = fresh(name + "_store", "_store", [&](const std::string& each) {
        return kernel.find(each) != nullptr ||
               std::any_of(stores.begin(), stores.end(),
                           [&](const Statement& other) { return other.name == each; });
      });
      store.iterators = setter->iterators;
      store.constraints = setter->constraints;
      store.write = setter->write;
      store.value = load(original.dtype, local, store.write.index);
      stores.push_back(std::move(store));
    }
    for (size_t i = 0; i < end; ++i) {
      edit_accesses(kernel.statements[i], [&](const Access& access) {
        Access result = access;
        if (access.buffer == which) result.buffer = local;
        return result;
      });
    }
    kernel.buffers.push_back(staged);
    kernel.statements.insert(kernel.statements.begin() + static_cast<std::ptrdiff_t>(end), stores.begin(),
                             stores.end());
    for (size_t i = 0, count = state.blocked.size(); i < count; ++i) {
      if (state.blocked[i].buffer != name) continue;
      BlockedDim copy = state.blocked[i];
      copy.buffer = staged.name;
      state.blocked.push_back(copy);
    }
    replace_kernel(state, std::move(kernel));
  };
  return primitive;
}

}  // namespace tc
