// unit: one more iterator, of one trip.
#include "scheduler/core/primitive.h"
#include "scheduler/core/rewriting.h"

namespace tc {

Primitive unit_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "unit",
      PrimitiveKind::Rewrite,
      {statement("STATEMENT"), keyword("as"), name("NAME", "the iterator's name")},
      "S[i]  ->  S[NAME, i], where NAME has one trip: for an iterator of an instruction that the statement "
      "does not have. Changes no value."};
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    Kernel kernel = state.kernel->kernel;
    Statement& statement = kernel.statements[given.statement("STATEMENT")];
    const std::string& name = given.word("NAME");
    if (fresh_iterator(kernel, statement, name) != name)
      refuse("'", name, "' is an iterator of ", statement.name, " or a parameter already");
    statement.iterators.insert(statement.iterators.begin(), {name, Affine(1)});
    replace_kernel(state, std::move(kernel));
  };
  return primitive;
}

}  // namespace tc
