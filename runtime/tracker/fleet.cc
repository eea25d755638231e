#include "runtime/tracker/fleet.h"

#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <stdexcept>
#include <tuple>

#include "runtime/rpc/fields.h"
#include "runtime/rpc/sha256.h"
#include "runtime/tracker/audit.h"

namespace tc::tracker {
namespace {

using grpc::Status;
using grpc::StatusCode;

constexpr size_t kMaxDevices = 4096;
constexpr size_t kMaxWaiting = 1024, kMaxWaitingOfOne = 128;
constexpr size_t kListedWaiting = 4;  // clients that are listed of those that could use a device
constexpr size_t kMaxReplaced = 16;
constexpr size_t kListedInTexts = 20;
constexpr int kMostDoublings = 6;  // of the time in quarantine
// After this many quarantine periods, an old failure is not counted any more.
constexpr int kForgetFailure = 5;

std::string random_token() {
  unsigned char bytes[32];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    throw std::runtime_error("the system gives no random numbers");
  std::string token;
  for (const unsigned char byte : bytes) {
    token += "0123456789abcdef"[byte >> 4];
    token += "0123456789abcdef"[byte & 15];
  }
  return token;
}

std::string seconds_text(int64_t milliseconds) {
  return std::to_string((std::max<int64_t>(milliseconds, 0) + 999) / 1000) + " s";
}

Status refuse(StatusCode code, const std::string& text) { return Status(code, text); }

Status unknown_lease() {
  return refuse(StatusCode::NOT_FOUND,
                "this lease has ended: it was not renewed in time, its device failed or went away, "
                "or the tracker was started anew; acquire a device again");
}

// The client, for people to read: the name in its certificate and what it calls itself.
std::string client_text(const rpc::Caller& caller, const rpc::AcquireRequest& request) {
  return caller.name.empty() || request.client().empty() ? caller.name + request.client()
                                                         : caller.name + " (" + request.client() + ")";
}

// Whether an agent describes its device otherwise than before.
bool differ(const rpc::DeviceInfo& a, const rpc::DeviceInfo& b) {
  return a.SerializeAsString() != b.SerializeAsString();
}

// The name of a lease in the audit log, which does not give away its token.
std::string lease_name(const std::string& token) { return rpc::sha256_of(token).substr(0, 12); }

}  // namespace

int64_t steady_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Fleet::Fleet(FleetOptions options, Clock clock, AuditLog* audit)
    : options_(options), clock_(std::move(clock)), start_(clock_()), audit_(audit) {}

void Fleet::note(const char* event, const Device& device, const std::string& peer,
                 const std::string& detail) {
  if (audit_ == nullptr) return;
  audit_->write(event, {{"device", device.info.name()},
                        {"lease", device.token.empty() ? "" : lease_name(device.token)},
                        {"holder", device.holder},
                        {"client", device.client},
                        {"address", device.info.address()},
                        {"peer", peer},
                        {"detail", detail}});
}

Status Fleet::announce(const rpc::AnnounceRequest& request, const rpc::Caller& caller) {
  const std::lock_guard lock(mutex_);
  const int64_t now = clock_();
  expire(now);
  const std::string& name = request.device().name();
  auto found = devices_.find(name);
  if (request.leaving()) {
    if (found != devices_.end() && found->second.session == request.session()) {
      note("left", found->second, caller.peer);
      remove(found);
      changed_.notify_all();
    }
    return Status::OK;
  }
  if (found == devices_.end()) {
    if (devices_.size() >= kMaxDevices)
      return refuse(StatusCode::RESOURCE_EXHAUSTED,
                    "the tracker has " + std::to_string(kMaxDevices) +
                        " devices, which is all it takes; start a second tracker");
    found = devices_.emplace(name, Device()).first;
  }
  Device& device = found->second;
  const bool joins = device.session != request.session();
  if (device.session.empty()) device.session = request.session();
  if (device.session != request.session()) {
    if (device.replaced.count(request.session()))
      return refuse(StatusCode::ALREADY_EXISTS, "the name '" + name + "' is now that of another agent, at " +
                                                    device.info.address() +
                                                    "; give this one a certificate of its own (`python -m tc "
                                                    "certs add`), or with --insecure another --name");
    if (device.replaced.size() >= kMaxReplaced) device.replaced.clear();
    device.replaced.insert(device.session);
    device.session = request.session();
    // Whoever restarted the agent has probably looked after it, so its quarantine ends; but the next failure
    // starts another one.
    device.quarantine_end = 0;
    end_lease(device, "lease ended by a new agent", now);
  }
  const bool moved = device.info.address() != request.device().address();
  if (differ(device.info, request.device())) {
    device.info = request.device();
    queue_.fit(device);
    may_serve_ = true;
    changed_.notify_all();
  }
  device.condition = request.condition();
  device.certificate_ends = caller.certificate_ends;
  if (joins || moved) note("announced", device, caller.peer, device.info.key());
  if (const int64_t more = request.measured() - (joins ? 0 : device.measured); more > 0)
    note("measured", device, "", std::to_string(more) + " candidates");
  counters_.set_announcements(counters_.announcements() + 1);
  counters_.set_measured(counters_.measured() +
                         std::max<int64_t>(request.measured() - (joins ? 0 : device.measured), 0));
  device.measured = request.measured();
  device.heartbeat = now;
  update(device, now);
  return Status::OK;
}

Status Fleet::may_wait(const std::string& user) const {
  if (queue_.size() >= kMaxWaiting)
    return refuse(StatusCode::RESOURCE_EXHAUSTED, "more than " + std::to_string(kMaxWaiting) +
                                                      " clients wait for devices already; try again later");
  if (queue_.count_of(user) >= kMaxWaitingOfOne)
    return refuse(StatusCode::RESOURCE_EXHAUSTED,
                  "the client '" + rpc::printable(user, 64) + "' waits for devices " +
                      std::to_string(kMaxWaitingOfOne) + " times already; try again later");
  return Status::OK;
}

void Fleet::lend(Device& device, const Waiting& waiting, int64_t now) {
  device.token = random_token();
  device.holder = waiting.caller.name;
  device.client = client_text(waiting.caller, *waiting.request);
  device.user = waiting.user;
  device.lease_start = device.last_use = now;
  device.lease_end = now + options_.lease_ms;
  device.failed_in_lease = false;
  by_token_[device.token] = &device;
  shares_.begin_lease(device.user, now);
  counters_.set_leases(counters_.leases() + 1);
  counters_.set_waited_seconds(counters_.waited_seconds() + static_cast<double>(now - waiting.since) / 1000);
  update(device, now);
  note("leased", device, waiting.caller.peer, waiting.request->target());
}

Place Fleet::acquire_later(const rpc::AcquireRequest& request, const rpc::Caller& caller, Answer answer) {
  Place place = 0;
  std::vector<Answered> answered;
  {
    const std::lock_guard lock(mutex_);
    const std::string user = caller.name.empty() ? request.client() : caller.name;
    if (Status status = may_wait(user); !status.ok()) {
      answered.push_back({std::move(answer), status, {}});
    } else {
      const int64_t now = clock_();
      place = ++last_place_;
      std::vector<Device*> devices;
      for (auto& [name, device] : devices_) devices.push_back(&device);
      queue_.add({place, &request, caller, user, now, now + request.wait_ms(), std::move(answer)}, devices);
      may_serve_ = true;
      answered = take_answered();
    }
  }
  tell(answered);
  return place;
}

Fleet::Answered Fleet::answer(Place place, const Status& status) {
  counters_.set_without_device(counters_.without_device() + 1);
  return {std::move(queue_.take(place).answer), status, {}};
}

void Fleet::give_up(Place place) {
  std::vector<Answered> answered;
  {
    const std::lock_guard lock(mutex_);
    if (!queue_.has(place)) return;
    answered.push_back(answer(place, refuse(StatusCode::CANCELLED, "the client gave up")));
  }
  tell(answered);
}

void Fleet::serve_waiting() {
  std::vector<Answered> answered;
  {
    std::unique_lock lock(mutex_);
    // With a time limit, so that leases that have run out and waits that are over are noticed.
    if (!may_serve_) changed_.wait_for(lock, std::chrono::milliseconds(50));
    answered = take_answered();
  }
  tell(answered);
}

std::vector<Fleet::Answered> Fleet::take_answered() {
  const int64_t now = clock_();
  const int64_t settled = start_ + options_.missed_heartbeats * options_.heartbeat_ms;
  expire(now);
  std::vector<Answered> answered;
  if (closed_) {
    for (const Place place : queue_.all())
      answered.push_back(answer(place, refuse(StatusCode::UNAVAILABLE, "the tracker is being stopped")));
    return answered;
  }
  while (may_serve_) {
    const Waiting* next = queue_.next(shares_, now);
    if (next == nullptr) break;
    // The free device with the fewest failures; of several, the one that has been unused longest.
    const auto& free = next->demand->free;
    Device& device = **std::min_element(free.begin(), free.end(), [](const Device* a, const Device* b) {
      return std::tuple(a->failures, a->last_use, a->info.name()) <
             std::tuple(b->failures, b->last_use, b->info.name());
    });
    Waiting served = queue_.take(next->place);
    lend(device, served, now);
    answered.push_back({std::move(served.answer), Status::OK, lease_of(device, now)});
  }
  may_serve_ = false;
  std::vector<Place> over = queue_.over(now);
  if (now >= settled) {
    const std::vector<Place> hopeless = queue_.hopeless();
    over.insert(over.end(), hopeless.begin(), hopeless.end());
  }
  for (const Place place : over)
    if (queue_.has(place)) answered.push_back(answer(place, none_left(queue_.request(place), now)));
  if (!answered.empty()) changed_.notify_all();
  return answered;
}

void Fleet::tell(const std::vector<Answered>& answered) {
  for (const Answered& one : answered) one.answer(one.status, one.lease);
}

Status Fleet::acquire(const rpc::AcquireRequest& request, const std::function<bool()>& gave_up,
                      rpc::Lease* lease, const rpc::Caller& caller) {
  const auto result = std::make_shared<std::promise<Status>>();
  std::future<Status> status = result->get_future();
  const Place place =
      acquire_later(request, caller, [lease, result](const Status& found, const rpc::Lease& lent) {
        *lease = lent;
        result->set_value(found);
      });
  while (status.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (gave_up()) give_up(place);
    else serve_waiting();
  }
  return status.get();
}

Status Fleet::renew(const std::string& token, rpc::Lease* lease, const rpc::Caller& caller) {
  const std::lock_guard lock(mutex_);
  const int64_t now = clock_();
  expire(now);
  Status problem;
  Device* device = find_held(token, caller, &problem);
  if (!device) return problem;
  device->lease_end = now + options_.lease_ms;
  if (queue_.waits_for(*device, device->holder)) {
    device->lease_end = std::min(device->lease_end, longest_end(*device));
  }
  update(*device, now);
  if (now >= device->lease_end) {
    expire(now);
    if (device->token != token) return find_held(token, caller, &problem), problem;
  }
  *lease = lease_of(*device, now);
  return Status::OK;
}

Status Fleet::release(const std::string& token, const rpc::Caller& caller) {
  const std::lock_guard lock(mutex_);
  const int64_t now = clock_();
  expire(now);
  Status problem;
  if (Device* device = find_held(token, caller, &problem)) {
    if (!device->failed_in_lease) device->failures = device->times_unfit = 0;
    end_lease(*device, "released", now);
  }
  // A lease that has ended already is what its holder wants.
  return problem.error_code() == StatusCode::NOT_FOUND ? Status::OK : problem;
}

int Fleet::lease_left_ms(const std::string& name, const std::string& token, const std::string& client) {
  const std::lock_guard lock(mutex_);
  const int64_t now = clock_();
  expire(now);
  const auto found = devices_.find(name);
  if (token.empty() || found == devices_.end() || found->second.token != token ||
      found->second.holder != client)
    return 0;
  return static_cast<int>(found->second.lease_end - now);
}

Status Fleet::report_failure(const std::string& token, const std::string& reason, const rpc::Caller& caller,
                             bool unfit) {
  const std::lock_guard lock(mutex_);
  const int64_t now = clock_();
  expire(now);
  Status problem;
  Device* device = find_held(token, caller, &problem);
  if (!device) return problem;
  if (now - device->last_failure > int64_t{kForgetFailure} * options_.quarantine_ms) device->failures = 0;
  device->failed_in_lease = true;
  device->last_failure = now;
  device->reason = rpc::printable(reason, 200);
  counters_.set_failures(counters_.failures() + 1);
  note("failure reported", *device, caller.peer, reason);
  if (++device->failures >= options_.failures || unfit) {
    const int doublings = unfit ? std::min(device->times_unfit++, kMostDoublings) : 0;
    device->quarantine_end = now + (int64_t{options_.quarantine_ms} << doublings);
    // After the quarantine, a single failure leads to the next one.
    device->failures = options_.failures - 1;
    end_lease(*device, "quarantined", now);
  }
  return Status::OK;
}

void Fleet::list(rpc::DevicesReply* reply) {
  const std::lock_guard lock(mutex_);
  const int64_t now = clock_();
  expire(now);
  *reply->mutable_counters() = counters_;
  reply->mutable_counters()->set_waiting(static_cast<int64_t>(queue_.size()));
  reply->mutable_counters()->set_seconds(static_cast<double>(now - start_) / 1000);
  // Devices that fit the same needs have the same clients waiting.
  std::map<std::vector<const Demand*>, std::pair<std::vector<const Waiting*>, size_t>> waiting;
  for (const auto& [name, device] : devices_) {
    rpc::DeviceState* state = reply->add_devices();
    *state->mutable_device() = device.info;
    state->set_state(!device.token.empty() ? "leased" : device.quarantine_end > now ? "quarantined" : "free");
    state->set_client(device.client);
    if (!device.token.empty()) {
      state->set_lease_seconds(static_cast<double>(now - device.lease_start) / 1000);
      state->set_longest_lease_seconds(static_cast<double>(options_.longest_lease_ms) / 1000);
    }
    const std::vector<const Demand*> demands = queue_.demands_of(device);
    const auto [found, is_new] = waiting.try_emplace(demands);
    auto& [first, count] = found->second;
    if (is_new) first = Queue::first_of(demands, shares_, now, kListedWaiting, &count);
    state->set_waiting_count(static_cast<int>(count));
    for (const Waiting* one : first) {
      rpc::WaitingClient* client = state->add_waiting();
      client->set_client(client_text(one->caller, *one->request));
      client->set_seconds(static_cast<double>(now - one->since) / 1000);
      client->set_seconds_left(static_cast<double>(std::max<int64_t>(one->end - now, 0)) / 1000);
      client->set_priority(one->request->priority());
    }
    *state->mutable_condition() = device.condition;
    state->set_measured(device.measured);
    state->set_certificate_ends(device.certificate_ends);
    state->set_seconds_since_heartbeat(static_cast<double>(now - device.heartbeat) / 1000);
  }
}

void Fleet::close() {
  std::vector<Answered> answered;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    answered = take_answered();
  }
  tell(answered);
}

