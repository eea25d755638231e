// The one error type that users of tc see, with the kinds that become Python exception classes.
#pragma once

#include <exception>
#include <new>
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

// What an exception in flight is to users, whatever threw it: an Error as it is, memory that cannot be had, or a bug.
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
#define TC_CHECK(condition, ...)                                                        \
  do {                                                                                  \
    if (!(condition))                                                                   \
      ::tc::fail(::tc::ErrorKind::Internal, "internal error: ", __FILE__, ":", __LINE__, \
                 ": expected ", #condition, " ", ##__VA_ARGS__);                        \
  } while (false)

}  // namespace tc
