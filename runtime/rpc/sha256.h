// SHA-256, by which files are named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tc::rpc {

// SHA-256 of bytes that are added piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(const void* data, size_t size);
  // The hash as 64 digits of lower-case hex. To be called once, at the end.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_of(const std::string& bytes);
// Throws std::runtime_error where the file cannot be read.
std::string sha256_of_file(const std::string& path);

}  // namespace tc::rpc
