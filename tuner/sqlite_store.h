// Records in an SQLite file, which a stranger may have written (tuner/log_file.h).
#pragma once

#include <memory>
#include <string>

#include "tuner/record_store.h"

namespace tc {

// With Write, makes the file where none is. Log errors: no such file, not a log (of another program, or no
// database at all), damaged, of a newer schema, not writable. A log of an older schema is brought up to date
// by Write, and read as it is otherwise. What a killed writer left half done is taken back, by Read too where
// the file may be written.
std::unique_ptr<RecordStore> open_sqlite_store(const std::string& path, RecordStore::Mode mode);

}  // namespace tc
