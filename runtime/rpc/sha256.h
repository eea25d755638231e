// Names of files by their content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tc::rpc {

// SHA-256 of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(const void* data, size_t size);
  // 64 digits of lower-case hex. Call it once, last.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_of(const std::string& bytes);
// Throws std::runtime_error where the file cannot be read.
std::string sha256_of_file(const std::string& path);

}  // namespace tc::rpc
