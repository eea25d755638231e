#include "tuner/record_set.h"

#include <algorithm>
#include <functional>
#include <set>

namespace tc {
namespace {

bool matches(const RecordFilter& filter, const NumberedRecord& kept) {
  const auto fits = [](const std::string& wanted, const std::string& has) {
    return wanted.empty() || wanted == has;
  };
  const Record& record = kept.record;
  return fits(filter.workload, record.workload) && fits(filter.target, record.target) &&
         fits(filter.device, record.device) && fits(filter.build, record.build) &&
         (filter.threads <= 0 || filter.threads == record.threads) &&
         (!filter.verified_only || record.measurement.outcome == Outcome::Ok) && kept.number > filter.above;
}

}  // namespace

RecordSet::Key RecordSet::key_of(const Record& record) {
  return {record.workload, record.target, record.device, record.threads, record.trace, record.build};
}

Record& RecordSet::put(const Record& record) {
  const auto [place, is_new] = records_.try_emplace(key_of(record));
  if (is_new) place->second.number = ++last_number_;
  Record& kept = place->second.record;
  const bool chosen = kept.chosen;
  kept = record;
  kept.chosen = chosen;
  return kept;
}

std::vector<Record> RecordSet::choose(const Record& chosen) {
  const auto competes = [&](const Record& record) {
    return std::tie(record.workload, record.target, record.device, record.threads, record.build) ==
           std::tie(chosen.workload, chosen.target, chosen.device, chosen.threads, chosen.build);
  };
  std::vector<Record> changed;
  for (auto& [key, kept] : records_) {
    Record& record = kept.record;
    if (!competes(record) || record.chosen == (record.trace == chosen.trace)) continue;
    record.chosen = !record.chosen;
    changed.push_back(record);
  }
  return changed;
}

void RecordSet::remove(const Record& record) {
  const auto found = records_.find(key_of(record));
  if (found == records_.end() || found->second.record.chosen) return;
  if (found->second.record.created == record.created) records_.erase(found);
}

std::vector<NumberedRecord> RecordSet::find(const RecordFilter& filter) const {
  std::vector<NumberedRecord> found;
  for (const auto& [key, kept] : records_) {
    if (matches(filter, kept)) found.push_back(kept);
  }
  std::sort(found.begin(), found.end(),
            [](const NumberedRecord& a, const NumberedRecord& b) { return a.number < b.number; });
  if (filter.most > 0 && found.size() > filter.most) found.resize(filter.most);
  return found;
}

const Record* RecordSet::find_same(const Record& record) const {
  const auto found = records_.find(key_of(record));
  return found == records_.end() ? nullptr : &found->second.record;
}

std::string RecordSet::usual_device(const std::string& target, int threads) const {
  std::map<std::string, std::set<std::string>> workloads;  // by device
  for (const auto& [key, kept] : records_) {
    const Record& record = kept.record;
    if (record.target == target && record.threads == threads && record.measurement.outcome == Outcome::Ok)
      workloads[record.device].insert(record.workload);
  }
  std::string usual;
  size_t most = 0;
  for (const auto& [device, measured] : workloads) {
    if (measured.size() <= most) continue;
    most = measured.size();
    usual = device;
  }
  return usual;
}

StoreStats RecordSet::stats() const {
  StoreStats stats;
  std::set<std::string> workloads;
  for (const auto& [key, kept] : records_) {
    const Record& record = kept.record;
    workloads.insert(record.workload);
    ++stats.records;
    stats.verified += record.measurement.outcome == Outcome::Ok;
    stats.bytes += static_cast<int64_t>(text_bytes(record));
    ++stats.by_target[record.target];
    ++stats.by_device[record.device];
    ++stats.by_build[record.build];
    ++stats.by_outcome[name_of(record.measurement.outcome)];
  }
  stats.workloads = static_cast<int64_t>(workloads.size());
  return stats;
}

int64_t RecordSet::number_before_last(size_t most) const {
  if (records_.size() <= most) return 0;
  std::vector<int64_t> numbers;
  for (const auto& [key, each] : records_) numbers.push_back(each.number);
  const auto place = numbers.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(numbers.begin(), place, numbers.end(), std::greater<>());
  return *place;
}

}  // namespace tc
