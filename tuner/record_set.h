// Records in memory by their keys: what the kinds of store share that hold all of their records.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tuner/record_store.h"

namespace tc {

// Not synchronised: one thread at a time may use it.
class RecordSet {
 public:
  // Adds a record. Where there is one with the same key, its measurement is replaced: it keeps its number and
  // whether it is chosen. Returns the record that is kept.
  Record& put(const Record& record);

  // Marks the record with this key as chosen and unmarks all others of the same workload, target, device,
  // threads and build. Returns the records whose mark changed.
  std::vector<Record> choose(const Record& chosen);

  // Removes the record with this key, unless it is chosen or was measured again since `record` was read.
  void remove(const Record& record);

  // In the order of their numbers.
  std::vector<NumberedRecord> find(const RecordFilter& filter) const;
  // Null where no record has the same key.
  const Record* find_same(const Record& record) const;

  std::string usual_device(const std::string& target, int threads) const;  // as RecordStore::usual_device
  StoreStats stats() const;
  int64_t number_before_last(size_t most) const;  // as RecordStore::number_before_last

 private:
  // Workload, target, device, threads, trace and build: no two records of a store have the same.
  using Key = std::tuple<std::string, std::string, std::string, int, Trace, std::string>;
  static Key key_of(const Record& record);

  std::map<Key, NumberedRecord> records_;
  int64_t last_number_ = 0;  // of all that were ever added
};

}  // namespace tc