void Fleet::update(Device& device, int64_t now) {
  const bool is_free = device.token.empty() && device.quarantine_end <= now;
  if (is_free != device.is_free) {
    device.is_free = is_free;
    queue_.set_free(device, is_free);
    if (is_free) {
      may_serve_ = true;
      changed_.notify_all();
    }
  }
  // One more than the silence, after which it is gone.
  int64_t next = device.heartbeat + int64_t{options_.heartbeat_ms} * options_.missed_heartbeats + 1;
  if (!device.token.empty()) next = std::min(next, device.lease_end);
  if (device.quarantine_end > now) next = std::min(next, device.quarantine_end);
  if (next == device.deadline) return;
  deadlines_.erase({device.deadline, &device});
  device.deadline = next;
  deadlines_.emplace(next, &device);
}

void Fleet::remove(Devices::iterator entry) {
  Device& device = entry->second;
  if (!device.token.empty()) shares_.end_lease(device.user, clock_());
  by_token_.erase(device.token);
  deadlines_.erase({device.deadline, &device});
  queue_.remove(device);
  devices_.erase(entry);
}

void Fleet::expire(int64_t now) {
  const int64_t silence = int64_t{options_.heartbeat_ms} * options_.missed_heartbeats;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Device& device = *deadlines_.begin()->second;
    if (now - device.heartbeat > silence) {
      note("went silent", device);
      remove(devices_.find(device.info.name()));
      continue;
    }
    if (!device.token.empty() && now >= device.lease_end) {
      const bool overdue = now >= longest_end(device) && queue_.waits_for(device, device.holder);
      if (overdue) device.overdue_token = device.token;
      end_lease(device, overdue ? "longest lease over" : "lease ran out", now);
    }
    update(device, now);
  }
}

