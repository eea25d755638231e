/* Candidates that fight back (runtime/serve.h): each tries one thing once it runs its first command, by
 * the two digits behind "behaviour:". What it gets hold of it says on standard error behind "GOT ", and
 * it ends with code 13 where it was let live: no time is due to any of them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/agent/hostile.h"

static volatile const char marker[] = "behaviour:00";
/* Overwritten by the test: the agent's process number, and a file that only its user may read. */
static volatile const char agent_text[32] = "agent:0000000000";
static volatile const char secret_text[160] = "secret:";

static pid_t agent;
static char secret[160];
static float* outputs;
static int* volatile nowhere;

static void got(const char* what) {
  dprintf(2, "GOT %s\n", what);
  _exit(14);
}

static void got_file(const char* path, int flags) {
  char text[200];
  const int file = open(path, flags);
  if (file < 0) return;
  const ssize_t size = read(file, text, sizeof text - 1);
  text[size > 0 ? size : 0] = 0;
  for (char* c = text; *c; ++c)
    if (*c < ' ') *c = ' ';
  got(text);
}

static long call(long number, long a, long b, long c, long d) { return syscall(number, a, b, c, d, 0, 0); }

/* A call that would be of use if it were made: it says so where it is. */
static void try_call(const char* name, long number, long a, long b, long c, long d) {
  if (call(number, a, b, c, d) >= 0) got(name);
}

static void proc_path(char* path, const char* name) { snprintf(path, 64, "/proc/%d/%s", (int)agent, name); }

static void* idle(void* unused) {
  for (;;) pause();
  return unused;
}

static void* write_late(void* unused) {
  for (;;) *(volatile float*)outputs = 12345;
  return unused;
}

static int deep(int level) {
  volatile char space[4096];
  space[level % 4096] = (char)level;
  return level < 0 ? 0 : deep(level + 1) + space[0];
}

static void attack_processes(int what) {
  char path[64];
  struct sched_param param = {.sched_priority = 1};
  // clang-format off
  switch (what) {
    case kFork: if (fork() >= 0) got("a child"); break;
    case kVfork: if (syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) >= 0) _exit(14); break;
    case kNewNamespace: try_call("a namespace", SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0); break;
    case kUnshare: try_call("a namespace", SYS_unshare, CLONE_NEWUSER, 0, 0, 0); break;
    case kSetns: try_call("a namespace", SYS_setns, 1, 0, 0, 0); break;
    case kExec: execl("/bin/sh", "sh", "-c", "echo GOT a shell >&2", (char*)NULL); break;
    case kExecSelf: call(SYS_execveat, 8, (long)"", 0, 0); break;
    case kThreadBomb:
      for (int i = 0; i < 100000; ++i) {
        pthread_t thread;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 16384);
        if (pthread_create(&thread, &attributes, idle, NULL) != 0) break;
        if (i == 2000) got("two thousand threads");
      }
      break;
    case kKillParent: kill(getppid(), SIGKILL); kill(agent, SIGKILL); break;
    case kKillAll: kill(-1, SIGKILL); break;
    case kKillThread: try_call("a signal to the agent", SYS_tgkill, agent, agent, SIGKILL, 0); break;
    case kKillTkill: try_call("a signal to the agent", SYS_tkill, agent, SIGKILL, 0, 0); break;
    case kQueueSignal: {
      siginfo_t info = {.si_code = SI_QUEUE, .si_signo = SIGKILL};
      try_call("a signal to the agent", SYS_rt_sigqueueinfo, agent, SIGKILL, (long)&info, 0);
      break;
    }
    case kPidfd: try_call("the agent's process", 434, agent, 0, 0, 0); break;
    case kPidfdSignal: try_call("a signal to the agent", 424, 1, SIGKILL, 0, 0); break;
    case kPtrace: if (ptrace(PTRACE_ATTACH, agent, NULL, NULL) == 0) got("the agent by ptrace"); break;
    case kReadMemory: {
      char text[16];
      struct iovec here = {text, 16}, there = {(void*)0x400000, 16};
      if (process_vm_readv(agent, &here, 1, &there, 1, 0) >= 0) got("the agent's memory");
      break;
    }
    case kWriteMemory: {
      char text[16] = "";
      struct iovec here = {text, 16}, there = {(void*)0x400000, 16};
      if (process_vm_writev(agent, &here, 1, &there, 1, 0) >= 0) got("the agent's memory");
      break;
    }
    case kSetpriority: if (setpriority(PRIO_PROCESS, 0, -20) == 0) got("priority"); break;
    case kRealtime: if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &param) == 0) got("real time"); break;
    case kAffinity: {
      cpu_set_t all;
      memset(&all, 0xff, sizeof all);
      if (sched_setaffinity(agent, sizeof all, &all) == 0) got("the agent's processors");
      break;
    }
    case kLeaveGroup: if (setpgid(0, 0) == 0) got("a group"); break;
    case kSession: if (setsid() >= 0) got("a session"); break;
    case kRoot: try_call("root", SYS_setresuid, 0, 0, 0, 0); break;
    case kEnvironment: proc_path(path, "environ"); got_file(path, O_RDONLY); break;
    case kAgentMemory: proc_path(path, "mem"); got_file(path, O_RDONLY); break;
    case kAgentDescriptors:
      for (int i = 0; i < 100; ++i) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)agent, i);
        got_file(path, O_RDONLY);
      }
      break;
    case kOwnMemory: got_file("/proc/self/mem", O_RDONLY); break;
    default: break;
  }
  // clang-format on
}

