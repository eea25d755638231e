// Links objects with the lld of this library, in a child process, and writes archives.
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

#include "codegen/codegen.h"
#include "ir/error.h"

LLD_HAS_DRIVER(elf)

namespace tc {
namespace {

// A new folder for the linker's inputs, removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "tc-link-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      fail(ErrorKind::Device, "cannot make a temporary folder ", pattern, ": ",
           std::strerror(errno));
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

void write_file(const std::string& path, const Bytes& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  const bool written = file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) ==
                                              bytes.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed) {
    fail(ErrorKind::Device, "cannot write ", path, ": ", std::strerror(errno),
         "; is the disk full?");
  }
}

std::vector<std::string> write_objects(const TemporaryFolder& folder,
                                       const std::vector<Bytes>& objects) {
  std::vector<std::string> paths;
  for (size_t i = 0; i < objects.size(); ++i) {
    paths.push_back(folder.file(text("object", i, ".o")));
    write_file(paths.back(), objects[i]);
  }
  return paths;
}

const char* emulation(Arch arch) {
  switch (arch) {
    case Arch::X86_64: return "elf_x86_64";
    case Arch::RiscV64: return "elf64lriscv";
    case Arch::AArch64: return "aarch64linux";
  }
  return "";
}

// What the linker's process writes until it closes its end.
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

// Whether the linker failed for lack of room, not for what it was given.
bool names_full_disk(const std::string& errors) {
  const int codes[] = {ENOSPC, EDQUOT, EFBIG};
  return std::any_of(std::begin(codes), std::end(codes), [&](int code) {
    return errors.find(std::strerror(code)) != std::string::npos;
  });
}

// lld runs in a child process: it keeps state in globals and leaves memory damaged behind after
// many links in one process.
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
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    errors.resize(errors.find_last_not_of("\n ") + 1);
    if (names_full_disk(errors)) fail(ErrorKind::Device, "cannot link: ", errors, "; free some disk space");
    fail(ErrorKind::Internal, "linking ", arguments.back(), " failed: ", errors);
  }
}

std::vector<std::string> linker(const Target& target) {
  return {"ld.lld", "-m", emulation(target.arch), "--build-id=none", "--threads=1",
          "-z", "noexecstack"};
}

void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

const char* library_folder_name(Arch arch) {
  switch (arch) {
    case Arch::X86_64: return "x86_64";
    case Arch::RiscV64: return "riscv64";
    case Arch::AArch64: return "aarch64";
  }
  return "";
}

void link_shared(const std::vector<Bytes>& objects, const Target& target, const std::string& path) {
  TemporaryFolder folder;
  std::vector<std::string> arguments = linker(target);
  append(arguments, {"-shared", "-z", "relro", "-z", "now", "-z", "defs", "--hash-style=gnu"});
  append(arguments, write_objects(folder, objects));
  append(arguments, {"-o", path});
  run_linker(arguments);
}

void link_object(const std::vector<Bytes>& objects, const Target& target, const std::string& path) {
  TemporaryFolder folder;
  std::vector<std::string> arguments = linker(target);
  append(arguments, {"-r"});
  append(arguments, write_objects(folder, objects));
  append(arguments, {"-o", path});
  run_linker(arguments);
}

void write_archive(const std::vector<std::pair<std::string, Bytes>>& members,
                   const std::string& path) {
  std::vector<llvm::NewArchiveMember> list;
  for (const auto& [name, bytes] : members) {
    llvm::NewArchiveMember member;
    member.Buf = llvm::MemoryBuffer::getMemBuffer(
        llvm::StringRef(reinterpret_cast<const char*>(bytes.data()), bytes.size()), name, false);
    member.MemberName = name;
    list.push_back(std::move(member));
  }
  // By way of memory: LLVM's own writing ends the process where the disk is full.
  auto archive =
      llvm::writeArchiveToBuffer(list, llvm::SymtabWritingMode::NormalSymtab,
                                 llvm::object::Archive::K_GNU, /*Deterministic=*/true, /*Thin=*/false);
  if (!archive) {
    fail(ErrorKind::Internal, "cannot write the archive ", path, ": ",
         llvm::toString(archive.takeError()));
  }
  const llvm::StringRef bytes = (*archive)->getBuffer();
  const std::string temporary = path + ".part";
  try {
    write_file(temporary, Bytes(bytes.begin(), bytes.end()));
    std::filesystem::rename(temporary, path);
  } catch (const std::exception& error) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    if (dynamic_cast<const Error*>(&error)) throw;
    fail(ErrorKind::Device, "cannot write ", path, ": ", error.what());
  }
}

void link_executable(const std::vector<Bytes>& objects, const Target& target,
                     const std::string& library_folder, const std::string& path) {
  TemporaryFolder folder;
  auto library = [&](const std::string& name) {
    const std::string file = library_folder + "/" + name;
    if (!std::filesystem::exists(file)) {
      fail(ErrorKind::Internal, "cannot link an executable for ", target.name, ": ", file,
           " is missing");
    }
    return file;
  };
  std::vector<std::string> arguments = linker(target);
  append(arguments, {"-static", "--gc-sections", "--strip-all", "--eh-frame-hdr", library("crt1.o"),
                     library("crti.o"), library("crtbeginT.o")});
  append(arguments, write_objects(folder, objects));
  append(arguments, {"--start-group", library("libtc_runtime.a"), library("libm.a"),
                     library("libc.a"), library("libgcc.a"), library("libgcc_eh.a"), "--end-group",
                     library("crtend.o"), library("crtn.o"), "-o", path});
  run_linker(arguments);
}

}  // namespace tc