void Fleet::end_lease(Device& device, const char* event, int64_t now) {
  if (!device.token.empty()) {
    note(event, device);
    shares_.end_lease(device.user, now);
    by_token_.erase(device.token);
  }
  device.token.clear();
  device.holder.clear();
  device.client.clear();
  device.user.clear();
  update(device, now);
}

Device* Fleet::find_held(const std::string& token, const rpc::Caller& caller, Status* problem) {
  *problem = unknown_lease();
  if (token.empty()) return nullptr;
  if (const auto found = by_token_.find(token); found != by_token_.end()) {
    Device& device = *found->second;
    *problem = device.holder == caller.name
                   ? Status::OK
                   : refuse(StatusCode::PERMISSION_DENIED,
                            "this lease is that of the client '" + device.holder + "', and the caller is '" +
                                caller.name + "'; acquire a device of your own");
    return problem->ok() ? &device : nullptr;
  }
  for (auto& [name, device] : devices_) {
    if (device.overdue_token != token) continue;
    *problem = refuse(StatusCode::NOT_FOUND, "this lease of the device '" + name +
                                                 "' has ended: another client waited for it, and the longest "
                                                 "lease is " +
                                                 seconds_text(options_.longest_lease_ms) +
                                                 " then; acquire a device again");
  }
  return nullptr;
}

