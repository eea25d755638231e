// Where records of measured schedules are kept: what builds read and tuning writes.
//
// A store holds data, never code. Its traces are replayed through the same legality check as a hand-written
// schedule, so the worst that a hostile store can cause is a slow program.
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
  int64_t above = 0;           // those with a greater number
  size_t most = 0;             // the first so many in the order of their numbers; 0: all
};

// A record with the store's number for it. Each record that is added has a greater number than those before;
// one that is measured again, or chosen, keeps its own. Numbers have gaps. (After prune() has removed
// records, a file of lines numbers its records anew: who follows a log reads all of it from time to time.)
struct NumberedRecord {
  int64_t number = 0;
  Record record;
};

// Which records prune() removes: of each workload on each target, device, thread count and build, all but the
// fastest `keep` and the one that a session chose; and failures, where `failures` is set. Of these only those
// that were measured before `before` (Unix time).
struct PruneRule {
  int keep = 16;
  bool failures = false;
  int64_t before = INT64_MAX;
};

struct StoreStats {
  int64_t workloads = 0, records = 0, verified = 0, bytes = 0;
  int schema = 0;  // 0: the kind of store has no versions
  std::map<std::string, int64_t> by_target, by_device, by_build, by_outcome;
  std::map<std::string, int64_t> by_author;  // empty where the kind of store does not know who wrote
};

// An open store, which is closed when the object is destroyed; open_store (tuner/stores.h) opens one by its
// URL. Only one thread at a time may use it. All functions throw Log errors.
//
// The rules for records are the same for all kinds of store and are implemented here: which are refused,
// which replaces which, their order. A kind of store implements the private functions.
class RecordStore {
 public:
  enum class Mode { Read, Write };

  virtual ~RecordStore() = default;
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  // The name that messages use; contains no password.
  const std::string& name() const { return name_; }

  // Adds all records or none. When this returns they are on the disk, and survive a failure of the machine. A
  // record of the same workload, target, device, threads, trace and build replaces the older one. Throws a
  // Log error that names a malformed record (check_record), or says that there is no space.
  void add(const std::vector<Record>& records);

  // Sorted by workload, target, device and threads; within these, failures come last, chosen records first,
  // and the rest is sorted by the ratio to the untuned schedule. Rows that tc cannot have written are left
  // out; `problems` (may be null) gets a sentence for each.
  std::vector<Record> records(const RecordFilter& filter, std::vector<std::string>* problems = nullptr) const;

  // The `most` records with the least numbers above `number`, in the order of their numbers, for a reader
  // that follows a log. Refused ones are left out, but count: `last` is the greatest number of all that were
  // looked at, `number` where there were none. A server may give out a number before its record can be read,
  // so whoever follows it looks at the last few again.
  std::vector<NumberedRecord> records_above(int64_t number, size_t most, int64_t& last,
                                            std::vector<std::string>* problems = nullptr) const;

  // The number above which the last `most` records are; 0 where there are no more than these.
  virtual int64_t number_before_last(size_t most) const = 0;

  // Verified records for a build of the compiler: first what a tuning session chose, then fastest first by
  // ratio. They are all of one device: the given one, or usual_device() where `device` is empty. Records of
  // other builds come after all records of `build`. Records of another target are never returned.
  std::vector<Record> best(const std::string& workload, const std::string& target, const std::string& device,
                           int threads, const std::string& build,
                           std::vector<std::string>* problems = nullptr) const;

  // The device of this target and thread count with the most workloads measured; empty for none.
  virtual std::string usual_device(const std::string& target, int threads) const = 0;

  // Marks each record's trace as the one that a session chose, and unmarks all others of the same workload,
  // target, device, threads and build.
  void choose(const std::vector<Record>& records);

  // Seconds that earlier sessions of this name spent; add_seconds_spent() adds to them.
  virtual double seconds_spent(const std::string& session) const = 0;
  void add_seconds_spent(const std::string& session, double seconds);

  virtual StoreStats stats() const = 0;
  // Copies the other store's records; of two with the same key the newer one is kept. Returns how many were
  // copied.
  int64_t merge(const RecordStore& other, std::vector<std::string>* problems = nullptr);
  // Removes the records of the rule that are still as they were read, and workloads without records; returns
  // how many it found. Without `really` it only counts them.
  int64_t prune(const PruneRule& rule, bool really = true);
  // "ok", or the first damage that the store finds in itself.
  virtual std::string integrity() const = 0;

 protected:
  RecordStore(std::string name, Mode mode) : name_(std::move(name)), mode_(mode) {}

  // Called with a record and the store's number for it; returns whether tc can have written the record.
  using Take = std::function<bool(Record&& record, int64_t number)>;

 private:
  // Calls `take` for each record that the filter matches, in any order; with `most`, in the order of numbers.
  virtual void read(const RecordFilter& filter, const Take& take) const = 0;
  // Called with records that check_record allows, and with a store opened for writing.
  virtual void write(const std::vector<Record>& records) = 0;
  virtual void mark(const std::vector<Record>& chosen) = 0;
  // Removes records, except those that were measured again or chosen since they were read.
  virtual void remove(const std::vector<Record>& records) = 0;
  virtual void spend(const std::string& session, double seconds) = 0;

  // Calls `take` for each record that read() finds; `allowed` is whether check_record allows it, and
  // `problems` gets a sentence where not.
  using TakeChecked = std::function<void(Record&& record, int64_t number, bool allowed)>;
  void read_checked(const RecordFilter& filter, std::vector<std::string>* problems,
                    const TakeChecked& take) const;
  void need_writing() const;

  const std::string name_;
  const Mode mode_;
};

// Why tc cannot have written a record (a size out of bounds, an impossible time, another major version of the
// trace language); nothing where it can have. Does not check legality, which only a replay shows.
std::optional<std::string> check_record(const Record& record);

// Bytes of the record's texts.
size_t text_bytes(const Record& record);

// Bounds of check_record, in bytes.
constexpr size_t kMaxWorkloadBytes = 1 << 20;
constexpr size_t kMaxTraceBytes = 1 << 16;
constexpr size_t kMaxNameBytes = 4096;  // target, device, unit and build
constexpr int kMaxThreads = 4096;
// The longest detail that the record of a failed candidate keeps.
constexpr size_t kMaxDetailBytes = 4096;

}  // namespace tc
