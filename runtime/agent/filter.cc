#include "runtime/agent/filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

namespace tc::agent {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__riscv)
constexpr uint32_t kArchitecture = AUDIT_ARCH_RISCV64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// Allowed with any arguments.
// clang-format off
constexpr int kAllowed[] = {
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_close, SYS_lseek, SYS_fstat,
    SYS_ppoll, SYS_pselect6, SYS_munmap, SYS_mprotect, SYS_brk, SYS_exit, SYS_exit_group, SYS_futex,
    SYS_set_robust_list, SYS_rseq, SYS_set_tid_address, SYS_rt_sigaction, SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_sigaltstack, SYS_sched_yield,
    SYS_sched_getaffinity, SYS_getcpu, SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep,
    SYS_nanosleep, SYS_gettimeofday, SYS_gettid, SYS_getpid, SYS_getppid, SYS_getuid, SYS_geteuid,
    SYS_getgid, SYS_getegid, SYS_getrandom, SYS_uname, SYS_sysinfo, SYS_getrusage, SYS_times,
    SYS_restart_syscall,
#if defined(__x86_64__)
    SYS_poll, SYS_select, SYS_time, SYS_getrlimit, SYS_pause,
#elif defined(__riscv)
    258 /* riscv_hwprobe */, 259 /* riscv_flush_icache */,
#endif
};
// clang-format on

// Calls that look up a name in the file system. For a candidate no name exists; a program that runs
// candidates needs them to find its libraries.
constexpr int kNameCalls[] = {
    SYS_statfs, SYS_fstatfs, SYS_readlinkat, SYS_faccessat, SYS_getdents64, SYS_getcwd, 439 /* faccessat2 */,
#if defined(__x86_64__)
    SYS_stat,   SYS_lstat,   SYS_readlink,   SYS_access,
#endif
};
// C libraries and emulators make these calls for their own use.
constexpr int kProgramCalls[] = {SYS_membarrier, SYS_msync, SYS_get_robust_list};

// The allowed commands of fcntl. Its others can send signals to a descriptor's owner, take leases, watch
// folders and seal files.
constexpr uint32_t kDescriptorCommands[] = {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC};
// The allowed advice of madvise. Not allowed: poisoning pages, making holes in a file that the agent reads,
// and merging pages with those of other processes.
constexpr uint32_t kAdvice[] = {MADV_NORMAL,   MADV_RANDOM,   MADV_SEQUENTIAL, MADV_WILLNEED,
                                MADV_DONTNEED, MADV_FREE,     MADV_HUGEPAGE,   MADV_NOHUGEPAGE,
                                MADV_DONTFORK, MADV_DONTDUMP, MADV_DODUMP};
// The allowed flags of mmap. Locked pages and huge-page pools, which all processes share, are refused.
constexpr uint32_t kMapFlags = MAP_SHARED | MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE |
                               MAP_STACK | MAP_DENYWRITE | MAP_EXECUTABLE | MAP_POPULATE |
                               0x100000 /* MAP_FIXED_NOREPLACE */;
// The flags with which the C library makes a thread.
constexpr uint32_t kThreadFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                  CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID |
                                  CLONE_CHILD_CLEARTID | CLONE_DETACHED;
#if defined(__x86_64__)
// Commands of arch_prctl that set the address of thread-local memory, or ask for the matrix registers.
constexpr uint32_t kProcessorCommands[] = {0x1002, 0x1003, 0x1021, 0x1022, 0x1023};
#endif

