// The kinds of record stores, by the scheme of their URLs.
#include "tuner/stores.h"

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "tuner/json_lines_store.h"
#include "tuner/memory_store.h"
#include "tuner/postgres_connection.h"
#include "tuner/postgres_store.h"
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
    if (wanted == kind.scheme || (kind.other_scheme && wanted == kind.other_scheme))
      return {&kind, scheme.empty() ? url : url.substr(scheme.size() + 1)};
    known += text(known.empty() ? "" : ", ", kind.form, " (", kind.sentence, ")");
  }
  // The rest of the URL may hold a password.
  fail(ErrorKind::Log, "no log is opened by '", scheme, ":'; give a path, or one of ", known,
       "; a file whose name has a colon is sqlite:FILE");
}

std::pair<const StoreKind*, std::string> split_named(const std::string& url) {
  const auto [kind, place] = split(url);
  if (place.empty()) fail(ErrorKind::Log, "the log '", url, "' has no name; give ", kind->form);
  return {kind, place};
}

}  // namespace

const std::vector<StoreKind>& store_kinds() {
  static const std::vector<StoreKind> kinds = {
      {"sqlite", nullptr, "sqlite:FILE", "a file; a plain path names one, too", open_sqlite_store, true,
       nullptr, nullptr, nullptr},
      {"postgresql", "postgres", "postgresql://USER@HOST/DATABASE", "a team's, on a PostgreSQL server",
       open_postgres_store, false, make_postgres_store, upgrade_postgres_store, shown_postgres_url},
      {"jsonl", nullptr, "jsonl:FILE", "a text file of lines of JSON", open_json_lines_store, true, nullptr,
       nullptr, nullptr},
      {"memory", nullptr, "memory:NAME", "in this process, and gone with it: for tests", open_memory_store,
       false, nullptr, nullptr, nullptr},
  };
  return kinds;
}

std::unique_ptr<RecordStore> open_store(const std::string& url, RecordStore::Mode mode) {
  const auto [kind, place] = split_named(url);
  return kind->open(place, mode);
}

void make_store(const std::string& url) {
  const auto [kind, place] = split_named(url);
  if (kind->make) return kind->make(place);
  kind->open(place, RecordStore::Mode::Write);
}

void upgrade_store(const std::string& url) {
  const auto [kind, place] = split_named(url);
  if (kind->upgrade) return kind->upgrade(place);
  kind->open(place, RecordStore::Mode::Read);  // has to be there
  kind->open(place, RecordStore::Mode::Write);
}

std::string shown_store(const std::string& url) {
  const auto [kind, place] = split(url);
  return kind->show ? kind->show(place) : url;
}

std::string file_of_store(const std::string& url) {
  const auto [kind, place] = split(url);
  return kind->is_file ? place : "";
}

}  // namespace tc
