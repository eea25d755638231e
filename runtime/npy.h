// NumPy's .npy files: reads them, with every size checked, and writes them.
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

// Reads a file of format 1, 2 or 3, little-endian and in C order. A void type of two bytes is bf16, as
// ml_dtypes writes it. A void type of one byte may be any of the one-byte types of ml_dtypes; `dtype` is then
// the first of them (see is_npy_of). On false `why` has the reason, without the path, and nothing is
// allocated.
bool read_npy(const char* path, NpyArray* array, char* why, size_t why_size);

// Whether the array that was read can have this type.
bool is_npy_of(const NpyArray& array, int32_t dtype);

// Writes format 1. The file appears under its name only when it is complete.
bool write_npy(const char* path, const NpyArray& array, char* why, size_t why_size);

}  // namespace tc::runtime
