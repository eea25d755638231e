// The constants that a compilation holds, counted in bytes, so that a small file cannot make the compiler use
// much memory.
#pragma once

#include <cstdint>
#include <string>

#include "ir/tensor.h"

namespace tc {

// While such an object exists, its thread counts the bytes of the graphs' constants until any thread frees
// them. Only the outermost object counts; one inside another changes nothing. Without such an object nothing
// is counted, and nothing refused.
class HeldConstants {
 public:
  // `file_bytes` is how large the model's file is.
  explicit HeldConstants(int64_t file_bytes);
  ~HeldConstants();
  HeldConstants(const HeldConstants&) = delete;
  HeldConstants& operator=(const HeldConstants&) = delete;

 private:
  bool outermost_;
};

// Whether this thread has a HeldConstants.
bool constants_are_counted();

// Records that `bytes` bytes were read from files other than the model's.
void note_bytes_read(int64_t bytes);

// The same tensor, counted from now on unless it is counted already. Throws an Unsupported error, whose text
// begins with `who`, where constants take more than their limit: 128 MB plus 3 times the bytes that were read
// from files.
TensorPtr held(TensorPtr tensor, const std::string& who);

// Whether a constant of `bytes` bytes may be made in addition to those that are held.
bool may_hold(double bytes);

// Whether `operations` operations may be spent on computing constants, in addition to those spent before: the
// limit is 2^27 plus 16 for each byte that was read from files. If so, they are counted as spent.
bool may_compute(double operations);

}  // namespace tc
