// How text of foreign origin is shown to people. Names from models, files, logs and messages may contain
// anything: control codes of a terminal, invisible characters, characters that reverse the direction of
// writing, line ends, bytes that are not UTF-8, and millions of letters. This header needs no C++ library, so
// that the runtime can use it too; ir/error.h has the same functions for std::string.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tc {

// How many characters of a name, and of a line of other text, are shown. In longer ones the middle is left
// out, and a note says how many characters that is.
constexpr size_t kMaxOfName = 200;
constexpr size_t kMaxOfLine = 4000;

namespace foreign_text {

// Text in a buffer with a terminating 0, as snprintf writes it: what does not fit is only counted.
struct Buffer {
  char* out;
  size_t room;
  size_t length = 0;

  void put(char c) {
    if (length + 1 < room) out[length] = c;
    if (length < room) out[length + 1 < room ? length + 1 : room - 1] = 0;
    ++length;
  }
  void put(const char* text) {
    while (*text != 0) put(*text++);
  }
  void put_digits(uint32_t value, int digits) {
    while (digits-- > 0) put("0123456789abcdef"[value >> 4 * digits & 15]);
  }
  void put_number(size_t value) {
    if (value >= 10) put_number(value / 10);
    put(static_cast<char>('0' + value % 10));
  }
};

struct Character {
  uint32_t code;  // the byte itself where it is not valid UTF-8
  uint32_t size;  // in bytes
  bool valid;
};

// The first character of a text that has at least one byte.
inline Character character_at(const char* text, size_t size) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const uint32_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (first < 0xc2 || first > 0xf4 || length > size) return {first, 1, false};
  uint32_t code = first & (0x7fu >> length);
  for (uint32_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {first, 1, false};
    code = code << 6 | (byte(i) & 0x3f);
  }
  if (code < kLeast[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {first, 1, false};
  return {code, length, true};
}

// Whether a character is visible and does not affect others: not a control character, not a format character
// (those have no width or change the direction of writing), no space other than the plain one, not for
// private use, and a valid code.
inline bool is_visible(uint32_t code) {
  constexpr uint32_t kHidden[][2] = {
      {0x00, 0x1f},       {0x7f, 0xa0},       {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},
      {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},     {0x115f, 0x1160},
      {0x1680, 0x1680},   {0x180b, 0x180f},   {0x2000, 0x200f},   {0x2028, 0x202f},   {0x205f, 0x206f},
      {0x3000, 0x3000},   {0x3164, 0x3164},   {0xe000, 0xf8ff},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},
      {0xffa0, 0xffa0},   {0xfff0, 0xfffb},   {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
      {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0x10ffff}};
  for (const auto& [first, last] : kHidden) {
    if (code <= last) return code < first;
  }
  return true;
}

// Writes one character. With `line`, a tab is written as a tab, not as an escape.
inline void put_character(const char* text, const Character& character, bool line, Buffer& buffer) {
  const uint32_t code = character.code;
  if (character.valid && (is_visible(code) || (line && code == '\t'))) {
    for (uint32_t i = 0; i < character.size; ++i) buffer.put(text[i]);
  } else if (code == '\n' || code == '\r' || code == '\t') {
    buffer.put('\\');
    buffer.put(code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
  } else {
    const int digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
    buffer.put(digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U");
    buffer.put_digits(code, digits);
  }
}

// Writes the text as one line; where it has more than `most` characters, its middle is left out.
inline void put_line(const char* text, size_t size, size_t most, bool line, Buffer& buffer) {
  size_t count = 0;
  for (size_t at = 0; at < size; at += character_at(text + at, size - at).size) ++count;
  const size_t left_out = count > most ? count - most : 0, begin = left_out > 0 ? most / 2 : count;
  size_t index = 0;
  for (size_t at = 0; at < size; ++index) {
    const Character character = character_at(text + at, size - at);
    if (index < begin || index >= begin + left_out) put_character(text + at, character, line, buffer);
    if (left_out > 0 && index == begin) {
      buffer.put("...");
      buffer.put_number(left_out);
      buffer.put(" characters left out...");
    }
    at += character.size;
  }
}

}  // namespace foreign_text

// Writes a name as messages show it into a buffer, with a terminating 0: in one line, invisible characters as
// C escapes (\n, \x1b, \u202e), without the middle where it has more than `most` characters. Returns the
// length that the full result has, as snprintf does.
inline size_t show_name(const char* text, size_t size, char* out, size_t room, size_t most = kMaxOfName) {
  foreign_text::Buffer buffer{out, room};
  if (room > 0) out[0] = 0;
  foreign_text::put_line(text, size, most, false, buffer);
  return buffer.length;
}

// The same for a text of several lines: tabs and line ends are kept, and each line has at most kMaxOfLine
// characters.
inline size_t show_lines(const char* text, size_t size, char* out, size_t room) {
  foreign_text::Buffer buffer{out, room};
  if (room > 0) out[0] = 0;
  for (size_t at = 0; at <= size;) {
    size_t end = at;
    while (end < size && text[end] != '\n') ++end;
    foreign_text::put_line(text + at, end - at, kMaxOfLine, true, buffer);
    if (end < size) buffer.put('\n');
    at = end + 1;
  }
  return buffer.length;
}

}  // namespace tc
