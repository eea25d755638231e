// What the statements of a kernel tell about the sign of an expression; uses no LLVM.
#include "codegen/llvm/emit/never_positive.h"

#include <algorithm>
#include <cmath>

namespace tc {
namespace {

class Rows {
 public:
  Rows(const Kernel& kernel, const Statement& reader) : kernel_(kernel), reader_(reader) {}

  // Whether `largest` is the largest of elements among which `element` is.
  bool is_largest(const Expr& largest, const Expr& element) const {
    if (largest.kind != Expr::Kind::Load) return false;
    const Statement* maximum = last_writer(largest);
    if (maximum == nullptr) return false;
    // A row whose elements all are -inf has 0 in place of its largest one.
    if (maximum->reduction == Reduction::None) {
      const Expr& value = *maximum->value;
      return value.kind == Expr::Kind::Select && is_minus_infinity(*value.operands[0]) &&
             value.operands[1]->kind == Expr::Kind::Const && value.operands[1]->number == 0 &&
             same(*value.operands[0]->operands[0], *value.operands[2]) &&
             is_largest(*value.operands[2], element);
    }
    if (maximum->reduction != Reduction::Max && maximum->reduction != Reduction::MaxNumber) return false;
    return same(*maximum->value, element) && stays(element, *maximum);
  }

 private:
  bool same(const Expr& a, const Expr& b) const { return str(a, kernel_) == str(b, kernel_); }

  static bool is_minus_infinity(const Expr& condition) {
    return condition.kind == Expr::Kind::Binary && condition.binary == BinaryOp::Eq &&
           condition.operands[1]->kind == Expr::Kind::Const && condition.operands[1]->number == -INFINITY;
  }

  // The last statement before the reader that writes the buffer of a load; null where it may not have
  // written exactly the element that the load reads, in every instance of the reader.
  const Statement* last_writer(const Expr& load) const {
    const Statement* result = nullptr;
    for (const Statement& each : kernel_.statements) {
      if (&each == &reader_) break;
      if (each.write.buffer == load.access.buffer) result = &each;
    }
    if (result == nullptr || !covers(*result)) return nullptr;
    Expr written = load;
    written.access = result->write;
    return same(written, load) ? result : nullptr;
  }

  // Whether the statement has an instance for each instance of the reader, with the same values of the
  // iterators.
  bool covers(const Statement& writer) const {
    const auto has = [&](const Iterator& iterator) {
      return std::any_of(reader_.iterators.begin(), reader_.iterators.end(), [&](const Iterator& own) {
        return own.name == iterator.name && own.extent == iterator.extent;
      });
    };
    return std::all_of(writer.iterators.begin(), writer.iterators.end(), has) &&
           std::all_of(writer.constraints.begin(), writer.constraints.end(), [&](const Affine& constraint) {
             return std::find(reader_.constraints.begin(), reader_.constraints.end(), constraint) !=
                    reader_.constraints.end();
           });
  }

  // Whether nothing that the expression reads is written from the statement on.
  bool stays(const Expr& expr, const Statement& from) const {
    bool result = true;
    const auto visit = [&](const auto& self, const Expr& each) -> void {
      if (each.kind == Expr::Kind::Load) {
        for (const Statement* statement = &from;
             statement != kernel_.statements.data() + kernel_.statements.size(); ++statement)
          if (statement->write.buffer == each.access.buffer) result = false;
        for (const Subscript& subscript : each.access.index) result = result && subscript.dynamic == nullptr;
      }
      for (const ExprPtr& operand : each.operands) self(self, *operand);
    };
    visit(visit, expr);
    return result;
  }

  const Kernel& kernel_;
  const Statement& reader_;
};

}  // namespace

bool is_never_positive(const Kernel& kernel, const Statement& statement, const Expr& expr) {
  if (expr.kind != Expr::Kind::Binary || expr.binary != BinaryOp::Sub || !is_float(expr.dtype)) return false;
  return Rows(kernel, statement).is_largest(*expr.operands[1], *expr.operands[0]);
}

}  // namespace tc
