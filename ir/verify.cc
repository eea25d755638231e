// The verifier of kernels: names, types, ranks, ranges, order of definition.
#include <algorithm>
#include <set>

#include "ir/domain.h"
#include "ir/error.h"
#include "ir/loop.h"
#include "ir/text_cursor.h"

namespace tc {
namespace {

bool is_logical(BinaryOp op) { return op == BinaryOp::And || op == BinaryOp::Or || op == BinaryOp::Xor; }

bool needs_float(UnaryOp op) {
  switch (op) {
    case UnaryOp::Neg:
    case UnaryOp::Abs:
    case UnaryOp::Sign:
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::Round:
    case UnaryOp::Trunc:
    case UnaryOp::Not:
    case UnaryOp::BitNot: return false;
    default: return true;
  }
}

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel) {}

  void run() {
    check_parameters();
    check_buffers();
    check_packings();
    std::set<std::string> names;
    for (const Statement& statement : kernel_.statements) {
      statement_ = &statement;
      require(is_identifier(statement.name), "the name is no identifier");
      require(names.insert(statement.name).second, "the name is taken");
      check_statement(statement);
      written_.insert(statement.write.buffer);
    }
  }

 private:
  template <class... Parts>
  [[noreturn]] void broken(const Parts&... parts) const {
    std::string where = text("kernel '", kernel_.name, "'");
    if (statement_) where += text(", statement '", statement_->name, "'");
    fail(ErrorKind::Internal, where, ": ", parts...);
  }
  template <class... Parts>
  void require(bool condition, const Parts&... parts) const {
    if (!condition) broken(parts...);
  }

  void check_variables(const Affine& affine, const std::set<std::string>& known, const char* what) const {
    for (const auto& [name, coefficient] : affine.terms()) {
      require(known.count(name), what, " `", affine.str(), "` uses '", name, "', which is not known");
    }
  }

  void check_parameters() {
    for (const Parameter& parameter : kernel_.parameters) {
      require(is_identifier(parameter.name), "parameter '", parameter.name, "' is no identifier");
      require(parameters_.insert(parameter.name).second, "parameter '", parameter.name,
              "' is declared twice");
      require(parameter.minimum <= parameter.maximum, "the range of parameter '", parameter.name,
              "' is empty");
    }
  }

  void check_buffers() {
    std::set<std::string> names;
    for (const Buffer& buffer : kernel_.buffers) {
      require(is_identifier(buffer.name), "buffer '", buffer.name, "' is no identifier");
      require(names.insert(buffer.name).second, "buffer '", buffer.name, "' is declared twice");
      for (const Affine& size : buffer.shape) check_variables(size, parameters_, "size");
    }
  }

  void check_terms(const Packing& packing, const Buffer& buffer) {
    const bool digits = buffer.dtype == DType::I8 || buffer.dtype == DType::I16;
    require(is_float(buffer.dtype) || digits, "the packing of '", packing.buffer, "' divides ",
            name_of(buffer.dtype), " numbers into terms");
    require(digits == !packing.scaled.empty(), "the packing of '", packing.buffer, "' ",
            digits ? "makes digits without scales" : "scales terms that are no digits");
    for (const std::string& iterator : packing.scaled) {
      const bool known = std::count(packing.iterators.begin(), packing.iterators.end(), iterator) == 1 &&
                         std::count(packing.scaled.begin(), packing.scaled.end(), iterator) == 1;
      require(known && iterator != packing.terms, "the packing of '", packing.buffer,
              "' cannot have scales by '", iterator, "'");
    }
    const bool known = std::count(packing.iterators.begin(), packing.iterators.end(), packing.terms) == 1;
    require(known, "the packing of '", packing.buffer, "' has no iterator '", packing.terms,
            "' for its terms");
    for (size_t d = 0; buffer.dtype == DType::I16 && d < buffer.shape.size() && d < packing.iterators.size();
         ++d) {
      require(packing.iterators[d] != packing.terms || buffer.shape[d] == Affine(1), "the packing of '",
              packing.buffer, "' makes several terms of i16");
    }
    for (const Affine& index : packing.index) {
      require(index.coefficient(packing.terms) == 0, "the packing of '", packing.buffer,
              "' reads other elements for other terms");
    }
  }

