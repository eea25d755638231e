// Records in an SQLite file.
//
// The journal is a rollback journal (journal_mode = DELETE), since two processes may write a log and SQLite
// 3.40 has lost pages with WAL.
#include "tuner/sqlite_store.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "ir/error.h"
#include "tuner/log_file.h"

namespace tc {
namespace {

constexpr size_t kMaxAuthor = 64;           // characters of a user's name
constexpr int kApplicationId = 0x74634c67;  // "tcLg"
// Records that are read may have this many bytes of text in all, plus twice the size of the file. Without a
// limit, each record of a few bytes could repeat a workload's text of a megabyte.
constexpr size_t kMaxText = size_t{128} << 20;

// One step per schema version: element i brings a log from version i to i + 1.
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
    // Numbers of records that were removed are not given again.
    R"sql(
CREATE TABLE numbered (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
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
  author TEXT NOT NULL CHECK (length(author) <= 64),
  CHECK (outcome <> 0 OR (samples >= 1 AND median > 0)),
  UNIQUE (workload, target, device, threads, trace, build)
) STRICT;
INSERT INTO numbered SELECT *, '' FROM record;
DROP TABLE record;
ALTER TABLE numbered RENAME TO record;
CREATE INDEX record_by_target ON record (target, device, threads);
)sql",
};
constexpr int kSchema = static_cast<int>(std::size(kMigrations));

// The statements that make a log of that version.
std::vector<const char*> steps_up_to(int64_t version) { return {kMigrations, kMigrations + version}; }

int64_t bytes_of(LogFile& file) { return file.pragma("page_count") * file.pragma("page_size"); }

// The record of a row; columns are in the order of kColumns.
constexpr const char* kColumns =
    "workload.key, target, device, unit, threads, trace, outcome, detail, samples, minimum, median, "
    "spread, ratio, worst_error, build, language_major, language_minor, seed, created, chosen, record.id";

Record read_record(const Query& row) {
  Record record;
  record.workload = row.text(0);
  record.target = row.text(1);
  record.device = row.text(2);
  record.unit = row.text(3);
  const auto number = [&](int column) {
    return static_cast<int>(std::clamp<int64_t>(row.integer(column), INT_MIN, INT_MAX));
  };
  record.threads = number(4);
  record.trace = parse_trace(row.text(5));
  Measurement& measured = record.measurement;
  measured.outcome = static_cast<Outcome>(std::clamp<int64_t>(row.integer(6), -1, 99));
  measured.detail = row.text(7);
  measured.time.count = number(8);
  measured.time.minimum = row.number(9);
  measured.time.median = row.number(10);
  measured.time.spread = row.number(11);
  measured.ratio = row.number(12);
  measured.worst_error = row.number(13);
  record.build = row.text(14);
  record.language_major = number(15);
  record.language_minor = number(16);
  record.seed = static_cast<uint64_t>(row.integer(17));
  record.created = row.integer(18);
  record.chosen = row.integer(19) != 0;
  return record;
}

// The name of this process's user, as the system has it.
std::string own_name() {
  const passwd* user = getpwuid(geteuid());
  const std::string name = user != nullptr ? user->pw_name : text("user ", geteuid());
  return name.substr(0, kMaxAuthor);
}

class SqliteStore final : public RecordStore {
 public:
  SqliteStore(const std::string& path, Mode mode);

  std::string usual_device(const std::string& target, int threads) const override;
  double seconds_spent(const std::string& session) const override;
  StoreStats stats() const override;
  std::string integrity() const override;
  int64_t number_before_last(size_t most) const override;

 private:
  void read(const RecordFilter& filter, const Take& take) const override;
  void write(const std::vector<Record>& records) override;
  void mark(const std::vector<Record>& chosen) override;
  void remove(const std::vector<Record>& records) override;
  void spend(const std::string& session, double seconds) override;

  mutable LogFile file_;  // reading prepares statements
};

