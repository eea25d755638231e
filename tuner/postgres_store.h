// Records in a database of a PostgreSQL server, which a team shares.
#pragma once

#include <memory>
#include <string>

#include "tuner/record_store.h"

namespace tc {

// `place` is the part of a URL of libpq after the scheme and its colon: //USER@HOST:PORT/DATABASE?OPTIONS.
// Never makes the log (prepare_postgres_log does). Throws a Log error where the server cannot be reached or
// has no log, or where the log is damaged, has a newer schema, or may not be read (in mode Write: written) by
// the role.
std::unique_ptr<RecordStore> open_postgres_store(const std::string& place, RecordStore::Mode mode);

// Makes the log and its roles where there are none, and upgrades an older one.
void make_postgres_store(const std::string& place);
// Brings an existing log to the newest schema.
void upgrade_postgres_store(const std::string& place);

}  // namespace tc
