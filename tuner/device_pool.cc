#include "tuner/device_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ir/error.h"
#include "ir/interrupt.h"

namespace tc {

DevicePool::DevicePool(OpenDevice open, int most_devices)
    : open_(std::move(open)), most_devices_(most_devices) {
  keep(open_(true));
}

size_t DevicePool::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(count_);
}

int64_t DevicePool::least_store_bytes() const {
  const std::lock_guard lock(mutex_);
  return store_bytes_;
}

void DevicePool::keep(std::unique_ptr<LeasedDevice> device) {
  const std::lock_guard lock(mutex_);
  const rpc::DeviceInfo& info = device->info();
  if (key_.empty()) {
    key_ = info.key();
    unit_ = info.unit();
    if (info.clock_ghz() > 0) clock_hz_ = 1e9 * info.clock_ghz();
  }
  if (info.store_bytes() > 0) store_bytes_ = std::min(store_bytes_, info.store_bytes());
  ++count_;
  leased_.emplace(device.get(), info);
  idle_.push_back(std::move(device));
  changed_.notify_all();
}

void DevicePool::grow(size_t wanted) {
  while (count() < std::min(wanted, static_cast<size_t>(most_devices_))) {
    std::unique_ptr<LeasedDevice> more;
    try {
      more = open_(false);
    } catch (const Error&) {
      return;  // the devices that are leased already do the work
    }
    if (!more) return;
    keep(std::move(more));
  }
}

// Leases one more device after the other until one of them has room for the files.
void DevicePool::grow_for(const std::vector<RemoteFile>& files) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (leased_.empty() || has_room(files)) return;
    }
    const size_t before = count();
    grow(before + 1);
    if (count() <= before) return;
  }
}

// Whether one of the devices has room for the files.
bool DevicePool::has_room(const std::vector<RemoteFile>& files) const {
  return std::any_of(leased_.begin(), leased_.end(),
                     [&](const auto& device) { return room_problem(device.second, files).empty(); });
}

// The idle device to which the files should go: the last one with room for them. Where no device has room,
// idle or not, the one that keeps most.
DevicePool::Idle::iterator DevicePool::idle_for(const std::vector<RemoteFile>& files) {
  const auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const auto& device) {
    return room_problem(device->info(), files).empty();
  });
  if (found != idle_.rend()) return std::prev(found.base());
  if (has_room(files)) return idle_.end();
  return std::max_element(idle_.begin(), idle_.end(), [](const auto& a, const auto& b) {
    return a->info().store_bytes() < b->info().store_bytes();
  });
}

std::unique_ptr<LeasedDevice> DevicePool::take(const std::vector<RemoteFile>& files) {
  grow_for(files);
  {
    std::unique_lock lock(mutex_);
    auto chosen = idle_.end();
    const auto is_ready = [&] {
      chosen = idle_for(files);
      return chosen != idle_.end() || count_ == 0;
    };
    while (!changed_.wait_for(lock, std::chrono::milliseconds(20), is_ready)) interruption_point();
    if (chosen != idle_.end()) {
      auto device = std::move(*chosen);
      idle_.erase(chosen);
      return device;
    }
    ++count_;  // so that others wait for this one
  }
  try {
    auto device = open_(true);
    const std::lock_guard lock(mutex_);
    leased_.emplace(device.get(), device->info());
    return device;
  } catch (...) {
    lose(nullptr);
    throw;
  }
}

void DevicePool::give_back(std::unique_ptr<LeasedDevice> device) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(device));
  changed_.notify_all();
}

void DevicePool::lose(const LeasedDevice* device) {
  const std::lock_guard lock(mutex_);
  --count_;
  leased_.erase(device);
  changed_.notify_all();
}

bool DevicePool::prefer_another_than(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto other = std::find_if(idle_.begin(), idle_.end(),
                                  [&](const auto& device) { return device->info().name() != name; });
  if (other == idle_.end()) return false;
  std::iter_swap(other, std::prev(idle_.end()));
  return true;
}

}  // namespace tc
