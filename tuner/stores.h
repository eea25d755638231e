// The kinds of record stores, by the scheme of their URLs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tuner/record_store.h"

namespace tc {

struct StoreKind {
  const char* scheme;
  const char* other_scheme;  // that means the same; null for none
  const char* form;          // of its URLs
  const char* sentence;      // what it is
  // Opens a store; in mode Write, makes one where there is none, unless `make` does so. `place` is the part
  // of the URL after the scheme and its colon.
  std::unique_ptr<RecordStore> (*open)(const std::string& place, RecordStore::Mode mode);
  bool is_file;  // the store is the file `place` of this machine
  // Where a store has an owner, who alone may make and upgrade it; otherwise null.
  void (*make)(const std::string& place);
  void (*upgrade)(const std::string& place);
  // The URL as messages show it, without a password; null: as it is.
  std::string (*show)(const std::string& place);
};

// A kind of store is added by a row.
const std::vector<StoreKind>& store_kinds();

// Opens the store of a URL, or of a path, which means a store of kind `sqlite`. A text that starts with a
// word and a colon is a URL; "./a:b" is a path. Throws a Log error that lists the kinds where the scheme is
// unknown, or that says why the store cannot be opened: it does not exist, is not tc's, is damaged, has a
// newer schema, or cannot be written.
std::unique_ptr<RecordStore> open_store(const std::string& url, RecordStore::Mode mode);

// Makes the store where there is none, and brings an older one to the newest schema; upgrade_store does not
// make one. They throw Log errors as open_store does.
void make_store(const std::string& url);
void upgrade_store(const std::string& url);

// The URL without a password.
std::string shown_store(const std::string& url);

// The path of the store's file; empty for kinds that are not a file. Throws a Log error for an unknown
// scheme, as open_store does.
std::string file_of_store(const std::string& url);

}  // namespace tc
