// Shared artefacts as files: headers, the descriptor's symbol, the checksum.
#include "artefact_file.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "error.h"
#include "machine.h"

namespace tc::runtime {

bool read_at(int file, void* data, uint64_t size, uint64_t offset) {
  return pread(file, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

bool checksum_of(int file, uint64_t end, uint64_t* result) {
  unsigned char piece[1 << 14];  // small, since the calling thread's stack may be small
  Checksum checksum;
  uint64_t at = 0;
  for (uint64_t count = 0; at < end; at += count) {
    count = end - at < sizeof piece ? end - at : sizeof piece;
    if (!read_at(file, piece, count, at)) return false;
    checksum.add(piece, count);
  }
  *result = checksum.value();
  return true;
}

tc_status not_artefact(const char* path, const char* why) {
  return fail(TC_ERROR_MODEL, "%s: not a compiled model (%s)", path, why);
}

namespace {

// Refuses a file that is not a shared library for this machine's architecture, or whose segments reach past
// its end: the loader would map those, and the first access would kill the process.
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

// The offset in the file of the bytes that the loader puts at an address; 0 where there are none.
uint64_t offset_of(int file, const Elf64_Ehdr& header, uint64_t address) {
  Elf64_Phdr segment;
  for (int i = 0; i < header.e_phnum; ++i) {
    if (!read_at(file, &segment, sizeof segment, header.e_phoff + static_cast<uint64_t>(i) * sizeof segment))
      return 0;
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz)
      return segment.p_offset + (address - segment.p_vaddr);
  }
  return 0;
}

// The offset in the file of the names of the library's symbols, and their `size` in bytes; 0 where it has
// none.
uint64_t find_names(int file, const Elf64_Ehdr& header, uint64_t* size) {
  uint64_t address = 0;
  *size = 0;
  Elf64_Phdr segment = {};
  for (int i = 0; i < header.e_phnum && segment.p_type != PT_DYNAMIC; ++i) {
    if (!read_at(file, &segment, sizeof segment, header.e_phoff + static_cast<uint64_t>(i) * sizeof segment))
      return 0;
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

// Whether the library has a symbol of the descriptor's name. Loading a library runs its code and may leave it
// in the process for good, so a file that is not a model has to be refused before.
bool names_descriptor(int file) {
  struct stat state;
  Elf64_Ehdr header;
  uint64_t size;
  if (fstat(file, &state) != 0 || !read_at(file, &header, sizeof header, 0)) return false;
  const uint64_t offset = find_names(file, header, &size);
  if (offset == 0 || size > static_cast<uint64_t>(state.st_size)) return false;
  char* names = static_cast<char*>(malloc(size + 1));
  constexpr char kName[] = "\0" TC_DESCRIPTOR_SYMBOL;  // with the zeros at both ends
  const bool found = names != nullptr && read_at(file, names, size, offset) &&
                     memmem(names, size, kName, sizeof kName) != nullptr;
  free(names);
  return found;
}

}  // namespace

tc_status check_file(int file, const char* path) {
  if (const tc_status status = check_header(file, path); status != TC_OK) return status;
  return names_descriptor(file) ? TC_OK : not_artefact(path, "it has no symbol " TC_DESCRIPTOR_SYMBOL);
}

tc_status no_checksum(const char* path) {
  return fail(
      TC_ERROR_MODEL,
      "%s: there is no checksum at the file's end: it is cut short, another program (strip, for instance) has written it "
      "anew, or an older tc made it. Compile the model again, or open it without the check (tc.load(path, check=False), "
      "TC_OPEN_UNCHECKED in C)",
      path);
}

tc_status check_checksum(int file, const char* path, bool* is_there) {
  struct stat state;
  Seal seal;
  const bool is_file = fstat(file, &state) == 0 && S_ISREG(state.st_mode);
  const uint64_t size = is_file ? static_cast<uint64_t>(state.st_size) : 0;
  *is_there = size >= sizeof seal && read_at(file, &seal, sizeof seal, size - sizeof seal) &&
              memcmp(seal.mark, kSealMark, sizeof kSealMark) == 0;
  if (!*is_there) return TC_OK;
  uint64_t computed = 0;
  if (!checksum_of(file, size - sizeof seal.checksum, &computed))
    return not_artefact(path, "it cannot be read to its end");
  if (computed == seal.checksum) return TC_OK;
  return fail(
      TC_ERROR_MODEL,
      "%s: the file is damaged: its checksum is not that of its contents. Copy it again from where it came, or compile the model "
      "again",
      path);
}

}  // namespace tc::runtime