static void attack_files(int what) {
  char path[64];
  struct stat about;
  // clang-format off
  switch (what) {
    case kReadSecret: got_file(secret, O_RDONLY); break;
    case kReadPasswd: got_file("/etc/passwd", O_RDONLY); break;
    case kReadKey: got_file("/etc/shadow", O_RDONLY); break;
    case kStat: if (stat(secret, &about) == 0) got("that the file is there"); break;
    case kListRoot: {
      const int folder = open("/", O_RDONLY | O_DIRECTORY);
      char entries[4096];
      if (folder >= 0 && syscall(SYS_getdents64, folder, entries, sizeof entries) > 0) got("what is in /");
      break;
    }
    case kOpenat2: {
      uint64_t how[3] = {O_RDONLY, 0, 0};
      try_call("a file", 437, AT_FDCWD, (long)"/etc/passwd", (long)how, sizeof how);
      break;
    }
    case kMakeFile: if (open("/tmp/tc_hostile_was_here", O_CREAT | O_WRONLY, 0600) >= 0) got("a file"); break;
    case kMakeFolder: if (mkdir("/tmp/tc_hostile_was_here", 0700) == 0) got("a folder"); break;
    case kRemove: if (unlink(secret) == 0) got("a file removed"); break;
    case kMemfd: try_call("a memory file", SYS_memfd_create, (long)"x", 0, 0, 0); break;
    case kChroot: if (chroot("..") == 0) got("another root"); break;
    case kMount: if (mount("x", "/", "tmpfs", 0, NULL) == 0) got("a mount"); break;
    case kOwner:
      /* The pipe that the agent reads: who owns it is sent the signal when it is written to. */
      if (fcntl(1, F_SETOWN, agent) == 0 && fcntl(1, F_SETSIG, SIGKILL) == 0 &&
          fcntl(1, F_SETFL, O_ASYNC) == 0)
        got("a signal to the agent");
      break;
    case kOwnerParent:
      fcntl(0, F_SETOWN, getppid()); fcntl(0, F_SETSIG, SIGKILL); fcntl(0, F_SETFL, O_ASYNC);
      break;
    case kLease: if (fcntl(10, F_SETLEASE, F_RDLCK) == 0) got("a lease"); break;
    case kNotify: if (fcntl(10, F_NOTIFY, DN_ACCESS) == 0) got("notices"); break;
    case kSeal: if (fcntl(11, F_ADD_SEALS, F_SEAL_SEAL) == 0) got("a seal"); break;
    case kPipeSize: if (fcntl(1, F_SETPIPE_SZ, 1 << 20) > 0) got("a large pipe"); break;
    case kTruncate: if (ftruncate(11, 0) == 0) got("a shorter output"); break;
    case kPunch:
      if (fallocate(11, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0) got("a hole"); break;
    case kLock: if (flock(10, LOCK_EX) == 0) got("a lock"); break;
    case kTerminal: if (ioctl(2, TIOCSTI, "x") == 0) got("the terminal"); break;
    case kDescriptors:
      for (int i = 3; i < 1000; ++i) {
        if (i >= 10 && i <= 11) continue;
        if (fstat(i, &about) == 0) {
          snprintf(path, sizeof path, "descriptor %d", i);
          got(path);
        }
      }
      break;
    case kInherited: if (getenv("PATH") != NULL || getenv("HOME") != NULL) got("the environment"); break;
    default: break;
  }
  // clang-format on
}

/* Of qemu's user mode, where its addresses are not random: within its program, and on its stack. */
static volatile uint64_t* const emulator_program = (volatile uint64_t*)0x555555654000;
static volatile uint64_t* const emulator_stack = (volatile uint64_t*)0x7ffffffe4000;

static void attack_emulator(int what) {
#if defined(__riscv)
  const struct sigaction handler = {.sa_handler = SIG_IGN};
  const struct timespec none = {0, 0};
  // clang-format off
  switch (what) {
    case kEmulatorRead: if (*emulator_program != 0x123456789) got("the emulator's memory"); break;
    case kEmulatorWrite: *emulator_stack = 0; got("the emulator's stack, written"); break;
    case kEmulatorFaults: if (sigaction(SIGSEGV, &handler, NULL) == 0) got("its own faults"); break;
    case kEmulatorFutex:
      if (call(SYS_futex, (long)emulator_program, 0 /* wait */, 0x12345, (long)&none) == 0 ||
          errno == EAGAIN || errno == ETIMEDOUT)
        got("what is in the emulator's memory");
      break;
    default: break;
  }
    // clang-format on
#else
  (void)what, (void)emulator_program, (void)emulator_stack;
#endif
}

static void attack_system(int what) {
  void* page = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const struct itimerval soon = {{0, 1000}, {0, 1000}};
  struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
  // clang-format off
  switch (what) {
    case kSocket: if (socket(AF_INET, SOCK_STREAM, 0) >= 0) got("a socket"); break;
    case kUnixSocket: if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0) got("a socket"); break;
    case kSocketPair: {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0) got("sockets");
      break;
    }
    case kIoUring: {
      char parameters[120] = "";
      try_call("a ring", 425, 4, (long)parameters, 0, 0);
      break;
    }
    case kHwpoison: memset(page, 1, 4096); if (madvise(page, 4096, 100) == 0) got("a poisoned page"); break;
    case kOffline: memset(page, 1, 4096); if (madvise(page, 4096, 101) == 0) got("a page gone"); break;
    case kRemovePages: if (madvise(outputs, 4096, MADV_REMOVE) == 0) got("a hole"); break;
    case kMerge: if (madvise(page, 1 << 16, MADV_MERGEABLE) == 0) got("merged pages"); break;
    case kHugePages:
      if (mmap(NULL, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0) != MAP_FAILED)
        got("a huge page");
      break;
    case kLockPages: if (mlockall(MCL_CURRENT | MCL_FUTURE) == 0) got("locked memory"); break;
    case kWriteInput: {
      float* writable = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 10, 0);
      if (writable != MAP_FAILED) got("a writable input");
      break;
    }
    case kPerf: {
      char attributes[128] = "";
      try_call("counters", SYS_perf_event_open, (long)attributes, agent, -1, -1);
      break;
    }
    case kBpf: try_call("bpf", SYS_bpf, 0, 0, 0, 0); break;
    case kUserfault: try_call("faults", SYS_userfaultfd, 0, 0, 0, 0); break;
    case kDeathSignal: if (prctl(PR_SET_PDEATHSIG, 0) == 0) got("life after the agent"); break;
    case kSubreaper: if (prctl(PR_SET_CHILD_SUBREAPER, 1) == 0) got("others' children"); break;
    case kShared: try_call("shared memory", SYS_shmget, 1234, 4096, IPC_CREAT | 0666, 0); break;
    case kQueue: try_call("a queue", SYS_mq_open, (long)"x", O_CREAT | O_RDWR, 0600, 0); break;
    case kKeys: try_call("keys", SYS_keyctl, 0, -3, 1, 0); break;
    case kTimer: {
      struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
      int timer;
      try_call("a timer", SYS_timer_create, CLOCK_MONOTONIC, (long)&event, (long)&timer, 0);
      break;
    }
    case kAlarm: if (setitimer(ITIMER_REAL, &soon, NULL) == 0) got("an alarm"); break;
    case kLimits: if (setrlimit(RLIMIT_AS, &most) == 0) got("limits"); break;
    case kPersonality:
      if (personality(ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC) >= 0) got("a personality"); break;
    case kReboot: try_call("a reboot", SYS_reboot, 0xfee1dead, 672274793, 0x1234567, 0); break;
    case kModule: try_call("a module", SYS_init_module, 0, 0, (long)"", 0); break;
    case kClock: {
      const struct timespec past = {1, 0};
      if (clock_settime(CLOCK_REALTIME, &past) == 0) got("the clock");
      break;
    }
    case kHostName: try_call("the host's name", SYS_sethostname, (long)"x", 1, 0, 0); break;
    default: attack_emulator(what); break;
  }
  // clang-format on
}

