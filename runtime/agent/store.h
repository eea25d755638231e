// Files that tuners sent, by SHA-256, in memory of bounded size; the least recently used are dropped first.
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "runtime/agent/file.h"

namespace tc::agent {

// What an agent keeps where nobody says how much: a quarter of the memory that its machine or its control
// group has, but 64 MiB at least and 4 GiB at most.
int64_t default_store_bytes();

class Store {
 public:
  explicit Store(int64_t most_bytes) : most_bytes_(most_bytes) {}

  // The file with that hash, null where the store does not have it. A file that is in use stays readable
  // after the store has dropped it.
  std::shared_ptr<const File> find(const std::string& sha256);
  int64_t most_bytes() const { return most_bytes_; }

  // Reserves memory for a file that is being received, as long as the object exists. Files make room for it,
  // so that with all reservations they are no larger than the store.
  class Room {
   public:
    Room(Store& store, int64_t bytes) : store_(store), bytes_(bytes) {}
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

   private:
    friend class Store;
    Store& store_;
    int64_t bytes_;
  };
  // Waits up to `seconds` where other files have reserved the memory; null where they keep it.
  std::unique_ptr<Room> make_room(int64_t bytes, double seconds);
  // Keeps a file in the memory that was reserved for it.
  void add(std::shared_ptr<const File> file, std::unique_ptr<Room> room);

 private:
  using Files = std::list<std::shared_ptr<const File>>;  // most recently used first

  void drop_until(int64_t most);

  const int64_t most_bytes_;
  std::mutex mutex_;
  int64_t bytes_ = 0, coming_ = 0;
  std::condition_variable room_;
  Files files_;
  std::unordered_map<std::string, Files::iterator> by_name_;
};

}  // namespace tc::agent
