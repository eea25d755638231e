// The clients that wait for devices, by what they need, and who of them is served first.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <grpcpp/support/status.h>

#include "runtime/rpc/keyring.h"
#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::tracker {

struct Device;

// Why the device does not fit the request; empty where it does.
std::string misfit(const rpc::AcquireRequest& request, const rpc::DeviceInfo& device);

// How much each user has had of the devices lately. Seconds of a lease count from its begin, and count half
// after ten minutes, so that who has used little is served before who has used much.
class Shares {
 public:
  void begin_lease(const std::string& user, int64_t now);
  void end_lease(const std::string& user, int64_t now);
  // Device seconds of the user, older ones at less than they were.
  double used(const std::string& user, int64_t now) const;

 private:
  struct Use {
    double seconds = 0;  // at the time `at`
    int64_t at = 0;
    int leases = 0;  // under way
  };
  static double at(const Use& use, int64_t now);
  void forget_idle(int64_t now);

  std::map<std::string, Use> uses_;
};

using Answer = std::function<void(const grpc::Status&, const rpc::Lease&)>;
using Place = uint64_t;

struct Demand;

struct Waiting {
  Place place = 0;  // the order in which clients came
  const rpc::AcquireRequest* request = nullptr;
  rpc::Caller caller;
  std::string user;  // whose share counts: the certificate's name, or what the client calls itself
  int64_t since = 0, end = 0;
  Answer answer;
  Demand* demand = nullptr;
};

// Equal needs of clients, with the devices that fit. Kept after its last client for the next one.
struct Demand {
  rpc::AcquireRequest need;
  std::map<Place, Waiting> waiting;
  std::set<Device*> fitting, free;  // `free` are those of the fitting ones that nobody has
};

class Queue {
 public:
  size_t size() const { return places_.size(); }
  size_t count_of(const std::string& user) const;

  // Adds a client. Where its need is new, `devices` are asked which of them fit.
  Waiting& add(Waiting waiting, const std::vector<Device*>& devices);
  // Removes the client and returns it.
  Waiting take(Place place);
  bool has(Place place) const { return places_.count(place) > 0; }
  const rpc::AcquireRequest& request(Place place) const {
    return *places_.at(place)->waiting.at(place).request;
  }
  // The places whose wait is over by then.
  std::vector<Place> over(int64_t now) const;
  std::vector<Place> all() const;
  // The places of clients for which there is no device at all.
  std::vector<Place> hopeless() const;

  // To be called when a device joins, when what it is changes, and before it goes.
  void fit(Device& device);
  void remove(Device& device);
  // To be called when a device comes free or is taken.
  void set_free(Device& device, bool is_free);

  // The client to be served next: of those for whom a fitting device is free, the one of highest priority,
  // of these the one whose user has had least, of these the one that came first; null for none.
  Waiting* next(const Shares& shares, int64_t now);
  // A client other than the holder of that name that could use the device; null for none.
  const Waiting* waits_for(const Device& device, const std::string& holder) const;
  // The needs that the device fits.
  std::vector<const Demand*> demands_of(const Device& device) const;
  // The clients with these needs, the first to be served first; at most `most`. `count` is how many there
  // are.
  static std::vector<const Waiting*> first_of(const std::vector<const Demand*>& demands, const Shares& shares,
                                              int64_t now, size_t most, size_t* count);

 private:
  // By text of the need.
  std::map<std::string, Demand> demands_;
  std::map<Place, Demand*> places_;
  std::set<std::pair<int64_t, Place>> ends_;
  std::map<std::string, size_t> users_;
};

}  // namespace tc::tracker
