// Constants as an object file that tc writes itself.
#include "codegen/llvm/artefact/constants.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "codegen/backend/artefact_files.h"
#include "ir/error.h"
#include "runtime/checksum.h"

namespace tc {
namespace {

constexpr int64_t kAlignment = 64;
constexpr uint64_t kRetain = 1 << 21;  // SHF_GNU_RETAIN: the linker does not drop it as unused
// SHF_X86_64_LARGE: the linker keeps it away from what code reaches in 32 bits.
constexpr uint64_t kLarge = 1 << 28;
// The most bytes of constants that such code reaches: of its 2 GiB, code and other data need a part.
constexpr int64_t kReach = (int64_t{2} << 30) - (int64_t{256} << 20);
// The same on x86-64, AArch64 and RISC-V. Systems keep a file in huge pages where it was written one whole
// page at a time (Linux: file systems with large folios), and map these as huge pages where the addresses
// are aligned to them, which saves much of the time of address translation.
constexpr int64_t kHugePage = int64_t{2} << 20;
// Tables of which a run reads a few rows are written in pieces of this size: in huge pages each row would
// take one of them in memory.
constexpr int64_t kSmallPages = int64_t{64} << 10;
// For a smaller block, alignment is not worth the hole that it leaves in the file.
constexpr int64_t kMinInHugePages = 2 * kHugePage;

int64_t aligned(int64_t offset, int64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

template <class T>
void put(Bytes& bytes, int64_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// Appends a name to a string table and returns its offset there.
uint32_t add_name(std::string& table, const std::string& name) {
  const uint32_t offset = static_cast<uint32_t>(table.size());
  table += name;
  table += '\0';
  return offset;
}

class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : path_(path), descriptor_(open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    if (descriptor_ < 0) cannot_write(path);
  }
  ~OpenFile() { close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // Our own linker's output: sizes and offsets are what the format says.
  template <class T>
  std::vector<T> read(uint64_t offset, size_t count) const {
    std::vector<T> result(count);
    TC_CHECK(read_at(descriptor_, reinterpret_cast<uint8_t*>(result.data()), count * sizeof(T),
                     static_cast<int64_t>(offset)),
             "in ", path_);
    return result;
  }
  // Drops what the system's read-ahead has cached of a range that is written next: these small pages would
  // take the place of huge ones.
  void drop_cached(int64_t offset, int64_t size) const {
    posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_DONTNEED);
  }
  void write(int64_t offset, const uint8_t* data, size_t size) const {
    if (!write_at(descriptor_, data, size, offset)) cannot_write(path_);
  }

 private:
  std::string path_;
  int descriptor_;
};

// The structures of ELF files by the width of addresses.
struct Elf64 {
  using Header = Elf64_Ehdr;
  using Section = Elf64_Shdr;
  using Symbol = Elf64_Sym;
  static constexpr unsigned char kClass = ELFCLASS64;
};
struct Elf32 {
  using Header = Elf32_Ehdr;
  using Section = Elf32_Shdr;
  using Symbol = Elf32_Sym;
  static constexpr unsigned char kClass = ELFCLASS32;
};

// Where the contents of a section are in a linked file.
template <class Elf>
int64_t offset_in_file(const OpenFile& file, const std::string& wanted, int64_t byte_count) {
  const auto header = file.read<typename Elf::Header>(0, 1)[0];
  const auto sections = file.read<typename Elf::Section>(header.e_shoff, header.e_shnum);
  const auto& of_names = sections.at(header.e_shstrndx);
  auto names = file.read<char>(of_names.sh_offset, of_names.sh_size);
  names.push_back('\0');
  for (const typename Elf::Section& section : sections) {
    if (names.data() + section.sh_name != wanted) continue;
    TC_CHECK(section.sh_type == SHT_PROGBITS && section.sh_size == static_cast<uint64_t>(byte_count));
    return static_cast<int64_t>(section.sh_offset);
  }
  TC_CHECK(false, "a section ", wanted);
  return 0;
}

// The header of a relocatable file whose table of sections lies at `headers_at`.
template <class Elf>
typename Elf::Header file_header(const Target& target, int64_t headers_at, int sections, int section_names) {
  typename Elf::Header header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = Elf::kClass;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(typename Elf::Header);
  header.e_shentsize = sizeof(typename Elf::Section);
  header.e_shnum = static_cast<uint16_t>(sections);
  header.e_shstrndx = static_cast<uint16_t>(section_names);
  header.e_shoff = static_cast<decltype(header.e_shoff)>(headers_at);
  switch (target.arch) {
    case Arch::X86_64: header.e_machine = EM_X86_64; break;
    case Arch::AArch64: header.e_machine = EM_AARCH64; break;
    case Arch::ArmM:
      header.e_machine = EM_ARM;
      header.e_flags = EF_ARM_EABI_VER5;
      break;
    case Arch::RiscV64:
      header.e_machine = EM_RISCV;
      header.e_flags = EF_RISCV_RVC | EF_RISCV_FLOAT_ABI_DOUBLE;
      break;
    case Arch::RiscV32:
      header.e_machine = EM_RISCV;
      header.e_flags = EF_RISCV_RVC | EF_RISCV_FLOAT_ABI_SINGLE;
      break;
  }
  return header;
}

template <class Elf>
Bytes object_of(const ConstantsFile& constants, const Target& target, const std::string& section_name,
                BlockIs block) {
  std::string section_names(1, '\0'), symbol_names(1, '\0');
  // The empty section of the same name is one with contents in the file, so that the section into which the
  // linker merges both is, too.
  enum { kNull, kData, kEmpty, kSymbols, kSymbolNames, kSectionNames, kStack, kSections };
  const uint32_t data_name = add_name(section_names, section_name);
  const uint32_t names[kSections] = {0,
                                     data_name,
                                     data_name,
                                     add_name(section_names, ".symtab"),
                                     add_name(section_names, ".strtab"),
                                     add_name(section_names, ".shstrtab"),
                                     add_name(section_names, ".note.GNU-stack")};
  const uint32_t symbol_name = add_name(symbol_names, constants.symbol());

  const int64_t symbols_at = aligned(sizeof(typename Elf::Header), 8);
  const int64_t symbol_names_at = symbols_at + 2 * static_cast<int64_t>(sizeof(typename Elf::Symbol));
  const int64_t section_names_at = symbol_names_at + static_cast<int64_t>(symbol_names.size());
  const int64_t headers_at = aligned(section_names_at + static_cast<int64_t>(section_names.size()), 8);
  const int64_t data_at =
      aligned(headers_at + kSections * static_cast<int64_t>(sizeof(typename Elf::Section)), kAlignment);
  Bytes bytes(static_cast<size_t>(data_at), 0);

  put(bytes, 0, file_header<Elf>(target, headers_at, kSections, kSectionNames));

  typename Elf::Symbol entry = {};
  entry.st_name = symbol_name;
  entry.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  entry.st_other = STV_HIDDEN;
  entry.st_shndx = kData;
  entry.st_size = static_cast<decltype(entry.st_size)>(constants.byte_count());
  put(bytes, symbols_at + static_cast<int64_t>(sizeof(typename Elf::Symbol)), entry);
  std::memcpy(bytes.data() + symbol_names_at, symbol_names.data(), symbol_names.size());
  std::memcpy(bytes.data() + section_names_at, section_names.data(), section_names.size());

  auto section = [&](int index, uint32_t type, uint64_t flags, int64_t offset, int64_t size,
                     uint64_t alignment) {
    typename Elf::Section result = {};
    result.sh_name = names[index];
    result.sh_type = type;
    result.sh_flags = static_cast<decltype(result.sh_flags)>(flags);
    result.sh_offset = static_cast<decltype(result.sh_offset)>(offset);
    result.sh_size = static_cast<decltype(result.sh_size)>(size);
    result.sh_addralign = static_cast<decltype(result.sh_addralign)>(alignment);
    if (type == SHT_SYMTAB) {
      result.sh_link = kSymbolNames;
      result.sh_info = 1;  // the first symbol that is not local
      result.sh_entsize = sizeof(typename Elf::Symbol);
    }
    put(bytes, headers_at + index * static_cast<int64_t>(sizeof(typename Elf::Section)), result);
  };
  const uint64_t far = are_far(constants.byte_count(), target) ? kLarge : 0;
  const uint32_t data_type = block == BlockIs::Following ? SHT_PROGBITS : SHT_NOBITS;
  // A board that runs an executable may have little storage, and the hole would be a good part of a small
  // network's file.
  const bool mapped = block == BlockIs::Mapped || (block == BlockIs::Kept && !target.is_riscv());
  const bool huge = mapped && constants.byte_count() >= kMinInHugePages;
  section(kData, data_type, SHF_ALLOC | far, data_at, constants.byte_count(), huge ? kHugePage : kAlignment);
  section(kEmpty, SHT_PROGBITS, SHF_ALLOC | far | (block == BlockIs::Kept ? kRetain : 0), data_at, 0,
          kAlignment);
  section(kSymbols, SHT_SYMTAB, 0, symbols_at, 2 * sizeof(typename Elf::Symbol), 8);
  section(kSymbolNames, SHT_STRTAB, 0, symbol_names_at, static_cast<int64_t>(symbol_names.size()), 1);
  section(kSectionNames, SHT_STRTAB, 0, section_names_at, static_cast<int64_t>(section_names.size()), 1);
  section(kStack, SHT_PROGBITS, 0, headers_at, 0, 1);
  return bytes;
}

// The bytes that follow the block in a file of weights.
runtime::Seal seal_of(uint64_t checksum) {
  runtime::Seal seal;
  std::memcpy(seal.mark, runtime::kWeightsMark, sizeof seal.mark);
  seal.checksum = checksum;
  return seal;
}

// Whether there is a regular file with exactly the bytes that write_weights() would write.
bool has_weights(const ConstantsFile& constants, const WeightsFile& file, const std::string& path) {
  const runtime::Seal seal = seal_of(file.checksum);
  std::error_code ignored;
  // Before it is opened, which would wait where it is a pipe.
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  if (std::filesystem::file_size(path, ignored) != constants.byte_count() + sizeof seal) return false;
  std::ifstream in(path, std::ios::binary);
  bool same = true;
  Bytes there;
  const auto compare = [&](const void* data, size_t size) {
    there.resize(size);
    same = same && in.read(reinterpret_cast<char*>(there.data()), static_cast<std::streamsize>(size)) &&
           std::memcmp(there.data(), data, size) == 0;
  };
  constants.read(compare);
  compare(&seal, sizeof seal);
  return same;
}

// The most bytes to write at once at this place of the block, which is at `offset` of the file.
int64_t piece_at(int64_t at, int64_t offset, const std::vector<ConstantRange>& tables) {
  for (const ConstantRange& table : tables) {
    if (at < table.begin) return table.begin - at;
    if (at < table.end) return std::min(table.end - at, kSmallPages - offset % kSmallPages);
  }
  return std::numeric_limits<int64_t>::max();
}

}  // namespace

bool are_far(int64_t bytes, const Target& target) { return target.arch == Arch::X86_64 && bytes > kReach; }

// An Unsupported error where code for the target cannot address a block of so many bytes.
static void check_reach(int64_t bytes, const Target& target) {
  if (bytes <= kReach || are_far(bytes, target)) return;
  fail(ErrorKind::Unsupported, "the model's constants take ", bytes, " bytes, but code for ", target.name,
       " reaches ", kReach,
       ": keep them in a file beside the artefact (weights=\"separate\"), compile for x86-64, or store the "
       "weights in fewer bits");
}

Bytes constants_object(const ConstantsFile& constants, const Target& target, const std::string& section_name,
                       BlockIs block) {
  check_reach(constants.byte_count(), target);
  const auto make = target.word_bits == 32 ? object_of<Elf32> : object_of<Elf64>;
  return make(constants, target, section_name, block);
}

WeightsFile weights_file(const ConstantsFile& constants) {
  runtime::Checksum checksum;
  constants.read([&](const uint8_t* data, size_t size) { checksum.add(data, size); });
  checksum.add(runtime::kWeightsMark, sizeof runtime::kWeightsMark);
  WeightsFile file;
  file.checksum = checksum.value();
  std::array<char, 32> name;
  std::snprintf(name.data(), name.size(), "%016llx.weights", static_cast<unsigned long long>(file.checksum));
  file.name = name.data();
  file.bytes = constants.byte_count();
  return file;
}

void write_weights(const ConstantsFile& constants, const WeightsFile& file, const std::string& folder) {
  const std::string path = (folder.empty() ? "." : folder) + "/" + file.name;
  if (has_weights(constants, file, path)) return;
  write_file(path, [&](runtime::NewFile& out) {
    int64_t at = 0;
    bool written = true;
    constants.read([&](const uint8_t* data, size_t size) {
      for (size_t done = 0; done < size && written;) {
        const int64_t left = static_cast<int64_t>(size - done);
        const int64_t piece = std::min(left, piece_at(at, at, constants.tables()));
        written = out.write(data + done, static_cast<size_t>(piece));
        done += static_cast<size_t>(piece);
        at += piece;
      }
    });
    const runtime::Seal seal = seal_of(file.checksum);
    return written && out.write(&seal, sizeof seal);
  });
}

void fill_in_constants(const ConstantsFile& constants, const std::string& path, const std::string& section) {
  const OpenFile file(path);
  const bool is_wide = file.read<unsigned char>(EI_CLASS, 1)[0] == ELFCLASS64;
  int64_t offset =
      (is_wide ? offset_in_file<Elf64> : offset_in_file<Elf32>)(file, section, constants.byte_count());
  file.drop_cached(offset, constants.byte_count());
  const int64_t begin = offset;
  constants.read([&](const uint8_t* data, size_t size) {
    for (size_t done = 0; done < size;) {
      const int64_t left = static_cast<int64_t>(size - done);
      const int64_t piece = std::min(left, piece_at(offset - begin, offset, constants.tables()));
      file.write(offset, data + done, static_cast<size_t>(piece));
      done += static_cast<size_t>(piece);
      offset += piece;
    }
  });
}

}  // namespace tc
