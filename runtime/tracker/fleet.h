// The tracker's state: which devices there are, who leases which, and which are in quarantine. It does not
// use the network, and tests can supply its clock.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <grpcpp/support/status.h>

#include "runtime/rpc/keyring.h"
#include "runtime/rpc/tc_rpc.pb.h"
#include "runtime/tracker/device.h"
#include "runtime/tracker/queue.h"

namespace tc::tracker {

class AuditLog;

struct FleetOptions {
  int heartbeat_ms = 2000;
  int missed_heartbeats = 3;  // a device that misses this many is gone
  int lease_ms = 10000;
  int64_t longest_lease_ms = 3600000;  // of a lease while others wait for the device
  int failures = 3;                    // this many in a row lead to quarantine
  int quarantine_ms = 60000;
};

// Milliseconds of a monotonic clock.
using Clock = std::function<int64_t()>;
int64_t steady_milliseconds();

// All functions may be called from several threads. The code that calls them has to check the fields
// (runtime/rpc/fields.h), and that an agent which announces a device has that device's certificate. A status
// that is not OK has a sentence for the other side. `caller` identifies the client or agent: it is written to
// the audit log, and a lease belongs to the client of that name, so that nobody else can use its token.
class Fleet {
 public:
  explicit Fleet(FleetOptions options, Clock clock = steady_milliseconds, AuditLog* audit = nullptr);

  // An agent joins, or sends its heartbeat. When an agent is restarted, its device's lease and quarantine
  // end. Returns ALREADY_EXISTS where a younger agent has taken the name.
  grpc::Status announce(const rpc::AnnounceRequest& request, const rpc::Caller& caller = {});

  // Leases a fitting device, waiting for at most wait_ms or until `gave_up` returns true. Clients are served
  // by their priority, then by how little their user has had of the devices lately, then in the order in
  // which they came. Within its first three heartbeats, a fleet also waits for agents that may join again.
  grpc::Status acquire(const rpc::AcquireRequest& request, const std::function<bool()>& gave_up,
                       rpc::Lease* lease, const rpc::Caller& caller = {});
  // The same without waiting: `answer` is called once, either before this returns, or later by serve_waiting,
  // give_up or close in another thread, while no lock is held. The request has to live until then.
  Place acquire_later(const rpc::AcquireRequest& request, const rpc::Caller& caller, Answer answer);
  void give_up(Place place);
  // Waits until something changes, at most 50 ms, and answers the clients whose wait is over.
  void serve_waiting();

  // Renews a lease. Once it is older than the longest lease, it ends if another client waits for the device.
  grpc::Status renew(const std::string& token, rpc::Lease* lease, const rpc::Caller& caller = {});
  grpc::Status release(const std::string& token, const rpc::Caller& caller = {});
  // The remaining time of the lease; 0 where the token is not that of the device's present lease, or another
  // client holds that lease.
  int lease_left_ms(const std::string& device, const std::string& token, const std::string& client = "");
  // Three failures in a row, or one that makes the device unfit, lead to quarantine.
  grpc::Status report_failure(const std::string& token, const std::string& reason,
                              const rpc::Caller& caller = {}, bool unfit = false);
  void list(rpc::DevicesReply* reply);

  // Ends every wait, with UNAVAILABLE.
  void close();

 private:
  using Devices = std::map<std::string, Device>;
  struct Answered {
    Answer answer;
    grpc::Status status;
    rpc::Lease lease;
  };

  // Serves the clients for whom a device is free, removes those whose wait is over from the queue, and
  // returns the answers of both.
  std::vector<Answered> take_answered();
  static void tell(const std::vector<Answered>& answered);
  Answered answer(Place place, const grpc::Status& status);
  // Ends the leases, quarantines and devices whose time is over.
  void expire(int64_t now);
  // To be called after each change of the device: its next deadline, and whether it is free.
  void update(Device& device, int64_t now);
  void remove(Devices::iterator entry);
  // The time at which the lease has to end if another client waits.
  int64_t longest_end(const Device& device) const { return device.lease_start + options_.longest_lease_ms; }
  void end_lease(Device& device, const char* event, int64_t now);
  void note(const char* event, const Device& device, const std::string& peer = "",
            const std::string& detail = "");
  grpc::Status may_wait(const std::string& user) const;
  void lend(Device& device, const Waiting& waiting, int64_t now);
  // The device that the caller has leased under the token; null where there is none, with the reason in
  // `*problem`.
  Device* find_held(const std::string& token, const rpc::Caller& caller, grpc::Status* problem);
  grpc::Status none_left(const rpc::AcquireRequest& request, int64_t now) const;
  rpc::Lease lease_of(const Device& device, int64_t now) const;

  const FleetOptions options_;
  const Clock clock_;
  const int64_t start_;
  AuditLog* const audit_;
  std::mutex mutex_;
  std::condition_variable changed_;  // a client may be served, or its wait be over
  bool closed_ = false;
  bool may_serve_ = false;  // a device has come free, or a client has come, since clients were last served
  Devices devices_;
  std::map<std::string, Device*> by_token_;  // those that are leased
  std::set<std::pair<int64_t, Device*>> deadlines_;
  Queue queue_;
  Shares shares_;
  Place last_place_ = 0;
  rpc::FleetCounters counters_;
};

}  // namespace tc::tracker
