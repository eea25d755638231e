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
constexpr int kAllowed[] = {
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_close, SYS_lseek, SYS_fstat,
    SYS_newfstatat, SYS_statx, SYS_statfs, SYS_fstatfs, SYS_readlinkat, SYS_faccessat,
    SYS_getdents64, SYS_getcwd, SYS_fcntl, SYS_ppoll, SYS_pselect6, SYS_munmap, SYS_mprotect,
    SYS_madvise, SYS_msync, SYS_brk, SYS_exit, SYS_exit_group, SYS_futex, SYS_set_robust_list,
    SYS_get_robust_list, SYS_rseq, SYS_set_tid_address, SYS_rt_sigaction, SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_sigaltstack, SYS_sched_yield,
    SYS_sched_getaffinity, SYS_getcpu, SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep,
    SYS_nanosleep, SYS_gettimeofday, SYS_gettid, SYS_getpid, SYS_getppid, SYS_getuid, SYS_geteuid,
    SYS_getgid, SYS_getegid, SYS_getrandom, SYS_uname, SYS_sysinfo, SYS_membarrier, SYS_getrusage,
    SYS_times, SYS_restart_syscall,
#if defined(__x86_64__)
    SYS_arch_prctl, SYS_stat, SYS_lstat, SYS_readlink, SYS_access, SYS_poll, SYS_select, SYS_time,
    SYS_getrlimit, SYS_pause,
#elif defined(__riscv)
    258 /* riscv_hwprobe */, 259 /* riscv_flush_icache */,
#endif
};

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

// Writing, making and cutting files.
constexpr uint32_t kOpenToWrite =
    O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);

class FilterBuilder {
 public:
  explicit FilterBuilder(uint32_t refusal) : refusal_(refusal) {}

  void load(size_t offset) {
    add({BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<uint32_t>(offset)});
  }
  void load_low(int argument) { load(offset_of(argument)); }
  void load_high(int argument) { load(offset_of(argument) + 4); }
  void finish(uint32_t action) { add({BPF_RET | BPF_K, 0, 0, action}); }
  // Does the next `count` instructions only where the loaded number is, or is not, `value`.
  void if_equal(uint32_t value, uint8_t count) { add({BPF_JMP | BPF_JEQ | BPF_K, 0, count, value}); }
  void if_not_equal(uint32_t value, uint8_t count) {
    add({BPF_JMP | BPF_JEQ | BPF_K, count, 0, value});
  }
  void if_any_bit(uint32_t bits, uint8_t count) { add({BPF_JMP | BPF_JSET | BPF_K, 0, count, bits}); }

  void rule(int call, uint32_t action) {
    if_equal(static_cast<uint32_t>(call), 1);
    finish(action);
  }
  // One action where any of the bits is set in the argument, another where none is.
  void rule_bits(int call, int argument, uint32_t bits, uint32_t set, uint32_t clear) {
    if_equal(static_cast<uint32_t>(call), 4);
    load_low(argument);
    if_any_bit(bits, 1);
    finish(set);
    finish(clear);
  }
  // Allowed where the argument has that value (of 32 bits).
  void rule_value(int call, int argument, uint32_t value) {
    if_equal(static_cast<uint32_t>(call), 4);
    load_low(argument);
    if_equal(value, 1);
    finish(SECCOMP_RET_ALLOW);
    finish(refusal_);
  }

  std::vector<sock_filter> program;

 private:
  static size_t offset_of(int argument) {
    return offsetof(seccomp_data, args) + static_cast<size_t>(argument) * 8;
  }
  void add(sock_filter instruction) { program.push_back(instruction); }
  uint32_t refusal_;
};

}  // namespace

Filter make_filter(bool notify) {
  const uint32_t refusal = notify ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_KILL_PROCESS;
  const uint32_t question = notify ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW;
  Filter filter;
  FilterBuilder build(refusal);
  build.load(offsetof(seccomp_data, arch));
  build.if_not_equal(kArchitecture, 1);
  build.finish(SECCOMP_RET_KILL_PROCESS);
  build.load(offsetof(seccomp_data, nr));
  for (const int call : kAllowed) build.rule(call, SECCOMP_RET_ALLOW);
  build.rule_bits(SYS_mmap, 3, MAP_ANONYMOUS, question, SECCOMP_RET_ALLOW);
  build.rule(SYS_mremap, question);
  // The agent lets the first go and no other. Without it, the descriptor that the call names is
  // closed once it succeeded.
  build.rule(SYS_execveat, question);
  if (notify) build.rule(SYS_execve, question);
  build.rule_bits(SYS_clone, 0, CLONE_THREAD, SECCOMP_RET_ALLOW, refusal);
  // Its flags are in memory, where no filter sees them: the C library then takes clone.
  build.rule(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
  build.rule_bits(SYS_openat, 2, kOpenToWrite, refusal, SECCOMP_RET_ALLOW);
#if defined(__x86_64__)
  build.rule_bits(SYS_open, 1, kOpenToWrite, refusal, SECCOMP_RET_ALLOW);
#endif
  build.rule(SYS_ioctl, SECCOMP_RET_ERRNO | ENOTTY);
  // Libraries of emulators ask; none needs an answer.
  build.rule(SYS_get_mempolicy, SECCOMP_RET_ERRNO | ENOSYS);
  build.rule(SYS_sched_setaffinity, SECCOMP_RET_ERRNO | EPERM);
  // Reading a limit.
  build.if_equal(SYS_prlimit64, 6);
  build.load_low(2);
  build.if_equal(0, 3);
  build.load_high(2);
  build.if_equal(0, 1);
  build.finish(SECCOMP_RET_ALLOW);
  build.finish(refusal);
  build.rule_value(SYS_prctl, 0, PR_SET_NAME);
  // Signals to itself: abort() is one.
  for (const int call : {SYS_tgkill, SYS_kill}) {
    filter.process_places.push_back(build.program.size() + 2);
    build.rule_value(call, 0, 0);
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
    return (arguments[3] & MAP_ANONYMOUS) != 0;
  }
  if (number == SYS_mremap) {
    *bytes = arguments[2] > arguments[1] ? arguments[2] - arguments[1] : 0;
    return true;
  }
  return false;
}

bool starts_program(int number) { return number == SYS_execveat || number == SYS_execve; }

}  // namespace tc::agent
