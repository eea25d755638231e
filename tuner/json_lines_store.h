// Records as lines of JSON in a text file, to be read, compared and kept under version control.
#pragma once

#include <memory>
#include <string>

#include "tuner/record_store.h"

namespace tc {

// Opens the file; mode Write makes it where there is none. Every open store of a file holds all of its
// records in memory: for logs of some thousand records.
std::unique_ptr<RecordStore> open_json_lines_store(const std::string& path, RecordStore::Mode mode);

}  // namespace tc
