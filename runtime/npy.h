// NumPy's .npy files: reading with every size checked, and writing.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tc_runtime.h"

namespace tc::runtime {

// An array in memory; `data` is malloc'ed (null for no elements).
struct NpyArray {
  int32_t dtype = 0;
  int32_t rank = 0;
  int64_t dims[TC_MAX_RANK] = {};
  void* data = nullptr;
  uint64_t bytes = 0;
};

// Reads a file of format 1, 2 or 3, little-endian and in C order. A two-byte void type is bf16, as ml_dtypes
// writes it; one of a byte may be any of its types, and is told as the first. On false `why` holds the
// reason, without the path; nothing is allocated.
bool read_npy(const char* path, NpyArray* array, char* why, size_t why_size);

// Whether what was read may be of the type.
bool is_npy_of(const NpyArray& array, int32_t dtype);

// Writes format 1. The file appears under its name only when it is whole.
bool write_npy(const char* path, const NpyArray& array, char* why, size_t why_size);

}  // namespace tc::runtime
