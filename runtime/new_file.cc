// Writes files under names that users give, so that a file appears complete or not at all.
#include "new_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace tc::runtime {
namespace {

// The latest file that is being written and has not been renamed yet; for the signal handler.
std::atomic<const char*> unfinished{nullptr};

void remove_and_end(int number) {
  if (const char* path = unfinished.load(); path != nullptr) unlink(path);
  raise(number);  // now with the default action: SA_RESETHAND has removed this handler
}

size_t folder_length(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? 0 : static_cast<size_t>(slash - path) + 1;
}

// Follows the symbolic links from `path` to `target`, which need not exist. False with errno.
bool follow_links(const char* path, char* target) {
  constexpr int kMaxLinks = 40;  // as in the kernel
  if (strlen(path) >= PATH_MAX) return errno = ENAMETOOLONG, false;
  strcpy(target, path);
  for (int i = 0; i < kMaxLinks; ++i) {
    char link[PATH_MAX];
    const ssize_t length = readlink(target, link, sizeof link - 1);
    if (length < 0) return errno == EINVAL || errno == ENOENT;
    link[length] = 0;
    const size_t kept = link[0] == '/' ? 0 : folder_length(target);
    if (kept + static_cast<size_t>(length) >= PATH_MAX) return errno = ENAMETOOLONG, false;
    memcpy(target + kept, link, static_cast<size_t>(length) + 1);
  }
  return errno = ELOOP, false;
}

// Locks the file that was opened by that name. The lock ends when the file is closed, or the process ends in
// whatever way. False where another process has locked or removed the file. Where the file system has no
// locks, this returns true: remove_abandoned() then removes nothing.
bool lock(int file, const char* path) {
  struct stat opened, named;
  if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  if (fstat(file, &opened) != 0 || lstat(path, &named) != 0) return false;
  return opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

// The id of the process that made a file of such a name; 0 for other names.
pid_t writer_of(const char* name) {
  constexpr char kBegin[] = ".tc-", kEnd[] = ".part";
  const size_t length = strlen(name);
  if (strncmp(name, kBegin, strlen(kBegin)) != 0 || length < strlen(kEnd)) return 0;
  if (strcmp(name + length - strlen(kEnd), kEnd) != 0) return 0;
  char* end = nullptr;
  const unsigned long number = strtoul(name + strlen(kBegin), &end, 16);
  return *end == '-' && number <= INT_MAX ? static_cast<pid_t>(number) : 0;
}

// Removes unfinished files in the folder of `target` whose writing processes were killed.
void remove_abandoned(const char* target) {
  char path[PATH_MAX];
  const int length = static_cast<int>(folder_length(target));
  if (snprintf(path, sizeof path, "%.*s.", length, target) >= PATH_MAX) return;
  DIR* const folder = opendir(path);
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    const pid_t writer = writer_of(entry->d_name);
    // The lock alone is not enough: a linker may have replaced the file, so that the new one is not locked.
    if (writer <= 0 || kill(writer, 0) == 0 || errno != ESRCH) continue;
    if (snprintf(path, sizeof path, "%.*s%s", length, target, entry->d_name) >= PATH_MAX) continue;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) continue;
    struct stat state;
    const bool is_own = fstat(file, &state) == 0 && S_ISREG(state.st_mode) && state.st_uid == geteuid();
    if (is_own && flock(file, LOCK_EX | LOCK_NB) == 0) unlink(path);
    close(file);
  }
  closedir(folder);
}

// Makes a new file in the folder of `target` and locks it; -1 with errno.
int make_beside(const char* target, char* part) {
  static std::atomic<unsigned> count{0};
  constexpr int kMaxAttempts = 100;
  for (int i = 0; i < kMaxAttempts; ++i) {
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    const int written = snprintf(
        part, PATH_MAX, "%.*s.tc-%lx-%x-%lx.part", static_cast<int>(folder_length(target)), target,
        static_cast<unsigned long>(getpid()), count.fetch_add(1), static_cast<unsigned long>(now.tv_nsec));
    if (written >= PATH_MAX) return errno = ENAMETOOLONG, -1;
    const int file = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno != EEXIST) return -1;
    if (file < 0) continue;
    if (lock(file, part)) return file;
    close(file);
  }
  return errno = EEXIST, -1;
}

}  // namespace

NewFile::~NewFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (part_[0] == 0) return;
  unlink(part_);
  unfinished.store(nullptr);
}

bool NewFile::no(const char* reason) {
  snprintf(why_, sizeof why_, "%s", reason);
  return false;
}

bool NewFile::no() { return no(strerror(errno)); }

bool NewFile::open_in_place(unsigned mode) {
  if (S_ISDIR(mode)) return no("it is a folder");
  if (S_ISBLK(mode)) return no("it is a device with blocks, whose contents would be lost");
  if (S_ISSOCK(mode)) return no("it is a socket");
  is_in_place_ = true;
  // O_NONBLOCK, so that opening does not wait for a reader of the pipe: there may never be one.
  descriptor_ = ::open(target_, O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) return errno == ENXIO ? no("no program reads from the pipe") : no();
  return fcntl(descriptor_, F_SETFL, 0) == 0 || no();
}

bool NewFile::open(const char* path) {
  struct stat state;
  if (stat(path, &state) == 0 && !S_ISREG(state.st_mode)) {
    // Opened by the name itself, without resolving links first: those in /proc may lead to pipes that have no
    // name.
    if (snprintf(target_, sizeof target_, "%s", path) >= static_cast<int>(sizeof target_))
      return no(strerror(ENAMETOOLONG));
    return open_in_place(state.st_mode);
  }
  if (!follow_links(path, target_)) return no();
  remove_abandoned(target_);
  descriptor_ = make_beside(target_, part_);
  if (descriptor_ < 0) {
    part_[0] = 0;
    return no();
  }
  unfinished.store(part_);
  return true;
}

bool NewFile::write(const void* data, size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = ::write(descriptor_, bytes, size);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return no();
    bytes += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

bool NewFile::finish() {
  const int file = descriptor_;
  descriptor_ = -1;
  if (close(file) != 0) return no();
  if (is_in_place_) return true;
  if (rename(part_, target_) != 0) return no();
  part_[0] = 0;
  unfinished.store(nullptr);
  return true;
}

void remove_new_file_at_signals() {
  constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP};
  for (const int number : kEnding) {
    struct sigaction action = {}, before;
    action.sa_handler = remove_and_end;
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
    // A signal that is ignored stays ignored (SIGHUP with nohup).
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
      sigaction(number, &action, nullptr);
  }
}

}  // namespace tc::runtime
