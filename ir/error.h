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
inline std::string printable(std::string_view name, size_t most = kMostOfName) {
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
  // What cannot be seen becomes escapes, whatever the text was made of.
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(printable_lines(text)), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Puts a message together. What comes between quotes is a name, which anybody may have chosen: it is shown as
// `printable` has it.
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

  // Words of ours, of which the last letter may be the quote before a name, or the one behind it.
  void put_words(std::string_view words) {
    out_ << words;
    const bool quote = !words.empty() && (words.back() == '\'' || words.back() == '`');
    place_ = quote && (words.size() > 1 || place_ != Place::Named) ? Place::Opened : Place::Words;
  }

  std::ostringstream out_;
  Place place_ = Place::Words;
};

// Builds a text from streamable parts: `text("tensor '", name, "' has rank ", rank)`. What stands between
// quotes is one line of what can be seen, of at most some 200 characters.
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

// What an exception in flight is to users, whatever threw it: an Error as it is, memory that cannot be had,
// or a bug.
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
