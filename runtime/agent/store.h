// Files that tuners sent, by SHA-256, in memory of bounded size; those not used for longest go first.
#pragma once

#include <condition_variable>
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

  // Room for a file that is on its way, for as long as the object lives. All of them together have as
  // much as the store itself.
  class Room {
   public:
    Room(Store& store, int64_t bytes) : store_(store), bytes_(bytes) {}
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

   private:
    Store& store_;
    const int64_t bytes_;
  };
  // Waits for that long where others have the room; null where they keep it.
  std::unique_ptr<Room> make_room(int64_t bytes, double seconds);

 private:
  using Files = std::list<std::shared_ptr<const File>>;  // used last first

  const int64_t most_bytes_;
  std::mutex mutex_;
  int64_t bytes_ = 0, coming_ = 0;
  std::condition_variable room_;
  Files files_;
  std::unordered_map<std::string, Files::iterator> by_name_;
};

}  // namespace tc::agent
