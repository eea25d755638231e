// Opening shared artefacts. Apart from the rest, so that static programs need no dlopen.
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "machine.h"
#include "model.h"

namespace tc::runtime {
namespace {

// Reads exactly `size` bytes at `offset`.
bool read_at(int file, void* data, size_t size, uint64_t offset) {
  return pread(file, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

tc_status not_artefact(const char* path, const char* why) {
  return fail(TC_ERROR_MODEL, "%s: not a compiled model (%s)", path, why);
}

// Refuses what is no shared library of this machine's kind, and files whose segments reach past
// their end: the loader would map them and the first access would kill the process.
tc_status check_header(int file, const char* path) {
  struct stat state;
  if (fstat(file, &state) != 0) return not_artefact(path, strerror(errno));
  if (!S_ISREG(state.st_mode)) return not_artefact(path, "it is no regular file");
  const uint64_t size = static_cast<uint64_t>(state.st_size);
  if (size == 0) return not_artefact(path, "the file is empty");
  Elf64_Ehdr header;
  if (!read_at(file, &header, sizeof header, 0))
    return not_artefact(path, "the file is too short for an ELF header");
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return not_artefact(path, "it is no ELF file");
  if (header.e_ident[EI_DATA] != ELFDATA2LSB)
    return fail(TC_ERROR_TARGET, "%s: built for a big-endian machine; this machine is %s", path,
                architecture_name());
  if (header.e_machine != elf_machine()) {
    char number[32];
    snprintf(number, sizeof number, "ELF machine %d", header.e_machine);
    const char* name = elf_machine_name(header.e_machine);
    return fail(TC_ERROR_TARGET,
                "%s: built for %s; this machine is %s. Run it there, or compile the model for a "
                "target of this machine",
                path, name != nullptr ? name : number, architecture_name());
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return not_artefact(path, "it is no 64-bit ELF file");
  if (header.e_type != ET_DYN) return not_artefact(path, "it is no shared library");
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0)
    return not_artefact(path, "its program headers are damaged");
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const uint64_t offset = header.e_phoff + static_cast<uint64_t>(i) * sizeof segment;
    if (header.e_phoff > size || !read_at(file, &segment, sizeof segment, offset))
      return not_artefact(path, "the file is cut short");
    if (segment.p_type == PT_NULL) continue;
    if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset)
      return not_artefact(path, "the file is cut short");
  }
  return TC_OK;
}

// Where the file has what the loader puts at an address; 0 where it has nothing there.
uint64_t offset_of(int file, const Elf64_Ehdr& header, uint64_t address) {
  Elf64_Phdr segment;
  for (int i = 0; i < header.e_phnum; ++i) {
    if (!read_at(file, &segment, sizeof segment, header.e_phoff + static_cast<uint64_t>(i) * sizeof segment)) return 0;
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
      return segment.p_offset + (address - segment.p_vaddr);
  }
  return 0;
}

// Where the names of the library's symbols lie in the file: `size` bytes, 0 where it has none.
uint64_t find_names(int file, const Elf64_Ehdr& header, uint64_t* size) {
  uint64_t address = 0;
  *size = 0;
  Elf64_Phdr segment = {};
  for (int i = 0; i < header.e_phnum && segment.p_type != PT_DYNAMIC; ++i) {
    if (!read_at(file, &segment, sizeof segment, header.e_phoff + static_cast<uint64_t>(i) * sizeof segment)) return 0;
  }
  if (segment.p_type != PT_DYNAMIC) return 0;
  Elf64_Dyn entry = {};
  for (uint64_t at = 0; at + sizeof entry <= segment.p_filesz; at += sizeof entry) {
    if (!read_at(file, &entry, sizeof entry, segment.p_offset + at) || entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) *size = entry.d_un.d_val;
  }
  return offset_of(file, header, address);
}

// Whether the library names the descriptor's symbol. Loading a library runs its code, and may leave it in the process for good: what
// is no model is not to come that far.
bool names_descriptor(int file) {
  struct stat state;
  Elf64_Ehdr header;
  uint64_t size;
  if (fstat(file, &state) != 0 || !read_at(file, &header, sizeof header, 0)) return false;
  const uint64_t offset = find_names(file, header, &size);
  if (offset == 0 || size > static_cast<uint64_t>(state.st_size)) return false;
  char* names = static_cast<char*>(malloc(size + 1));
  constexpr char kName[] = "\0" TC_DESCRIPTOR_SYMBOL;   // with the zeros at both ends
  const bool found = names != nullptr && read_at(file, names, size, offset) && memmem(names, size, kName, sizeof kName) != nullptr;
  free(names);
  return found;
}

// A loaded artefact; models of one file share it.
struct Library {
  struct stat state;        // the file's, as it was loaded
  void* handle;
  int32_t users;
  Library* next;
};

pthread_mutex_t libraries_mutex = PTHREAD_MUTEX_INITIALIZER;
Library* libraries = nullptr;   // all that are loaded

bool is_same_file(const struct stat& one, const struct stat& other) { return one.st_dev == other.st_dev && one.st_ino == other.st_ino; }

bool is_same_time(const timespec& one, const timespec& other) { return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec; }

bool is_unchanged(const struct stat& before, const struct stat& now) {
  return before.st_size == now.st_size && is_same_time(before.st_mtim, now.st_mtim) && is_same_time(before.st_ctim, now.st_ctim);
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
  }
  pthread_mutex_unlock(&libraries_mutex);
  if (last) free(library);
}

constexpr size_t kMostOfName = 320;

// A name of the open file that the loader has never had. It takes a file of a name that it knows for the library that it loaded by that
// name, though the number be another file's by now, and a library may stay in the process after it is closed. "/" and "/./" lead to
// the same place, and so spell a number: where this library's counter lies, and its count.
void name_anew(int file, char* name) {
  static uint64_t count = 0;   // guarded by libraries_mutex
  ++count;
  char* at = stpcpy(name, "/proc/self/fd");
  const auto own = reinterpret_cast<uintptr_t>(&count);
  for (int bit = 0; bit < 64; ++bit) at = stpcpy(at, own >> bit & 1 ? "/." : "/");
  for (uint64_t rest = count; rest != 0; rest >>= 1) at = stpcpy(at, rest & 1 ? "/." : "/");
  snprintf(at, 16, "/%d", file);
}

// A file in memory with what the open one has; -1 where there is no room.
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

// Loads the open file under a name of its own: what is loaded is what was checked.
tc_status load(int file, const char* path, void** handle) {
  char name[kMostOfName];
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
  return not_artefact(path, strncmp(why, name, length) == 0 && strncmp(why + length, ": ", 2) == 0 ? why + length + 2 : why);
}

// The library of the open file, loaded where it is not. Needs the mutex.
tc_status find_library(int file, const char* path, Library** result) {
  struct stat state;
  if (fstat(file, &state) != 0) return not_artefact(path, strerror(errno));
  bool overwritten = false;
  for (Library* each = libraries; each != nullptr; each = each->next) {
    if (!is_same_file(each->state, state)) continue;
    if (is_unchanged(each->state, state)) {
      ++each->users;
      *result = each;
      return TC_OK;
    }
    overwritten = true;
  }
  auto* library = static_cast<Library*>(malloc(sizeof(Library)));
  // The loader would take the file for what was loaded of it before it was overwritten.
  const int copy = library != nullptr && overwritten ? copy_of(file) : -1;
  if (library == nullptr || (overwritten && copy < 0)) {
    free(library);
    return fail(TC_ERROR_MEMORY, "%s: out of memory", path);
  }
  *library = {state, nullptr, 1, libraries};
  const tc_status status = load(overwritten ? copy : file, path, &library->handle);
  if (copy >= 0) close(copy);
  if (status != TC_OK) {
    free(library);
    return status;
  }
  libraries = *result = library;
  return TC_OK;
}

tc_status open_checked(int file, const char* path, tc_model** model) {
  if (const tc_status status = check_header(file, path); status != TC_OK) return status;
  if (!names_descriptor(file)) return not_artefact(path, "it has no symbol " TC_DESCRIPTOR_SYMBOL);
  Library* library = nullptr;
  pthread_mutex_lock(&libraries_mutex);
  const tc_status found = find_library(file, path, &library);
  pthread_mutex_unlock(&libraries_mutex);
  if (found != TC_OK) return found;
  const auto* descriptor = static_cast<const tc_descriptor*>(dlsym(library->handle, TC_DESCRIPTOR_SYMBOL));
  const tc_status status = descriptor != nullptr ? make_model(descriptor, path, model)
                                                 : not_artefact(path, "it has no symbol " TC_DESCRIPTOR_SYMBOL);
  if (status != TC_OK) {
    close_library(library);
    return status;
  }
  (*model)->library = library;
  (*model)->unload = close_library;
  return TC_OK;
}

}  // namespace
}  // namespace tc::runtime

extern "C" tc_status tc_model_open(const char* path, tc_model** model) {
  using namespace tc::runtime;
  if (model == nullptr) return fail(TC_ERROR_ARGUMENT, "tc_model_open: model is null");
  *model = nullptr;
  if (path == nullptr) return fail(TC_ERROR_ARGUMENT, "tc_model_open: path is null");
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail(TC_ERROR_MODEL, "%s: cannot be opened: %s", path, strerror(errno));
  const tc_status status = open_checked(file, path, model);
  close(file);
  return status;
}
