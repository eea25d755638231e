// Reads the small text languages of tc: tokens with positions, and errors that state the position.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/affine.h"
#include "ir/dim.h"
#include "ir/error.h"

namespace tc {

// True for a C identifier: a letter or `_`, then letters, digits and `_`.
bool is_identifier(std::string_view name);

// The text between double quotes, with `"`, `\` and line ends escaped; TextCursor::quoted reads it.
std::string quote(std::string_view text);

// The shortest decimal that reads back to the same number; `inf`, `-inf`, `nan` for the others.
std::string number_text(double value);
// The shortest decimal that reads back to the same f32.
std::string number_text(float value);
// The number of digits as TextCursor::number returns them. The decimal point is a point in every
// locale, which strtod does not promise; numbers that are too large become infinite, numbers that are too
// small become 0.
double number_value(std::string_view digits);

// A position in a text. Reading functions skip white space first; those named `try_` and `peek`
// leave the position alone where they do not find what they look for, the others throw a Model error
// with line and column. `what` names the text in these errors ("kernel", "dimension").
class TextCursor {
 public:
  // The text must outlive the cursor.
  TextCursor(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  bool at_end();
  // True where the next characters are `token`; if the token is a word, the word in the text must end with
  // it.
  bool peek(std::string_view token);
  bool try_token(std::string_view token);
  void expect(std::string_view token);
  bool peek_identifier();
  std::string identifier();
  // True where a digit follows, or `-` with a digit after it.
  bool peek_number();
  // An integer with an optional minus sign that fits 64 bits.
  int64_t integer();
  // A number as written by number_text, without `inf` and `nan`.
  std::string number();
  std::string quoted();
  // The letters, digits and `_` at this very position, without skipping white space; may be empty.
  std::string word();

  // The next character that is not white space; 0 at the end.
  char peek_char();
  size_t position() const { return position_; }
  void set_position(size_t position) { position_ = position; }

  // Throws a Model error: "<what>, line 3, column 14: <parts>".
  template <class... Parts>
  [[noreturn]] void error(const Parts&... parts) const {
    fail_here(text(parts...));
  }

  // Bounds recursion: each nested grammar rule holds one such object; more than 200 are an error.
  class Nesting {
   public:
    explicit Nesting(TextCursor& cursor);
    ~Nesting() { --cursor_.depth_; }
    Nesting(const Nesting&) = delete;

   private:
    TextCursor& cursor_;
  };

 private:
  [[noreturn]] void fail_here(const std::string& message) const;
  void skip_space();

  std::string_view text_;
  std::string what_;
  size_t position_ = 0;
  int depth_ = 0;
};

// Reads an affine expression as Affine::str writes it; stops at the first character that is not part of it.
Affine parse_affine(TextCursor& cursor);
// The same for a dimension, as Dim::str writes it.
Dim parse_dim(TextCursor& cursor);

}  // namespace tc
