// Constants as an object file of our own making: hundreds of megabytes never pass through LLVM.
#include "codegen/constants.h"

#include <elf.h>

#include <cstring>

#include "ir/error.h"

namespace tc {
namespace {

constexpr int64_t kAlignment = 64;

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

}  // namespace

std::vector<int64_t> constant_offsets(const std::vector<TensorPtr>& constants) {
  std::vector<int64_t> offsets;
  int64_t next = 0;
  for (const TensorPtr& constant : constants) {
    offsets.push_back(next);
    next = aligned(next + static_cast<int64_t>(constant->bytes.size()), kAlignment);
  }
  offsets.push_back(next);
  return offsets;
}

Bytes constants_object(const std::vector<TensorPtr>& constants, const Target& target,
                       const std::string& symbol) {
  const std::vector<int64_t> offsets = constant_offsets(constants);
  // Never empty, so that the symbol has an address inside a section.
  const int64_t data_size = std::max<int64_t>(offsets.back(), kAlignment);

  std::string section_names(1, '\0'), symbol_names(1, '\0');
  enum { kNull, kData, kSymbols, kSymbolNames, kSectionNames, kStack, kSections };
  const uint32_t names[kSections] = {0, add_name(section_names, ".rodata.tc_constants"),
                                     add_name(section_names, ".symtab"),
                                     add_name(section_names, ".strtab"),
                                     add_name(section_names, ".shstrtab"),
                                     add_name(section_names, ".note.GNU-stack")};
  const uint32_t symbol_name = add_name(symbol_names, symbol);

  const int64_t data_at = aligned(sizeof(Elf64_Ehdr), kAlignment);
  const int64_t symbols_at = data_at + data_size;
  const int64_t symbol_names_at = symbols_at + 2 * static_cast<int64_t>(sizeof(Elf64_Sym));
  const int64_t section_names_at = symbol_names_at + static_cast<int64_t>(symbol_names.size());
  const int64_t headers_at =
      aligned(section_names_at + static_cast<int64_t>(section_names.size()), 8);
  Bytes bytes(static_cast<size_t>(headers_at) + kSections * sizeof(Elf64_Shdr), 0);

  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kSections;
  header.e_shstrndx = kSectionNames;
  header.e_shoff = static_cast<Elf64_Off>(headers_at);
  switch (target.arch) {
    case Arch::X86_64: header.e_machine = EM_X86_64; break;
    case Arch::AArch64: header.e_machine = EM_AARCH64; break;
    case Arch::RiscV64:
      header.e_machine = EM_RISCV;
      header.e_flags = EF_RISCV_RVC | EF_RISCV_FLOAT_ABI_DOUBLE;
      break;
  }
  put(bytes, 0, header);

  for (size_t i = 0; i < constants.size(); ++i) {
    const std::vector<uint8_t>& data = constants[i]->bytes;
    if (!data.empty()) std::memcpy(bytes.data() + data_at + offsets[i], data.data(), data.size());
  }
  Elf64_Sym entry = {};
  entry.st_name = symbol_name;
  entry.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  entry.st_other = STV_HIDDEN;
  entry.st_shndx = kData;
  entry.st_size = static_cast<Elf64_Xword>(data_size);
  put(bytes, symbols_at + static_cast<int64_t>(sizeof(Elf64_Sym)), entry);
  std::memcpy(bytes.data() + symbol_names_at, symbol_names.data(), symbol_names.size());
  std::memcpy(bytes.data() + section_names_at, section_names.data(), section_names.size());

  auto section = [&](int index, uint32_t type, uint64_t flags, int64_t offset, int64_t size,
                     uint64_t alignment) {
    Elf64_Shdr result = {};
    result.sh_name = names[index];
    result.sh_type = type;
    result.sh_flags = flags;
    result.sh_offset = static_cast<Elf64_Off>(offset);
    result.sh_size = static_cast<Elf64_Xword>(size);
    result.sh_addralign = alignment;
    if (type == SHT_SYMTAB) {
      result.sh_link = kSymbolNames;
      result.sh_info = 1;  // the first symbol that is not local
      result.sh_entsize = sizeof(Elf64_Sym);
    }
    put(bytes, headers_at + index * static_cast<int64_t>(sizeof(Elf64_Shdr)), result);
  };
  section(kData, SHT_PROGBITS, SHF_ALLOC, data_at, data_size, kAlignment);
  section(kSymbols, SHT_SYMTAB, 0, symbols_at, 2 * sizeof(Elf64_Sym), 8);
  section(kSymbolNames, SHT_STRTAB, 0, symbol_names_at, static_cast<int64_t>(symbol_names.size()), 1);
  section(kSectionNames, SHT_STRTAB, 0, section_names_at,
          static_cast<int64_t>(section_names.size()), 1);
  section(kStack, SHT_PROGBITS, 0, headers_at, 0, 1);
  return bytes;
}

}  // namespace tc
