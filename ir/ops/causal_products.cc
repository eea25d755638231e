// The two products of an attention whose queries see the keys up to their own position: only the products
// that are seen are computed. The expansion of Attention makes them (ir/ops/attention.cc).
#include <cmath>

#include "ir/ops/equation.h"
#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

constexpr const char* kProduct = "C[...,m,n] += A[...,m,k] * B[...,k,n]";

// At least 0 where a row sees a position. `rows` neighbouring rows are queries of the same position, which
// for the first of them is `first`.
Affine seen(LowerContext& context, const Affine& row, const Affine& position) {
  const int64_t rows = int_attribute(context.node(), "rows");
  return context.dim(dims_attribute(context.node(), "first").at(0)) * rows + row - position * rows;
}

// The letter of an equation as an iterator of the statement; letters of extent 1 have none.
Affine letter(const Statement& statement, const char* name) {
  for (const Iterator& iterator : statement.iterators) {
    if (iterator.name == name) return Affine::variable(name);
  }
  return Affine(0);
}

void lower_scores(LowerContext& context) {
  const Shape& shape = *context.output_value(0).shape;
  const DType type = LowerContext::compute_type(context.dtype(0));
  const int sum = context.local("sum", type, shape);
  std::vector<Statement>& statements = context.kernel().statements;
  const size_t begin = statements.size();
  lower_equation(context, kProduct, "macc", sum);
  for (size_t i = begin; i < statements.size(); ++i) {
    Statement& each = statements[i];
    each.constraints.push_back(seen(context, letter(each, "m"), letter(each, "n")));
  }
  auto space = context.space("o", shape);
  const size_t rank = space.position.size();
  const Affine is_seen = seen(context, space.position[rank - 2], space.position[rank - 1]);
  const ExprPtr condition = binary(BinaryOp::Ge, index_value(is_seen), index_value(Affine(0)));
  context.assign("edge", space.iterators, context.output(0), space.position,
                 select(condition, context.read_buffer(sum, space.position), constant(type, -INFINITY)));
}

void lower_sum(LowerContext& context) {
  std::vector<Statement>& statements = context.kernel().statements;
  const size_t begin = statements.size();
  lower_equation(context, kProduct, "macc", context.output(0));
  for (size_t i = begin; i < statements.size(); ++i) {
    Statement& each = statements[i];
    if (each.reduction != Reduction::None)
      each.constraints.push_back(seen(context, letter(each, "m"), letter(each, "k")));
  }
}

OpRow causal_row(const char* name, const char* doc, void (*lower)(LowerContext&)) {
  OpRow row;
  row.name = name;
  row.category = "attention";
  row.doc = doc;
  row.equation = kProduct;
  row.traits.contraction = OpTraits::Contraction::Product;
  row.minimum_inputs = row.maximum_inputs = 2;
  row.types = {{kFloats}};
  row.attributes = {{"rows", int64_t{1}}, {"first", std::vector<Dim>{}}};
  row.lower = lower;
  return row;
}

}  // namespace

void register_causal_product_ops(OpTable& table) {
  table.add(causal_row("CausalScores",
                       "Matrix product whose row m has the first first + floor(m / rows) + 1 columns, and "
                       "minus infinity beyond; the compiler makes it of attention.",
                       lower_scores));
  table.add(causal_row("CausalSum",
                       "Matrix product whose row m adds up the first first + floor(m / rows) + 1 products; "
                       "the compiler makes it of attention.",
                       lower_sum));
}

}  // namespace tc
