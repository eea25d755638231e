// The one error type that users of tc see, with the kinds that become Python exception classes.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace tc {

// What went wrong, from the user's point of view. `Internal` is a bug in tc itself.
enum class ErrorKind { Model, Unsupported, Shape, Target, Schedule, Device, Log, Internal };

// Says what, where (file, node, tensor), why, and what to do, in one or a few sentences.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Builds a text from streamable parts: `text("tensor '", name, "' has rank ", rank)`.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Throws Error(kind, text(parts...)).
template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, text(parts...));
}

// A broken promise inside tc: throws an Internal error naming the condition. Always on.
#define TC_CHECK(condition, ...)                                                        \
  do {                                                                                  \
    if (!(condition))                                                                   \
      ::tc::fail(::tc::ErrorKind::Internal, "internal error: ", __FILE__, ":", __LINE__, \
                 ": expected ", #condition, " ", ##__VA_ARGS__);                        \
  } while (false)

}  // namespace tc
