// An opened model: a checked descriptor, and the library that holds it where there is one.
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
  void* library = nullptr;          // of dlopen
  void (*unload)(void*) = nullptr;  // closes `library`
  std::atomic<int32_t> users{1};    // the handle and its contexts
  int32_t default_threads = 1;      // resolved

  static constexpr uint32_t kTag = 0x6d6f6431;
};

namespace tc::runtime {

// Bounds that every model keeps; products of any two fit 64 bits.
constexpr int64_t kMaxBytes = int64_t{1} << 46;
constexpr int32_t kMaxPorts = TC_MOST_PORTS;

inline bool valid(const tc_model* model) { return model != nullptr && model->tag == tc_model::kTag; }
tc_status bad_model(const char* function);

// Checks the descriptor and makes a handle. `origin` is the file or symbol for error texts.
tc_status make_model(const tc_descriptor* descriptor, const char* origin, tc_model** model);
// Drops one use; the last one frees.
void release(tc_model* model);

// Bytes of a shape; -1 where a size is negative or the product passes kMaxBytes.
int64_t byte_count(const int64_t* dims, int32_t rank, int32_t dtype);

// For each output the input that may have its memory, or -1; null where there is none.
inline const int32_t* in_place(const tc_descriptor& d) { return d.abi_version < 6 ? nullptr : d.in_place; }

// The buffers of all inputs or of all outputs, and how many bytes each has; negative where it has none.
struct BuffersOf {
  const void* const* data;
  const int64_t* bytes;
};
// Of models whose outputs may lie in inputs: an output's buffer is that of its input, or apart from all.
tc_status check_in_place(const tc_descriptor& d, const BuffersOf& inputs, const BuffersOf& outputs);

// Scratch memory of a context's threads, one behind the other, each aligned to 64 bytes.
struct ScratchBytes {
  int64_t first = 0, other = 0;  // of thread 0, of each other one
  int64_t before(int32_t thread) const { return thread == 0 ? 0 : first + other * (thread - 1); }
};
// For these symbols; negative where a size overflows or is out of range.
ScratchBytes scratch_for(const tc_descriptor& d, const int64_t* symbols);

// Copies what the caller's structure, which starts with struct_size, has room for.
template <class Info>
tc_status hand_out(const char* function, const Info& filled, Info* info) {
  if (info == nullptr) return fail(TC_ERROR_ARGUMENT, "%s: info is null", function);
  const uint64_t size = info->struct_size;
  if (size < sizeof size || size > 65536)
    return fail(TC_ERROR_ARGUMENT, "%s: set info->struct_size to sizeof *info before the call", function);
  const uint64_t copied = size < sizeof(Info) ? size : sizeof(Info);
  memcpy(reinterpret_cast<char*>(info) + sizeof size, reinterpret_cast<const char*>(&filled) + sizeof size,
         copied - sizeof size);
  // What a newer header has and this library does not know is zero.
  memset(reinterpret_cast<char*>(info) + copied, 0, size - copied);
  return TC_OK;
}

}  // namespace tc::runtime
