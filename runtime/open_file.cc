// Opens shared artefacts. In a file of its own, so that static programs need no dlopen.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "artefact_file.h"
#include "error.h"
#include "model.h"
#include "weights.h"

namespace tc::runtime {
namespace {

// A loaded artefact; all models of the same file share it.
struct Library {
  struct stat state;  // of the file when it was loaded
  void* handle;
  int32_t users;
  bool is_checked;  // the file's checksum was compared
  Weights weights;  // mapped for its models
  Library* next;
};

pthread_mutex_t libraries_mutex = PTHREAD_MUTEX_INITIALIZER;
Library* libraries = nullptr;  // all that are loaded

bool is_same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

bool is_same_time(const timespec& one, const timespec& other) {
  return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

bool is_unchanged(const struct stat& before, const struct stat& now) {
  return before.st_size == now.st_size && is_same_time(before.st_mtim, now.st_mtim) &&
         is_same_time(before.st_ctim, now.st_ctim);
}

void close_library(void* pointer) {
  auto* library = static_cast<Library*>(pointer);
  pthread_mutex_lock(&libraries_mutex);
  const bool last = --library->users == 0;
  if (last) {
    Library** place = &libraries;
    while (*place != library) place = &(*place)->next;
    *place = library->next;
    dlclose(library->handle);
    unmap_weights(library->weights);
  }
  pthread_mutex_unlock(&libraries_mutex);
  if (last) free(library);
}

constexpr size_t kMaxOfName = 320;

// Writes a name of the open file that the loader has never seen. Given a name that it has seen, the loader
// returns the library that it loaded under that name, although the descriptor's number may belong to another
// file by now, and a library may stay loaded after it is closed. "/" and "/." in a path do not change where
// it leads, so a sequence of them encodes a unique number in binary: the address of `count` (a process may
// contain several copies of this library), and its value.
void name_anew(int file, char* name) {
  static uint64_t count = 0;  // guarded by libraries_mutex
  ++count;
  char* at = stpcpy(name, "/proc/self/fd");
  const auto own = reinterpret_cast<uintptr_t>(&count);
  for (int bit = 0; bit < 64; ++bit) at = stpcpy(at, own >> bit & 1 ? "/." : "/");
  for (uint64_t rest = count; rest != 0; rest >>= 1) at = stpcpy(at, rest & 1 ? "/." : "/");
  snprintf(at, 16, "/%d", file);
}

// A file in memory with the contents of the open one; -1 where there is no space.
int copy_of(int file) {
  const int copy = memfd_create("tc-model", MFD_CLOEXEC);
  char piece[1 << 14];
  for (off_t at = 0; copy >= 0;) {
    const ssize_t got = pread(file, piece, sizeof piece, at);
    if (got == 0) return copy;
    if (got < 0 || write(copy, piece, static_cast<size_t>(got)) != got) {
      close(copy);
      return -1;
    }
    at += got;
  }
  return -1;
}

// Loads the open file by its descriptor, under a unique name, so that exactly the checked file is loaded.
tc_status load(int file, const char* path, void** handle) {
  char name[kMaxOfName];
  name_anew(file, name);
  if (access(name, R_OK) == 0) {
    *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  } else {
    char* full_path = realpath(path, nullptr);
    if (full_path == nullptr) return not_artefact(path, strerror(errno));
    *handle = dlopen(full_path, RTLD_NOW | RTLD_LOCAL);
    free(full_path);
  }
  if (*handle != nullptr) return TC_OK;
  const char* why = dlerror();
  const size_t length = strlen(name);
  return not_artefact(
      path, strncmp(why, name, length) == 0 && strncmp(why + length, ": ", 2) == 0 ? why + length + 2 : why);
}

// The library that was loaded from the file with this state; null where there is none. `overwritten` is set
// where the file was loaded before and has changed since. The caller holds the mutex.
Library* loaded_from(const struct stat& state, bool* overwritten) {
  for (Library* each = libraries; each != nullptr; each = each->next) {
    if (!is_same_file(each->state, state)) continue;
    if (is_unchanged(each->state, state)) return each;
    *overwritten = true;
  }
  return nullptr;
}

// Whether the checksum need not be compared again: it was compared before, and the file has not changed
// since.
bool is_known(int file) {
  struct stat state;
  bool overwritten = false;
  if (fstat(file, &state) != 0) return false;
  pthread_mutex_lock(&libraries_mutex);
  const Library* library = loaded_from(state, &overwritten);
  const bool result = library != nullptr && library->is_checked;
  pthread_mutex_unlock(&libraries_mutex);
  return result;
}

// The library of the open file; loads it where it is not loaded yet. The caller holds the mutex.
tc_status find_library(int file, const char* path, bool is_checked, Library** result) {
  struct stat state;
  if (fstat(file, &state) != 0) return not_artefact(path, strerror(errno));
  bool overwritten = false;
  if (Library* each = loaded_from(state, &overwritten); each != nullptr) {
    ++each->users;
    each->is_checked = each->is_checked || is_checked;
    *result = each;
    return TC_OK;
  }
  auto* library = static_cast<Library*>(malloc(sizeof(Library)));
  // The loader recognises a file by its inode and would return the library that it loaded before the file was
  // overwritten, so a copy is loaded.
  const int copy = library != nullptr && overwritten ? copy_of(file) : -1;
  if (library == nullptr || (overwritten && copy < 0)) {
    free(library);
    return fail(TC_ERROR_MEMORY, "%s: out of memory", path);
  }
  *library = {state, nullptr, 1, is_checked, {}, libraries};
  const tc_status status = load(overwritten ? copy : file, path, &library->handle);
  if (copy >= 0) close(copy);
  if (status != TC_OK) {
    free(library);
    return status;
  }
  libraries = *result = library;
  return TC_OK;
}

// All checks of the file before the loader opens it.
tc_status check(int file, const char* path, uint32_t flags, uint64_t* descriptor) {
  const bool is_needed = (flags & TC_OPEN_UNCHECKED) == 0;
  // The checksum comes first: damaged headers would be reported as another machine or version.
  const bool compares = is_needed && !is_known(file);
  bool is_there = true;
  if (compares) {
    if (const tc_status status = check_checksum(file, path, &is_there); status != TC_OK) return status;
  }
  if (const tc_status status = check_file(file, path); status != TC_OK) return status;
  if (!is_there) return no_checksum(path);
  return (flags & TC_OPEN_UNTRUSTED) == 0 ? TC_OK : check_shape(file, path, descriptor);
}

// The library's descriptor. In an untrusted file it is found by the checked address, since dlsym() might
// search a manipulated table of symbols forever.
const tc_descriptor* descriptor_in(void* handle, uint32_t flags, uint64_t address) {
  if ((flags & TC_OPEN_UNTRUSTED) == 0)
    return static_cast<const tc_descriptor*>(dlsym(handle, TC_DESCRIPTOR_SYMBOL));
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return nullptr;
  return reinterpret_cast<const tc_descriptor*>(map->l_addr + address);
}

// Maps the weights of the library's models, unless it has them inside or an earlier model has mapped them.
tc_status map_weights(Library& library, const tc_descriptor* descriptor, const char* path, uint32_t flags) {
  pthread_mutex_lock(&libraries_mutex);
  const tc_status status =
      library.weights.data != nullptr ? TC_OK : tc_map_weights(descriptor, path, flags, &library.weights);
  pthread_mutex_unlock(&libraries_mutex);
  return status;
}

tc_status open_checked(int file, const char* path, uint32_t flags, tc_model** model) {
  uint64_t address = 0;
  if (const tc_status status = check(file, path, flags, &address); status != TC_OK) return status;
  Library* library = nullptr;
  pthread_mutex_lock(&libraries_mutex);
  const tc_status found = find_library(file, path, (flags & TC_OPEN_UNCHECKED) == 0, &library);
  pthread_mutex_unlock(&libraries_mutex);
  if (found != TC_OK) return found;
  const tc_descriptor* descriptor = descriptor_in(library->handle, flags, address);
  tc_status status = descriptor != nullptr ? make_model(descriptor, path, model)
                                           : not_artefact(path, "it has no symbol " TC_DESCRIPTOR_SYMBOL);
  if (status != TC_OK) {
    close_library(library);
    return status;
  }
  (*model)->library = library;
  (*model)->unload = close_library;
  status = map_weights(*library, descriptor, path, flags);
  (*model)->weights = library->weights.path;
  if (status == TC_OK) return TC_OK;
  tc_model_close(*model);
  *model = nullptr;
  return status;
}

}  // namespace
}  // namespace tc::runtime

extern "C" {

tc_status tc_model_open_with(const char* path, uint32_t flags, tc_model** model) {
  using namespace tc::runtime;
  if (model == nullptr) return fail(TC_ERROR_ARGUMENT, "tc_model_open: model is null");
  *model = nullptr;
  if (path == nullptr) return fail(TC_ERROR_ARGUMENT, "tc_model_open: path is null");
  if ((flags & ~(TC_OPEN_UNCHECKED | TC_OPEN_UNTRUSTED)) != 0)
    return fail(TC_ERROR_ARGUMENT, "tc_model_open_with: unknown flags %x; take those of tc_open_flags",
                flags);
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait where it is a pipe
  if (file < 0) return fail(TC_ERROR_MODEL, "%s: cannot be opened: %s", path, strerror(errno));
  const tc_status status = open_checked(file, path, flags, model);
  close(file);
  return status;
}

tc_status tc_model_open(const char* path, tc_model** model) { return tc_model_open_with(path, 0, model); }
}