  void check_words(const Packing& packing, const Buffer& buffer) {
    bool fits = buffer.dtype == DType::I32 && packing.terms.empty() && packing.combinations.empty();
    int64_t found = 0;
    for (size_t d = 0; d < packing.iterators.size(); ++d) {
      const bool scaled = std::count(packing.scaled.begin(), packing.scaled.end(), packing.iterators[d]) == 1;
      if (packing.iterators[d] != packing.words) continue;
      fits = fits && scaled != packing.scaled.empty() &&
             buffer.shape[d] == Affine(scaled ? kWordsOfValues : int64_t{1});
      ++found;
    }
    for (const std::string& iterator : packing.scaled) {
      fits = fits && std::count(packing.iterators.begin(), packing.iterators.end(), iterator) == 1;
    }
    require(fits && found == 1, "the packing of '", packing.buffer, "' has no dimension '", packing.words,
            "' of two words of i32 with scales, or of one without");
  }

  void check_scales(const Packing& packing, const Buffer& buffer) {
    const Packing* digits = packing_of(kernel_, packing.scales_of);
    require(digits != nullptr && !digits->scaled.empty(), "the packing of '", packing.buffer,
            "' has no digits in '", packing.scales_of, "'");
    const auto& of = kernel_.buffers.at(static_cast<size_t>(kernel_.buffer_index(packing.scales_of)));
    require(!packing.sums || (of.dtype == DType::I8 && digits->terms.empty()), "the packing of '",
            packing.buffer, "' adds up numbers of '", packing.scales_of, "', which are not i8");
    const auto& packed = of.shape;
    int64_t wanted = 1, is = 1;
    for (size_t d = 0; d < digits->iterators.size() && d < packed.size(); ++d) {
      const bool scaled = std::count(digits->scaled.begin(), digits->scaled.end(), digits->iterators[d]) > 0;
      if (scaled && digits->iterators[d] == digits->words) wanted *= kValuesInWords;
      else if (scaled && packed[d].is_constant()) wanted *= packed[d].constant();
    }
    for (const Affine& size : buffer.shape) is = size.is_constant() ? is * size.constant() : -1;
    const bool fits = buffer.dtype == (packing.sums ? DType::I32 : DType::F32) && is == wanted;
    require(fits, "buffer '", packing.buffer, "' does not hold as many numbers as '", packing.scales_of,
            "' has ", packing.sums ? "sums" : "scales");
  }

  void check_packings() {
    for (const Packing& packing : kernel_.packings) {
      int index = kernel_.buffer_index(packing.buffer);
      require(index >= 0 && kernel_.buffers[static_cast<size_t>(index)].scope == Scope::Constant,
              "packing of '", packing.buffer, "', which is no constant buffer");
      const Buffer& buffer = kernel_.buffers[static_cast<size_t>(index)];
      if (!packing.scales_of.empty()) {
        check_scales(packing, buffer);
        continue;
      }
      std::set<std::string> iterators(packing.iterators.begin(), packing.iterators.end());
      require(packing.iterators.size() == buffer.shape.size() && iterators.size() == buffer.shape.size(),
              "the packing of '", packing.buffer, "' needs one iterator per dimension");
      require(packing.index.size() == packing.original_shape.size(), "the packing of '", packing.buffer,
              "' needs one index per dimension of the original");
      for (const Affine& affine : packing.index) check_variables(affine, iterators, "index");
      if (!packing.terms.empty()) check_terms(packing, buffer);
      if (!packing.words.empty()) check_words(packing, buffer);
      const bool summed =
          std::any_of(kernel_.packings.begin(), kernel_.packings.end(),
                      [&](const Packing& each) { return each.sums && each.scales_of == packing.buffer; });
      require(packing.scaled.empty() || !packing.terms.empty() || !packing.words.empty() || summed,
              "the packing of '", packing.buffer, "' has scales, but neither terms nor words");
      std::vector<int64_t> shape = packing.original_shape;
      for (const Combination& each : packing.combinations) {
        require(is_float(buffer.dtype) && each.dimension < shape.size(), "the packing of '", packing.buffer,
                "' combines dimension ", each.dimension, ", which the original does not have as numbers");
        require(!each.rows.empty(), "the packing of '", packing.buffer, "' combines nothing");
        for (const std::vector<double>& row : each.rows) {
          require(static_cast<int64_t>(row.size()) == shape[each.dimension], "the packing of '",
                  packing.buffer, "' combines ", row.size(), " elements of ", shape[each.dimension]);
        }
        shape[each.dimension] = static_cast<int64_t>(each.rows.size());
      }
    }
  }

