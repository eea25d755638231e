// A device as the tracker knows it.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::tracker {

// Times are in milliseconds of the fleet's clock.
struct Device {
  rpc::DeviceInfo info;
  rpc::Condition condition;
  std::string session;
  std::set<std::string> replaced;  // earlier sessions of this name
  int64_t measured = 0;
  int64_t heartbeat = 0;
  int64_t certificate_ends = 0;
  std::string token;           // of its present lease; empty: none
  std::string overdue_token;   // of the last lease that ended because it was too old
  std::string holder, client;  // name in the holder's certificate; the client for people
  std::string user;            // whose share the lease counts for
  int64_t lease_end = 0, lease_start = 0;
  bool failed_in_lease = false;
  int failures = 0;  // in a row
  int64_t last_failure = 0, quarantine_end = 0;
  int times_unfit = 0;  // since its last lease without a failure
  std::string reason;   // of the last failure
  int64_t last_use = 0;
  bool is_free = false;   // neither leased nor in quarantine
  int64_t deadline = -1;  // when something about it ends next; negative: it is in no list of deadlines
};

}  // namespace tc::tracker
