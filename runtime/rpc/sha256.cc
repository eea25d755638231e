#include "runtime/rpc/sha256.h"

#include <fstream>
#include <stdexcept>
#include <vector>

#include <openssl/evp.h>

namespace tc::rpc {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (!state_->context || EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("libcrypto has no SHA-256");
}

Sha256::~Sha256() = default;

void Sha256::add(const void* data, size_t size) { EVP_DigestUpdate(state_->context, data, size); }

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(state_->context, digest, &size);
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4];
    text += "0123456789abcdef"[digest[i] & 15];
  }
  return text;
}

std::string sha256_of(const std::string& bytes) {
  Sha256 hash;
  hash.add(bytes.data(), bytes.size());
  return hash.hex();
}

std::string sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(1 << 16);
  Sha256 hash;
  if (!file) throw std::runtime_error(path + " cannot be read");
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), file.gcount() > 0)
    hash.add(buffer.data(), static_cast<size_t>(file.gcount()));
  if (file.bad()) throw std::runtime_error(path + " cannot be read to its end");
  return hash.hex();
}

}  // namespace tc::rpc
