// The kinds of record stores, by the scheme of their URLs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tuner/record_store.h"

namespace tc {

struct StoreKind {
  const char* scheme;
  const char* form;      // of its URLs
  const char* sentence;  // what it is
  // Opens it; with Write, makes one where none is. `place` is what the URL has after the scheme and its
  // colon.
  std::unique_ptr<RecordStore> (*open)(const std::string& place, RecordStore::Mode mode);
  bool is_file;  // at the path `place` of this machine
};

// A kind of store is added by a row.
const std::vector<StoreKind>& store_kinds();

// A URL, or a path, which is one of `sqlite`. What has a word and a colon in front is a URL, as "./a:b" is
// not. A Log error lists the kinds where the scheme is none of theirs, or says why the store cannot be
// opened: there is none, it is not tc's, it is damaged, of a newer schema, not writable.
std::unique_ptr<RecordStore> open_store(const std::string& url, RecordStore::Mode mode);

// The path of the file that the store is; empty for those that are none. A Log error as in open_store.
std::string file_of_store(const std::string& url);

}  // namespace tc
