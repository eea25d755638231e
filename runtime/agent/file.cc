#include "runtime/agent/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "runtime/rpc/sha256.h"

namespace tc::agent {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

std::shared_ptr<const File> hashed(SharedMemory&& memory) {
  rpc::Sha256 hash;
  hash.add(memory.data(), static_cast<size_t>(memory.bytes()));
  return std::make_shared<const File>(std::move(memory), hash.hex());
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    value_ = other.value_;
    other.value_ = -1;
  }
  return *this;
}

void Descriptor::close() {
  if (value_ >= 0) ::close(value_);
  value_ = -1;
}

SharedMemory::SharedMemory(const char* name, int64_t bytes)
    : descriptor_(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)), bytes_(bytes) {
  if (descriptor_.get() < 0) fail("memory for a file");
  // The memory is allocated now, since running out of it later would raise a signal.
  if (ftruncate(descriptor_.get(), bytes) != 0 ||
      (bytes > 0 && fallocate(descriptor_.get(), 0, 0, bytes) != 0 && errno != EOPNOTSUPP))
    fail("memory for a file of " + std::to_string(bytes) + " bytes");
  // Sealed, so that a process that also has the descriptor cannot shrink the file under this mapping.
  if (fcntl(descriptor_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) fail("sealing a memory file");
  if (bytes == 0) return;
  void* memory = mmap(nullptr, static_cast<size_t>(mapped_bytes()), PROT_READ | PROT_WRITE, MAP_SHARED,
                      descriptor_.get(), 0);
  if (memory == MAP_FAILED) fail("mapping " + std::to_string(bytes) + " bytes");
  data_ = static_cast<uint8_t*>(memory);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::move(other.descriptor_)), bytes_(other.bytes_), data_(other.data_) {
  other.data_ = nullptr;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(mapped_bytes()));
}

int64_t SharedMemory::mapped_bytes() const {
  const int64_t page = sysconf(_SC_PAGESIZE);
  return (bytes_ + page - 1) / page * page;
}

Descriptor SharedMemory::open_for_reading() const {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor_.get());
  Descriptor reading(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (reading.get() < 0) fail("opening a memory file");
  return reading;
}

void SharedMemory::make_read_only() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(mapped_bytes()));
  data_ = nullptr;
  // Sealing fails with EBUSY while a forked process that has not executed its program yet still has the
  // mapping, or while the kernel moves a page.
  constexpr auto kLongest = std::chrono::seconds(5);
  constexpr auto kPause = std::chrono::milliseconds(10);
  const auto end = std::chrono::steady_clock::now() + kLongest;
  while (fcntl(descriptor_.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
         0) {
    if (errno != EBUSY || std::chrono::steady_clock::now() >= end) fail("sealing a memory file");
    std::this_thread::sleep_for(kPause);
  }
  if (bytes_ > 0) {
    const Descriptor reading = open_for_reading();
    void* memory =
        mmap(nullptr, static_cast<size_t>(mapped_bytes()), PROT_READ, MAP_PRIVATE, reading.get(), 0);
    if (memory == MAP_FAILED) fail("mapping a memory file");
    data_ = static_cast<uint8_t*>(memory);
  }
  descriptor_.close();
}

// A file can only be executed while nobody has it open for writing, and only be sealed while nobody has it
// mapped for writing.
File::File(SharedMemory&& memory, std::string sha256)
    : memory_(std::move(memory)), sha256_(std::move(sha256)) {
  reading_ = memory_.open_for_reading();
  fchmod(memory_.descriptor(), 0555);  // another user executes it
  memory_.make_read_only();
}

std::shared_ptr<const File> make_file(const void* data, int64_t bytes) {
  SharedMemory memory("tc-file", bytes);
  if (bytes > 0) std::memcpy(memory.data(), data, static_cast<size_t>(bytes));
  return hashed(std::move(memory));
}

std::shared_ptr<const File> read_file(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat about;
  if (file.get() < 0 || fstat(file.get(), &about) != 0) fail(path);
  SharedMemory memory("tc-file", about.st_size);
  for (int64_t done = 0; done < about.st_size;) {
    const ssize_t got = read(file.get(), memory.data() + done, static_cast<size_t>(about.st_size - done));
    if (got <= 0) throw std::runtime_error(path + ": cannot be read");
    done += got;
  }
  return hashed(std::move(memory));
}

}  // namespace tc::agent
