// Keeps a guest of qemu's user mode within its own memory, and so away from the counts, which the plugin has
// in qemu's memory.
//
// qemu translates a guest's loads and stores to those of the host without checking their addresses, so any
// address of the process can be reached. Where the guest's memory is reserved (-R BYTES), all of it is below
// that size. The plugin is called immediately after each access, and ends the process at the first one that
// was not below. The addresses of qemu's memory are random, so that a guest has only one blind try. It must
// not learn the addresses either: neither by handling its own faults, nor by system calls that qemu passes to
// the kernel without checking their addresses.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace tc::qemu {

// The numbers on riscv64 of the system calls whose addresses qemu does not check, and of the one that
// installs signal handlers.
constexpr int64_t kFutex = 98, kSigaction = 134, kShmat = 196, kShmdt = 197, kMsync = 227, kMlock = 228,
                  kMunlock = 229, kMlock2 = 284;
// Exit code of a guest that asked for more memory than it has: kServeOutOfMemory of runtime/serve.h.
constexpr int kOutOfMemoryCode = 4;
// Exit code of a guest whose command takes longer than it may: kServeTooLong of runtime/serve.h.
constexpr int kTooLongCode = 5;
constexpr uint64_t kSigbus = 7, kSigsegv = 11;

// Whether an access of `bytes` bytes at `address` is not entirely in the guest's memory.
inline bool is_outside(uint64_t address, uint64_t bytes, uint64_t guest_bytes) {
  return address >= guest_bytes || bytes > guest_bytes - address;
}

// How a system call could tell the guest something about qemu's memory, or change it, as part of a message;
// null where it cannot.
inline const char* reach_of(int64_t call, std::span<const uint64_t> arguments, uint64_t guest_bytes) {
  switch (call) {
    case kSigaction:
      // Without a new action it only asks for the present one.
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
