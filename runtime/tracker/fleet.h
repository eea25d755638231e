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
#include <vector>

#include <grpcpp/support/status.h>

#include "runtime/rpc/keyring.h"
#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::tracker {

class AuditLog;

struct FleetOptions {
  int heartbeat_ms = 2000;
  int missed_heartbeats = 3;  // then a device is gone
  int lease_ms = 10000;
  int64_t longest_lease_ms = 3600000;  // of a lease that others wait for
  int failures = 3;                    // in a row: quarantine
  int quarantine_ms = 60000;
};

// Milliseconds of a clock that only goes forward.
using Clock = std::function<int64_t()>;
int64_t steady_milliseconds();

// All functions may be called from several threads. Fields were checked by the caller
// (runtime/rpc/fields.h), and that whoever announces a device has its certificate. A status that is
// not OK has a sentence for the other side. `caller` is who calls, for the audit log; a lease belongs
// to the client of that name, and nobody else can do anything with its token.
class Fleet {
 public:
  explicit Fleet(FleetOptions options, Clock clock = steady_milliseconds, AuditLog* audit = nullptr);

  // Joins, or beats. An agent that starts anew ends its device's lease and quarantine. ALREADY_EXISTS where a
  // younger agent has taken the name.
  grpc::Status announce(const rpc::AnnounceRequest& request, const rpc::Caller& caller = {});

  // Leases a fitting device, waiting for at most wait_ms or until `gave_up` says true; those who
  // came first get first. A fleet younger than three heartbeats waits for agents to join again.
  grpc::Status acquire(const rpc::AcquireRequest& request, const std::function<bool()>& gave_up,
                       rpc::Lease* lease, const rpc::Caller& caller = {});
  // The same without waiting: `answer` is called once, before this returns or by serve_waiting, give_up or
  // close of another thread; no lock is held meanwhile. The request lives until then.
  using Answer = std::function<void(const grpc::Status&, const rpc::Lease&)>;
  using Place = uint64_t;
  Place acquire_later(const rpc::AcquireRequest& request, const rpc::Caller& caller, Answer answer);
  void give_up(Place place);
  // Waits until something changes, at most 50 ms, and answers those whose wait is over.
  void serve_waiting();

  // Renews a lease for as long as its device is free of others: past the longest lease it ends where another
  // client waits for the device.
  grpc::Status renew(const std::string& token, rpc::Lease* lease, const rpc::Caller& caller = {});
  grpc::Status release(const std::string& token, const rpc::Caller& caller = {});
  // Time left of the lease, 0 where the token is not that of the device's present lease, or is held
  // by another client.
  int lease_left_ms(const std::string& device, const std::string& token, const std::string& client = "");
  grpc::Status report_failure(const std::string& token, const std::string& reason,
                              const rpc::Caller& caller = {});
  void list(rpc::DevicesReply* reply);

  // Ends every wait, with UNAVAILABLE.
  void close();

 private:
  struct Device {
    rpc::DeviceInfo info;
    std::string session;
    std::set<std::string> replaced;  // sessions of this name that a younger one followed
    int64_t measured = 0;
    int64_t heartbeat = 0;
    int64_t certificate_ends = 0;
    std::string token;           // of its lease; empty: none
    std::string overdue_token;   // of the last lease that ended for being the longest
    std::string holder, client;  // name in the holder's certificate; who it is, for people
    int64_t lease_end = 0, lease_start = 0;
    bool failed_in_lease = false;
    int failures = 0;  // in a row
    int64_t last_failure = 0, quarantine_end = 0;
    std::string reason;  // of the last failure
    int64_t last_use = 0;
  };
  using Devices = std::map<std::string, Device>;
  struct Waiting {
    Place place;
    const rpc::AcquireRequest* request;
    rpc::Caller caller;
    int64_t since, end;
    Answer answer;
  };
  struct Answered {
    Answer answer;
    grpc::Status status;
    rpc::Lease lease;
  };

  // What became of those whose wait is over; they wait no more.
  std::vector<Answered> take_answered();
  static void tell(const std::vector<Answered>& answered);
  void expire(int64_t now);
  // Another client than the holder that waits for the device; null for none.
  const Waiting* waits_for(const Device& device) const;
  // When the lease has to end where another client waits.
  int64_t longest_end(const Device& device) const { return device.lease_start + options_.longest_lease_ms; }
  void end_lease(Device& device, const char* event);
  void note(const char* event, const Device& device, const std::string& peer = "",
            const std::string& detail = "");
  grpc::Status may_wait(const rpc::Caller& caller) const;
  void lend(Device& device, const rpc::AcquireRequest& request, const rpc::Caller& caller, int64_t now);
  // The device that the caller holds under the token; null, with `*problem` saying why, where there is none.
  Device* find_held(const std::string& token, const rpc::Caller& caller, grpc::Status* problem);
  Device* pick(const rpc::AcquireRequest& request, int64_t now);
  bool someone_before_wants(const rpc::AcquireRequest* request, const Device& device) const;
  grpc::Status none_left(const rpc::AcquireRequest& request, int64_t now) const;
  rpc::Lease lease_of(const Device& device, int64_t now) const;

  const FleetOptions options_;
  const Clock clock_;
  const int64_t start_;
  AuditLog* const audit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  Devices devices_;
  std::list<Waiting> waiting_;  // in order of their coming
  Place last_place_ = 0;
};

}  // namespace tc::tracker
