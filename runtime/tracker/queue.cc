#include "runtime/tracker/queue.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "runtime/tracker/device.h"

namespace tc::tracker {
namespace {

constexpr double kHalfLife = 600e3;  // milliseconds after which use counts half
constexpr size_t kMostUsers = 4096, kMostDemands = 256;
constexpr double kForgotten = 1e-3;  // device seconds that count as none

std::string text_of(const rpc::AcquireRequest& request) {
  std::string text = request.architecture() + "\n" + request.runner() + "\n" + request.device_key();
  for (const std::string& feature : request.features()) text += "\n" + feature;
  return text;
}

// The smaller, the sooner the client is served.
using Claim = std::tuple<int, double, Place>;
Claim claim_of(const Waiting& waiting, const Shares& shares, int64_t now) {
  return {-waiting.request->priority(), shares.used(waiting.user, now), waiting.place};
}

}  // namespace

std::string misfit(const rpc::AcquireRequest& request, const rpc::DeviceInfo& device) {
  if (device.architecture() != request.architecture()) return "another architecture";
  std::string lacks;
  for (const std::string& feature : request.features()) {
    const auto& has = device.features();
    if (std::find(has.begin(), has.end(), feature) == has.end()) lacks += " " + feature;
  }
  if (!lacks.empty()) return "lacks" + lacks;
  if (!request.runner().empty() && device.runner() != request.runner()) return "another runner";
  if (!request.device_key().empty() && device.key() != request.device_key()) return "another kind of device";
  return "";
}

double Shares::at(const Use& use, int64_t now) {
  // The integral of the leases under way, each second of which counts less the older it is.
  const double passed = static_cast<double>(now - use.at), rest = std::exp2(-passed / kHalfLife);
  const double under_way = use.leases * (1 - rest) * kHalfLife / std::log(2.0) / 1000;
  return use.seconds * rest + under_way;
}

double Shares::used(const std::string& user, int64_t now) const {
  const auto found = uses_.find(user);
  return found == uses_.end() ? 0 : at(found->second, now);
}

void Shares::begin_lease(const std::string& user, int64_t now) {
  if (uses_.size() >= kMostUsers) forget_idle(now);
  Use& use = uses_[user];
  use = {at(use, now), now, use.leases + 1};
}

void Shares::end_lease(const std::string& user, int64_t now) {
  const auto found = uses_.find(user);
  if (found == uses_.end()) return;
  found->second = {at(found->second, now), now, std::max(found->second.leases - 1, 0)};
}

void Shares::forget_idle(int64_t now) {
  std::erase_if(uses_,
                [&](const auto& use) { return use.second.leases == 0 && at(use.second, now) < kForgotten; });
  // Names are cheap where there are no certificates: then those without a lease are forgotten.
  if (uses_.size() >= kMostUsers)
    std::erase_if(uses_, [](const auto& use) { return use.second.leases == 0; });
}

size_t Queue::count_of(const std::string& user) const {
  const auto found = users_.find(user);
  return found == users_.end() ? 0 : found->second;
}

Waiting& Queue::add(Waiting waiting, const std::vector<Device*>& devices) {
  const std::string text = text_of(*waiting.request);
  auto found = demands_.find(text);
  if (found == demands_.end()) {
    if (demands_.size() >= kMostDemands)
      std::erase_if(demands_, [](const auto& demand) { return demand.second.waiting.empty(); });
    found = demands_.emplace(text, Demand()).first;
    found->second.need = *waiting.request;
    for (Device* device : devices) {
      if (!misfit(found->second.need, device->info).empty()) continue;
      found->second.fitting.insert(device);
      if (device->is_free) found->second.free.insert(device);
    }
  }
  Demand& demand = found->second;
  waiting.demand = &demand;
  places_[waiting.place] = &demand;
  ends_.emplace(waiting.end, waiting.place);
  ++users_[waiting.user];
  return demand.waiting.emplace(waiting.place, std::move(waiting)).first->second;
}

Waiting Queue::take(Place place) {
  const auto found = places_.find(place);
  auto& clients = found->second->waiting;
  Waiting taken = std::move(clients.at(place));
  clients.erase(place);
  places_.erase(found);
  ends_.erase({taken.end, place});
  if (const auto user = users_.find(taken.user); --user->second == 0) users_.erase(user);
  return taken;
}

std::vector<Place> Queue::over(int64_t now) const {
  std::vector<Place> places;
  for (const auto& [end, place] : ends_) {
    if (end > now) break;
    places.push_back(place);
  }
  return places;
}

std::vector<Place> Queue::all() const {
  std::vector<Place> places;
  for (const auto& [place, demand] : places_) places.push_back(place);
  return places;
}

std::vector<Place> Queue::hopeless() const {
  std::vector<Place> places;
  for (const auto& [text, demand] : demands_) {
    if (!demand.fitting.empty()) continue;
    for (const auto& [place, waiting] : demand.waiting) places.push_back(place);
  }
  return places;
}

void Queue::fit(Device& device) {
  for (auto& [text, demand] : demands_) {
    demand.free.erase(&device);
    if (misfit(demand.need, device.info).empty()) {
      demand.fitting.insert(&device);
      if (device.is_free) demand.free.insert(&device);
    } else {
      demand.fitting.erase(&device);
    }
  }
}

void Queue::remove(Device& device) {
  for (auto& [text, demand] : demands_) {
    demand.fitting.erase(&device);
    demand.free.erase(&device);
  }
}

void Queue::set_free(Device& device, bool is_free) {
  for (auto& [text, demand] : demands_) {
    if (!is_free) demand.free.erase(&device);
    else if (demand.fitting.count(&device) > 0) demand.free.insert(&device);
  }
}

Waiting* Queue::next(const Shares& shares, int64_t now) {
  Waiting* first = nullptr;
  Claim best;
  for (auto& [text, demand] : demands_) {
    if (demand.free.empty()) continue;
    for (auto& [place, waiting] : demand.waiting) {
      const Claim claim = claim_of(waiting, shares, now);
      if (first != nullptr && !(claim < best)) continue;
      first = &waiting;
      best = claim;
    }
  }
  return first;
}

const Waiting* Queue::waits_for(const Device& device, const std::string& holder) const {
  for (const Demand* demand : demands_of(device))
    for (const auto& [place, waiting] : demand->waiting)
      if (waiting.caller.name.empty() || waiting.caller.name != holder) return &waiting;
  return nullptr;
}

std::vector<const Demand*> Queue::demands_of(const Device& device) const {
  std::vector<const Demand*> result;
  for (const auto& [text, demand] : demands_)
    if (demand.fitting.count(const_cast<Device*>(&device)) > 0) result.push_back(&demand);
  return result;
}

std::vector<const Waiting*> Queue::first_of(const std::vector<const Demand*>& demands, const Shares& shares,
                                            int64_t now, size_t most, size_t* count) {
  std::vector<std::pair<Claim, const Waiting*>> found;
  for (const Demand* demand : demands)
    for (const auto& [place, waiting] : demand->waiting)
      found.emplace_back(claim_of(waiting, shares, now), &waiting);
  *count = found.size();
  const size_t kept = std::min(most, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept), found.end());
  std::vector<const Waiting*> result;
  for (size_t i = 0; i < kept; ++i) result.push_back(found[i].second);
  return result;
}

}  // namespace tc::tracker
