// strip: an iterator of one statement becomes two.
#include "scheduler/core/rewriting.h"

namespace tc {

Primitive strip_primitive() {
  Primitive primitive;
  primitive.row = {"strip", "rewrite", "strip STATEMENT_ITERATOR SIZE as OUTER INNER",
                   "S[i]  ->  S[OUTER, INNER] with i = SIZE*OUTER + INNER, in the statement itself: "
                   "its accesses become affine in both, so that a constant can be packed by them."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    Kernel kernel = state.kernel->kernel;
    const auto [which, position] = iterator_or_refuse(kernel, words.name("an iterator"));
    const int64_t size = words.number("the size", 1);
    words.expect("as");
    const std::string outer = words.name("the outer iterator's name");
    const std::string inner = words.name("the inner iterator's name");
    Statement& statement = kernel.statements[which];
    const std::string old = statement.iterators[position].name;
    if (outer == inner) refuse("both iterators would be called '", outer, "'");
    for (const std::string& name : {outer, inner}) {
      if (name != old && fresh_iterator(kernel, statement, name) != name) {
        refuse("the name '", name, "' is taken");
      }
    }
    if (!statement.iterators[position].extent.is_constant()) {
      refuse("iterator ", old, " has a symbolic extent: split its loop instead");
    }
    strip_iterator(statement, position, size, outer, inner);
    replace_kernel(state, std::move(kernel));
  };
  return primitive;
}

}  // namespace tc
