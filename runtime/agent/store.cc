#include "runtime/agent/store.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/memory_present.h"

namespace tc::agent {

int64_t default_store_bytes() {
  constexpr int64_t kMinBytes = int64_t{64} << 20, kMaxBytes = int64_t{4} << 30;
  return std::clamp(runtime::memory_present().bytes / 4, kMinBytes, kMaxBytes);
}

// Drops the files that were not used for the longest time, until the others have at most so many bytes.
void Store::drop_until(int64_t most) {
  while (bytes_ > most && !files_.empty()) {
    bytes_ -= files_.back()->bytes();
    by_name_.erase(files_.back()->sha256());
    files_.pop_back();
  }
}

std::shared_ptr<const File> Store::find(const std::string& sha256) {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(sha256);
  if (found == by_name_.end()) return nullptr;
  files_.splice(files_.begin(), files_, found->second);
  return files_.front();
}

void Store::add(std::shared_ptr<const File> file, std::unique_ptr<Room> room) {
  {
    const std::lock_guard lock(mutex_);
    coming_ -= std::exchange(room->bytes_, 0);
    if (by_name_.count(file->sha256()) == 0) {
      drop_until(most_bytes_ - coming_ - file->bytes());
      bytes_ += file->bytes();
      files_.push_front(file);
      by_name_[file->sha256()] = files_.begin();
    }
  }
  room_.notify_all();
}

std::unique_ptr<Store::Room> Store::make_room(int64_t bytes, double seconds) {
  std::unique_lock lock(mutex_);
  const auto fits = [&] { return bytes <= most_bytes_ - coming_; };
  if (!room_.wait_for(lock, std::chrono::duration<double>(seconds), fits)) return nullptr;
  coming_ += bytes;
  drop_until(most_bytes_ - coming_);
  return std::make_unique<Room>(*this, bytes);
}

Store::Room::~Room() {
  {
    const std::lock_guard lock(store_.mutex_);
    store_.coming_ -= bytes_;
  }
  store_.room_.notify_all();
}

}  // namespace tc::agent