  void check_statement(const Statement& statement) {
    known_ = parameters_;
    checked_.clear();
    for (const Iterator& iterator : statement.iterators) {
      require(is_identifier(iterator.name), "iterator '", iterator.name, "' is no identifier");
      check_variables(iterator.extent, parameters_, "extent");
    }
    for (const Iterator& iterator : statement.iterators) {
      require(known_.insert(iterator.name).second, "iterator '", iterator.name, "' has a name that is taken");
    }
    for (const Affine& constraint : statement.constraints) {
      check_variables(constraint, known_, "constraint");
    }
    require(statement.value != nullptr, "there is no value");
    check_access(statement.write);
    const Buffer& target = buffer(statement.write);
    require(target.scope != Scope::Input && target.scope != Scope::Constant, "it writes ",
            name_of(target.scope), " buffer '", target.name, "'");
    require(target.dtype == statement.value->dtype, "it stores ", name_of(statement.value->dtype), " to ",
            name_of(target.dtype), " buffer '", target.name, "'");
    if (statement.reduction != Reduction::None) {
      require(written_.count(statement.write.buffer), "it reduces into buffer '", target.name,
              "', which no earlier statement initialises");
      for (const Subscript& subscript : statement.write.index) {
        require(!subscript.dynamic, "a reduction stores through a dynamic subscript");
      }
    }
    check_expr(*statement.value);
    for (bool largest : {false, true}) {
      if (largest && kernel_.parameters.empty()) break;
      check_ranges(statement, largest);
    }
  }

  const Buffer& buffer(const Access& access) const {
    require(access.buffer >= 0 && access.buffer < static_cast<int>(kernel_.buffers.size()),
            "an access refers to buffer ", access.buffer, ", which does not exist");
    return kernel_.buffers[static_cast<size_t>(access.buffer)];
  }

  void check_access(const Access& access) {
    const Buffer& target = buffer(access);
    require(access.index.size() == target.shape.size(), "buffer '", target.name, "' of rank ",
            target.shape.size(), " is accessed with ", access.index.size(), " subscripts");
    for (const Subscript& subscript : access.index) {
      check_variables(subscript.affine, known_, "subscript");
      if (!subscript.dynamic) continue;
      require(subscript.dynamic->dtype == DType::I64, "a dynamic subscript is ",
              name_of(subscript.dynamic->dtype), ", not i64");
      check_expr(*subscript.dynamic);
    }
  }

  void check_load(const Expr& expr) {
    check_access(expr.access);
    const Buffer& source = buffer(expr.access);
    require(source.dtype == expr.dtype, "a load of ", name_of(source.dtype), " buffer '", source.name,
            "' has type ", name_of(expr.dtype));
    bool is_argument = source.scope == Scope::Input || source.scope == Scope::Constant;
    // A statement may read what its own earlier instances wrote.
    require(
        is_argument || written_.count(expr.access.buffer) || statement_->write.buffer == expr.access.buffer,
        "it reads buffer '", source.name, "', which no earlier statement writes");
  }

