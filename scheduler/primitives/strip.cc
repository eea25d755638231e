// strip: an iterator of one statement becomes two.
#include "scheduler/core/primitive.h"
#include "scheduler/core/rewriting.h"

namespace tc {

Primitive strip_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {"strip",
                   PrimitiveKind::Rewrite,
                   {iterator("STATEMENT_ITERATOR"), tuned(number("SIZE", "the size", 1)), keyword("as"),
                    name("OUTER", "the outer iterator's name"), name("INNER", "the inner iterator's name")},
                   "S[i]  ->  S[OUTER, INNER] with i = SIZE*OUTER + INNER, in the statement itself: "
                   "its accesses become affine in both, so that a constant can be packed by them."};
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    Kernel kernel = state.kernel->kernel;
    const auto [which, position] = given.iterator("STATEMENT_ITERATOR");
    const std::string outer = given.word("OUTER"), inner = given.word("INNER");
    Statement& statement = kernel.statements[which];
    const std::string old = statement.iterators[position].name;
    if (outer == inner) refuse("both iterators would be called '", outer, "'");
    for (const std::string& name : {outer, inner}) {
      if (name != old && fresh_iterator(kernel, statement, name) != name) {
        refuse("the name '", name, "' is taken");
      }
    }
    const int64_t size = given.number("SIZE");
    const Affine& extent = statement.iterators[position].extent;
    if (!has_parts(extent, size)) {
      refuse("iterator ", old, " has the symbolic extent ", extent.str(), ", which ", size,
             " need not divide: split its loop instead");
    }
    strip_iterator(statement, position, size, outer, inner);
    replace_kernel(state, std::move(kernel));
  };
  return primitive;
}

}  // namespace tc