SqliteStore::SqliteStore(const std::string& path, Mode mode)
    : RecordStore(path, mode), file_(path, mode == Mode::Write) {
  const LogFile::Limit limit(file_);
  const int64_t id = file_.pragma("application_id");
  const int64_t schema = file_.pragma("user_version");
  const bool empty = file_.pragma("page_count") == 0;
  if (!empty && id != kApplicationId)
    fail(ErrorKind::Log, path, ": is a database of another program, not a log of tc");
  if (schema > kSchema)
    fail(ErrorKind::Log, path, ": the log has schema ", schema, " and this tc knows up to ", kSchema,
         "; update tc, or give another log");
  if (!empty && schema < 1) fail(ErrorKind::Log, path, ": the log is damaged (it has no schema version)");
  file_.need_schema_of(steps_up_to(empty ? 0 : schema));
  if (!empty) {
    const std::string damage = integrity();
    if (damage != "ok") file_.fail_damaged(damage);
  }
  if (mode == Mode::Read) {
    if (empty) fail(ErrorKind::Log, path, ": is empty, not a log of tc");
    return;
  }
  file_.execute("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
  if (schema == kSchema) return;
  file_.transaction([&] {
    // The version is read again, since another process may have upgraded the log meanwhile.
    for (int64_t version = file_.pragma("user_version"); version < kSchema; ++version)
      file_.execute(kMigrations[version]);
    file_.execute(text("PRAGMA application_id = ", kApplicationId, "; PRAGMA user_version = ", kSchema));
    file_.need_schema_of(steps_up_to(kSchema));
  });
}

void SqliteStore::write(const std::vector<Record>& records) {
  file_.transaction([&] {
    Query workload(file_, "INSERT INTO workload (key) VALUES (?) ON CONFLICT (key) DO NOTHING");
    Query insert(
        file_,
        "INSERT INTO record (workload, target, device, unit, threads, trace, outcome, "
        "detail, samples, minimum, median, spread, ratio, worst_error, build, language_major, "
        "language_minor, seed, created, author) VALUES ((SELECT id FROM workload WHERE key = ?), ?, ?, ?, ?, "
        "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (workload, target, device, threads, trace, build) "
        "DO UPDATE SET unit = excluded.unit, outcome = excluded.outcome, detail = excluded.detail, "
        "samples = excluded.samples, minimum = excluded.minimum, median = excluded.median, "
        "spread = excluded.spread, ratio = excluded.ratio, worst_error = excluded.worst_error, "
        "language_major = excluded.language_major, language_minor = excluded.language_minor, "
        "seed = excluded.seed, created = excluded.created, author = excluded.author");
    static const std::string author = own_name();  // once: getpwuid() serves one thread at a time
    for (const Record& record : records) {
      const Measurement& measured = record.measurement;
      workload.reset();
      workload.bind(record.workload).step();
      insert.reset();
      insert.bind(record.workload)
          .bind(record.target)
          .bind(record.device)
          .bind(record.unit)
          .bind(int64_t{record.threads})
          .bind(trace_text(record.trace))
          .bind(static_cast<int64_t>(measured.outcome))
          .bind(measured.detail)
          .bind(int64_t{measured.time.count})
          .bind(measured.time.minimum)
          .bind(measured.time.median)
          .bind(measured.time.spread)
          .bind(measured.ratio)
          .bind(measured.worst_error)
          .bind(record.build)
          .bind(int64_t{record.language_major})
          .bind(int64_t{record.language_minor})
          .bind(static_cast<int64_t>(record.seed))
          .bind(record.created)
          .bind(author);
      insert.step();
    }
  });
}

void SqliteStore::mark(const std::vector<Record>& chosen) {
  file_.transaction([&] {
    Query mark(
        file_,
        "UPDATE record SET chosen = (trace = ?) WHERE workload = (SELECT id FROM workload WHERE key = ?) "
        "AND target = ? AND device = ? AND threads = ? AND build = ?");
    for (const Record& record : chosen) {
      mark.reset();
      mark.bind(trace_text(record.trace))
          .bind(record.workload)
          .bind(record.target)
          .bind(record.device)
          .bind(int64_t{record.threads})
          .bind(record.build);
      mark.step();
    }
  });
}

void SqliteStore::remove(const std::vector<Record>& records) {
  file_.transaction([&] {
    Query remove(
        file_,
        "DELETE FROM record WHERE trace = ? AND workload = (SELECT id FROM workload WHERE key = ?) "
        "AND target = ? AND device = ? AND threads = ? AND build = ? AND created = ? AND NOT chosen");
    for (const Record& record : records) {
      remove.reset();
      remove.bind(trace_text(record.trace))
          .bind(record.workload)
          .bind(record.target)
          .bind(record.device)
          .bind(int64_t{record.threads})
          .bind(record.build)
          .bind(record.created);
      remove.step();
    }
    file_.execute("DELETE FROM workload WHERE id NOT IN (SELECT workload FROM record)");
  });
  file_.compact();
}

double SqliteStore::seconds_spent(const std::string& session) const {
  Query query(file_, "SELECT seconds FROM session WHERE name = ?");
  query.bind(session);
  return query.step() ? query.number(0) : 0;
}

void SqliteStore::spend(const std::string& session, double seconds) {
  Query query(file_,
              "INSERT INTO session VALUES (?, ?) "
              "ON CONFLICT (name) DO UPDATE SET seconds = seconds + excluded.seconds");
  query.bind(session).bind(seconds).step();
}

void SqliteStore::read(const RecordFilter& filter, const Take& take) const {
  std::string where = "1";
  std::vector<std::string> values;
  for (const auto& [column, value] :
       {std::pair<const char*, const std::string*>{"workload.key", &filter.workload},
        {"target", &filter.target},
        {"device", &filter.device},
        {"build", &filter.build}}) {
    if (value->empty()) continue;
    where += text(" AND ", column, " = ?");
    values.push_back(*value);
  }
  if (filter.threads > 0) where += text(" AND threads = ", filter.threads);
  if (filter.verified_only) where += " AND outcome = 0";
  if (filter.above > 0) where += text(" AND record.id > ", filter.above);
  if (filter.most > 0) where += text(" ORDER BY record.id LIMIT ", filter.most);
  Query query(file_, text("SELECT ", kColumns,
                          " FROM record JOIN workload ON workload.id = record.workload WHERE ", where));
  for (const std::string& value : values) query.bind(value);
  size_t bytes = 0;
  const size_t most = kMaxText + 2 * static_cast<size_t>(bytes_of(file_));
  while (query.step()) {
    Record record = read_record(query);
    const size_t more = text_bytes(record);
    if (bytes + more > most && !check_record(record))
      file_.fail_damaged(text("its records have more than ", most >> 20,
                              " MiB of text, of which the file has ", bytes_of(file_) >> 20));
    if (take(std::move(record), query.integer(20))) bytes += more;
  }
}

std::string SqliteStore::usual_device(const std::string& target, int threads) const {
  Query query(file_,
              "SELECT device FROM record WHERE target = ? AND threads = ? AND outcome = 0 GROUP BY device "
              "ORDER BY count(DISTINCT workload) DESC, device LIMIT 1");
  query.bind(target).bind(int64_t{threads});
  return query.step() ? query.text(0) : "";
}

StoreStats SqliteStore::stats() const {
  StoreStats stats;
  const auto count = [&](const char* sql) {
    Query query(file_, sql);
    return query.step() ? query.integer(0) : 0;
  };
  stats.workloads = count("SELECT count(*) FROM workload");
  stats.records = count("SELECT count(*) FROM record");
  stats.verified = count("SELECT count(*) FROM record WHERE outcome = 0");
  stats.schema = static_cast<int>(file_.pragma("user_version"));
  stats.bytes = bytes_of(file_);
  const auto group = [&](const char* column, std::map<std::string, int64_t>& into) {
    Query query(file_, text("SELECT ", column, ", count(*) FROM record GROUP BY 1"));
    while (query.step()) into[query.text(0)] = query.integer(1);
  };
  group("target", stats.by_target);
  group("device", stats.by_device);
  group("build", stats.by_build);
  if (stats.schema > 1) group("author", stats.by_author);
  stats.by_author.erase("");  // of records that are older than the column
  std::map<std::string, int64_t> outcomes;
  group("outcome", outcomes);
  for (const auto& [outcome, number] : outcomes) {
    stats.by_outcome[name_of(static_cast<Outcome>(std::atoi(outcome.c_str())))] = number;
  }
  return stats;
}

int64_t SqliteStore::number_before_last(size_t most) const {
  Query query(file_, text("SELECT id FROM record ORDER BY id DESC LIMIT 1 OFFSET ", most));
  return query.step() ? query.integer(0) : 0;
}

std::string SqliteStore::integrity() const {
  Query query(file_, "PRAGMA quick_check(1)");
  if (!query.step()) return "no answer";
  // The answer may have a heading before the line that tells the damage.
  const std::string found = query.text(0);
  return found.substr(found.rfind('\n') + 1);
}

}  // namespace

std::unique_ptr<RecordStore> open_sqlite_store(const std::string& path, RecordStore::Mode mode) {
  return std::make_unique<SqliteStore>(path, mode);
}

}  // namespace tc