  void check_expr(const Expr& expr) {
    if (!checked_.insert(&expr).second) return;
    static const std::map<Expr::Kind, size_t> operand_counts = {
        {Expr::Kind::Unary, 1}, {Expr::Kind::Binary, 2}, {Expr::Kind::Select, 3}, {Expr::Kind::Cast, 1}};
    auto count = operand_counts.find(expr.kind);
    require(expr.operands.size() == (count == operand_counts.end() ? 0 : count->second), "an expression has ",
            expr.operands.size(), " operands");
    for (const ExprPtr& operand : expr.operands) {
      require(operand != nullptr, "an operand is missing");
      check_expr(*operand);
    }
    auto type = [&](size_t i) { return expr.operands[i]->dtype; };
    switch (expr.kind) {
      case Expr::Kind::Const:
      case Expr::Kind::Cast: return;
      case Expr::Kind::Load: return check_load(expr);
      case Expr::Kind::Index:
        check_variables(expr.affine, known_, "index");
        return require(expr.dtype == DType::I64, "an index has type ", name_of(expr.dtype));
      case Expr::Kind::Select:
        require(type(0) == DType::Bool, "the condition of a select is ", name_of(type(0)));
        return require(type(1) == expr.dtype && type(2) == expr.dtype, "the sides of a select have types ",
                       name_of(type(1)), " and ", name_of(type(2)));
      case Expr::Kind::Unary: {
        bool is_test = expr.unary == UnaryOp::IsNan || expr.unary == UnaryOp::IsInf;
        check_computed(type(0), name_of(expr.unary));
        require(expr.dtype == (is_test ? DType::Bool : type(0)), name_of(expr.unary), " of ",
                name_of(type(0)), " gives ", name_of(expr.dtype));
        require(is_float(type(0)) || is_test || !needs_float(expr.unary), name_of(expr.unary),
                " has no meaning for ", name_of(type(0)));
        return require(expr.unary != UnaryOp::Not || type(0) == DType::Bool, "not of ", name_of(type(0)));
      }
      case Expr::Kind::Binary: {
        bool compares = expr.binary >= BinaryOp::Eq && expr.binary <= BinaryOp::Ge;
        check_computed(type(0), name_of(expr.binary));
        require(type(0) == type(1), name_of(expr.binary), " of ", name_of(type(0)), " and ",
                name_of(type(1)));
        require(expr.dtype == (compares ? DType::Bool : type(0)), name_of(expr.binary), " of ",
                name_of(type(0)), " gives ", name_of(expr.dtype));
        bool bits = is_logical(expr.binary) || expr.binary == BinaryOp::Shl || expr.binary == BinaryOp::Shr;
        return require(!is_float(type(0)) || !bits, name_of(expr.binary), " has no meaning for ",
                       name_of(type(0)));
      }
    }
  }

  void check_computed(DType dtype, const char* what) const {
    require(!is_storage(dtype), what, " of ", name_of(dtype), ": it is a storage type; cast to f32 first");
  }

  // Ranges, with every parameter at one end of its range.
  void check_ranges(const Statement& statement, bool largest) {
    ends_.clear();
    for (const Parameter& parameter : kernel_.parameters) {
      ends_[parameter.name] = largest ? parameter.maximum : parameter.minimum;
    }
    std::map<std::string, Interval> box;
    for (const Iterator& iterator : statement.iterators) {
      box[iterator.name] = {0, bound(iterator.extent).constant() - 1};
    }
    std::vector<Affine> constraints;
    for (const Affine& constraint : statement.constraints) constraints.push_back(bound(constraint));
    Guard guard{box, constraints, Domain(box, constraints), true, {}};
    if (guard.domain.is_empty()) return;
    check_inside(statement.write, guard);
    for (const Subscript& subscript : statement.write.index) {
      if (subscript.dynamic) check_loads(*subscript.dynamic, guard);
    }
    check_loads(*statement.value, guard);
  }

  // The domain over which an expression is evaluated. `exact`: the constraints express every condition that
  // guards it, so a counterexample is a real one.
  struct Guard {
    std::map<std::string, Interval> box;
    std::vector<Affine> constraints;
    Domain domain;
    bool exact;
    std::set<const Expr*> seen;
  };

  Affine bound(const Affine& affine) const {
    return affine.terms().empty() || ends_.empty() ? affine : affine.substitute(ends_);
  }