Status Fleet::none_left(const rpc::AcquireRequest& request, int64_t now) const {
  std::string taken, others;
  size_t count = 0, listed = 0;
  for (const auto& [name, device] : devices_) {
    const std::string problem = misfit(request, device.info);
    if (problem.empty()) ++count;
    if (++listed > kListedInTexts) continue;
    if (!problem.empty()) {
      others += (others.empty() ? "" : ", ") + name + " (" + device.info.architecture() + ", " +
                device.info.runner() + ": " + problem + ")";
    } else if (device.quarantine_end > now) {
      taken += (taken.empty() ? "" : ", ") + name + " is in quarantine for " +
               seconds_text(device.quarantine_end - now) + " (" + device.reason + ")";
    } else {
      taken += (taken.empty() ? "" : ", ") + name + " is leased by " +
               rpc::printable(device.client.empty() ? "someone" : device.client, 100) + " since " +
               seconds_text(now - device.lease_start) + ", of at most " +
               seconds_text(options_.longest_lease_ms);
    }
  }
  if (listed > kListedInTexts)
    (count ? taken : others) += " and " + std::to_string(listed - kListedInTexts) + " more";
  if (count)
    return refuse(StatusCode::RESOURCE_EXHAUSTED, "every device that runs " + request.target() +
                                                      " is taken: " + taken +
                                                      "; wait longer, or start another agent");
  std::string wanted = request.architecture();
  for (const std::string& feature : request.features()) wanted += " " + feature;
  if (!request.runner().empty()) wanted += ", runner " + request.runner();
  if (!request.device_key().empty()) wanted += ", device " + request.device_key();
  return refuse(StatusCode::NOT_FOUND,
                "no device runs " + request.target() + " (" + rpc::printable(wanted, 400) + "); " +
                    (others.empty() ? "no agent has joined this tracker: start one with `python -m "
                                      "tc agent`"
                                    : "those there are: " + others));
}

rpc::Lease Fleet::lease_of(const Device& device, int64_t now) const {
  rpc::Lease lease;
  lease.set_token(device.token);
  *lease.mutable_device() = device.info;
  lease.set_ttl_ms(static_cast<int>(device.lease_end - now));
  return lease;
}

}  // namespace tc::tracker
