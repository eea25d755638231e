// The log of measured schedules: one SQLite file that builds read and tuning writes.
//
// A log is data, never code: what comes out of it is replayed through the same legality check as a
// hand-written schedule, so that the worst a hostile log can do is a slow program.
#pragma once

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
  bool verified_only = false;       // those with a time
};

class Log {
 public:
  enum class Mode { Read, Write };

  // Opens the log; with Write, makes one where none is. Log errors: no such file, not a log (of
  // another program, or no database at all), damaged, of a newer schema, not writable. A log of an
  // older schema is brought up to date by Write, and read as it is otherwise.
  // What a killed writer left half done is taken back, by Read too where the file may be written.
  Log(const std::string& path, Mode mode);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  // Adds all or none; they are on the disk when this returns. A record of the same workload, target,
  // device, threads, trace and build takes the older one's place. A Log error names a record that is
  // malformed (check_record), or says that the disk is full.
  void add(const std::vector<Record>& records);

  // In a fixed order: workload, target, device, threads, then what was chosen, then by ratio to the untuned,
  // failures last. Rows that
  // no tc would write are left out; `problems` (may be null) gets a sentence for each.
  std::vector<Record> records(const RecordFilter& filter, std::vector<std::string>* problems = nullptr) const;

  // Verified records for a build, what a tuning session chose first, then fastest first by ratio: of one device, the given one, else the device of
  // this target that has the most workloads. Records of other compiler builds come after all of
  // `build`. Never of another target.
  std::vector<Record> best(const std::string& workload, const std::string& target,
                           const std::string& device, int threads, const std::string& build,
                           std::vector<std::string>* problems = nullptr) const;

  // The device of this target and thread count with the most workloads measured; empty for none.
  std::string usual_device(const std::string& target, int threads) const;

  // Marks the trace of each record as what a session chose among all of its workload, target, device,
  // threads and build.
  void choose(const std::vector<Record>& records);

  // Seconds that earlier sessions of this name spent; and adding to them.
  double seconds_spent(const std::string& session) const;
  void add_seconds_spent(const std::string& session, double seconds);

  struct Stats {
    int64_t workloads = 0, records = 0, verified = 0, bytes = 0;
    int schema = 0;
    std::map<std::string, int64_t> by_target, by_device, by_build, by_outcome;
  };
  Stats stats() const;
  // Copies the other log's records; of two of one key the newer stays. Returns how many came.
  int64_t merge(const Log& other, std::vector<std::string>* problems = nullptr);
  // What SQLite's own check says: "ok", or the first damage.
  std::string integrity() const;

  const std::string& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Why a record cannot be one that tc wrote: bounds of sizes, times that are no times, a language of
// another major; nothing where it can. Says nothing of legality, which only a replay knows.
std::optional<std::string> check_record(const Record& record);

}  // namespace tc
