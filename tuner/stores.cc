// The kinds of record stores, by the scheme of their URLs.
#include "tuner/stores.h"

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "tuner/memory_store.h"
#include "tuner/sqlite_store.h"

namespace tc {
namespace {

constexpr const char* kOfPaths = "sqlite";

// The scheme before the colon, at least two characters long; empty for a path.
std::string scheme_of(const std::string& url) {
  const size_t colon = url.find(':');
  if (colon == std::string::npos || colon < 2) return "";
  const std::string scheme = url.substr(0, colon);
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto may_follow = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  };
  return is_letter(scheme[0]) && std::all_of(scheme.begin(), scheme.end(), may_follow) ? scheme : "";
}

// The row of a URL's scheme, and the rest of the URL after it.
std::pair<const StoreKind*, std::string> split(const std::string& url) {
  const std::string scheme = scheme_of(url);
  const std::string wanted = scheme.empty() ? kOfPaths : scheme;
  std::string known;
  for (const StoreKind& kind : store_kinds()) {
    if (wanted == kind.scheme) return {&kind, scheme.empty() ? url : url.substr(scheme.size() + 1)};
    known += text(known.empty() ? "" : ", ", kind.form, " (", kind.sentence, ")");
  }
  // The rest of the URL may hold a password.
  fail(ErrorKind::Log, "no log is opened by '", scheme, ":'; give a path, or one of ", known,
       "; a file whose name has a colon is sqlite:FILE");
}

}  // namespace

const std::vector<StoreKind>& store_kinds() {
  static const std::vector<StoreKind> kinds = {
      {"sqlite", "sqlite:FILE", "a file; a plain path names one, too", open_sqlite_store, true},
      {"memory", "memory:NAME", "in this process, and gone with it: for tests", open_memory_store, false},
  };
  return kinds;
}

std::unique_ptr<RecordStore> open_store(const std::string& url, RecordStore::Mode mode) {
  const auto [kind, place] = split(url);
  if (place.empty()) fail(ErrorKind::Log, "the log '", url, "' has no name; give ", kind->form);
  return kind->open(place, mode);
}

std::string file_of_store(const std::string& url) {
  const auto [kind, place] = split(url);
  return kind->is_file ? place : "";
}

}  // namespace tc
