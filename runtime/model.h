// An opened model: a checked descriptor, and the shared library that contains it, where there is one.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "abi.h"
#include "error.h"
#include "tc_runtime.h"

struct tc_model {
  uint32_t tag = 0;  // kTag while the handle is valid
  const tc_descriptor* descriptor = nullptr;
  void* library = nullptr;          // closed with `unload`; null where the model is linked into the program
  void (*unload)(void*) = nullptr;  // closes `library`
  const char* weights = nullptr;    // the file of weights beside the library, which owns the text; or null
  std::atomic<int32_t> users{1};    // the handle, and each context
  int32_t default_threads = 1;      // never 0

  static constexpr uint32_t kTag = 0x6d6f6431;
};

namespace tc::runtime {

// Bounds that hold for every model; the product of any two fits into 64 bits.
constexpr int64_t kMaxBytes = int64_t{1} << 46;
constexpr int32_t kMaxPorts = TC_MOST_PORTS;

inline bool valid(const tc_model* model) { return model != nullptr && model->tag == tc_model::kTag; }
tc_status bad_model(const char* function);

// Checks the descriptor and makes a handle. `origin` is the file or symbol for error texts.
tc_status make_model(const tc_descriptor* descriptor, const char* origin, tc_model** model);
// Ends one use of the model; the end of the last one frees it.
void release(tc_model* model);

// Bytes of a shape; -1 where a size is negative or the product exceeds kMaxBytes.
int64_t byte_count(const int64_t* dims, int32_t rank, int32_t dtype);

// For each output the input with which it may share memory, or -1; null where no output has one.
inline const int32_t* in_place(const tc_descriptor& d) { return d.abi_version < 6 ? nullptr : d.in_place; }

// The buffers of all inputs or of all outputs, and the bytes of each; negative for an output without a
// buffer.
struct BuffersOf {
  const void* const* data;
  const int64_t* bytes;
};
// For models whose outputs may be in the memory of inputs: checks that each output's buffer either is that of
// its input or overlaps no input and no other output.
tc_status check_in_place(const tc_descriptor& d, const BuffersOf& inputs, const BuffersOf& outputs);

// Scratch memory of a context's threads: one piece after the other, each aligned to 64 bytes.
struct ScratchBytes {
  int64_t first = 0, other = 0;  // bytes of thread 0, and of each other thread
  int64_t before(int32_t thread) const { return thread == 0 ? 0 : first + other * (thread - 1); }
};
// The scratch bytes for these symbols; negative where a size overflows or is out of range.
ScratchBytes scratch_for(const tc_descriptor& d, const int64_t* symbols);

// Copies as much as fits into the caller's structure, which starts with struct_size.
template <class Info>
tc_status hand_out(const char* function, const Info& filled, Info* info) {
  if (info == nullptr) return fail(TC_ERROR_ARGUMENT, "%s: info is null", function);
  const uint64_t size = info->struct_size;
  if (size < sizeof size || size > 65536)
    return fail(TC_ERROR_ARGUMENT, "%s: set info->struct_size to sizeof *info before the call", function);
  const uint64_t copied = size < sizeof(Info) ? size : sizeof(Info);
  memcpy(reinterpret_cast<char*>(info) + sizeof size, reinterpret_cast<const char*>(&filled) + sizeof size,
         copied - sizeof size);
  // Fields of a newer header that this library does not know become zero.
  memset(reinterpret_cast<char*>(info) + copied, 0, size - copied);
  return TC_OK;
}

}  // namespace tc::runtime
