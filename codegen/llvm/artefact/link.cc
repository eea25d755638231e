// Links objects with the lld that this library contains, in a child process, and writes archives.
#include <fcntl.h>
#include <lld/Common/Driver.h>
#include <llvm/Object/ArchiveWriter.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <mutex>

#include "codegen/llvm/artefact/constants.h"
#include "codegen/llvm/artefact/link.h"
#include "codegen/backend/backend.h"
#include "ir/error.h"
#include "ir/temporary_folder.h"
#include "runtime/checksum.h"

LLD_HAS_DRIVER(elf)

namespace tc {
namespace {

// The section of the constants in linked files: a section of their own, which is found by its name.
constexpr const char* kLinkedSection = ".tc_constants";

// A new folder for the linker's inputs, removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = temporary_folder() + "/tc-link-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      fail(ErrorKind::Device, "cannot make a temporary folder ", pattern, ": ", std::strerror(errno));
    }
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

llvm::StringRef text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Writes the bytes, and the constants after them.
void write_file(const std::string& path, const Bytes& bytes, const ConstantsFile* constants = nullptr) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool written = file != nullptr;
  const auto write = [&](const uint8_t* data, size_t size) {
    written = written && std::fwrite(data, 1, size, file) == size;
  };
  write(bytes.data(), bytes.size());
  if (constants != nullptr && written) constants->read(write);
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed) {
    fail(ErrorKind::Device, "cannot write ", path, ": ", std::strerror(errno), "; is the disk full?");
  }
}

// Appends the checksum of a file to it.
void seal(const std::string& path) {
  constexpr size_t kPiece = 1 << 18;  // fits into a core's cache
  runtime::Checksum checksum;
  runtime::Seal seal;
  std::memcpy(seal.mark, runtime::kSealMark, sizeof seal.mark);
  Bytes piece(kPiece);
  std::FILE* file = std::fopen(path.c_str(), "r+b");
  size_t got = 0;
  while (file != nullptr && (got = std::fread(piece.data(), 1, piece.size(), file)) > 0)
    checksum.add(piece.data(), got);
  checksum.add(seal.mark, sizeof seal.mark);
  seal.checksum = checksum.value();
  bool written = file != nullptr && !std::ferror(file) && std::fseek(file, 0, SEEK_END) == 0;
  written = written && std::fwrite(&seal, sizeof seal, 1, file) == 1;
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed)
    fail(ErrorKind::Device, "cannot write ", path, ": ", std::strerror(errno), "; is the disk full?");
}

// Increases the size in the header of an archive's last member, which has `size` bytes, by the `more` bytes
// that will follow.
void enlarge_last_member(Bytes& archive, size_t size, int64_t more) {
  constexpr size_t kHeader = 60, kSizeAt = 48, kSizeDigits = 10;
  TC_CHECK(archive.size() > kHeader + size);
  char* digits = reinterpret_cast<char*>(archive.data()) + archive.size() - size - kHeader + kSizeAt;
  TC_CHECK(std::strtoull(digits, nullptr, 10) == size, "in an archive's last header");
  std::string room = std::to_string(static_cast<int64_t>(size) + more);
  TC_CHECK(room.size() <= kSizeDigits);
  room.resize(kSizeDigits, ' ');
  std::memcpy(digits, room.data(), room.size());
}

const char* emulation(Arch arch) {
  switch (arch) {
    case Arch::X86_64: return "elf_x86_64";
    case Arch::RiscV64: return "elf64lriscv";
    case Arch::RiscV32: return "elf32lriscv";
    case Arch::AArch64: return "aarch64linux";
    case Arch::ArmM: return "armelf";
  }
  return "";
}

// Reads what the linker's process writes until it closes its end of the pipe.
std::string read_all(int descriptor) {
  std::string result;
  char buffer[4096];
  while (true) {
    const ssize_t got = read(descriptor, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return result;
    result.append(buffer, static_cast<size_t>(got));
  }
}

// Whether the linker failed for lack of disk space, not because of its inputs.
bool names_full_disk(const std::string& errors) {
  const int codes[] = {ENOSPC, EDQUOT, EFBIG};
  return std::any_of(std::begin(codes), std::end(codes),
                     [&](int code) { return errors.find(std::strerror(code)) != std::string::npos; });
}

// lld runs in a child process: it keeps state in globals, and memory is corrupted after many links in one
// process.
void run_linker(const std::vector<std::string>& arguments) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    fail(ErrorKind::Internal, "cannot start the linker: ", std::strerror(errno));
  }
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    fail(ErrorKind::Internal, "cannot start the linker: ", std::strerror(errno));
  }
  if (child == 0) {
    std::string output;
    llvm::raw_string_ostream output_stream(output);
    llvm::raw_fd_ostream error_stream(ends[1], /*shouldClose=*/false, /*unbuffered=*/true);
    const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
    const lld::Result result = lld::lldMain(pointers, output_stream, error_stream, drivers);
    _exit(result.retCode == 0 ? 0 : 1);
  }
  close(ends[1]);
  std::string errors = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    errors.resize(errors.find_last_not_of("\n ") + 1);
    if (names_full_disk(errors)) fail(ErrorKind::Device, "cannot link: ", errors, "; free some disk space");
    fail(ErrorKind::Internal, "linking ", arguments.back(), " failed: ", errors);
  }
}

// A command of the linker, and the files that it reads and writes.
class Linking {
 public:
  Linking(const Target& target, const std::vector<std::string>& options, const std::string& constants_section,
          BlockIs block)
      : target_(target),
        arguments_{"ld.lld",      "-m", emulation(target.arch), "--build-id=none",
                   "--threads=1", "-z", "noexecstack"},
        section_(constants_section),
        block_(block) {
    append(options);
  }

