// pack: a constant stored in the order in which one statement reads it.
#include <algorithm>

#include "scheduler/rewriting.h"

namespace tc {

Primitive pack_primitive() {
  Primitive primitive;
  primitive.row = {"pack", "rewrite", "pack BUFFER : ITERATOR ...",
                   "S reads K[index(i, j, ..)]  ->  S reads K[i][j][..]: the constant is stored, while "
                   "compiling, with one dimension per listed iterator of the one statement that "
                   "reads it. Elements outside of the original are 0."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    Kernel kernel = state.kernel->kernel;
    const std::string name = words.name("a buffer");
    const auto which = static_cast<int>(buffer_or_refuse(kernel, name));
    words.expect(":");
    std::vector<std::string> iterators;
    while (!words.at_end()) iterators.push_back(words.name("an iterator"));
    Buffer& buffer = kernel.buffers[static_cast<size_t>(which)];
    if (buffer.scope != Scope::Constant) refuse("buffer ", name, " is not a constant");
    Statement* reader = nullptr;
    std::optional<Access> access;
    int count = 0;
    for (Statement& statement : kernel.statements) {
      visit_accesses(statement, [&](const Access& each, bool) {
        if (each.buffer != which) return;
        ++count;
        reader = &statement;
        access = each;
      });
    }
    if (count != 1) refuse("constant ", name, " is read at ", count, " places, not at one");
    std::vector<Affine> shape, index;
    int64_t elements = 1;
    for (const std::string& iterator : iterators) {
      if (std::count(iterators.begin(), iterators.end(), iterator) > 1) {
        refuse("iterator ", iterator, " is named twice");
      }
      const auto found = std::find_if(reader->iterators.begin(), reader->iterators.end(),
                                      [&](const Iterator& each) { return each.name == iterator; });
      if (found == reader->iterators.end()) {
        refuse("statement ", reader->name, " has no iterator '", iterator, "'");
      }
      if (!found->extent.is_constant()) refuse("iterator ", iterator, " has a symbolic extent");
      shape.push_back(found->extent);
      index.push_back(Affine::variable(iterator));
      if (__builtin_mul_overflow(elements, found->extent.constant(), &elements)) elements = -1;
    }
    int64_t original = 1;
    for (const Affine& size : buffer.shape) {
      if (!size.is_constant()) refuse("constant ", name, " has a symbolic shape");
      original *= size.constant();
    }
    if (elements < 0 || elements > 16 * original + 4096) {
      refuse("the packed constant would be ", elements, " elements instead of ", original);
    }
    for (const Subscript& subscript : access->index) {
      if (subscript.dynamic) refuse("constant ", name, " is read at an index that depends on data");
      for (const auto& [variable, coefficient] : subscript.affine.terms()) {
        if (std::count(iterators.begin(), iterators.end(), variable) == 0) {
          refuse("the index of ", name, " depends on ", variable, ", which is not listed");
        }
      }
    }
    const auto old = std::find_if(kernel.packings.begin(), kernel.packings.end(),
                                  [&](const Packing& packing) { return packing.buffer == name; });
    if (old != kernel.packings.end() && (!old->terms.empty() || !old->scales_of.empty())) {
      refuse("constant ", name, " is packed as the algorithm needs it");
    }
    Packing packing;
    packing.buffer = name;
    packing.iterators = iterators;
    if (old == kernel.packings.end()) {
      for (const Affine& size : buffer.shape) packing.original_shape.push_back(size.constant());
      for (const Subscript& subscript : access->index) packing.index.push_back(subscript.affine);
      kernel.packings.push_back(std::move(packing));
    } else {
      packing.original_shape = old->original_shape;
      packing.combinations = old->combinations;
      std::map<std::string, Affine> values;
      for (size_t d = 0; d < access->index.size(); ++d) {
        values[old->iterators[d]] = access->index[d].affine;
      }
      for (const Affine& each : old->index) packing.index.push_back(each.substitute(values));
      *old = std::move(packing);
    }
    state.blocked.erase(std::remove_if(state.blocked.begin(), state.blocked.end(),
                                       [&](const BlockedDim& dim) { return dim.buffer == name; }),
                        state.blocked.end());
    edit_accesses(*reader, [&](const Access& each) {
      if (each.buffer != which) return each;
      Access result{which, {}};
      for (const Affine& affine : index) result.index.push_back({affine, nullptr});
      return result;
    });
    buffer.shape = shape;
    buffer.logical = "packed";
    replace_kernel(state, std::move(kernel));
  };
  return primitive;
}

}  // namespace tc
