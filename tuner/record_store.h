// Where records of measured schedules are kept: what builds read and tuning writes.
//
// A store is data, never code: what comes out of it is replayed through the same legality check as a
// hand-written schedule, so that the worst a hostile store can do is a slow program.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/record.h"

namespace tc {

// Which records; empty fields match all.
struct RecordFilter {
  std::string workload, target, device, build;
  int threads = 0;
  bool verified_only = false;  // those with a time
};

struct StoreStats {
  int64_t workloads = 0, records = 0, verified = 0, bytes = 0;
  int schema = 0;  // 0: the kind of store has no versions
  std::map<std::string, int64_t> by_target, by_device, by_build, by_outcome;
};

// A store that is open, until the object goes; open_store (tuner/stores.h) opens one by its URL. One thread
// at a time may use it. All functions throw Log errors.
//
// What records mean is decided here, alike for all kinds: which are refused, which has the place of which,
// their order. A kind of store implements the private functions.
class RecordStore {
 public:
  enum class Mode { Read, Write };

  virtual ~RecordStore() = default;
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  // As texts name it; has no password in it.
  const std::string& name() const { return name_; }

  // Adds all or none; they are kept, even should the machine fail, when this returns. A record of the same
  // workload, target, device, threads, trace and build takes the older one's place. A Log error names a
  // record that is malformed (check_record), or says that there is no room.
  void add(const std::vector<Record>& records);

  // In a fixed order: workload, target, device, threads, then what was chosen, then by ratio to the untuned,
  // failures last. Rows that no tc would write are left out; `problems` (may be null) gets a sentence for
  // each.
  std::vector<Record> records(const RecordFilter& filter, std::vector<std::string>* problems = nullptr) const;

  // Verified records for a build, what a tuning session chose first, then fastest first by ratio: of one
  // device, the given one, else usual_device(). Records of other compiler builds come after all of `build`.
  // Never of another target.
  std::vector<Record> best(const std::string& workload, const std::string& target, const std::string& device,
                           int threads, const std::string& build,
                           std::vector<std::string>* problems = nullptr) const;

  // The device of this target and thread count with the most workloads measured; empty for none.
  virtual std::string usual_device(const std::string& target, int threads) const = 0;

  // Marks the trace of each record as what a session chose among all of its workload, target, device,
  // threads and build.
  void choose(const std::vector<Record>& records);

  // Seconds that earlier sessions of this name spent; and adding to them.
  virtual double seconds_spent(const std::string& session) const = 0;
  void add_seconds_spent(const std::string& session, double seconds);

  virtual StoreStats stats() const = 0;
  // Copies the other store's records; of two of one key the newer stays. Returns how many came.
  int64_t merge(const RecordStore& other, std::vector<std::string>* problems = nullptr);
  // "ok", or the first damage that the store finds in itself.
  virtual std::string integrity() const = 0;

 protected:
  RecordStore(std::string name, Mode mode) : name_(std::move(name)), mode_(mode) {}

  // Gets a record and how the store numbers it; whether it is one that tc writes.
  using Take = std::function<bool(Record&& record, int64_t number)>;

 private:
  // Each record that fits, in any order.
  virtual void read(const RecordFilter& filter, const Take& take) const = 0;
  // Called with records that check_record allows, and with a store opened for writing.
  virtual void write(const std::vector<Record>& records) = 0;
  virtual void mark(const std::vector<Record>& chosen) = 0;
  virtual void spend(const std::string& session, double seconds) = 0;

  void need_writing() const;

  const std::string name_;
  const Mode mode_;
};

// Why a record cannot be one that tc wrote: bounds of sizes, times that are no times, a language of
// another major; nothing where it can. Says nothing of legality, which only a replay knows.
std::optional<std::string> check_record(const Record& record);

// Bytes of its texts.
size_t text_bytes(const Record& record);

// What a failed candidate's record says at most.
constexpr size_t kMaxDetailBytes = 4096;

}  // namespace tc