struct Name {
  int number;
  const char* name;
  const char* intention;
};
constexpr const char* kNetwork = "uses the network";
constexpr const char* kFiles = "changes or makes files";
constexpr const char* kProcesses = "starts processes";
constexpr const char* kOthers = "reaches into other processes";
constexpr Name kNames[] = {
    {SYS_socket, "socket", kNetwork},
    {SYS_socketpair, "socketpair", kNetwork},
    {SYS_connect, "connect", kNetwork},
    {SYS_bind, "bind", kNetwork},
    {SYS_listen, "listen", kNetwork},
    {SYS_sendto, "sendto", kNetwork},
    {SYS_sendmsg, "sendmsg", kNetwork},
    {SYS_openat, "openat", kFiles},
    {SYS_openat2, "openat2", kFiles},
    {SYS_ftruncate, "ftruncate", kFiles},
    {SYS_unlinkat, "unlinkat", kFiles},
    {SYS_mkdirat, "mkdirat", kFiles},
    {SYS_renameat2, "renameat2", kFiles},
    {SYS_linkat, "linkat", kFiles},
    {SYS_symlinkat, "symlinkat", kFiles},
    {SYS_fchmodat, "fchmodat", kFiles},
    {SYS_memfd_create, "memfd_create", kFiles},
    {SYS_clone, "clone", kProcesses},
    {SYS_execve, "execve", kProcesses},
    {SYS_execveat, "execveat", kProcesses},
    {SYS_kill, "kill", kOthers},
    {SYS_tgkill, "tgkill", kOthers},
    {SYS_tkill, "tkill", kOthers},
    {SYS_ptrace, "ptrace", kOthers},
    {SYS_process_vm_readv, "process_vm_readv", kOthers},
    {SYS_process_vm_writev, "process_vm_writev", kOthers},
    {SYS_prlimit64, "prlimit64", "changes its limits"},
    {SYS_prctl, "prctl", "changes how it is run"},
    {SYS_fcntl, "fcntl", "asks for more of a descriptor than its flags"},
    {SYS_madvise, "madvise", "asks for what is not its memory alone"},
    {SYS_setpriority, "setpriority", "changes how it is run"},
    {SYS_sched_setscheduler, "sched_setscheduler", "changes how it is run"},
    {SYS_io_uring_setup, "io_uring_setup", "makes calls that no filter sees"},
    {SYS_userfaultfd, "userfaultfd", ""},
    {SYS_pidfd_open, "pidfd_open", kOthers},
    {SYS_rt_sigqueueinfo, "rt_sigqueueinfo", kOthers},
    {SYS_rt_tgsigqueueinfo, "rt_tgsigqueueinfo", kOthers},
    {SYS_timer_create, "timer_create", ""},
    {SYS_mlockall, "mlockall", ""},
    {SYS_shmget, "shmget", "shares memory with others"},
    {SYS_chroot, "chroot", ""},
    {SYS_setns, "setns", ""},
    {SYS_keyctl, "keyctl", ""},
    {SYS_setresuid, "setresuid", "changes its user"},
    {SYS_setuid, "setuid", "changes its user"},
    {SYS_fallocate, "fallocate", kFiles},
    {SYS_flock, "flock", kFiles},
    {SYS_mq_open, "mq_open", "shares memory with others"},
    {SYS_setitimer, "setitimer", ""},
    {SYS_personality, "personality", "changes how it is run"},
    {SYS_reboot, "reboot", ""},
    {SYS_init_module, "init_module", ""},
    {SYS_clock_settime, "clock_settime", ""},
    {SYS_sethostname, "sethostname", ""},
    {424, "pidfd_send_signal", kOthers},
    {SYS_mmap, "mmap", ""},
    {SYS_mremap, "mremap", ""},
    {SYS_sched_setaffinity, "sched_setaffinity", ""},
    {SYS_setsid, "setsid", "leaves its group"},
    {SYS_setpgid, "setpgid", "leaves its group"},
    {SYS_perf_event_open, "perf_event_open", ""},
    {SYS_bpf, "bpf", ""},
    {SYS_mount, "mount", ""},
    {SYS_unshare, "unshare", ""},
#if defined(__x86_64__)
    {SYS_open, "open", kFiles},
    {SYS_creat, "creat", kFiles},
    {SYS_unlink, "unlink", kFiles},
    {SYS_mkdir, "mkdir", kFiles},
    {SYS_rename, "rename", kFiles},
    {SYS_fork, "fork", kProcesses},
    {SYS_vfork, "vfork", kProcesses},
#endif
};

// Flags of open that write, make or truncate files.
constexpr uint32_t kOpenToWrite = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);

class FilterBuilder {
 public:
  FilterBuilder(uint32_t refusal, uint32_t question) : refusal_(refusal), question_(question) {}

  void load(size_t offset) { add({BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<uint32_t>(offset)}); }
  void load_low(int argument) { load(offset_of(argument)); }
  void load_high(int argument) { load(offset_of(argument) + 4); }
  void finish(uint32_t action) { add({BPF_RET | BPF_K, 0, 0, action}); }
  // Executes the next `count` instructions only if the loaded number is, or is not, `value`.
  void if_equal(uint32_t value, uint8_t count) { add({BPF_JMP | BPF_JEQ | BPF_K, 0, count, value}); }
  void if_not_equal(uint32_t value, uint8_t count) { add({BPF_JMP | BPF_JEQ | BPF_K, count, 0, value}); }
  void if_any_bit(uint32_t bits, uint8_t count) { add({BPF_JMP | BPF_JSET | BPF_K, 0, count, bits}); }