static void attack_itself(int what) {
  static char text[65536];
  sigset_t all;
  // clang-format off
  switch (what) {
    case kTerabyte: {
      char* memory = mmap(NULL, 1ul << 40, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory != MAP_FAILED) got("a terabyte");
      break;
    }
    case kEatMemory:
      for (;;) {
        char* memory = malloc(1 << 20);
        if (memory == NULL) break;
        memset(memory, 1, 1 << 20);
      }
      break;
    case kBreak: if (sbrk(1l << 38) != (void*)-1) got("a long heap"); break;
    case kStack: _exit(deep(0));
    case kLoop:
      sigfillset(&all);
      sigprocmask(SIG_SETMASK, &all, NULL);
      for (;;) {
      }
    case kStop: kill(getpid(), SIGSTOP); raise(SIGSTOP); pause(); break;
    case kFloodOutput:
      memset(text, 'D', sizeof text);
      while (write(1, text, sizeof text) > 0) {
      }
      break;
    case kFloodErrors:
      memset(text, 'x', sizeof text);
      for (;;)
        if (write(2, text, sizeof text) < 0) break;
      break;
    case kTerminalCodes: dprintf(2, "\033[2J\033]0;owned\007"); break;
    case kCloseAll:
      for (int i = 0; i < 100; ++i) close(i);
      for (;;) pause();
    case kAnswerTwice: if (write(1, "DD", 2) == 2) pause(); break;
    case kSegv: *nowhere = 1; break;
    case kAbort: abort();
#if defined(__x86_64__)
    case kOldCalls: {
      long result = -1;
      __asm__ volatile("int $0x80" : "=a"(result) : "a"(2L /* fork */) : "memory", "r8", "r9", "r10", "r11");
      if (result >= 0) got("a call of 32 bits");
      break;
    }
    case kX32: try_call("a call of x32", 0x40000000 + 57 /* fork */, 0, 0, 0, 0); break;
#endif
    default: break;
  }
  // clang-format on
}

