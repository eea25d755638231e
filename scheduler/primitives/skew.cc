// skew: an iterator starts at a multiple of another one.
#include <algorithm>

#include "scheduler/core/primitive.h"
#include "scheduler/core/rewriting.h"

namespace tc {
namespace {

// The loop tree counts quotients and remainders of single iterators, so the sum of two becomes an iterator of
// the statement. Where the inner iterator comes after the outer one, the instances keep their order.
void skew(Statement& statement, size_t outer, size_t inner, int64_t factor) {
  const Affine before = Affine::variable(statement.iterators[outer].name, factor);
  Iterator& skewed = statement.iterators[inner];
  const Affine value = Affine::variable(skewed.name) - before;  // what it counted until now
  const std::map<std::string, Affine> values = {{skewed.name, value}};
  for (Affine& constraint : statement.constraints) constraint = constraint.substitute(values);
  statement.constraints.push_back(value);
  statement.constraints.push_back(skewed.extent - Affine(1) - value);
  statement.write = substitute(statement.write, values);
  statement.value = substitute(statement.value, values);
  skewed.extent = skewed.extent + (statement.iterators[outer].extent - Affine(1)) * factor;
}

}  // namespace

Primitive skew_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "skew",
      PrimitiveKind::Rewrite,
      {iterator("STATEMENT_OUTER", "the outer iterator"), iterator("STATEMENT_INNER", "the inner iterator"),
       number("FACTOR", "the factor", 1)},
      "S[i, j]  ->  S[i, j - FACTOR*i], where j runs from FACTOR*i on, in the statement itself: its "
      "instances keep their order. Where an instance needs what its neighbours of earlier i made, "
      "`order` may then run j outside of i, and the loop over i is parallel or a vector: a wavefront."};
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    Kernel kernel = state.kernel->kernel;
    const auto [which, outer] = given.iterator("STATEMENT_OUTER");
    const auto [second, inner] = given.iterator("STATEMENT_INNER");
    Statement& statement = kernel.statements[which];
    if (which != second) refuse("the iterators are of two statements");
    if (outer >= inner) {
      refuse("iterator ", statement.iterators[outer].name, " of ", statement.name, " does not come before ",
             statement.iterators[inner].name);
    }
    constexpr int64_t kMaxFactor = 64;
    if (given.number("FACTOR") > kMaxFactor) refuse("a factor of more than ", kMaxFactor);
    skew(statement, outer, inner, given.number("FACTOR"));
    replace_kernel(state, std::move(kernel));
  };
  return primitive;
}

}  // namespace tc
