// Files in memory: executable, mapped for reading, and immutable once they are complete.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tc::agent {

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(other.value_) { other.value_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }

  int get() const { return value_; }
  void close();

 private:
  int value_;
};

// A memory file of a fixed size (at least 0), mapped for writing. The bytes between the size and the end of
// the last page can be used as a guard area.
class SharedMemory {
 public:
  // Throws a std::runtime_error where there is no memory for it.
  explicit SharedMemory(const char* name, int64_t bytes);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  uint8_t* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  int64_t mapped_bytes() const;
  int descriptor() const { return descriptor_.get(); }
  // Another descriptor of the file, which can only read.
  Descriptor open_for_reading() const;
  // Maps the file for reading only, closes the descriptor that can write, and seals the file permanently.
  void make_read_only();

 private:
  Descriptor descriptor_;
  int64_t bytes_ = 0;
  uint8_t* data_ = nullptr;
};

class File {
 public:
  // Takes over the memory and seals the file. The second argument is the SHA-256 of its bytes.
  File(SharedMemory&& memory, std::string sha256);

  const uint8_t* data() const { return memory_.data(); }
  int64_t bytes() const { return memory_.bytes(); }
  int descriptor() const { return reading_.get(); }
  const std::string& sha256() const { return sha256_; }

 private:
  SharedMemory memory_;
  Descriptor reading_;
  std::string sha256_;
};

// A copy of bytes, or of a file of the file system. Throws a std::runtime_error where that cannot be read.
std::shared_ptr<const File> make_file(const void* data, int64_t bytes);
std::shared_ptr<const File> read_file(const std::string& path);

}  // namespace tc::agent
