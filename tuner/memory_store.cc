// Records in this process's memory.
#include "tuner/memory_store.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "ir/error.h"

namespace tc {
namespace {

// What identifies a record: no two records of a store have the same key.
using Key = std::tuple<std::string, std::string, std::string, int, Trace, std::string>;

Key key_of(const Record& record) {
  return {record.workload, record.target, record.device, record.threads, record.trace, record.build};
}

struct Contents {
  std::mutex mutex;
  std::map<Key, NumberedRecord> records;
  int64_t last_number = 0;                // of all that were ever added
  std::map<std::string, double> seconds;  // by session
};

class MemoryStore : public RecordStore {
 public:
  MemoryStore(const std::string& name, Mode mode, std::shared_ptr<Contents> contents)
      : RecordStore("memory:" + name, mode), contents_(std::move(contents)) {}

  std::string usual_device(const std::string& target, int threads) const override {
    std::map<std::string, std::set<std::string>> workloads;  // by device
    for_each([&](const Record& record) {
      if (record.target == target && record.threads == threads && record.measurement.outcome == Outcome::Ok)
        workloads[record.device].insert(record.workload);
    });
    std::string usual;
    size_t most = 0;
    for (const auto& [device, measured] : workloads) {
      if (measured.size() <= most) continue;
      most = measured.size();
      usual = device;
    }
    return usual;
  }

  double seconds_spent(const std::string& session) const override {
    const std::lock_guard lock(contents_->mutex);
    const auto found = contents_->seconds.find(session);
    return found == contents_->seconds.end() ? 0 : found->second;
  }

  StoreStats stats() const override {
    StoreStats stats;
    std::set<std::string> workloads;
    for_each([&](const Record& record) {
      workloads.insert(record.workload);
      ++stats.records;
      stats.verified += record.measurement.outcome == Outcome::Ok;
      stats.bytes += static_cast<int64_t>(text_bytes(record));
      ++stats.by_target[record.target];
      ++stats.by_device[record.device];
      ++stats.by_build[record.build];
      ++stats.by_outcome[name_of(record.measurement.outcome)];
    });
    stats.workloads = static_cast<int64_t>(workloads.size());
    return stats;
  }

  std::string integrity() const override { return "ok"; }

 private:
  template <class Action>
  void for_each(const Action& action) const {
    const std::lock_guard lock(contents_->mutex);
    for (const auto& [key, kept] : contents_->records) action(kept.record);
  }

  void read(const RecordFilter& filter, const Take& take) const override {
    const auto fits = [](const std::string& wanted, const std::string& has) {
      return wanted.empty() || wanted == has;
    };
    std::vector<NumberedRecord> found;
    {
      const std::lock_guard lock(contents_->mutex);
      for (const auto& [key, kept] : contents_->records) {
        const Record& record = kept.record;
        if (!fits(filter.workload, record.workload) || !fits(filter.target, record.target) ||
            !fits(filter.device, record.device) || !fits(filter.build, record.build) ||
            (filter.threads > 0 && filter.threads != record.threads) ||
            (filter.verified_only && record.measurement.outcome != Outcome::Ok) ||
            kept.number <= filter.above)
          continue;
        found.push_back(kept);
      }
    }
    std::sort(found.begin(), found.end(),
              [](const NumberedRecord& a, const NumberedRecord& b) { return a.number < b.number; });
    if (filter.most > 0 && found.size() > filter.most) found.resize(filter.most);
    for (NumberedRecord& each : found) take(std::move(each.record), each.number);
  }

  void write(const std::vector<Record>& records) override {
    const std::lock_guard lock(contents_->mutex);
    for (const Record& record : records) {
      const auto [place, is_new] = contents_->records.try_emplace(key_of(record));
      if (is_new) place->second.number = ++contents_->last_number;
      Record& kept = place->second.record;
      const bool chosen = kept.chosen;  // a new measurement does not undo the choice
      kept = record;
      kept.chosen = chosen;
    }
  }

  void mark(const std::vector<Record>& chosen) override {
    const std::lock_guard lock(contents_->mutex);
    for (const Record& mark : chosen) {
      const auto is_beside = [&](const Record& record) {
        return std::tie(record.workload, record.target, record.device, record.threads, record.build) ==
               std::tie(mark.workload, mark.target, mark.device, mark.threads, mark.build);
      };
      for (auto& [key, kept] : contents_->records) {
        if (is_beside(kept.record)) kept.record.chosen = kept.record.trace == mark.trace;
      }
    }
  }

  void remove(const std::vector<Record>& records) override {
    const std::lock_guard lock(contents_->mutex);
    for (const Record& record : records) {
      const auto found = contents_->records.find(key_of(record));
      if (found == contents_->records.end() || found->second.record.chosen) continue;
      if (found->second.record.created == record.created) contents_->records.erase(found);
    }
  }

  void spend(const std::string& session, double seconds) override {
    const std::lock_guard lock(contents_->mutex);
    contents_->seconds[session] += seconds;
  }

  const std::shared_ptr<Contents> contents_;
};

}  // namespace

std::unique_ptr<RecordStore> open_memory_store(const std::string& name, RecordStore::Mode mode) {
  static std::mutex mutex;
  static auto& stores = *new std::map<std::string, std::shared_ptr<Contents>>;
  const std::lock_guard lock(mutex);
  auto found = stores.find(name);
  if (found == stores.end()) {
    if (mode == RecordStore::Mode::Read)
      fail(ErrorKind::Log, "memory:", name, ": no such log; tuning with log= makes one");
    found = stores.emplace(name, std::make_shared<Contents>()).first;
  }
  return std::make_unique<MemoryStore>(name, mode, found->second);
}

}  // namespace tc
