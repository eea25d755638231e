// Opening shared artefacts. Apart from the rest, so that static programs need no dlopen.
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

// The open file is kept as long as the library: its number is part of the library's name.
struct Library {
  void* handle;
  int file;
};

void close_library(void* pointer) {
  Library* library = static_cast<Library*>(pointer);
  dlclose(library->handle);
  close(library->file);
  free(library);
}

// Loads the open file. The loader takes a file that it has loaded under the same name for the same
// file, even where a newer one has replaced it; a name by file number is never used twice at a time,
// and what is loaded is what was checked.
tc_status load(int file, const char* path, void** handle) {
  char name[32];
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  if (access(name, R_OK) == 0) {
    *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  } else {
    char* full_path = realpath(path, nullptr);
    if (full_path == nullptr) return not_artefact(path, strerror(errno));
    *handle = dlopen(full_path, RTLD_NOW | RTLD_LOCAL);
    free(full_path);
  }
  return *handle != nullptr ? TC_OK : not_artefact(path, dlerror());
}

tc_status open_checked(int file, const char* path, tc_model** model) {
  if (const tc_status status = check_header(file, path); status != TC_OK) return status;
  void* handle = nullptr;
  if (const tc_status status = load(file, path, &handle); status != TC_OK) return status;
  const auto* descriptor = static_cast<const tc_descriptor*>(dlsym(handle, TC_DESCRIPTOR_SYMBOL));
  tc_status status = descriptor != nullptr
                         ? make_model(descriptor, path, model)
                         : not_artefact(path, "it has no symbol " TC_DESCRIPTOR_SYMBOL);
  if (status == TC_OK) {
    auto* library = static_cast<Library*>(malloc(sizeof(Library)));
    if (library != nullptr) {
      *library = {handle, file};
      (*model)->library = library;
      (*model)->unload = close_library;
      return TC_OK;
    }
    release(*model);
    *model = nullptr;
    status = fail(TC_ERROR_MEMORY, "%s: out of memory", path);
  }
  dlclose(handle);
  return status;
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
  if (status != TC_OK) close(file);
  return status;
}
