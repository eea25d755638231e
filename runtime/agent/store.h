// Files that tuners sent, by SHA-256, in memory of bounded size; those not used for longest go first.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "runtime/agent/file.h"

namespace tc::agent {

class Store {
 public:
  explicit Store(int64_t most_bytes) : most_bytes_(most_bytes) {}

  // Null where it is not here. A file that is in use stays readable when it leaves the store.
  std::shared_ptr<const File> find(const std::string& sha256);
  void add(std::shared_ptr<const File> file);
  int64_t most_bytes() const { return most_bytes_; }

 private:
  using Files = std::list<std::shared_ptr<const File>>;  // used last first

  const int64_t most_bytes_;
  std::mutex mutex_;
  int64_t bytes_ = 0;
  Files files_;
  std::unordered_map<std::string, Files::iterator> by_name_;
};

}  // namespace tc::agent
