// The one error type that users of tc see, with the kinds that become Python exception classes.
#pragma once

#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "runtime/foreign_text.h"

namespace tc {

// A name of foreign origin as messages show it: see show_name.
inline std::string printable(std::string_view name, size_t most = kMaxOfName) {
  std::string result(show_name(name.data(), name.size(), nullptr, 0, most), 0);
  show_name(name.data(), name.size(), result.data(), result.size() + 1, most);
  return result;
}

// A text of several lines as people see it: see show_lines.
inline std::string printable_lines(std::string_view lines) {
  std::string result(show_lines(lines.data(), lines.size(), nullptr, 0), 0);
  show_lines(lines.data(), lines.size(), result.data(), result.size() + 1);
  return result;
}

// What went wrong, from the user's point of view. `Internal` is a bug in tc itself.
enum class ErrorKind { Model, Unsupported, Shape, Target, Schedule, Device, Log, Internal };

// Says what, where (file, node, tensor), why, and what to do, in one or a few sentences.
class Error : public std::runtime_error {
 public:
  // Characters that cannot be seen become escapes, wherever the text comes from.
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(printable_lines(text)), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Assembles a message. A part between quotes is a name, which may come from a hostile file, so it is shown as
// `printable` returns it.
class MessageWriter {
 public:
  template <size_t size>
  void put(const char (&words)[size]) {
    put_words(words);
  }

  template <class Part>
  void put(const Part& part) {
    constexpr bool is_text = std::is_convertible_v<const Part&, std::string_view>;
    if (place_ != Place::Opened || std::is_arithmetic_v<Part>) {
      if constexpr (std::is_same_v<Part, const char*>) return put_words(part);
      out_ << part;
      place_ = place_ == Place::Opened ? Place::Named : Place::Words;
      return;
    }
    place_ = Place::Named;
    if constexpr (is_text) {
      out_ << printable(part);
    } else {
      std::ostringstream name;
      name << part;
      out_ << printable(name.str());
    }
  }

  std::string str() const { return out_.str(); }

 private:
  enum class Place { Words, Opened, Named };

  // Text of tc's own. Its last character may be the quote that opens a name, or the one that closes it.
  void put_words(std::string_view words) {
    out_ << words;
    const bool quote = !words.empty() && (words.back() == '\'' || words.back() == '`');
    place_ = quote && (words.size() > 1 || place_ != Place::Named) ? Place::Opened : Place::Words;
  }

  std::ostringstream out_;
  Place place_ = Place::Words;
};

// Builds a text from streamable parts: `text("tensor '", name, "' has rank ", rank)`. What is between quotes
// is shown as one line of visible characters, shortened to about 200.
template <class... Parts>
std::string text(const Parts&... parts) {
  MessageWriter message;
  (message.put(parts), ...);
  return message.str();
}

// Throws Error(kind, text(parts...)).
template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, text(parts...));
}

// The Error to show users for an exception in flight, whatever threw it: an Error stays as it is, a failed
// allocation is Unsupported, anything else is a bug in tc.
inline Error as_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::Unsupported, "memory ran out; use smaller sizes, or a machine that has more");
  } catch (const std::exception& error) {
    return Error(ErrorKind::Internal, text("internal error: an exception escaped: ", error.what()));
  } catch (...) {
    return Error(ErrorKind::Internal, "internal error: an exception of an unknown kind escaped");
  }
}

// A broken promise inside tc: throws an Internal error naming the condition. Always on.
#define TC_CHECK(condition, ...)                                                                        \
  do {                                                                                                  \
    if (!(condition))                                                                                   \
      ::tc::fail(::tc::ErrorKind::Internal, "internal error: ", __FILE__, ":", __LINE__, ": expected ", \
                 #condition, " ", ##__VA_ARGS__);                                                       \
  } while (false)

}  // namespace tc
