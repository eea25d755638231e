// Checks that a shared artefact has exactly the form that tc's linker makes, so that the system's loader can
// open a file that nobody trusts.
#include <elf.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "artefact_file.h"
#include "error.h"
#include "model.h"

namespace tc::runtime {
namespace {

constexpr uint64_t kNowhere = UINT64_MAX;
constexpr int kMaxSegments = 16;
constexpr uint64_t kMaxTable = 1 << 16;       // bytes or entries of tables that do not grow with a model
constexpr uint64_t kMaxAlignment = 1 << 21;   // a huge page
constexpr uint32_t kAttributes = 0x70000003;  // PT_RISCV_ATTRIBUTES; no other architecture uses the number

struct Named {
  int64_t tag;
  const char* text;
};
// Entries with which the loader would run code of the file, or load other files.
constexpr Named kRefusedEntries[] = {
    {DT_INIT, "a constructor, which runs when the file is opened (DT_INIT)"},
    {DT_INIT_ARRAY, "constructors, which run when the file is opened (DT_INIT_ARRAY)"},
    {DT_PREINIT_ARRAY, "constructors, which run when the file is opened (DT_PREINIT_ARRAY)"},
    {DT_FINI, "a destructor, which runs when the file is closed (DT_FINI)"},
    {DT_FINI_ARRAY, "destructors, which run when the file is closed (DT_FINI_ARRAY)"},
    {DT_NEEDED, "need of another library (DT_NEEDED)"},
    {DT_RPATH, "folders of other libraries (DT_RPATH)"},
    {DT_RUNPATH, "folders of other libraries (DT_RUNPATH)"},
    {DT_AUXILIARY, "need of another library (DT_AUXILIARY)"},
    {DT_FILTER, "need of another library (DT_FILTER)"},
    {DT_TEXTREL, "relocations of its code (DT_TEXTREL)"},
    {DT_JMPREL, "calls of other libraries (DT_JMPREL)"},
};

// Types of relocations, by machine: `relative` adds the library's address; for `called` the loader calls a
// function of the library.
struct Relocations {
  int machine;
  uint32_t relative, called;
};
constexpr Relocations kRelocations[] = {{EM_X86_64, R_X86_64_RELATIVE, R_X86_64_IRELATIVE},
                                        {EM_AARCH64, R_AARCH64_RELATIVE, R_AARCH64_IRELATIVE},
                                        {EM_RISCV, R_RISCV_RELATIVE, 58}};

int compare_places(const void* address, const void* relocation) {
  const uint64_t wanted = *static_cast<const uint64_t*>(address);
  const uint64_t at = static_cast<const Elf64_Rela*>(relocation)->r_offset;
  return wanted < at ? -1 : wanted > at;
}

// A file, and what has been read from it. Functions whose names end in _fault return what is wrong, or null.
class Shape {
 public:
  explicit Shape(int file) : file_(file) {}
  ~Shape() { free(relocations_); }
  Shape(const Shape&) = delete;
  Shape& operator=(const Shape&) = delete;

  const char* fault() {
    const char* wrong = headers_fault();
    if (wrong == nullptr) wrong = danger_fault();
    if (wrong == nullptr) wrong = segments_fault();
    if (wrong == nullptr) wrong = entries_fault();
    if (wrong == nullptr) wrong = symbols_fault();
    if (wrong == nullptr) wrong = hash_fault();
    if (wrong == nullptr) wrong = relocations_fault();
    return wrong == nullptr ? descriptor_fault() : wrong;
  }

  uint64_t descriptor() const { return descriptor_; }

 private:
  __attribute__((format(printf, 2, 3))) const char* bad(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text_, sizeof text_, format, arguments);
    va_end(arguments);
    return text_;
  }

  // The segment that contains all these bytes and has them in the file; null where there is none.
  const Elf64_Phdr* segment_of(uint64_t address, uint64_t bytes) const {
    for (int i = 0; i < segment_count_; ++i) {
      const Elf64_Phdr& each = segments_[i];
      if (each.p_type == PT_LOAD && address >= each.p_vaddr && address - each.p_vaddr <= each.p_filesz &&
          bytes <= each.p_filesz - (address - each.p_vaddr))
        return &each;
    }
    return nullptr;
  }