static void attack(int what) {
  if (what < kFirstOfFiles) attack_processes(what);
  else if (what < kFirstOfSystem) attack_files(what);
  else if (what < kFirstOfItself) attack_system(what);
  else attack_itself(what);
}

static void read_places(void) {
  char text[32];
  for (size_t i = 0; i < sizeof text; ++i) text[i] = agent_text[i];
  for (size_t i = 0; i < sizeof secret - 8; ++i) secret[i] = secret_text[i + 7];
  agent = atoi(text + 6);
}

int main(void) {
  const int what = (marker[10] - '0') * 10 + marker[11] - '0';
  read_places();
  struct stat file;
  if (fstat(10, &file) != 0) return 7;
  const size_t bytes = (size_t)file.st_size, count = bytes / sizeof(float);
  const float* in = mmap(NULL, bytes, PROT_READ, MAP_SHARED, 10, 0);
  outputs = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 11, 0);
  if (in == MAP_FAILED || outputs == MAP_FAILED) return 8;
  if (what == kLateWrites) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, write_late, NULL) != 0) return 6;
  }
  if (write(1, "R", 1) != 1) return 9;
  for (;;) {
    unsigned char command[5];
    if (read(0, command, sizeof command) != (ssize_t)sizeof command) return 0;
    uint32_t runs;
    memcpy(&runs, command + 1, 4);
    for (uint32_t run = 0; run < runs; ++run) {
      for (size_t i = 0; i < count; ++i) outputs[i] = 2 * in[i];
      __asm__ volatile("" : : : "memory");
    }
    if (what != kHarmless && what != kLateWrites) {
      attack(what);
      _exit(13);
    }
    if (write(1, "D", 1) != 1) return 9;
  }
}