  void rule(int call, uint32_t action) {
    if_equal(static_cast<uint32_t>(call), 1);
    finish(action);
  }
  // The action `set` where any of the bits is set in the argument, `clear` where none is.
  void rule_bits(int call, int argument, uint32_t bits, uint32_t set, uint32_t clear) {
    if_equal(static_cast<uint32_t>(call), 4);
    load_low(argument);
    if_any_bit(bits, 1);
    finish(set);
    finish(clear);
  }
  // The action `in` where the (32-bit) argument has one of the values, `out` where it does not.
  void rule_values(int call, int argument, std::span<const uint32_t> values, uint32_t in, uint32_t out) {
    if_equal(static_cast<uint32_t>(call), static_cast<uint8_t>(2 * values.size() + 2));
    load_low(argument);
    for (const uint32_t value : values) {
      if_equal(value, 1);
      finish(in);
    }
    finish(out);
  }
  // Refuses the call where a bit outside of `allowed` is set, asks the agent where one of `asked` is set,
  // else allows it.
  void rule_flags(int call, int argument, uint32_t allowed, uint32_t asked) {
    if_equal(static_cast<uint32_t>(call), 6);
    load_low(argument);
    if_any_bit(~allowed, 1);
    finish(refusal_);
    if_any_bit(asked, 1);
    finish(question_);
    finish(SECCOMP_RET_ALLOW);
  }

  std::vector<sock_filter> program;

 private:
  static size_t offset_of(int argument) {
    return offsetof(seccomp_data, args) + static_cast<size_t>(argument) * 8;
  }
  void add(sock_filter instruction) { program.push_back(instruction); }
  uint32_t refusal_, question_;
};

constexpr uint32_t failure(int number) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(number); }

// Rules for files: a candidate gets none; a program that runs it may read some.
void add_file_rules(FilterBuilder& build, const FilterUse& use, uint32_t refusal, uint32_t question) {
  for (const int call : kNameCalls) build.rule(call, use.programs ? SECCOMP_RET_ALLOW : failure(ENOENT));
  const uint32_t reading = use.programs ? question : failure(EACCES);
  build.rule_bits(SYS_openat, 2, kOpenToWrite, refusal, reading);
#if defined(__x86_64__)
  build.rule_bits(SYS_open, 1, kOpenToWrite, refusal, reading);
#endif
  const uint32_t by_name = use.programs ? SECCOMP_RET_ALLOW : failure(ENOENT);
  build.rule_bits(SYS_newfstatat, 3, AT_EMPTY_PATH, SECCOMP_RET_ALLOW, by_name);
  build.rule_bits(SYS_statx, 2, AT_EMPTY_PATH, SECCOMP_RET_ALLOW, by_name);
  build.rule_values(SYS_fcntl, 1, kDescriptorCommands, SECCOMP_RET_ALLOW, refusal);
}

// Rules for memory and threads: the agent is asked, and allows what fits into the limits.
void add_resource_rules(FilterBuilder& build, uint32_t refusal, uint32_t question) {
  build.rule_flags(SYS_mmap, 3, kMapFlags, MAP_ANONYMOUS);
  build.rule(SYS_mremap, question);
  build.rule_values(SYS_madvise, 2, kAdvice, SECCOMP_RET_ALLOW, refusal);
  // Refuses what does not make a thread: any other flag, or no CLONE_THREAD.
  build.if_equal(SYS_clone, 6);
  build.load_low(0);
  build.if_any_bit(~kThreadFlags & ~0xffu, 1);
  build.finish(refusal);
  build.if_any_bit(CLONE_THREAD, 1);
  build.finish(question);
  build.finish(refusal);
  // The flags of clone3 are in memory, which a filter cannot read. After ENOSYS the C library uses clone
  // instead.
  build.rule(SYS_clone3, failure(ENOSYS));
}

}  // namespace

