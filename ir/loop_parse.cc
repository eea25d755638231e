// Reads the text form of kernels that ir/loop_print.cc writes.
//
// Constants may leave out their type, so reading has two steps: first an untyped tree (Word), then types,
// which are inferred from the operands upwards and from the stored buffer downwards.
#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>

#include "ir/error.h"
#include "ir/loop.h"
#include "ir/text_cursor.h"

namespace tc {
namespace {

// A text beyond these limits is broken.
constexpr size_t kMaxStatements = 100000;
constexpr int kMaxOperations = 5000;

// An expression as read, before types are known.
struct Word {
  Expr::Kind kind = Expr::Kind::Const;
  std::optional<DType> dtype;                  // Const with a type, Cast
  std::string number;                          // Const
  Access access;                               // Load: affine parts only
  std::vector<std::unique_ptr<Word>> dynamic;  // Load: per dimension, or null
  Affine affine;                               // Index
  UnaryOp unary{};
  BinaryOp binary{};
  std::vector<std::unique_ptr<Word>> operands;
  size_t position = 0;
};
using WordPtr = std::unique_ptr<Word>;

bool is_comparison(BinaryOp op) { return op >= BinaryOp::Eq && op <= BinaryOp::Ge; }

std::optional<UnaryOp> unary_from_name(const std::string& name) {
#define X(op, text) \
  if (name == text) return UnaryOp::op;
  TC_FOR_EACH_UNARY(X)
#undef X
  return std::nullopt;
}

std::optional<BinaryOp> binary_from_name(const std::string& name) {
#define X(op, text) \
  if (name == text) return BinaryOp::op;
  TC_FOR_EACH_BINARY(X)
#undef X
  return std::nullopt;
}

std::optional<DType> dtype_from_word(const std::string& name) {
#define X(enumerator, text, ...) \
  if (name == text) return DType::enumerator;
  TC_FOR_EACH_DTYPE(X)
#undef X
  return std::nullopt;
}

class Parser {
 public:
  explicit Parser(const std::string& text) : cursor_(text, "kernel text") {}

  Kernel run() {
    cursor_.expect("kernel");
    kernel_.name = cursor_.peek_char() == '"' ? cursor_.quoted() : cursor_.identifier();
    // A statement may have the name of a section (`input`, ...): a bracket after the name tells that it is a
    // statement.
    while (!cursor_.at_end()) {
      size_t start = cursor_.position();
      std::string word = cursor_.identifier();
      if (cursor_.peek_char() == '[') {
        cursor_.set_position(start);
        statement();
        if (kernel_.statements.size() > kMaxStatements) cursor_.error("too many statements");
      } else if (word == "parameter") {
        parameter();
      } else if (word == "packing") {
        packing();
      } else if (word == "origin") {
        kernel_.origins.push_back(cursor_.quoted());
      } else {
        buffer(word, start);
      }
    }
    return std::move(kernel_);
  }

 private:
  std::vector<Affine> affine_list() {
    std::vector<Affine> result;
    cursor_.expect("[");
    if (cursor_.try_token("]")) return result;
    do {
      result.push_back(parse_affine(cursor_));
    } while (cursor_.try_token(","));
    cursor_.expect("]");
    return result;
  }

  double float_number() {
    if (cursor_.try_token("inf")) return std::numeric_limits<double>::infinity();
    if (cursor_.try_token("-inf")) return -std::numeric_limits<double>::infinity();
    if (cursor_.try_token("nan")) return std::numeric_limits<double>::quiet_NaN();
    return number_value(cursor_.number());
  }

  void parameter() {
    Parameter made;
    made.name = cursor_.identifier();
    cursor_.expect("=");
    made.value = parse_dim(cursor_);
    cursor_.expect("in");
    cursor_.expect("[");
    made.minimum = cursor_.integer();
    cursor_.expect(",");
    made.maximum = cursor_.integer();
    cursor_.expect("]");
    kernel_.parameters.push_back(made);
  }

  void buffer(const std::string& scope_word, size_t start) {
    Buffer made;
    bool known = false;
    for (Scope scope :
         {Scope::Input, Scope::Output, Scope::Constant, Scope::Local, Scope::Stack, Scope::Register}) {
      if (scope_word != name_of(scope)) continue;
      made.scope = scope;
      known = true;
    }
    if (!known) {
      cursor_.set_position(start);
      cursor_.error(
          "expected a statement, a buffer with its scope, `parameter`, `packing` or "
          "`origin`");
    }
    made.name = cursor_.identifier();
    made.dtype = dtype();
    made.shape = affine_list();
    if (cursor_.try_token("as")) made.logical = cursor_.quoted();
    if (cursor_.try_token("in")) made.memory = cursor_.identifier();
    if (cursor_.try_token("copies"))
      made.copies = static_cast<int>(std::clamp<int64_t>(cursor_.integer(), 1, 2));
    if (kernel_.buffer_index(made.name) >= 0) cursor_.error("buffer '", made.name, "' exists already");
    kernel_.buffers.push_back(made);
  }

