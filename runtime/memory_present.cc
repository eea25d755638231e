// How much memory this process may use: that of the machine, or the limits of control groups (cgroups) of
// either version.
#include "memory_present.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

namespace tc::runtime {
namespace {

constexpr int kMaxLines = 256;  // of /proc/self/cgroup, which has one for each hierarchy

// The number in a file; INT64_MAX where it has none, as for "max".
int64_t number_in(const char* path) {
  FILE* file = fopen(path, "re");
  if (file == nullptr) return INT64_MAX;
  char line[64] = "";
  const bool has_line = fgets(line, sizeof line, file) != nullptr;
  fclose(file);
  const long long number = has_line ? strtoll(line, nullptr, 10) : 0;  // LLONG_MAX where it is too large
  return number > 0 ? number : INT64_MAX;
}

// The smallest number in the files called `name` in the folder `path` below `root` and in all its parent
// folders up to `root`.
int64_t least_limit(const char* root, const char* path, const char* name) {
  char folder[PATH_MAX];
  const size_t shortest = strlen(root);
  if (snprintf(folder, sizeof folder, "%s%s", root, path) >= static_cast<int>(sizeof folder))
    return INT64_MAX;
  int64_t least = INT64_MAX;
  for (;;) {
    char file[PATH_MAX + 64];
    snprintf(file, sizeof file, "%s/%s", folder, name);
    const int64_t limit = number_in(file);
    if (limit < least) least = limit;
    char* slash = strrchr(folder, '/');
    if (slash == nullptr || static_cast<size_t>(slash - folder) < shortest) return least;
    *slash = 0;
  }
}

// A line of /proc/self/cgroup is NUMBER:CONTROLLERS:PATH. Version 2 names no controllers.
int64_t limit_of_line(const char* root, char* line) {
  line[strcspn(line, "\n")] = 0;
  char* controllers = strchr(line, ':');
  char* path = controllers == nullptr ? nullptr : strchr(controllers + 1, ':');
  // A path with ".." belongs to a group that this process cannot see.
  if (path == nullptr || strstr(path, "/..") != nullptr) return INT64_MAX;
  *path++ = 0;
  ++controllers;
  if (strcmp(path, "/") == 0) *path = 0;
  char folder[PATH_MAX];
  const bool is_second = *controllers == 0;
  if (!is_second && strcmp(controllers, "memory") != 0) return INT64_MAX;
  const int length = snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s", root, is_second ? "" : "/memory");
  if (length >= static_cast<int>(sizeof folder)) return INT64_MAX;
  return least_limit(folder, path, is_second ? "memory.max" : "memory.limit_in_bytes");
}

int64_t group_limit(const char* root) {
  char line[PATH_MAX + 128];
  if (snprintf(line, sizeof line, "%s/proc/self/cgroup", root) >= static_cast<int>(sizeof line))
    return INT64_MAX;
  FILE* file = fopen(line, "re");
  if (file == nullptr) return INT64_MAX;
  int64_t least = INT64_MAX;
  for (int i = 0; i < kMaxLines && fgets(line, sizeof line, file) != nullptr; ++i) {
    const int64_t limit = limit_of_line(root, line);
    if (limit < least) least = limit;
  }
  fclose(file);
  return least;
}

}  // namespace

MemoryPresent memory_present(const char* root) {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const int64_t machine = pages > 0 && page > 0 ? pages * page : INT64_MAX;
  const int64_t group = group_limit(root);
  return group < machine ? MemoryPresent{group, true} : MemoryPresent{machine, false};
}

tc_status refuse_memory(const char* model, int64_t needed, const MemoryPresent& present) {
  return fail(
      TC_ERROR_MEMORY,
      "model '%s' needs %.1f MB of working memory for these shapes, which cannot be had (%s %.1f MB); use "
      "smaller shapes or fewer threads%s",
      model, static_cast<double>(needed) / 1e6,
      present.of_group ? "the control group of this process, as of a container, allows" : "this machine has",
      static_cast<double>(present.bytes) / 1e6, present.of_group ? ", or give the group more" : "");
}

}  // namespace tc::runtime
