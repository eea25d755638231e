// shift: an iterator starts at an offset.
#include "scheduler/core/primitive.h"
#include "scheduler/core/rewriting.h"

namespace tc {
namespace {

// As for skew, the iterator of the statement is another one, and the instances keep their order.
void shift(Statement& statement, size_t which, int64_t offset) {
  Iterator& shifted = statement.iterators[which];
  const Affine value = Affine::variable(shifted.name) - Affine(offset);  // what it counted until now
  const std::map<std::string, Affine> values = {{shifted.name, value}};
  for (Affine& constraint : statement.constraints) constraint = constraint.substitute(values);
  statement.constraints.push_back(value);
  statement.write = substitute(statement.write, values);
  statement.value = substitute(statement.value, values);
  shifted.extent = shifted.extent + Affine(offset);
}

}  // namespace

Primitive shift_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "shift",
      PrimitiveKind::Rewrite,
      {iterator("STATEMENT_ITERATOR", "the iterator"), number("OFFSET", "where it starts", 1)},
      "S[i]  ->  S[i - OFFSET], where i runs from OFFSET on, in the statement itself: its instances keep their "
      "order. A statement that reads later elements of what another one makes, such as T[i + 2], may then "
      "share a loop with it: it runs OFFSET iterations behind."};
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    Kernel kernel = state.kernel->kernel;
    const auto [which, iterator] = given.iterator("STATEMENT_ITERATOR");
    constexpr int64_t kMaxOffset = 4096;
    if (given.number("OFFSET") > kMaxOffset) refuse("an offset of more than ", kMaxOffset);
    shift(kernel.statements[which], iterator, given.number("OFFSET"));
    replace_kernel(state, std::move(kernel));
  };
  return primitive;
}

}  // namespace tc
