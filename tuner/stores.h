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
  // Opens a store; in mode Write, makes one where there is none. `place` is the part of the URL after the
  // scheme and its colon.
  std::unique_ptr<RecordStore> (*open)(const std::string& place, RecordStore::Mode mode);
  bool is_file;  // the store is the file `place` of this machine
};

// A kind of store is added by a row.
const std::vector<StoreKind>& store_kinds();

// Opens the store of a URL, or of a path, which means a store of kind `sqlite`. A text that starts with a
// word and a colon is a URL; "./a:b" is a path. Throws a Log error that lists the kinds where the scheme is
// unknown, or that says why the store cannot be opened: it does not exist, is not tc's, is damaged, has a
// newer schema, or cannot be written.
std::unique_ptr<RecordStore> open_store(const std::string& url, RecordStore::Mode mode);

// The path of the store's file; empty for kinds that are not a file. Throws a Log error for an unknown
// scheme, as open_store does.
std::string file_of_store(const std::string& url);

}  // namespace tc
