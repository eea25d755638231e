// Shared artefacts as files: what is read of them before the loader has them, which runs code.
#pragma once

#include <stdint.h>

#include "tc_runtime.h"

namespace tc::runtime {

// TC_OK where the open file is a shared library of this machine's kind whose segments lie inside it, and
// which names the descriptor's symbol.
tc_status check_file(int file, const char* path);

// TC_OK where the open file ends in the checksum of what is before it, or where there is none. Reads the
// whole file.
tc_status check_checksum(int file, const char* path, bool* is_there);
tc_status no_checksum(const char* path);

// TC_OK where the open file, which check_file() takes, is what tc's linker makes and nothing more: segments,
// a table of dynamic entries and relocations with which the loader runs none of its code, reads nothing
// beyond it and needs no other library, and a descriptor whose addresses lead to what they have to lead to.
// `descriptor` is its address in the library.
tc_status check_shape(int file, const char* path, uint64_t* descriptor);

// Reads exactly `size` bytes at `offset`.
bool read_at(int file, void* data, uint64_t size, uint64_t offset);

tc_status not_artefact(const char* path, const char* why);

}  // namespace tc::runtime