  DType dtype() {
    cursor_.peek_char();
    size_t start = cursor_.position();
    std::string name = cursor_.identifier();
    auto found = dtype_from_word(name);
    if (!found) {
      cursor_.set_position(start);
      cursor_.error("expected an element type");
    }
    return *found;
  }

  Combination combination() {
    Combination made;
    made.dimension = static_cast<size_t>(cursor_.integer());
    cursor_.expect("[");
    while (!cursor_.try_token("]")) {
      if (!made.rows.empty()) cursor_.expect(",");
      cursor_.expect("[");
      std::vector<double>& row = made.rows.emplace_back();
      while (!cursor_.try_token("]")) {
        if (!row.empty()) cursor_.expect(",");
        row.push_back(float_number());
      }
    }
    return made;
  }

  std::vector<std::string> identifier_list() {
    std::vector<std::string> result;
    cursor_.expect("[");
    while (!cursor_.try_token("]")) {
      if (!result.empty()) cursor_.expect(",");
      result.push_back(cursor_.identifier());
    }
    return result;
  }

  void packing() {
    Packing made;
    made.buffer = cursor_.identifier();
    made.sums = cursor_.try_token("sums");
    if (made.sums || cursor_.try_token("scales")) {
      cursor_.expect("of");
      made.scales_of = cursor_.identifier();
      kernel_.packings.push_back(made);
      return;
    }
    made.iterators = identifier_list();
    cursor_.expect("of");
    cursor_.expect("[");
    while (!cursor_.try_token("]")) {
      if (!made.original_shape.empty()) cursor_.expect(",");
      made.original_shape.push_back(cursor_.integer());
    }
    while (cursor_.try_token("combining")) made.combinations.push_back(combination());
    cursor_.expect("at");
    made.index = affine_list();
    cursor_.expect("fill");
    made.fill = float_number();
    if (cursor_.try_token("terms")) made.terms = cursor_.identifier();
    if (cursor_.try_token("words")) made.words = cursor_.identifier();
    if (cursor_.try_token("scaled")) made.scaled = identifier_list();
    kernel_.packings.push_back(made);
  }

  void statement() {
    Statement made;
    operations_ = 0;
    made.name = cursor_.identifier();
    cursor_.expect("[");
    while (!cursor_.try_token("]")) {
      if (!made.iterators.empty()) cursor_.expect(",");
      Iterator iterator;
      iterator.name = cursor_.identifier();
      cursor_.expect(":");
      iterator.extent = parse_affine(cursor_);
      made.iterators.push_back(iterator);
    }
    if (cursor_.try_token("where")) {
      do {
        made.constraints.push_back(parse_affine(cursor_));
        cursor_.expect(">=");
        cursor_.expect("0");
      } while (cursor_.try_token(","));
    }
    cursor_.expect(":");
    WordPtr target = access(cursor_.identifier());
    made.write = typed_access(*target);
    made.reduction = reduction();
    WordPtr value = comparison();
    DType stored = kernel_.buffers[static_cast<size_t>(made.write.buffer)].dtype;
    made.value = typed(*value, stored);
    kernel_.statements.push_back(made);
  }

  Reduction reduction() {
    static const std::pair<const char*, Reduction> symbols[] = {{"+=", Reduction::Sum},
                                                                {"*=", Reduction::Product},
                                                                {"max=", Reduction::Max},
                                                                {"min=", Reduction::Min},
                                                                {"and=", Reduction::And},
                                                                {"or=", Reduction::Or},
                                                                {"maxnum=", Reduction::MaxNumber},
                                                                {"=", Reduction::None}};
    for (const auto& [symbol, reduction] : symbols) {
      if (cursor_.try_token(symbol)) return reduction;
    }
    cursor_.error("expected `=` or a reduction such as `+=`");
  }

  WordPtr make(Expr::Kind kind) {
    auto word = std::make_unique<Word>();
    word->kind = kind;
    return word;
  }

