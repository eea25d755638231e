// Reads the small text languages of tc: tokens with positions, and errors that state the position.
#include "ir/text_cursor.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tc {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_word_start(c) || is_digit(c); }

template <class Float>
std::string shortest(Float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

}  // namespace

bool is_identifier(std::string_view name) {
  if (name.empty() || !is_word_start(name[0])) return false;
  for (char c : name) {
    if (!is_word(c)) return false;
  }
  return true;
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\r') {
      result += "\\r";
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string number_text(double value) { return shortest(value); }
std::string number_text(float value) { return shortest(value); }

double number_value(std::string_view digits) {
  double value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem != std::errc::result_out_of_range) return value;
  const bool negative = digits[0] == '-';
  if (digits.find("e-") != std::string_view::npos) return negative ? -0.0 : 0.0;
  return negative ? -HUGE_VAL : HUGE_VAL;
}

void TextCursor::skip_space() {
  while (position_ < text_.size() && is_space(text_[position_])) ++position_;
}

bool TextCursor::at_end() {
  skip_space();
  return position_ >= text_.size();
}

char TextCursor::peek_char() {
  skip_space();
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool TextCursor::peek(std::string_view token) {
  skip_space();
  if (text_.substr(position_, token.size()) != token) return false;
  size_t after = position_ + token.size();
  return !is_word(token.back()) || after >= text_.size() || !is_word(text_[after]);
}

bool TextCursor::try_token(std::string_view token) {
  if (!peek(token)) return false;
  position_ += token.size();
  return true;
}

void TextCursor::expect(std::string_view token) {
  if (!try_token(token)) error("expected `", token, "`");
}

bool TextCursor::peek_identifier() { return is_word_start(peek_char()); }

std::string TextCursor::identifier() {
  if (!peek_identifier()) error("expected a name");
  return word();
}

bool TextCursor::peek_number() {
  char first = peek_char();
  if (first == '-') return position_ + 1 < text_.size() && is_digit(text_[position_ + 1]);
  return is_digit(first);
}

int64_t TextCursor::integer() {
  if (!peek_number()) error("expected an integer");
  int64_t value = 0;
  const char* begin = text_.data() + position_;
  auto [end, problem] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (problem != std::errc()) error("the integer does not fit 64 bits");
  position_ += static_cast<size_t>(end - begin);
  return value;
}

std::string TextCursor::number() {
  if (!peek_number()) error("expected a number");
  size_t start = position_++;
  auto digits = [&] {
    while (position_ < text_.size() && is_digit(text_[position_])) ++position_;
  };
  digits();
  if (position_ < text_.size() && text_[position_] == '.') {
    ++position_;
    digits();
  }
  if (position_ < text_.size() && text_[position_] == 'e') {
    size_t exponent = position_ + 1;
    if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
    if (exponent < text_.size() && is_digit(text_[exponent])) {
      position_ = exponent;
      digits();
    }
  }
  return std::string(text_.substr(start, position_ - start));
}

std::string TextCursor::quoted() {
  expect("\"");
  std::string result;
  for (; position_ < text_.size(); ++position_) {
    char c = text_[position_];
    if (c == '"') {
      ++position_;
      return result;
    }
    if (c == '\\') {
      if (++position_ >= text_.size()) break;
      c = text_[position_];
      if (c == 'n') c = '\n';
      if (c == 'r') c = '\r';
    }
    result += c;
  }
  error("the quoted text does not end");
}

std::string TextCursor::word() {
  size_t start = position_;
  while (position_ < text_.size() && is_word(text_[position_])) ++position_;
  return std::string(text_.substr(start, position_ - start));
}

void TextCursor::fail_here(const std::string& message) const {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < position_ && i < text_.size(); ++i) {
    if (text_[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  std::string_view next = text_.substr(std::min(position_, text_.size()));
  next = next.substr(0, std::min<size_t>(next.find('\n'), 20));
  std::string found = next.empty() ? "the end" : text("`", next, "`");
  fail(ErrorKind::Model, what_, ", line ", line, ", column ", column, ": ", message, "; found ", found);
}

TextCursor::Nesting::Nesting(TextCursor& cursor) : cursor_(cursor) {
  if (++cursor_.depth_ > 200) cursor_.error("nested more than 200 deep");
}

}  // namespace tc
