#include "runtime/agent/store.h"

#include <chrono>

namespace tc::agent {

std::shared_ptr<const File> Store::find(const std::string& sha256) {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(sha256);
  if (found == by_name_.end()) return nullptr;
  files_.splice(files_.begin(), files_, found->second);
  return files_.front();
}

void Store::add(std::shared_ptr<const File> file) {
  const std::lock_guard lock(mutex_);
  if (by_name_.count(file->sha256()) != 0) return;
  bytes_ += file->bytes();
  files_.push_front(file);
  by_name_[file->sha256()] = files_.begin();
  while (bytes_ > most_bytes_ && files_.size() > 1) {
    bytes_ -= files_.back()->bytes();
    by_name_.erase(files_.back()->sha256());
    files_.pop_back();
  }
}

std::unique_ptr<Store::Room> Store::make_room(int64_t bytes, double seconds) {
  std::unique_lock lock(mutex_);
  const auto fits = [&] { return bytes <= most_bytes_ - coming_; };
  if (!room_.wait_for(lock, std::chrono::duration<double>(seconds), fits)) return nullptr;
  coming_ += bytes;
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
