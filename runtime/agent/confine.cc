#include "runtime/agent/confine.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tc::agent {
namespace {

// The id of the agent's user inside a user namespace: an id without special rights (`nobody`).
constexpr unsigned kInside = 65534;
// Where the candidate's root is mounted: a folder that every system has, and none of whose files a candidate
// gets.
constexpr char kPlace[] = "/proc";
// System calls of landlock(7), which some headers lack; the numbers are the same on all processors.
constexpr int kCreateRuleset = 444, kRestrictSelf = 446;

struct LandlockRules {
  uint64_t files;
  uint64_t network;
  uint64_t scopes;
};

bool write_file(const char* path, const char* text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const auto size = static_cast<ssize_t>(strlen(text));
  const bool good = write(file, text, static_cast<size_t>(size)) == size;
  close(file);
  return good;
}

bool write_map(const char* path, unsigned outside) {
  char text[64];
  snprintf(text, sizeof text, "%u %u 1", kInside, outside);
  return write_file(path, text);
}

bool copy_program(int from, int64_t bytes) {
  const int to = open("candidate", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
  if (to < 0) return false;
  char block[16384];
  for (int64_t at = 0; at < bytes;) {
    const ssize_t got = pread(from, block, sizeof block, at);
    if (got <= 0 || write(to, block, static_cast<size_t>(got)) != got) return false;
    at += got;
  }
  return close(to) == 0;
}

bool show(const Root::Shown& what) {
  const char* target = what.target.c_str();
  if (what.is_folder) {
    if (mkdir(target, 0555) != 0 && errno != EEXIST) return false;
  } else {
    const int file = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
    if (file < 0) return false;
    close(file);
  }
  if (mount(what.source.c_str(), target, nullptr, MS_BIND | MS_REC, nullptr) != 0) return false;
  // In a user namespace, a bind mount inherits the restrictions of its file system, and a remount has to
  // repeat them.
  struct statfs about;
  if (statfs(target, &about) != 0) return false;
  const unsigned long kept = static_cast<unsigned long>(about.f_flags) & (MS_NODEV | MS_NOEXEC);
  const unsigned long read_only =
      MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | (what.is_device ? 0 : MS_NODEV) | kept;
  return mount(nullptr, target, nullptr, read_only, nullptr) == 0;
}

}  // namespace

Root make_root(const std::vector<std::string>& shown) {
  Root root;
  for (const std::string& path : shown) {
    struct stat about;
    if (path.size() < 2 || path.front() != '/' || stat(path.c_str(), &about) != 0) continue;
    const bool is_there = std::any_of(root.shown.begin(), root.shown.end(), [&](const Root::Shown& other) {
      return path == other.source || (other.is_folder && path.rfind(other.source + "/", 0) == 0);
    });
    if (is_there) continue;
    for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
      const std::string folder = path.substr(1, at - 1);
      if (std::find(root.folders.begin(), root.folders.end(), folder) == root.folders.end())
        root.folders.push_back(folder);
    }
    root.shown.push_back({path, path.substr(1), S_ISDIR(about.st_mode), S_ISCHR(about.st_mode)});
  }
  return root;
}

const char* map_user(uid_t user, gid_t group) {
  // Old kernels neither have this file nor need it.
  if (!write_file("/proc/self/setgroups", "deny") && errno != ENOENT) return "user namespace";
  if (!write_map("/proc/self/uid_map", user) || !write_map("/proc/self/gid_map", group))
    return "user namespace";
  return nullptr;
}

const char* enter_root(const Root& root) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return "mount namespace";
  char options[64];
  snprintf(options, sizeof options, "mode=0755,size=%lld",
           static_cast<long long>(root.program_bytes + (1 << 20)));
  if (mount("candidate", kPlace, "tmpfs", MS_NOSUID | MS_NODEV, options) != 0 || chdir(kPlace) != 0)
    return "empty root";
  // With the agent's umask, the candidate's user could not enter these folders.
  umask(0022);
  for (const std::string& folder : root.folders)
    if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return "folders of the root";
  for (const Root::Shown& what : root.shown)
    if (!show(what)) return "files of the root";
  if (root.program >= 0 && !copy_program(root.program, root.program_bytes)) return "the program's copy";
  // An initramfs as root cannot be replaced by pivot_root, so chroot is used. It is safe here, since the
  // child has no descriptor that leads back.
  if (syscall(SYS_pivot_root, ".", ".") == 0) {
    if (umount2(".", MNT_DETACH) != 0) return "leaving the old root";
  } else if (errno != EINVAL || chroot(".") != 0) {
    return "changing the root";
  }
  if (chdir("/") != 0) return "changing the root";
  if (mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) != 0)
    return "a root that cannot be written";
  return nullptr;
}

const char* become_user(uid_t user) {
  for (int capability = 0; capability < 64; ++capability) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  // Raw system calls, since the C library's functions would synchronise with other threads, which this
  // process does not have.
  if (syscall(SYS_setgroups, 0, nullptr) != 0) return "groups";
  if (syscall(SYS_setresgid, user, user, user) != 0) return "group id";
  if (syscall(SYS_setresuid, user, user, user) != 0) return "user id";
  return nullptr;
}

const char* forbid_files(int landlock_version, bool reads) {
  if (landlock_version == 0) return nullptr;
  // The system call filter handles execution (bit 0); bits 2 and 3 are reading files and folders.
  uint64_t files = 0x1ffe;
  if (landlock_version >= 2) files |= 1 << 13;
  if (landlock_version >= 3) files |= 1 << 14;
  if (landlock_version >= 5) files |= 1 << 15;
  if (reads) files &= ~uint64_t{0xc};
  const LandlockRules rules = {files, landlock_version >= 4 ? uint64_t{3} : 0,
                               landlock_version >= 6 ? uint64_t{3} : 0};
  const size_t size = landlock_version >= 6 ? 24 : landlock_version >= 4 ? 16 : 8;
  const long ruleset = syscall(kCreateRuleset, &rules, size, 0);
  if (ruleset < 0) return "Landlock";
  const bool good = syscall(kRestrictSelf, ruleset, 0) == 0;
  close(static_cast<int>(ruleset));
  return good ? nullptr : "Landlock";
}

}  // namespace tc::agent