  bool read(uint64_t address, void* data, uint64_t bytes) const {
    const Elf64_Phdr* segment = segment_of(address, bytes);
    return segment != nullptr &&
           read_at(file_, data, bytes, segment->p_offset + (address - segment->p_vaddr));
  }

  static uint64_t page_end(uint64_t address) {
    const uint64_t page = static_cast<uint64_t>(getpagesize());
    return (address + page - 1) / page * page;
  }

  // Segments have to be in ascending order and may not share pages, as the loader maps them.
  const char* load_fault(const Elf64_Phdr& load) {
    const uint64_t page = static_cast<uint64_t>(getpagesize());
    const bool is_first = end_ == 0;
    if (load.p_align < page || load.p_align > kMaxAlignment || (load.p_align & (load.p_align - 1)) != 0 ||
        load.p_vaddr % load.p_align != load.p_offset % load.p_align || load.p_vaddr > kMaxBytes ||
        load.p_memsz > kMaxBytes || load.p_memsz < load.p_filesz ||
        (load.p_memsz > load.p_filesz && (load.p_flags & PF_W) == 0) || (load.p_flags & PF_R) == 0 ||
        (is_first && (load.p_vaddr != 0 || load.p_offset != 0)) || load.p_vaddr / page * page < end_)
      return "its segments are not laid out as tc's linker does";
    end_ = page_end(load.p_vaddr + load.p_memsz);
    return nullptr;
  }

  const char* segment_fault(const Elf64_Phdr& segment) {
    const bool is_there = segment_of(segment.p_vaddr, segment.p_filesz) != nullptr;
    switch (segment.p_type) {
      case PT_LOAD: return load_fault(segment);
      case PT_GNU_STACK: return nullptr;
      case PT_PHDR: {
        const bool good = segment.p_vaddr == header_.e_phoff && segment.p_offset == header_.e_phoff;
        return good ? nullptr : "its program headers are damaged";
      }
      case PT_DYNAMIC:
        if (dynamic_ != nullptr || !is_there || segment.p_filesz > kMaxTable ||
            segment.p_memsz != segment.p_filesz || segment.p_vaddr % alignof(Elf64_Dyn) != 0 ||
            segment.p_offset - segment_of(segment.p_vaddr, segment.p_filesz)->p_offset !=
                segment.p_vaddr - segment_of(segment.p_vaddr, segment.p_filesz)->p_vaddr)
          return "its table of dynamic entries is damaged";
        dynamic_ = &segment;
        return nullptr;
      case PT_GNU_RELRO: {
        const Elf64_Phdr* load = segment_of(segment.p_vaddr, 0);
        const bool good = load != nullptr && (load->p_flags & PF_W) != 0 &&
                          segment.p_memsz <= page_end(load->p_vaddr + load->p_memsz) - segment.p_vaddr;
        return good ? nullptr : "what is read-only after its relocations is not in one segment";
      }
      case kAttributes: return nullptr;
      default: return bad("it has a segment of type %x", segment.p_type);
    }
  }

  uint64_t header_bytes() const { return static_cast<uint64_t>(segment_count_) * sizeof segments_[0]; }

  const char* headers_fault() {
    if (!read_at(file_, &header_, sizeof header_, 0)) return "it cannot be read";
    segment_count_ = header_.e_phnum;
    if (segment_count_ > kMaxSegments) return "its program headers are damaged";
    return read_at(file_, segments_, header_bytes(), header_.e_phoff) ? nullptr : "it cannot be read";
  }

