// Records in this process's memory, for tests.
#pragma once

#include <memory>
#include <string>

#include "tuner/record_store.h"

namespace tc {

// Opens the store of that name. It lives as long as the process: whoever opens it later reads what was
// written before.
std::unique_ptr<RecordStore> open_memory_store(const std::string& name, RecordStore::Mode mode);

}  // namespace tc
