// The log of measured schedules: one SQLite file that builds read and tuning writes.
#include "tuner/log.h"

#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <tuple>

#include "ir/error.h"
#include "tuner/least_time.h"

namespace tc {
namespace {

constexpr int kApplicationId = 0x74634c67;   // "tcLg"
constexpr size_t kMaxWorkloadBytes = 1 << 20;
constexpr size_t kMaxTraceBytes = 1 << 16;
constexpr size_t kMaxTraceLines = 500;
constexpr size_t kMaxNameBytes = 4096;
constexpr int kBusyMilliseconds = 30000;

// One step per schema version: what brings a log of version i to i + 1.
const char* const kMigrations[] = {
    R"sql(
CREATE TABLE workload (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE CHECK (length(key) BETWEEN 1 AND 1048576)
) STRICT;
CREATE TABLE record (
  id INTEGER PRIMARY KEY,
  workload INTEGER NOT NULL REFERENCES workload (id),
  target TEXT NOT NULL,
  device TEXT NOT NULL,
  unit TEXT NOT NULL,
  threads INTEGER NOT NULL CHECK (threads >= 1),
  trace TEXT NOT NULL CHECK (length(trace) <= 65536),
  outcome INTEGER NOT NULL CHECK (outcome BETWEEN 0 AND 8),
  detail TEXT NOT NULL,
  samples INTEGER NOT NULL,
  minimum REAL,
  median REAL,
  spread REAL,
  ratio REAL,
  worst_error REAL,
  build TEXT NOT NULL,
  language_major INTEGER NOT NULL,
  language_minor INTEGER NOT NULL,
  seed INTEGER NOT NULL,
  created INTEGER NOT NULL,
  chosen INTEGER NOT NULL DEFAULT 0 CHECK (chosen IN (0, 1)),
  CHECK (outcome <> 0 OR (samples >= 1 AND median > 0)),
  UNIQUE (workload, target, device, threads, trace, build)
) STRICT;
CREATE INDEX record_by_target ON record (target, device, threads);
CREATE TABLE session (
  name TEXT PRIMARY KEY,
  seconds REAL NOT NULL CHECK (seconds >= 0)
) STRICT;
)sql",
};
constexpr int kSchema = static_cast<int>(std::size(kMigrations));

// A prepared statement; finalised with the object.
class Query {
 public:
  Query(sqlite3* db, const std::string& sql) : db_(db) {
    if (sqlite3_prepare_v2(db, sql.c_str(), -1, &statement_, nullptr) != SQLITE_OK) raise();
  }
  ~Query() { sqlite3_finalize(statement_); }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  Query& bind(const std::string& value) {
    sqlite3_bind_text(statement_, ++bound_, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Query& bind(int64_t value) {
    sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  Query& bind(double value) {
    sqlite3_bind_double(statement_, ++bound_, value);
    return *this;
  }
  // False at the end of the rows.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) raise();
    return false;
  }
  std::string text(int column) const {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return data ? std::string(data, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : "";
  }
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double number(int column) const { return sqlite3_column_double(statement_, column); }
  void reset() {
    sqlite3_reset(statement_);
    bound_ = 0;
  }

 private:
  [[noreturn]] void raise() const {
    const std::string file = sqlite3_db_filename(db_, "main");
    const int code = sqlite3_errcode(db_);
    const std::string why = sqlite3_errmsg(db_);
    switch (code) {
      case SQLITE_FULL:
      case SQLITE_IOERR:
        fail(ErrorKind::Log, file, ": cannot be written (", why,
             "); free some disk space: what was recorded before is kept");
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
        fail(ErrorKind::Log, file, ": another process has been writing for ", kBusyMilliseconds / 1000,
             " seconds; try again when it is done");
      case SQLITE_READONLY:
      case SQLITE_CANTOPEN:
        fail(ErrorKind::Log, file, ": cannot be written (", why, "); check the file's and folder's permissions");
      case SQLITE_CORRUPT:
      case SQLITE_NOTADB:
        fail(ErrorKind::Log, file, ": the log is damaged (", why,
             "); move it away, or put a copy of it back");
      default:
        fail(ErrorKind::Log, file, ": ", why);
    }
  }

  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

void execute(sqlite3* db, const std::string& sql) {
  const char* rest = sql.c_str();
  while (*rest != '\0') {
    const char* end = rest;
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(db, rest, -1, &statement, &end) != SQLITE_OK || statement == nullptr) {
      sqlite3_finalize(statement);
      if (end == rest || sqlite3_errcode(db) != SQLITE_OK) Query(db, rest);   // says why
      return;
    }
    sqlite3_finalize(statement);
    Query one(db, std::string(rest, end));
    while (one.step()) {
    }
    rest = end;
  }
}

// All of the action's changes or none.
template <class Action>
void transaction(sqlite3* db, const Action& action) {
  execute(db, "BEGIN IMMEDIATE");
  try {
    action();
    execute(db, "COMMIT");
  } catch (...) {
    sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

int64_t pragma(sqlite3* db, const std::string& name) {
  Query query(db, "PRAGMA " + name);
  return query.step() ? query.integer(0) : 0;
}

// Everything that the file says as a record; columns in the order of kColumns.
constexpr const char* kColumns =
    "workload.key, target, device, unit, threads, trace, outcome, detail, samples, minimum, median, "
    "spread, ratio, worst_error, build, language_major, language_minor, seed, created, chosen, record.id";

Record read_record(const Query& row) {
  Record record;
  record.workload = row.text(0);
  record.target = row.text(1);
  record.device = row.text(2);
  record.unit = row.text(3);
  record.threads = static_cast<int>(row.integer(4));
  record.trace = parse_trace(row.text(5));
  Measurement& measured = record.measurement;
  measured.outcome = static_cast<Outcome>(std::clamp<int64_t>(row.integer(6), -1, 99));
  measured.detail = row.text(7);
  measured.time.count = static_cast<int>(row.integer(8));
  measured.time.minimum = row.number(9);
  measured.time.median = row.number(10);
  measured.time.spread = row.number(11);
  measured.ratio = row.number(12);
  measured.worst_error = row.number(13);
  record.build = row.text(14);
  record.language_major = static_cast<int>(row.integer(15));
  record.language_minor = static_cast<int>(row.integer(16));
  record.seed = static_cast<uint64_t>(row.integer(17));
  record.created = row.integer(18);
  record.chosen = row.integer(19) != 0;
  return record;
}

auto order_of(const Record& record) {
  const bool failed = record.measurement.outcome != Outcome::Ok;
  return std::make_tuple(record.workload, record.target, record.device, record.threads, failed, !record.chosen,
                         failed ? 0.0 : record.measurement.ratio, record.trace, record.build);
}

bool no_control_characters(const std::string& text) {
  return std::none_of(text.begin(), text.end(),
                      [](unsigned char c) { return (c < 32 && c != '\n' && c != '\t') || c == 127; });
}

}  // namespace

std::optional<std::string> check_record(const Record& record) {
  const Measurement& measured = record.measurement;
  const auto bad = [](const auto&... parts) { return std::optional(text(parts...)); };
  if (record.workload.empty() || record.workload.size() > kMaxWorkloadBytes)
    return bad("the workload has ", record.workload.size(), " bytes, not 1 to ", kMaxWorkloadBytes);
  for (const std::string* name : {&record.target, &record.device, &record.unit, &record.build}) {
    if (name->empty() || name->size() > kMaxNameBytes || !no_control_characters(*name))
      return bad("target, device, unit or build is empty, too long or has control characters");
  }
  if (record.unit != "seconds" && record.unit != "simulated cycles")
    return bad("the unit '", record.unit, "' is neither seconds nor simulated cycles");
  if (record.threads < 1 || record.threads > 4096) return bad(record.threads, " threads");
  if (record.language_major != kTraceLanguageMajor)
    return bad("the trace is in language ", record.language_major, ".", record.language_minor,
               " and this tc reads ", kTraceLanguageMajor, ".x; tune again");
  if (record.trace.size() > kMaxTraceLines || trace_text(record.trace).size() > kMaxTraceBytes)
    return bad("the trace has more than ", kMaxTraceLines, " lines or ", kMaxTraceBytes, " bytes");
  for (const std::string& line : record.trace) {
    if (line.find('\n') != std::string::npos || !no_control_characters(line))
      return bad("a line of the trace has control characters");
  }
  if (static_cast<int>(measured.outcome) < 0 || static_cast<int>(measured.outcome) > 8)
    return bad("the outcome ", static_cast<int>(measured.outcome), " is unknown");
  if (!no_control_characters(measured.detail)) return bad("the detail has control characters");
  const Timing& time = measured.time;
  if (measured.outcome == Outcome::Ok) {
    const bool sane = std::isfinite(time.median) && std::isfinite(time.minimum) && std::isfinite(time.spread) &&
                      std::isfinite(measured.ratio) && time.count >= 1 && time.minimum > 0 &&
                      time.median >= time.minimum && time.spread >= 0 && measured.ratio > 0 &&
                      measured.worst_error >= 0;
    if (!sane) return bad("it is marked as measured and its times are no times (median ", time.median, ")");
    if (time.minimum < least_of_unit(record.unit))
      return bad("its time of ", time.minimum, " ", record.unit, " is below what any call takes");
  } else if (time.count != 0) {
    return bad("it failed (", name_of(measured.outcome), ") and has a time");
  }
  return std::nullopt;
}

struct Log::State {
  std::string path;
  sqlite3* db = nullptr;
  ~State() { sqlite3_close(db); }
};

Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;
const std::string& Log::path() const { return state_->path; }

Log::Log(const std::string& path, Mode mode) : state_(std::make_unique<State>()) {
  state_->path = path;
  std::error_code code;
  const bool exists = std::filesystem::exists(path, code);
  if (!exists && mode == Mode::Read) fail(ErrorKind::Log, path, ": no such log; tuning with log= makes one");
  if (exists && !std::filesystem::is_regular_file(path, code)) fail(ErrorKind::Log, path, ": is no regular file");
  // A reader that may write does so where a writer was killed: SQLite takes back what that left half
  // done. Otherwise query_only keeps it from it.
  const bool writable = mode == Mode::Write || access(path.c_str(), W_OK) == 0;
  const int flags = (mode == Mode::Write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                     : writable          ? SQLITE_OPEN_READWRITE
                                         : SQLITE_OPEN_READONLY) |
                    SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path.c_str(), &state_->db, flags, nullptr) != SQLITE_OK)
    fail(ErrorKind::Log, path, ": cannot be opened (", sqlite3_errmsg(state_->db),
         "); check that the folder exists and may be written");
  sqlite3* db = state_->db;
  sqlite3_extended_result_codes(db, 0);
  sqlite3_busy_timeout(db, kBusyMilliseconds);
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 22);
  execute(db, "PRAGMA cell_size_check = ON");
  // Rows that break a rule are for records() to leave out, one by one.
  if (mode == Mode::Read) execute(db, "PRAGMA query_only = ON; PRAGMA ignore_check_constraints = ON");
  // A log that two processes write keeps its rollback journal: SQLite 3.40's WAL has lost pages.
  const int64_t id = pragma(db, "application_id");
  const int64_t schema = pragma(db, "user_version");
  const bool empty = pragma(db, "page_count") == 0;
  if (!empty && id != kApplicationId)
    fail(ErrorKind::Log, path, ": is a database of another program, not a log of tc");
  if (schema > kSchema)
    fail(ErrorKind::Log, path, ": the log has schema ", schema, " and this tc knows up to ", kSchema,
         "; update tc, or give another log");
  if (!empty && schema < 1) fail(ErrorKind::Log, path, ": the log is damaged (it has no schema version)");
  if (!empty) {
    const std::string damage = integrity();
    if (damage != "ok")
      fail(ErrorKind::Log, path, ": the log is damaged (", damage, "); move it away, or put a copy of it back");
  }
  if (mode == Mode::Read) {
    if (empty) fail(ErrorKind::Log, path, ": is empty, not a log of tc");
    return;
  }
  execute(db, "PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
  if (schema == kSchema) return;
  execute(db, "BEGIN IMMEDIATE");
  // Another process may have made it meanwhile.
  for (int64_t version = pragma(db, "user_version"); version < kSchema; ++version) execute(db, kMigrations[version]);
  execute(db, text("PRAGMA application_id = ", kApplicationId, "; PRAGMA user_version = ", kSchema, "; COMMIT"));
}

void Log::add(const std::vector<Record>& records) {
  if (records.empty()) return;
  for (const Record& record : records) {
    if (auto why = check_record(record))
      fail(ErrorKind::Log, path(), ": a record for '", record.target, "' is malformed: ", *why);
  }
  sqlite3* db = state_->db;
  transaction(db, [&] {
    Query workload(db, "INSERT INTO workload (key) VALUES (?) ON CONFLICT (key) DO NOTHING");
    Query insert(db,
                 "INSERT INTO record (workload, target, device, unit, threads, trace, outcome, "
                 "detail, samples, minimum, median, spread, ratio, worst_error, build, language_major, "
                 "language_minor, seed, created) VALUES ((SELECT id FROM workload WHERE key = ?), ?, ?, ?, ?, "
                 "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (workload, target, device, threads, trace, build) "
                 "DO UPDATE SET unit = excluded.unit, outcome = excluded.outcome, detail = excluded.detail, "
                 "samples = excluded.samples, minimum = excluded.minimum, median = excluded.median, "
                 "spread = excluded.spread, ratio = excluded.ratio, worst_error = excluded.worst_error, "
                 "language_major = excluded.language_major, language_minor = excluded.language_minor, "
                 "seed = excluded.seed, created = excluded.created");
    for (const Record& record : records) {
      const Measurement& measured = record.measurement;
      workload.reset();
      workload.bind(record.workload).step();
      insert.reset();
      insert.bind(record.workload).bind(record.target).bind(record.device).bind(record.unit)
          .bind(int64_t{record.threads}).bind(trace_text(record.trace))
          .bind(static_cast<int64_t>(measured.outcome)).bind(measured.detail.substr(0, kMaxNameBytes))
          .bind(int64_t{measured.time.count}).bind(measured.time.minimum).bind(measured.time.median)
          .bind(measured.time.spread).bind(measured.ratio).bind(measured.worst_error).bind(record.build)
          .bind(int64_t{record.language_major}).bind(int64_t{record.language_minor})
          .bind(static_cast<int64_t>(record.seed)).bind(record.created);
      insert.step();
    }
  });
}

void Log::choose(const std::vector<Record>& records) {
  sqlite3* db = state_->db;
  transaction(db, [&] {
    Query mark(db,
               "UPDATE record SET chosen = (trace = ?) WHERE workload = (SELECT id FROM workload WHERE key = ?) "
               "AND target = ? AND device = ? AND threads = ? AND build = ?");
    for (const Record& record : records) {
      mark.reset();
      mark.bind(trace_text(record.trace)).bind(record.workload).bind(record.target).bind(record.device)
          .bind(int64_t{record.threads}).bind(record.build);
      mark.step();
    }
  });
}

double Log::seconds_spent(const std::string& session) const {
  Query query(state_->db, "SELECT seconds FROM session WHERE name = ?");
  query.bind(session);
  return query.step() ? query.number(0) : 0;
}

void Log::add_seconds_spent(const std::string& session, double seconds) {
  Query query(state_->db,
              "INSERT INTO session VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET seconds = seconds + excluded.seconds");
  query.bind(session).bind(seconds).step();
}

std::vector<Record> Log::records(const RecordFilter& filter, std::vector<std::string>* problems) const {
  std::string where = "1";
  std::vector<std::string> values;
  for (const auto& [column, value] : {std::pair<const char*, const std::string*>{"workload.key", &filter.workload},
                                      {"target", &filter.target}, {"device", &filter.device}, {"build", &filter.build}}) {
    if (value->empty()) continue;
    where += text(" AND ", column, " = ?");
    values.push_back(*value);
  }
  if (filter.threads > 0) where += text(" AND threads = ", filter.threads);
  if (filter.verified_only) where += " AND outcome = 0";
  Query query(state_->db, text("SELECT ", kColumns, " FROM record JOIN workload ON workload.id = record.workload "
                               "WHERE ", where));
  for (const std::string& value : values) query.bind(value);
  std::vector<Record> result;
  while (query.step()) {
    Record record = read_record(query);
    if (const auto why = check_record(record)) {
      if (problems) problems->push_back(text(path(), ": record ", query.integer(20), " is refused: ", *why));
      continue;
    }
    result.push_back(std::move(record));
  }
  std::sort(result.begin(), result.end(),
            [](const Record& a, const Record& b) { return order_of(a) < order_of(b); });
  return result;
}

std::string Log::usual_device(const std::string& target, int threads) const {
  Query query(state_->db,
              "SELECT device FROM record WHERE target = ? AND threads = ? AND outcome = 0 GROUP BY device "
              "ORDER BY count(DISTINCT workload) DESC, device LIMIT 1");
  query.bind(target).bind(int64_t{threads});
  return query.step() ? query.text(0) : "";
}

std::vector<Record> Log::best(const std::string& workload, const std::string& target,
                              const std::string& device, int threads, const std::string& build,
                              std::vector<std::string>* problems) const {
  RecordFilter filter;
  filter.workload = workload;
  filter.target = target;
  filter.threads = threads;
  filter.device = device.empty() ? usual_device(target, threads) : device;
  filter.verified_only = true;
  if (filter.device.empty()) return {};
  std::vector<Record> found = records(filter, problems);
  std::stable_partition(found.begin(), found.end(), [&](const Record& record) { return record.build == build; });
  return found;
}

Log::Stats Log::stats() const {
  sqlite3* db = state_->db;
  Stats stats;
  const auto count = [&](const char* sql) {
    Query query(db, sql);
    return query.step() ? query.integer(0) : 0;
  };
  stats.workloads = count("SELECT count(*) FROM workload");
  stats.records = count("SELECT count(*) FROM record");
  stats.verified = count("SELECT count(*) FROM record WHERE outcome = 0");
  stats.schema = static_cast<int>(pragma(db, "user_version"));
  stats.bytes = pragma(db, "page_count") * pragma(db, "page_size");
  const auto group = [&](const char* column, std::map<std::string, int64_t>& into) {
    Query query(db, text("SELECT ", column, ", count(*) FROM record GROUP BY 1"));
    while (query.step()) into[query.text(0)] = query.integer(1);
  };
  group("target", stats.by_target);
  group("device", stats.by_device);
  group("build", stats.by_build);
  std::map<std::string, int64_t> outcomes;
  group("outcome", outcomes);
  for (const auto& [outcome, number] : outcomes) {
    stats.by_outcome[name_of(static_cast<Outcome>(std::atoi(outcome.c_str())))] = number;
  }
  return stats;
}

int64_t Log::merge(const Log& other, std::vector<std::string>* problems) {
  using Key = std::tuple<std::string, std::string, std::string, int, Trace, std::string>;
  const auto key_of = [](const Record& r) { return Key(r.workload, r.target, r.device, r.threads, r.trace, r.build); };
  std::map<Key, int64_t> mine;
  for (const Record& record : records({})) mine[key_of(record)] = record.created;
  std::vector<Record> wanted;
  for (Record& record : other.records({}, problems)) {
    const auto found = mine.find(key_of(record));
    if (found == mine.end() || found->second < record.created) wanted.push_back(std::move(record));
  }
  add(wanted);
  return static_cast<int64_t>(wanted.size());
}

std::string Log::integrity() const {
  Query query(state_->db, "PRAGMA quick_check(1)");
  if (!query.step()) return "no answer";
  // A heading may stand before it.
  const std::string found = query.text(0);
  return found.substr(found.rfind('\n') + 1);
}

}  // namespace tc
