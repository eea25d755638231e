// Records in this process's memory, for tests.
#pragma once

#include <memory>
#include <string>

#include "tuner/record_store.h"

namespace tc {

// The store of that name, which lives as long as the process: what one opening writes, the next one reads.
std::unique_ptr<RecordStore> open_memory_store(const std::string& name, RecordStore::Mode mode);

}  // namespace tc
