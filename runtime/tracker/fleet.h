// The tracker's book: who is there, who leases what, who is in quarantine. Knows nothing of the
// network; a test drives its clock.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include <grpcpp/support/status.h>

#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::tracker {

struct FleetOptions {
  int heartbeat_ms = 2000;
  int missed_heartbeats = 3;       // then a device is gone
  int lease_ms = 10000;
  int failures = 3;                // in a row: quarantine
  int quarantine_ms = 60000;
};

// Milliseconds of a clock that only goes forward.
using Clock = std::function<int64_t()>;
int64_t steady_milliseconds();

// All functions may be called from several threads. Fields were checked by the caller
// (runtime/rpc/fields.h). A status that is not OK has a sentence for the other side.
class Fleet {
 public:
  explicit Fleet(FleetOptions options, Clock clock = steady_milliseconds);

  // Joins, or beats. An agent that starts anew ends its device's lease and quarantine. ALREADY_EXISTS where a
  // younger agent has taken the name.
  grpc::Status announce(const rpc::AnnounceRequest& request);

  // Leases a fitting device, waiting for at most wait_ms or until `gave_up` says true; those who
  // came first get first. A fleet younger than three heartbeats waits for agents to join again.
  grpc::Status acquire(const rpc::AcquireRequest& request, const std::function<bool()>& gave_up,
                       rpc::Lease* lease);
  grpc::Status renew(const std::string& token, rpc::Lease* lease);
  grpc::Status release(const std::string& token);
  // Time left of the lease, 0 where the token is not that of the device's present lease.
  int lease_left_ms(const std::string& device, const std::string& token);
  grpc::Status report_failure(const std::string& token, const std::string& reason);
  void list(rpc::DevicesReply* reply);

  // Ends every wait, with UNAVAILABLE.
  void close();

 private:
  struct Device {
    rpc::DeviceInfo info;
    std::string session;
    std::set<std::string> replaced;      // sessions of this name that a younger one followed
    int64_t measured = 0;
    int64_t heartbeat = 0;
    std::string token, client;           // of its lease; empty: none
    int64_t lease_end = 0, lease_start = 0;
    bool failed_in_lease = false;
    int failures = 0;                    // in a row
    int64_t last_failure = 0, quarantine_end = 0;
    std::string reason;                  // of the last failure
    int64_t last_use = 0;
  };
  using Devices = std::map<std::string, Device>;

  void expire(int64_t now);
  void end_lease(Device& device);
  Device* find_token(const std::string& token);
  Device* pick(const rpc::AcquireRequest& request, int64_t now);
  bool someone_before_wants(const rpc::AcquireRequest* request, const Device& device) const;
  grpc::Status none_left(const rpc::AcquireRequest& request, int64_t now) const;
  rpc::Lease lease_of(const Device& device, int64_t now) const;

  const FleetOptions options_;
  const Clock clock_;
  const int64_t start_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  Devices devices_;
  std::list<const rpc::AcquireRequest*> waiting_;   // in order of their coming
};

}  // namespace tc::tracker