  WordPtr make_binary(BinaryOp op, WordPtr a, WordPtr b) {
    if (++operations_ > kMaxOperations) cursor_.error("the expression is too long");
    WordPtr word = make(Expr::Kind::Binary);
    word->binary = op;
    word->position = a->position;
    word->operands.push_back(std::move(a));
    word->operands.push_back(std::move(b));
    return word;
  }

  WordPtr comparison() {
    TextCursor::Nesting nesting(cursor_);
    static const std::pair<const char*, BinaryOp> symbols[] = {{"==", BinaryOp::Eq}, {"!=", BinaryOp::Ne},
                                                               {"<=", BinaryOp::Le}, {">=", BinaryOp::Ge},
                                                               {"<", BinaryOp::Lt},  {">", BinaryOp::Gt}};
    WordPtr left = sum();
    for (const auto& [symbol, op] : symbols) {
      if (cursor_.try_token(symbol)) return make_binary(op, std::move(left), sum());
    }
    return left;
  }

  WordPtr sum() {
    WordPtr left = product();
    while (true) {
      if (cursor_.try_token("+")) {
        left = make_binary(BinaryOp::Add, std::move(left), product());
      } else if (cursor_.try_token("-")) {
        left = make_binary(BinaryOp::Sub, std::move(left), product());
      } else {
        return left;
      }
    }
  }

  WordPtr product() {
    WordPtr left = primary();
    while (true) {
      if (cursor_.try_token("*")) {
        left = make_binary(BinaryOp::Mul, std::move(left), primary());
      } else if (cursor_.try_token("/")) {
        left = make_binary(BinaryOp::Div, std::move(left), primary());
      } else {
        return left;
      }
    }
  }

  WordPtr constant_word(std::string number) {
    WordPtr word = make(Expr::Kind::Const);
    word->number = std::move(number);
    if (word->number == "true" || word->number == "false") {
      word->dtype = DType::Bool;
    } else if (cursor_.try_token(":")) {
      word->dtype = dtype();
    }
    return word;
  }

  WordPtr primary() {
    cursor_.peek_char();
    size_t start = cursor_.position();
    WordPtr word = primary_here();
    word->position = start;
    return word;
  }

  WordPtr primary_here() {
    if (cursor_.try_token("(")) {
      WordPtr inner = comparison();
      cursor_.expect(")");
      return inner;
    }
    if (cursor_.try_token("-inf")) return constant_word("-inf");
    if (cursor_.peek_number()) return constant_word(cursor_.number());
    std::string name = cursor_.identifier();
    if (cursor_.peek_char() == '[') return access(name);
    if (name == "inf" || name == "nan" || name == "true" || name == "false") {
      return constant_word(name);
    }
    return call(name);
  }

  WordPtr call(const std::string& name) {
    size_t start = cursor_.position() - name.size();
    cursor_.expect("(");
    if (name == "index") {
      WordPtr word = make(Expr::Kind::Index);
      word->affine = parse_affine(cursor_);
      cursor_.expect(")");
      return word;
    }
    WordPtr word = make(Expr::Kind::Cast);
    size_t operands = 1;
    if (name == "select") {
      word->kind = Expr::Kind::Select;
      operands = 3;
    } else if (auto op = unary_from_name(name)) {
      word->kind = Expr::Kind::Unary;
      word->unary = *op;
    } else if (auto op = binary_from_name(name)) {
      word->kind = Expr::Kind::Binary;
      word->binary = *op;
      operands = 2;
    } else {
      word->dtype = dtype_from_word(name);
      if (!word->dtype) {
        cursor_.set_position(start);
        cursor_.error("there is no function '", name, "'");
      }
    }
    for (size_t i = 0; i < operands; ++i) {
      if (i) cursor_.expect(",");
      word->operands.push_back(comparison());
    }
    cursor_.expect(")");
    return word;
  }

  WordPtr access(const std::string& name) {
    WordPtr word = make(Expr::Kind::Load);
    word->access.buffer = kernel_.buffer_index(name);
    if (word->access.buffer < 0) cursor_.error("there is no buffer '", name, "'");
    cursor_.expect("[");
    while (!cursor_.try_token("]")) {
      if (!word->access.index.empty()) cursor_.expect(",");
      Subscript subscript;
      WordPtr dynamic;
      bool has_affine = cursor_.peek_char() != '{';
      if (has_affine) subscript.affine = parse_affine(cursor_);
      if (!has_affine || cursor_.try_token("+")) {
        cursor_.expect("{");
        dynamic = comparison();
        cursor_.expect("}");
      }
      word->access.index.push_back(subscript);
      word->dynamic.push_back(std::move(dynamic));
    }
    return word;
  }