Filter make_filter(const FilterUse& use) {
  const uint32_t refusal = use.interpreter ? failure(EPERM)
                           : use.notify    ? SECCOMP_RET_USER_NOTIF
                                           : SECCOMP_RET_KILL_PROCESS;
  const uint32_t question = use.notify ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW;
  Filter filter;
  FilterBuilder build(refusal, question);
  build.load(offsetof(seccomp_data, arch));
  build.if_not_equal(kArchitecture, 1);
  build.finish(SECCOMP_RET_KILL_PROCESS);
  build.load(offsetof(seccomp_data, nr));
  for (const int call : kAllowed) build.rule(call, SECCOMP_RET_ALLOW);
  for (const int call : kProgramCalls) build.rule(call, use.programs ? SECCOMP_RET_ALLOW : failure(ENOSYS));
  add_file_rules(build, use, refusal, question);
  add_resource_rules(build, refusal, question);
  // The agent allows the first such call and no other. Without an agent that is asked, a second call fails,
  // since the descriptor that it names is closed by the first.
  build.rule(SYS_execveat, question);
  if (use.notify) build.rule(SYS_execve, question);
  build.rule(SYS_ioctl, failure(ENOTTY));
  // Libraries of emulators make these calls, but none needs them to succeed.
  build.rule(SYS_get_mempolicy, failure(ENOSYS));
  build.rule(SYS_sched_setaffinity, failure(EPERM));
  if (use.interpreter) {
    // The program's own limits, which it can only lower.
    build.if_equal(SYS_prlimit64, 4);
    build.load_low(0);
    build.if_equal(0, 1);
    build.finish(SECCOMP_RET_ALLOW);
    build.finish(refusal);
  }
  // Reading a limit is allowed: the pointer to new values has to be null.
  build.if_equal(SYS_prlimit64, 6);
  build.load_low(2);
  build.if_equal(0, 3);
  build.load_high(2);
  build.if_equal(0, 1);
  build.finish(SECCOMP_RET_ALLOW);
  build.finish(refusal);
  constexpr uint32_t kNameOfThread[] = {PR_SET_NAME};
  build.rule_values(SYS_prctl, 0, kNameOfThread, SECCOMP_RET_ALLOW, refusal);
#if defined(__x86_64__)
  build.rule_values(SYS_arch_prctl, 0, kProcessorCommands, SECCOMP_RET_ALLOW, failure(EINVAL));
#endif
  // Signals to itself, for instance by abort(). The agent is asked, since the first process of a process
  // namespace does not get signals that it has no handler for.
  for (const int call : {SYS_tgkill, SYS_kill}) {
    filter.process_places.push_back(build.program.size() + 2);
    constexpr uint32_t kOwnProcess[] = {0};
    build.rule_values(call, 0, kOwnProcess, question, refusal);
  }
  build.finish(refusal);
  filter.program = std::move(build.program);
  return filter;
}

std::string system_call_name(int number) {
  for (const Name& name : kNames)
    if (name.number == number) return name.name;
  return "number " + std::to_string(number);
}

std::string intention(int number) {
  for (const Name& name : kNames)
    if (name.number == number) return name.intention;
  return "";
}

bool asks_for_memory(int number, const uint64_t* arguments, uint64_t* bytes) {
  if (number == SYS_mmap) {
    *bytes = arguments[1];
    return (arguments[3] & MAP_ANONYMOUS) != 0 && (arguments[3] & ~uint64_t{kMapFlags}) == 0;
  }
  if (number == SYS_mremap) {
    *bytes = arguments[2] > arguments[1] ? arguments[2] - arguments[1] : 0;
    return true;
  }
  return false;
}

bool starts_program(int number) { return number == SYS_execveat || number == SYS_execve; }

bool starts_thread(int number, const uint64_t* arguments) {
  const auto flags = static_cast<uint32_t>(arguments[0]);
  return number == SYS_clone && (flags & CLONE_THREAD) != 0 && (flags & ~kThreadFlags & ~0xffu) == 0;
}

bool reads_file(int number, const uint64_t* arguments) {
#if defined(__x86_64__)
  if (number == SYS_open) return (arguments[1] & kOpenToWrite) == 0;
#endif
  return number == SYS_openat && (arguments[2] & kOpenToWrite) == 0;
}

int signal_of(int number, const uint64_t* arguments) {
  return number == SYS_tgkill ? static_cast<int>(arguments[2])
         : number == SYS_kill ? static_cast<int>(arguments[1])
                              : 0;
}

}  // namespace tc::agent
