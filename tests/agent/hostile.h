/* What the candidates of hostile.c try, by number; the names are those of hostile_test.cc's list. */
#pragma once

/* clang-format off */
#define PROCESS_ATTACKS(X)                                                                          \
  X(kHarmless) X(kFork) X(kVfork) X(kNewNamespace) X(kUnshare) X(kSetns) X(kExec) X(kExecSelf)      \
  X(kThreadBomb) X(kKillParent) X(kKillAll) X(kKillThread) X(kKillTkill) X(kQueueSignal) X(kPidfd)  \
  X(kPidfdSignal) X(kPtrace) X(kReadMemory) X(kWriteMemory) X(kSetpriority) X(kRealtime)            \
  X(kAffinity) X(kLeaveGroup) X(kSession) X(kRoot) X(kEnvironment) X(kAgentMemory)                  \
  X(kAgentDescriptors) X(kOwnMemory)
/* clang-format on */
/* clang-format off */
#define FILE_ATTACKS(X)                                                                             \
  X(kReadSecret) X(kReadPasswd) X(kReadKey) X(kStat) X(kListRoot) X(kOpenat2) X(kMakeFile)          \
  X(kMakeFolder) X(kRemove) X(kMemfd) X(kChroot) X(kMount) X(kOwner) X(kOwnerParent) X(kLease)      \
  X(kNotify) X(kSeal) X(kPipeSize) X(kTruncate) X(kPunch) X(kLock) X(kTerminal) X(kDescriptors)     \
  X(kInherited)
/* clang-format on */
/* clang-format off */
#define SYSTEM_ATTACKS(X)                                                                           \
  X(kSocket) X(kUnixSocket) X(kSocketPair) X(kIoUring) X(kHwpoison) X(kOffline) X(kRemovePages)     \
  X(kMerge) X(kHugePages) X(kLockPages) X(kWriteInput) X(kPerf) X(kBpf) X(kUserfault)               \
  X(kDeathSignal) X(kSubreaper) X(kShared) X(kQueue) X(kKeys) X(kTimer) X(kAlarm) X(kLimits)        \
  X(kPersonality) X(kReboot) X(kModule) X(kClock) X(kHostName) X(kEmulatorRead) X(kEmulatorWrite)   \
  X(kEmulatorFaults) X(kEmulatorFutex)
/* clang-format on */
/* clang-format off */
#define OWN_ATTACKS(X)                                                                              \
  X(kTerabyte) X(kEatMemory) X(kBreak) X(kStack) X(kLoop) X(kStop) X(kFloodOutput) X(kFloodErrors)  \
  X(kTerminalCodes) X(kCloseAll) X(kAnswerTwice) X(kSegv) X(kAbort) X(kLateWrites) X(kOldCalls) X(kX32)
/* clang-format on */

#define NUMBER(name) name,
enum Attack {
  PROCESS_ATTACKS(NUMBER) kFirstOfFiles,
  kBeforeFiles = kFirstOfFiles - 1,
  FILE_ATTACKS(NUMBER) kFirstOfSystem,
  kBeforeSystem = kFirstOfSystem - 1,
  SYSTEM_ATTACKS(NUMBER) kFirstOfItself,
  kBeforeItself = kFirstOfItself - 1,
  OWN_ATTACKS(NUMBER) kAttacks
};
#undef NUMBER
