// A log in a file that does not exist yet, and is made when something is written to it.
#pragma once

#include <memory>
#include <string>

#include "tuner/record_store.h"

namespace tc {

// Opens a store for writing as open_store does, except that a file which does not exist is made by the first
// record, so that work which fails before leaves no file behind. Where the file could not be made, this
// throws the Log error at once.
std::unique_ptr<RecordStore> open_store_late(const std::string& url);

}  // namespace tc
