// Records in an SQLite file, which a stranger may have written (tuner/log_file.h).
#pragma once

#include <memory>
#include <string>

#include "tuner/record_store.h"

namespace tc {

// In mode Write, makes the file where there is none. Throws a Log error where the file does not exist, is not
// a log (but the database of another program, or no database), is damaged, has a newer schema, or cannot be
// written. A log of an older schema is upgraded in mode Write, and read as it is in mode Read. What a killed
// writer left unfinished is rolled back, in mode Read only where the file may be written.
std::unique_ptr<RecordStore> open_sqlite_store(const std::string& path, RecordStore::Mode mode);

}  // namespace tc
