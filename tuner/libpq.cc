#include "tuner/libpq.h"

#include <dlfcn.h>

#include "ir/error.h"

namespace tc::libpq {
namespace {

constexpr const char* kName = "libpq.so.5";

// Not unloaded, for its own libraries register what runs at the end of the process.
Functions open() {
  void* library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    fail(
        ErrorKind::Log, "a log on a PostgreSQL server needs the library ", kName,
        ", which cannot be loaded; install it (on Debian: apt-get install libpq5), or give the path of a file "
        "as the log");
  Functions functions;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr)
      fail(
          ErrorKind::Log, "the library ", kName, " of this machine has no function ", name,
          "; install PostgreSQL's client library of version 10 or newer (on Debian: apt-get install libpq5)");
  };
#define TC_FIND(result, name, parameters) find(functions.name, #name);
  TC_LIBPQ_FUNCTIONS(TC_FIND)
#undef TC_FIND
  return functions;
}

}  // namespace

const Functions& load() {
  static const Functions functions = open();
  return functions;
}

}  // namespace tc::libpq