  void check_loads(const Expr& expr, Guard& guard) {
    if (!guard.seen.insert(&expr).second) return;
    if (expr.kind == Expr::Kind::Load) {
      check_inside(expr.access, guard);
      for (const Subscript& subscript : expr.access.index) {
        if (subscript.dynamic) check_loads(*subscript.dynamic, guard);
      }
    }
    if (expr.kind != Expr::Kind::Select) {
      for (const ExprPtr& operand : expr.operands) check_loads(*operand, guard);
      return;
    }
    check_loads(*expr.operands[0], guard);
    for (bool taken : {true, false}) {
      std::vector<Affine> constraints = guard.constraints;
      bool understood = add_condition(*expr.operands[0], taken, constraints);
      Guard inner{guard.box, constraints, Domain(guard.box, constraints), guard.exact && understood, {}};
      check_loads(*expr.operands[taken ? 1 : 2], inner);
    }
  }

  // Adds what the condition (if `holds`, else its negation) says about iterators as constraints; false where
  // constraints cannot express all of it.
  bool add_condition(const Expr& condition, bool holds, std::vector<Affine>& constraints) const {
    if (condition.kind == Expr::Kind::Const) {
      if ((condition.integer != 0) != holds) constraints.push_back(Affine(-1));
      return true;
    }
    if (condition.kind == Expr::Kind::Unary && condition.unary == UnaryOp::Not) {
      return add_condition(*condition.operands[0], !holds, constraints);
    }
    if (condition.kind != Expr::Kind::Binary) return false;
    const Expr &a = *condition.operands[0], &b = *condition.operands[1];
    if (condition.binary == (holds ? BinaryOp::And : BinaryOp::Or) && a.dtype == DType::Bool) {
      bool left = add_condition(a, holds, constraints), right = add_condition(b, holds, constraints);
      return left && right;
    }
    std::optional<Affine> x = affine_of(a), y = affine_of(b);
    if (!x || !y) return false;
    BinaryOp op = condition.binary;
    bool strict = op == BinaryOp::Lt || op == BinaryOp::Gt;
    bool less = op == BinaryOp::Lt || op == BinaryOp::Le;
    bool greater = op == BinaryOp::Gt || op == BinaryOp::Ge;
    if (op == (holds ? BinaryOp::Eq : BinaryOp::Ne)) {
      constraints.push_back(*x - *y);
      constraints.push_back(*y - *x);
      return true;
    }
    if (!less && !greater) return false;
    // x < y means y - x - 1 >= 0; its negation x - y >= 0.
    Affine difference = less ? *y - *x : *x - *y;
    constraints.push_back(holds ? difference - Affine(strict ? 1 : 0) : Affine(strict ? 0 : -1) - difference);
    return true;
  }

  std::optional<Affine> affine_of(const Expr& expr) const {
    if (expr.kind == Expr::Kind::Index) return bound(expr.affine);
    if (expr.kind == Expr::Kind::Const && is_integer(expr.dtype)) return Affine(expr.integer);
    return std::nullopt;
  }

  void check_inside(const Access& access, const Guard& guard) const {
    const Buffer& target = buffer(access);
    for (size_t i = 0; i < access.index.size(); ++i) {
      if (access.index[i].dynamic) continue;
      Affine index = bound(access.index[i].affine);
      int64_t size = bound(target.shape[i]).constant();
      std::map<std::string, int64_t> point;
      auto outside = [&](const Affine& distance) {
        return guard.exact && guard.domain.is_nonnegative(distance, &point) == Domain::Answer::No;
      };
      if (!outside(index) && !outside(Affine(size - 1) - index)) continue;
      std::string at;
      for (const auto& [name, value] : point) at += text(at.empty() ? "" : ", ", name, "=", value);
      for (const auto& [name, value] : ends_) {
        at += text(at.empty() ? "" : ", ", name, "=", value.constant());
      }
      broken("subscript `", access.index[i].affine.str(), "` of dimension ", i, " of buffer '", target.name,
             "' is ", index.evaluate(point), " at [", at, "], outside 0 .. ", size - 1);
    }
  }

  const Kernel& kernel_;
  const Statement* statement_ = nullptr;
  std::set<std::string> parameters_, known_;
  std::set<int> written_;
  std::set<const Expr*> checked_;       // of the statement
  std::map<std::string, Affine> ends_;  // each parameter at the end of its range that is being checked
};

}  // namespace

void verify(const Kernel& kernel) { Verifier(kernel).run(); }

}  // namespace tc