  // The type that follows from the word's text alone, if any.
  std::optional<DType> own_type(const Word& word) const {
    switch (word.kind) {
      case Expr::Kind::Const:
      case Expr::Kind::Cast: return word.dtype;
      case Expr::Kind::Load: return kernel_.buffers[static_cast<size_t>(word.access.buffer)].dtype;
      case Expr::Kind::Index: return DType::I64;
      case Expr::Kind::Unary:
        if (word.unary == UnaryOp::IsNan || word.unary == UnaryOp::IsInf) return DType::Bool;
        return own_type(*word.operands[0]);
      case Expr::Kind::Binary: {
        if (is_comparison(word.binary)) return DType::Bool;
        auto left = own_type(*word.operands[0]);
        return left ? left : own_type(*word.operands[1]);
      }
      case Expr::Kind::Select: {
        auto left = own_type(*word.operands[1]);
        return left ? left : own_type(*word.operands[2]);
      }
    }
    return std::nullopt;
  }

  Access typed_access(const Word& word) {
    Access result = word.access;
    for (size_t i = 0; i < word.dynamic.size(); ++i) {
      if (word.dynamic[i]) result.index[i].dynamic = typed(*word.dynamic[i], DType::I64);
    }
    return result;
  }

  [[noreturn]] void error_at(const Word& word, const std::string& message) {
    cursor_.set_position(word.position);
    cursor_.error(message);
  }

  ExprPtr typed_constant(const Word& word, std::optional<DType> expected) {
    std::optional<DType> type = word.dtype ? word.dtype : expected;
    if (!type) error_at(word, "the constant needs a type, as in `0:f32`");
    const std::string& number = word.number;
    if (number == "true" || number == "false") return int_constant(DType::Bool, number == "true");
    if (is_float(*type)) {
      if (number == "inf" || number == "-inf") {
        double infinity = std::numeric_limits<double>::infinity();
        return constant(*type, number == "inf" ? infinity : -infinity);
      }
      if (number == "nan") return constant(*type, std::numeric_limits<double>::quiet_NaN());
      return constant(*type, number_value(number));
    }
    const char* end = number.data() + number.size();
    int64_t value = 0;
    uint64_t large = 0;
    auto read = std::from_chars(number.data(), end, value);
    if (read.ec != std::errc() || read.ptr != end) {
      auto again = std::from_chars(number.data(), end, large);
      if (again.ec != std::errc() || again.ptr != end) {
        error_at(word, "`" + number + "` is no value of type " + name_of(*type));
      }
      value = static_cast<int64_t>(large);
    }
    return int_constant(*type, value);
  }

  ExprPtr typed(const Word& word, std::optional<DType> expected) {
    std::optional<DType> own = own_type(word);
    auto operand = [&](size_t i, std::optional<DType> type) { return typed(*word.operands[i], type); };
    auto require = [&](bool condition, const std::string& message) {
      if (!condition) error_at(word, message);
    };
    switch (word.kind) {
      case Expr::Kind::Const: return typed_constant(word, expected);
      case Expr::Kind::Index: return index_value(word.affine);
      case Expr::Kind::Load: return load(*own, word.access.buffer, typed_access(word).index);
      case Expr::Kind::Cast: return cast(*word.dtype, operand(0, std::nullopt));
      case Expr::Kind::Unary: {
        bool is_test = word.unary == UnaryOp::IsNan || word.unary == UnaryOp::IsInf;
        return unary(word.unary, operand(0, is_test ? std::nullopt : own ? own : expected));
      }
      case Expr::Kind::Select: {
        std::optional<DType> type = own ? own : expected;
        ExprPtr condition = operand(0, DType::Bool), a = operand(1, type), b = operand(2, type);
        require(condition->dtype == DType::Bool && a->dtype == b->dtype,
                "a select needs a bool and two values of one type");
        return select(condition, a, b);
      }
      case Expr::Kind::Binary: break;
    }
    auto left = own_type(*word.operands[0]);
    std::optional<DType> type = left ? left : own_type(*word.operands[1]);
    if (!type && !is_comparison(word.binary)) type = expected;
    ExprPtr a = operand(0, type), b = operand(1, type);
    require(a->dtype == b->dtype,
            text("the operands have types ", name_of(a->dtype), " and ", name_of(b->dtype)));
    return binary(word.binary, a, b);
  }

  TextCursor cursor_;
  Kernel kernel_;
  int operations_ = 0;  // of the statement
};

}  // namespace

Kernel parse_kernel(const std::string& text) { return Parser(text).run(); }

}  // namespace tc