  void append(const std::vector<std::string>& arguments) {
    arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
  }

  void append(const ModelObjects& objects) {
    for (const Bytes& code : objects.code) write_object(code);
    if (objects.constants == nullptr) return;
    constants_ = objects.constants;
    write_object(constants_object(*constants_, target_, section_, block_));
  }

  // These functions come first, in this order, and then all other code.
  void begin_with(const std::vector<std::string>& functions) {
    if (functions.empty()) return;
    Bytes lines;
    for (const std::string& name : functions) {
      lines.insert(lines.end(), name.begin(), name.end());
      lines.push_back('\n');
    }
    const std::string file = folder_.file("order.txt");
    write_file(file, lines);
    append({"--symbol-ordering-file=" + file});
  }

  // Links, and writes the constants to their place afterwards: the linker would hold them in memory twice.
  void run(const std::string& path) {
    append({"-o", path});
    run_linker(arguments_);
    if (!constants_) return;
    try {
      fill_in_constants(*constants_, path, section_);
    } catch (...) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
      throw;
    }
  }

 private:
  void write_object(const Bytes& object) {
    arguments_.push_back(folder_.file(text("object", objects_++, ".o")));
    write_file(arguments_.back(), object);
  }

  const Target& target_;
  TemporaryFolder folder_;
  std::vector<std::string> arguments_;
  int objects_ = 0;
  std::shared_ptr<const ConstantsFile> constants_;
  const std::string section_;  // of the constants
  const BlockIs block_;
};

}  // namespace

const char* library_folder_name(Arch arch) {
  switch (arch) {
    case Arch::X86_64: return "x86_64";
    case Arch::RiscV64: return "riscv64";
    case Arch::RiscV32: return "riscv32";
    case Arch::AArch64: return "aarch64";
    case Arch::ArmM: return "arm";
  }
  return "";
}

void link_shared(const ModelObjects& objects, const Target& target, const std::string& path) {
  Linking linking(target, {"-shared", "-z", "relro", "-z", "now", "-z", "defs", "--hash-style=gnu"},
                  kLinkedSection, BlockIs::Mapped);
  linking.append(objects);
  linking.run(path);
  seal(path);
}

void link_object(const ModelObjects& objects, const Target& target, const std::string& path) {
  Linking linking(target, {"-r"}, kObjectConstantsSection, BlockIs::LeftOut);
  linking.append(objects);
  linking.run(path);
}

void write_archive(const ModelObjects& objects, const std::vector<std::pair<std::string, Bytes>>& members,
                   const Target& target, const std::string& path) {
  std::vector<llvm::NewArchiveMember> list;
  const auto add = [&](const std::string& name, const Bytes& bytes) {
    llvm::NewArchiveMember& member = list.emplace_back();
    member.Buf = llvm::MemoryBuffer::getMemBuffer(text_of(bytes), name, false);
    member.MemberName = member.Buf->getBufferIdentifier();
  };
  for (size_t i = 0; i < objects.code.size(); ++i) add(text("model_", i, ".o"), objects.code[i]);
  for (const auto& [name, bytes] : members) add(name, bytes);
  // The constants are the last member, so that all of the archive but their bytes can be made in memory.
  Bytes constants;
  if (objects.constants) {
    constants = constants_object(*objects.constants, target, kObjectConstantsSection, BlockIs::Following);
    add("constants.o", constants);
  }
  // The archive is made in memory: LLVM's function that writes a file ends the process where the disk is
  // full.
  auto archive =
      llvm::writeArchiveToBuffer(list, llvm::SymtabWritingMode::NormalSymtab, llvm::object::Archive::K_GNU,
                                 /*Deterministic=*/true, /*Thin=*/false);
  if (!archive) {
    fail(ErrorKind::Internal, "cannot write the archive ", path, ": ", llvm::toString(archive.takeError()));
  }
  const llvm::StringRef made = (*archive)->getBuffer();
  Bytes bytes(made.begin(), made.end());
  if (objects.constants) enlarge_last_member(bytes, constants.size(), objects.constants->byte_count());
  write_file(path, bytes, objects.constants.get());
}

void link_executable(const ModelObjects& objects, const Target& target, const std::string& library_folder,
                     const std::vector<std::string>& parts, const std::string& path) {
  auto library = [&](const std::string& name) {
    const std::string file = library_folder + "/" + name;
    if (!std::filesystem::exists(file)) {
      fail(ErrorKind::Internal, "cannot link an executable for ", target.name, ": ", file, " is missing");
    }
    return file;
  };
  // The smaller C library where there is one: an empty program takes 414 KB of glibc and 5 KB of musl. The
  // smaller one can run code that was compiled with glibc's headers, as the runtime's archive was.
  const bool has_musl = std::filesystem::exists(library_folder + "/musl");
  const auto c_library = [&](const std::string& name) { return library(has_musl ? "musl/" + name : name); };
  Linking linking(target,
                  {"-static", "--gc-sections", "--strip-all", "--eh-frame-hdr", c_library("crt1.o"),
                   c_library("crti.o"), library("crtbeginT.o")},
                  kLinkedSection, BlockIs::Kept);
  linking.append(objects);
  // Functions that a machine never runs are next to each other, away from those that all machines run, since
  // systems also map the pages around one that is read.
  linking.begin_with(objects.by_length);
  // Weak references alone take nothing out of an archive.
  for (const std::string& part : parts) linking.append({"--undefined=" + part});
  linking.append({"--start-group", library("libtc_runtime.a"), c_library("libm.a"), c_library("libc.a"),
                  library("libgcc.a"), library("libgcc_eh.a"), "--end-group", library("crtend.o"),
                  c_library("crtn.o")});
  linking.run(path);
}

}  // namespace tc
