// The constants that a compilation holds, counted in bytes, so that a small file cannot make the compiler
// hold much.
#pragma once

#include <cstdint>
#include <string>

#include "ir/tensor.h"

namespace tc {

// While one exists, its thread counts the constants of graphs until they are freed, by whichever thread. The
// outermost one decides: one inside of another changes nothing. Without any nothing is counted, and nothing
// refused.
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

// Whether there is one on this thread.
bool constants_are_counted();

// So many bytes were read of files beside the model's.
void note_bytes_read(int64_t bytes);

// The same tensor, counted from now on; as it is where it is counted already. Unsupported error, which begins
// with `who`, where constants take more than their limit: 128 MB and 3 times what was read of files.
TensorPtr held(TensorPtr tensor, const std::string& who);

// Whether a constant of so many bytes may be made beside those that are held.
bool may_hold(double bytes);

// Whether so many operations may be made to compute constants, beside those before: 2^27, and 16 for each
// byte that was read of files. They are noted where they may.
bool may_compute(double operations);

}  // namespace tc
