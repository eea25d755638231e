// The devices of one kind that a measurer has leased: which of them are free, and which of them take what is
// too large for others.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tuner/client.h"

namespace tc {

// Leases a device. Where `first` is false, it is one more of the same kind, or null where none is free now.
// Throws a Device error where there is no device at all.
using OpenDevice = std::function<std::unique_ptr<LeasedDevice>(bool first)>;

// All functions may be called from several threads.
class DevicePool {
 public:
  // Leases the first device.
  DevicePool(OpenDevice open, int most_devices);

  // Of the first device.
  const std::string& key() const { return key_; }
  const std::string& unit() const { return unit_; }
  double clock_hz() const { return clock_hz_; }

  // How many there are.
  size_t count() const;
  // What each of them keeps of files at least; those that do not say have no part in it.
  int64_t least_store_bytes() const;

  // Leases more devices while the tracker has free ones, until there are so many.
  void grow(size_t wanted);
  // Takes a device for this thread alone, which has room for the files if any of this kind has: the one that
  // was given back last. Waits while other threads have all of these; leases a new one where all were lost.
  std::unique_ptr<LeasedDevice> take(const std::vector<RemoteFile>& files);
  void give_back(std::unique_ptr<LeasedDevice> device);
  // Forgets a device that was taken.
  void lose(const LeasedDevice* device);
  // The next one that is taken is another than that. False where no other one is free.
  bool prefer_another_than(const std::string& name);

 private:
  using Idle = std::vector<std::unique_ptr<LeasedDevice>>;

  void keep(std::unique_ptr<LeasedDevice> device);
  void grow_for(const std::vector<RemoteFile>& files);
  bool has_room(const std::vector<RemoteFile>& files) const;
  Idle::iterator idle_for(const std::vector<RemoteFile>& files);

  const OpenDevice open_;
  const int most_devices_;
  std::string key_, unit_;
  double clock_hz_ = 2.5e9;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Idle idle_;
  std::map<const LeasedDevice*, rpc::DeviceInfo> leased_;  // those that are idle or taken
  int count_ = 0;                                          // of these, and of those that are being leased
  int64_t store_bytes_ = INT64_MAX;
};

}  // namespace tc