  // Anything with which the loader would run code of the file, named in the message. This is checked first,
  // since it matters more to the user than other oddities.
  const char* danger_fault() {
    for (int i = 0; i < segment_count_; ++i) {
      const Elf64_Phdr& segment = segments_[i];
      constexpr uint32_t kBoth = PF_W | PF_X;
      if (segment.p_type == PT_LOAD && (segment.p_flags & kBoth) == kBoth)
        return "a segment can be written and executed";
      if (segment.p_type == PT_GNU_STACK && (segment.p_flags & PF_X) != 0) return "its stack is executable";
      if (segment.p_type == PT_TLS) return "it has variables of threads (PT_TLS)";
      if (segment.p_type != PT_DYNAMIC) continue;
      Elf64_Dyn entry = {1, {0}};
      const uint64_t end = segment.p_filesz < kMaxTable ? segment.p_filesz : kMaxTable;
      for (uint64_t at = 0; at + sizeof entry <= end && entry.d_tag != DT_NULL; at += sizeof entry) {
        if (!read_at(file_, &entry, sizeof entry, segment.p_offset + at)) return "it cannot be read";
        for (const Named& refused : kRefusedEntries) {
          if (entry.d_tag == refused.tag) return bad("it has %s", refused.text);
        }
      }
    }
    return nullptr;
  }

  const char* segments_fault() {
    for (int i = 0; i < segment_count_; ++i) {
      if (const char* wrong = segment_fault(segments_[i]); wrong != nullptr) return wrong;
    }
    // After mapping, the loader reads the program headers again, from memory.
    if (header_.e_phoff % alignof(Elf64_Phdr) != 0 || segment_of(header_.e_phoff, header_bytes()) == nullptr)
      return "its program headers are damaged";
    return dynamic_ == nullptr ? "its table of dynamic entries is damaged" : nullptr;
  }

  const char* entries_fault() {
    struct {
      int64_t tag;
      uint64_t* value;
      uint64_t expected;  // only checked where not 0
    } const known[] = {{DT_RELA, &rela_, 0},
                       {DT_RELASZ, &rela_bytes_, 0},
                       {DT_RELAENT, nullptr, sizeof(Elf64_Rela)},
                       {DT_RELACOUNT, &rela_count_, 0},
                       {DT_SYMTAB, &symbols_, 0},
                       {DT_SYMENT, nullptr, sizeof(Elf64_Sym)},
                       {DT_STRTAB, &names_, 0},
                       {DT_STRSZ, &name_bytes_, 0},
                       {DT_GNU_HASH, &hash_, 0},
                       {DT_FLAGS, nullptr, DF_BIND_NOW},
                       {DT_FLAGS_1, nullptr, DF_1_NOW}};
    uint32_t seen = 0;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic_->p_filesz; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      if (!read(dynamic_->p_vaddr + at, &entry, sizeof entry)) return "it cannot be read";
      if (entry.d_tag == DT_NULL)
        return symbols_ != 0 && names_ != 0 && hash_ != 0 && rela_ != 0
                   ? nullptr
                   : "its table of dynamic entries is damaged";
      size_t row = 0;
      while (row < sizeof known / sizeof known[0] && known[row].tag != entry.d_tag) ++row;
      if (row == sizeof known / sizeof known[0])
        return bad("it has a dynamic entry of type %llx", static_cast<unsigned long long>(entry.d_tag));
      if ((seen >> row & 1) != 0 || (known[row].expected != 0 && entry.d_un.d_val != known[row].expected))
        return "its table of dynamic entries is damaged";
      seen |= 1u << row;
      if (known[row].value != nullptr) *known[row].value = entry.d_un.d_val;
    }
    return "its table of dynamic entries has no end";
  }

