// What keeps a guest of qemu's user mode in its own memory, and so from the counts that the plugin keeps in
// qemu's.
//
// qemu translates a guest's loads and stores to the host's without a bound: any address leads somewhere into
// the process. Where the guest's memory is reserved (-R BYTES), all that is its own lies below that size. The
// plugin sees each access right behind it and ends the process at the first one that was not below. A guest
// that does not know where qemu's memory lies, which is random, has one blind try: it must not learn
// addresses either, by handling its own faults, or by calls that qemu hands to the kernel without looking at
// their addresses.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace tc::qemu {

// Riscv64's numbers of system calls whose addresses qemu does not look at, and of the one that handles
// signals.
constexpr int64_t kFutex = 98, kSigaction = 134, kShmat = 196, kShmdt = 197, kMsync = 227, kMlock = 228,
                  kMunlock = 229, kMlock2 = 284;
// Exit code of a guest that asked for more memory than there is: kServeOutOfMemory of runtime/serve.h.
constexpr int kOutOfMemoryCode = 4;
constexpr uint64_t kSigbus = 7, kSigsegv = 11;

// Whether an access of so many bytes leaves the guest's memory.
inline bool is_outside(uint64_t address, uint64_t bytes, uint64_t guest_bytes) {
  return address >= guest_bytes || bytes > guest_bytes - address;
}

// What a system call would tell the guest of qemu's memory, or do to it; null for nothing.
inline const char* reach_of(int64_t call, std::span<const uint64_t> arguments, uint64_t guest_bytes) {
  switch (call) {
    case kSigaction:
      // With no new action it only asks.
      if ((arguments[0] == kSigsegv || arguments[0] == kSigbus) && arguments[1] != 0)
        return "handles its own faults";
      return nullptr;
    case kFutex: {
      constexpr uint64_t kRequeue = 3, kCompareRequeue = 4, kWakeOperation = 5, kWaitRequeue = 11,
                         kCompareRequeueInherit = 12;
      const uint64_t operation = arguments[1] & 127;
      const bool has_second = operation == kRequeue || operation == kCompareRequeue ||
                              operation == kWakeOperation || operation == kWaitRequeue ||
                              operation == kCompareRequeueInherit;
      const bool out = is_outside(arguments[0], 4, guest_bytes) ||
                       (has_second && is_outside(arguments[4], 4, guest_bytes));
      return out ? "waits at an address that is not in its memory" : nullptr;
    }
    case kShmat:
    case kShmdt:
    case kMsync:
    case kMlock:
    case kMunlock:
    case kMlock2:
      return is_outside(arguments[call == kShmat ? 1 : 0], 1, guest_bytes)
                 ? "names an address that is not in its memory"
                 : nullptr;
    default: return nullptr;
  }
}

}  // namespace tc::qemu
