// Shared artefacts as files: the checks before the system's loader opens them, since loading runs their code.
#pragma once

#include <stdint.h>

#include "tc_runtime.h"

namespace tc::runtime {

// TC_OK where the open file is a shared library for this machine's architecture, its segments are inside the
// file, and it has the descriptor's symbol.
tc_status check_file(int file, const char* path);

// TC_OK where the open file ends in the right checksum of the bytes before it, or has no checksum (`is_there`
// is false then). Reads the whole file.
tc_status check_checksum(int file, const char* path, bool* is_there);
tc_status no_checksum(const char* path);

// TC_OK where the open file, which check_file() has accepted, has the form that tc's linker gives it and
// nothing more. With its segments, dynamic entries and relocations, the loader runs none of its code, reads
// nothing outside it and needs no other library; and the addresses in its descriptor point at what they have
// to. `descriptor` is set to the descriptor's address in the library.
tc_status check_shape(int file, const char* path, uint64_t* descriptor);

// Reads exactly `size` bytes at `offset`.
bool read_at(int file, void* data, uint64_t size, uint64_t offset);

// The checksum of the file's first `end` bytes; false where they cannot be read.
bool checksum_of(int file, uint64_t end, uint64_t* checksum);

tc_status not_artefact(const char* path, const char* why);

}  // namespace tc::runtime
