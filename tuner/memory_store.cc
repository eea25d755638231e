// Records in this process's memory.
#include "tuner/memory_store.h"

#include <map>
#include <mutex>
#include <utility>

#include "ir/error.h"
#include "tuner/record_set.h"

namespace tc {
namespace {

struct Contents {
  std::mutex mutex;
  RecordSet records;
  std::map<std::string, double> seconds;  // by session
};

class MemoryStore : public RecordStore {
 public:
  MemoryStore(const std::string& name, Mode mode, std::shared_ptr<Contents> contents)
      : RecordStore("memory:" + name, mode), contents_(std::move(contents)) {}

  std::string usual_device(const std::string& target, int threads) const override {
    const std::lock_guard lock(contents_->mutex);
    return contents_->records.usual_device(target, threads);
  }

  double seconds_spent(const std::string& session) const override {
    const std::lock_guard lock(contents_->mutex);
    const auto found = contents_->seconds.find(session);
    return found == contents_->seconds.end() ? 0 : found->second;
  }

  StoreStats stats() const override {
    const std::lock_guard lock(contents_->mutex);
    return contents_->records.stats();
  }

  int64_t number_before_last(size_t most) const override {
    const std::lock_guard lock(contents_->mutex);
    return contents_->records.number_before_last(most);
  }

  std::string integrity() const override { return "ok"; }

 private:
  void read(const RecordFilter& filter, const Take& take) const override {
    std::vector<NumberedRecord> found;
    {
      const std::lock_guard lock(contents_->mutex);
      found = contents_->records.find(filter);
    }
    for (NumberedRecord& each : found) take(std::move(each.record), each.number);
  }

  void write(const std::vector<Record>& records) override {
    const std::lock_guard lock(contents_->mutex);
    for (const Record& record : records) contents_->records.put(record);
  }

  void mark(const std::vector<Record>& chosen) override {
    const std::lock_guard lock(contents_->mutex);
    for (const Record& record : chosen) contents_->records.choose(record);
  }

  void remove(const std::vector<Record>& records) override {
    const std::lock_guard lock(contents_->mutex);
    for (const Record& record : records) contents_->records.remove(record);
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
