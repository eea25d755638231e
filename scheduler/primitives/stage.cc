// stage: a result is accumulated in a private buffer and stored at the end.
#include "scheduler/rewriting.h"

namespace tc {

Primitive stage_primitive() {
  Primitive primitive;
  primitive.row = {"stage", "rewrite", "stage BUFFER",
                   "{ O = 0; O += S }  ->  { T = 0; T += S; O = T }: what is written to an output is "
                   "computed in a private buffer of the same shape and copied by a last statement."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    Kernel kernel = state.kernel->kernel;
    const std::string name = words.name("a buffer");
    const auto which = static_cast<int>(buffer_or_refuse(kernel, name));
    const Buffer original = kernel.buffers[static_cast<size_t>(which)];
    if (original.scope != Scope::Output) refuse("buffer ", name, " is not an output");
    const Statement* first = nullptr;
    for (const Statement& statement : kernel.statements) {
      if (statement.write.buffer == which && first == nullptr) first = &statement;
    }
    if (first == nullptr) refuse("no statement writes ", name);
    if (first->reduction != Reduction::None) refuse("statement ", first->name, " adds to what the buffer held");
    auto fresh = [&](std::string base, const auto& taken) {
      for (int number = 2; taken(base); ++number) base = name + "_stage" + std::to_string(number);
      return base;
    };
    Buffer staged = original;
    staged.name = fresh(name + "_stage", [&](const std::string& each) { return kernel.buffer_index(each) >= 0; });
    staged.scope = Scope::Local;
    staged.in_place_of.clear();
    const auto local = static_cast<int>(kernel.buffers.size());
    Statement store;
    store.name = fresh(name + "_store", [&](const std::string& each) { return kernel.find(each) != nullptr; });
    store.iterators = first->iterators;
    store.constraints = first->constraints;
    store.write = first->write;
    for (const Subscript& subscript : store.write.index) {
      if (subscript.dynamic) refuse("statement ", first->name, " writes at an index that depends on data");
    }
    store.value = load(original.dtype, local, store.write.index);
    for (Statement& statement : kernel.statements) {
      edit_accesses(statement, [&](const Access& access) {
        Access result = access;
        if (access.buffer == which) result.buffer = local;
        return result;
      });
    }
    kernel.buffers.push_back(staged);
    kernel.statements.push_back(std::move(store));
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