  // The number of symbols follows from the hash table, which tc's linker puts directly after the table of
  // symbols.
  const char* symbols_fault() {
    constexpr char kName[] = TC_DESCRIPTOR_SYMBOL;
    symbol_count_ = hash_ > symbols_ ? (hash_ - symbols_) / sizeof(Elf64_Sym) : 0;
    if (symbol_count_ == 0 || symbol_count_ > kMaxTable || symbols_ % alignof(Elf64_Sym) != 0 ||
        segment_of(names_, name_bytes_) == nullptr)
      return "its table of symbols is damaged";
    for (uint64_t i = 1; i < symbol_count_; ++i) {
      Elf64_Sym symbol;
      char name[sizeof kName];
      if (!read(symbols_ + i * sizeof symbol, &symbol, sizeof symbol) || symbol.st_name >= name_bytes_)
        return "its table of symbols is damaged";
      if (symbol.st_shndx == SHN_UNDEF) return "it needs a symbol of another library";
      if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC)
        return "it has a symbol for which the loader calls a function (STT_GNU_IFUNC)";
      if (name_bytes_ - symbol.st_name >= sizeof name && read(names_ + symbol.st_name, name, sizeof name) &&
          memcmp(name, kName, sizeof name) == 0)
        descriptor_ = symbol.st_value;
    }
    return descriptor_ == 0 ? "it has no symbol " TC_DESCRIPTOR_SYMBOL : nullptr;
  }

  // Debuggers and dladdr() walk along the chains of this table: each chain has to end.
  const char* hash_fault() {
    constexpr const char* kDamaged = "its table of symbols' hashes is damaged";
    struct {
      uint32_t buckets, first, words, shift;
    } table;
    if (hash_ % alignof(uint64_t) != 0 || !read(hash_, &table, sizeof table)) return kDamaged;
    if (table.buckets == 0 || table.buckets > kMaxTable || table.words == 0 || table.words > kMaxTable ||
        (table.words & (table.words - 1)) != 0 || table.first > symbol_count_)
      return kDamaged;
    const uint64_t buckets = hash_ + sizeof table + uint64_t{8} * table.words;
    const uint64_t chains = buckets + uint64_t{4} * table.buckets;
    const uint64_t chained = symbol_count_ - table.first;
    uint32_t value = 1;
    if (segment_of(hash_, chains - hash_ + 4 * chained) == nullptr) return kDamaged;
    if (chained > 0 && (!read(chains + 4 * (chained - 1), &value, sizeof value) || (value & 1) == 0))
      return kDamaged;
    for (uint64_t i = 0; i < table.buckets; ++i) {
      if (!read(buckets + 4 * i, &value, sizeof value)) return kDamaged;
      if (value != 0 && (value < table.first || value >= symbol_count_)) return kDamaged;
    }
    return nullptr;
  }

  const char* relocations_fault() {
    const Relocations* kinds = kRelocations;
    while (kinds->machine != header_.e_machine) ++kinds;  // the header is of this machine
    const Elf64_Phdr* segment = segment_of(rela_, rela_bytes_);
    relocation_count_ = rela_bytes_ / sizeof(Elf64_Rela);
    if (segment == nullptr || (segment->p_flags & PF_W) != 0 || rela_bytes_ % sizeof(Elf64_Rela) != 0 ||
        rela_ % alignof(Elf64_Rela) != 0 || rela_count_ != relocation_count_)
      return "its table of relocations is damaged";
    relocations_ = static_cast<Elf64_Rela*>(malloc(rela_bytes_ + 1));
    if (relocations_ == nullptr || !read(rela_, relocations_, rela_bytes_))
      return "there is no memory for its relocations";
    for (uint64_t i = 0; i < relocation_count_; ++i) {
      const Elf64_Rela& each = relocations_[i];
      const Elf64_Phdr* place = segment_of(each.r_offset, sizeof(uint64_t));
      if (ELF64_R_TYPE(each.r_info) == kinds->called)
        return "it has a relocation for which the loader calls a function (ifunc)";
      if (ELF64_R_TYPE(each.r_info) != kinds->relative || ELF64_R_SYM(each.r_info) != 0)
        return bad("it has a relocation of type %x", static_cast<unsigned>(ELF64_R_TYPE(each.r_info)));
      const bool is_dynamic = each.r_offset + sizeof(uint64_t) > dynamic_->p_vaddr &&
                              each.r_offset < dynamic_->p_vaddr + dynamic_->p_memsz;
      const bool ascends = i == 0 || relocations_[i - 1].r_offset < each.r_offset;
      if (place == nullptr || (place->p_flags & PF_W) == 0 || is_dynamic || !ascends ||
          each.r_offset % sizeof(uint64_t) != 0 || static_cast<uint64_t>(each.r_addend) > end_)
        return "a relocation leads to where none may";
    }
    return nullptr;
  }

  // Where the pointer at an address will point once the library is loaded: 0 for a null pointer, kNowhere for
  // a value that is not a valid pointer.
  uint64_t pointer_at(uint64_t address) const {
    uint64_t value;
    const void* found =
        bsearch(&address, relocations_, relocation_count_, sizeof(Elf64_Rela), compare_places);
    if (found != nullptr) {
      const auto target = static_cast<uint64_t>(static_cast<const Elf64_Rela*>(found)->r_addend);
      return target == 0 ? kNowhere : target;  // address 0 has the library's headers
    }
    return read(address, &value, sizeof value) && value == 0 ? 0 : kNowhere;
  }

  static bool is_printable(const char* text, uint64_t size) {
    for (uint64_t i = 0; i < size; ++i) {
      if (text[i] < ' ' || text[i] > '~') return false;
    }
    return true;
  }

  // Whether the pointer at `address` is null or points at a text that ends within its segment. A text that tc
  // chose and not the model's author (`ours`) has to be printable ASCII, since messages quote it.
  bool leads_to_text(uint64_t address, bool ours = false) const {
    const uint64_t begin = pointer_at(address);
    const Elf64_Phdr* segment = segment_of(begin, 1);
    if (begin == 0) return true;
    char piece[64];
    const uint64_t end = segment == nullptr ? begin : segment->p_vaddr + segment->p_filesz;
    for (uint64_t at = begin; at < end; at += sizeof piece) {
      const uint64_t bytes = end - at < sizeof piece ? end - at : sizeof piece;
      if (!read(at, piece, bytes)) return false;
      const auto* zero = static_cast<const char*>(memchr(piece, 0, bytes));
      const uint64_t length = zero == nullptr ? bytes : static_cast<uint64_t>(zero - piece);
      if (ours && !is_printable(piece, length)) return false;
      if (zero != nullptr) return true;
    }
    return false;
  }

  // Whether the pointer at `address` is null or points at `bytes` bytes in a segment with the flag; 0: in any
  // segment.
  bool leads_to(uint64_t address, uint64_t bytes, uint32_t flag) const {
    const uint64_t begin = pointer_at(address);
    const Elf64_Phdr* segment = segment_of(begin, bytes);
    return begin == 0 || (segment != nullptr && (flag == 0 || (segment->p_flags & flag) != 0));
  }

  // Whether the pointer at `address` points at a table of `count` rows, each with a pointer to a text at
  // offset `text`. make_model() refuses impossible counts.
  bool leads_to_rows(uint64_t address, int64_t count, uint64_t row_bytes, uint64_t text) const {
    const uint64_t begin = pointer_at(address);
    if (begin == 0 || count <= 0) return begin != kNowhere;
    const uint64_t bytes = static_cast<uint64_t>(count) * row_bytes;
    if (begin % alignof(uint64_t) != 0 || segment_of(begin, bytes) == nullptr) return false;
    for (uint64_t row = begin; row < begin + bytes; row += row_bytes) {
      if (!leads_to_text(row + text)) return false;
    }
    return true;
  }

  bool leads_to_ports(uint64_t address, int32_t count) const {
    if (!leads_to_rows(address, count, sizeof(tc_port), offsetof(tc_port, name))) return false;
    const uint64_t begin = pointer_at(address);
    for (int32_t i = 0; begin != 0 && i < count; ++i) {
      tc_port port;
      const uint64_t row = begin + static_cast<uint64_t>(i) * sizeof port;
      if (!read(row, &port, sizeof port)) return false;
      const bool has_rank = port.rank >= 0 && port.rank <= TC_MAX_RANK;
      const uint64_t dims = row + offsetof(tc_port, dims);
      const uint64_t bytes = has_rank ? static_cast<uint64_t>(port.rank) * sizeof(tc_dim) : 0;
      if (pointer_at(dims) % alignof(tc_dim) != 0 || !leads_to(dims, bytes, 0)) return false;
    }
    return true;
  }

  // Whether the runtime may write an address at `place`: where the file has a null pointer that stays
  // writable, outside of the descriptor.
  bool is_variable(uint64_t place) const {
    const Elf64_Phdr* segment = segment_of(place, sizeof(uint64_t));
    if (segment == nullptr || (segment->p_flags & PF_W) == 0 || place % sizeof(uint64_t) != 0 ||
        pointer_at(place) != 0 ||
        (place + sizeof(uint64_t) > descriptor_ && place < descriptor_ + sizeof(tc_descriptor)))
      return false;
    for (int i = 0; i < segment_count_; ++i) {
      const Elf64_Phdr& each = segments_[i];
      const bool is_fixed = each.p_type == PT_GNU_RELRO || each.p_type == PT_DYNAMIC;
      if (is_fixed && place + sizeof(uint64_t) > each.p_vaddr &&
          place < page_end(each.p_vaddr + each.p_memsz))
        return false;
    }
    return true;
  }

  // make_model() checks the magic number, the version and the name of the file of weights.
  const char* descriptor_fault() const {
    tc_descriptor d = {};
    constexpr uint64_t kLeast = offsetof(tc_descriptor, scratch);
    if (descriptor_ % alignof(tc_descriptor) != 0 || !read(descriptor_, &d, kLeast) ||
        !read(descriptor_, &d, d.struct_size < sizeof d ? d.struct_size : sizeof d))
      return "its descriptor lies outside the file";
    const bool has_scratch =
        d.struct_size >= offsetof(tc_descriptor, first_scratch_bytes) || d.abi_version >= 4;
    // The fields of newer versions are unknown here; make_model() refuses such models.
    const bool has_pairs = d.struct_size >= offsetof(tc_descriptor, weights_file) ||
                           (d.abi_version >= 6 && d.abi_version <= TC_ABI_VERSION);
    const bool has_weights = (d.struct_size >= sizeof d || d.abi_version == 7) &&
                             pointer_at(descriptor_ + offsetof(tc_descriptor, weights_file)) != 0;
    const uint64_t pair_bytes =
        d.output_count < 0 ? 0 : static_cast<uint64_t>(d.output_count) * sizeof(int32_t);
    const uint64_t constant_bytes = d.constant_bytes < 0 ? 0 : static_cast<uint64_t>(d.constant_bytes);
#define AT(field) (descriptor_ + offsetof(tc_descriptor, field))
    const bool good =
        leads_to_text(AT(model)) && leads_to_text(AT(target), true) && leads_to_text(AT(features), true) &&
        leads_to_text(AT(provenance), true) && leads_to_ports(AT(inputs), d.input_count) &&
        leads_to_ports(AT(outputs), d.output_count) &&
        leads_to_rows(AT(symbols), d.symbol_count, sizeof(tc_symbol), offsetof(tc_symbol, name)) &&
        leads_to_rows(AT(steps), d.step_count, sizeof(const char*), 0) && leads_to(AT(bind), 1, PF_X) &&
        leads_to(AT(run), 1, PF_X) && (!has_scratch || leads_to(AT(scratch), 1, PF_X)) &&
        leads_to(AT(constants), constant_bytes, 0) &&
        (!has_weights || (pointer_at(AT(constants)) == 0 && leads_to_text(AT(weights_file), true) &&
                          is_variable(pointer_at(AT(weights))))) &&
        (!has_pairs ||
         (pointer_at(AT(in_place)) % alignof(int32_t) == 0 && leads_to(AT(in_place), pair_bytes, 0)));
#undef AT
    return good ? nullptr : "what an address in its descriptor leads to is not what has to be there";
  }

  const int file_;
  Elf64_Ehdr header_ = {};
  Elf64_Phdr segments_[kMaxSegments] = {};
  int segment_count_ = 0;
  uint64_t end_ = 0;  // end of the pages of the segments so far
  const Elf64_Phdr* dynamic_ = nullptr;
  uint64_t rela_ = 0, rela_bytes_ = 0, rela_count_ = 0, symbols_ = 0, names_ = 0, name_bytes_ = 0, hash_ = 0;
  uint64_t symbol_count_ = 0, relocation_count_ = 0, descriptor_ = 0;
  Elf64_Rela* relocations_ = nullptr;  // in ascending order of r_offset
  char text_[160] = "";
};

}  // namespace

tc_status check_shape(int file, const char* path, uint64_t* descriptor) {
  Shape shape(file);
  if (const char* wrong = shape.fault(); wrong != nullptr)
    return fail(
        TC_ERROR_MODEL,
        "%s: not opened without trust, for it is not what tc writes (%s); compile the model again, or open the file as one "
        "that you trust",
        path, wrong);
  *descriptor = shape.descriptor();
  return TC_OK;
}

}  // namespace tc::runtime
