// Records in a database of a PostgreSQL server.
#include "tuner/postgres_store.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <map>

#include "ir/error.h"
#include "runtime/rpc/sha256.h"
#include "tuner/postgres_connection.h"
#include "tuner/postgres_schema.h"

namespace tc {
namespace {

// As of a file: see tuner/sqlite_store.cc.
constexpr size_t kMaxText = size_t{128} << 20;
// Records, and bytes of their texts, that one statement writes.
constexpr size_t kMaxBatch = 1000, kMaxBatchBytes = size_t{8} << 20;

std::string bytes_of_hex(const std::string& hex) { return "\\x" + hex; }

std::string digest_of(const std::string& text) { return bytes_of_hex(rpc::sha256_of(text)); }

// What no two records share; the constraint record_digest of the table computes the same.
std::string key_of(const Record& record) {
  return rpc::sha256_of(record.workload) + "\n" + record.target + "\n" + record.device + "\n" +
         std::to_string(record.threads) + "\n" + record.build + "\n" + trace_text(record.trace);
}

std::string decimal(double number) {
  char digits[40];
  return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
}

// One column of the records of a statement: its name, its type, and a record's value.
struct Column {
  const char* name;
  const char* type;
  std::string (*value)(const Record&);
  bool is_key;  // stays what it is when the record is measured again
};

const Column kColumns[] = {
    {"digest", "bytea", [](const Record& r) { return digest_of(key_of(r)); }, true},
    {"workload", "bytea", [](const Record& r) { return digest_of(r.workload); }, true},
    {"target", "text", [](const Record& r) { return r.target; }, true},
    {"device", "text", [](const Record& r) { return r.device; }, true},
    {"unit", "text", [](const Record& r) { return r.unit; }, false},
    {"threads", "integer", [](const Record& r) { return std::to_string(r.threads); }, true},
    {"trace", "text", [](const Record& r) { return trace_text(r.trace); }, true},
    {"outcome", "integer",
     [](const Record& r) { return std::to_string(static_cast<int>(r.measurement.outcome)); }, false},
    {"detail", "text", [](const Record& r) { return r.measurement.detail; }, false},
    {"samples", "integer", [](const Record& r) { return std::to_string(r.measurement.time.count); }, false},
    {"minimum", "double precision", [](const Record& r) { return decimal(r.measurement.time.minimum); },
     false},
    {"median", "double precision", [](const Record& r) { return decimal(r.measurement.time.median); }, false},
    {"spread", "double precision", [](const Record& r) { return decimal(r.measurement.time.spread); }, false},
    {"ratio", "double precision", [](const Record& r) { return decimal(r.measurement.ratio); }, false},
    {"worst_error", "double precision", [](const Record& r) { return decimal(r.measurement.worst_error); },
     false},
    {"build", "text", [](const Record& r) { return r.build; }, true},
    {"language_major", "integer", [](const Record& r) { return std::to_string(r.language_major); }, false},
    {"language_minor", "integer", [](const Record& r) { return std::to_string(r.language_minor); }, false},
    {"seed", "bigint", [](const Record& r) { return std::to_string(static_cast<int64_t>(r.seed)); }, false},
    {"created", "bigint", [](const Record& r) { return std::to_string(r.created); }, false},
};

// The statement that writes records and their workloads, given as one array per column. The trigger fills in
// the author.
std::string insertion() {
  std::string names, arrays, updates;
  int number = 2;
  for (const Column& column : kColumns) {
    const char* comma = names.empty() ? "" : ", ";
    names += text(comma, column.name);
    arrays += text(comma, "$", ++number, "::", column.type, "[]");
    if (!column.is_key)
      updates += text(updates.empty() ? "" : ", ", column.name, " = excluded.", column.name);
  }
  return text(
      "WITH added AS (INSERT INTO tc_log.workload (digest, key) SELECT * FROM unnest($1::bytea[], $2::text[]) "
      "ON CONFLICT (digest) DO NOTHING) INSERT INTO tc_log.record (",
      names, ", author) SELECT *, session_user FROM unnest(", arrays, ") ON CONFLICT (digest) DO UPDATE SET ",
      updates);
}

// The columns of a record that is read, in this order. Texts that are longer than any record's are cut to one
// character more than is allowed, which check_record refuses.
std::string selection() {
  const auto cut = [](const char* column, size_t most) { return text("left(", column, ", ", most + 1, ")"); };
  return text("SELECT number, ", cut("key", kMaxWorkloadBytes), ", ", cut("target", kMaxNameBytes), ", ",
              cut("device", kMaxNameBytes), ", ", cut("unit", kMaxNameBytes), ", threads, ",
              cut("trace", kMaxTraceBytes), ", outcome, ", cut("detail", kMaxDetailBytes),
              ", samples, minimum, median, spread, ratio, worst_error, ", cut("build", kMaxNameBytes),
              ", language_major, language_minor, seed, created, chosen FROM tc_log.record JOIN "
              "tc_log.workload ON workload.digest = record.workload WHERE true");
}

Record read_record(const PostgresRow& row) {
  const auto number = [&](int column) {
    return static_cast<int>(std::clamp<int64_t>(row.integer(column), INT_MIN, INT_MAX));
  };
  Record record;
  record.workload = row.text(1);
  record.target = row.text(2);
  record.device = row.text(3);
  record.unit = row.text(4);
  record.threads = number(5);
  record.trace = parse_trace(row.text(6));
  Measurement& measured = record.measurement;
  measured.outcome = static_cast<Outcome>(std::clamp<int64_t>(row.integer(7), -1, 99));
  measured.detail = row.text(8);
  measured.time.count = number(9);
  measured.time.minimum = row.number(10);
  measured.time.median = row.number(11);
  measured.time.spread = row.number(12);
  measured.ratio = row.number(13);
  measured.worst_error = row.number(14);
  record.build = row.text(15);
  record.language_major = number(16);
  record.language_minor = number(17);
  record.seed = static_cast<uint64_t>(row.integer(18));
  record.created = row.integer(19);
  record.chosen = row.text(20) == "t";
  return record;
}

// The number of an advisory lock for one of the groups of which a session chooses a record.
int64_t lock_of(const std::string& group) {
  return static_cast<int64_t>(std::stoull(rpc::sha256_of(group).substr(0, 16), nullptr, 16));
}

class PostgresStore final : public RecordStore {
 public:
  PostgresStore(const std::string& place, Mode mode);

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

  void write_batch(const std::vector<const Record*>& batch);
  int64_t bytes() const;

  mutable PostgresConnection server_;  // reading runs statements
};

PostgresStore::PostgresStore(const std::string& place, Mode mode)
    : RecordStore(shown_postgres_url(place), mode), server_(place, mode == Mode::Read) {
  const int schema = need_postgres_schema(server_);
  if (mode == Mode::Read) return;
  if (server_.value("SELECT has_table_privilege('tc_log.record', 'INSERT')") != "t")
    fail(ErrorKind::Log, name(), ": the role ", server_.role(),
         " may only read this log; its owner allows it to write by GRANT tc_writer TO ", server_.role());
  if (schema < newest_postgres_schema())
    fail(ErrorKind::Log, name(), ": the log has schema ", schema, " and this tc writes ",
         newest_postgres_schema(), "; its owner upgrades it by `python -m tc log upgrade URL`");
}

// Rows are written in the order of their keys, so that two writers of the same keys wait for each other at
// most, instead of for ever.
void PostgresStore::write(const std::vector<Record>& records) {
  std::map<std::string, const Record*> by_key;  // of two records with the same key, the last one
  for (const Record& record : records) by_key[rpc::sha256_of(key_of(record))] = &record;
  std::vector<std::vector<const Record*>> batches;
  size_t bytes = 0;
  for (const auto& [key, record] : by_key) {
    bytes += text_bytes(*record);
    if (batches.empty() || batches.back().size() == kMaxBatch || bytes > kMaxBatchBytes) {
      batches.emplace_back();
      bytes = text_bytes(*record);
    }
    batches.back().push_back(record);
  }
  if (batches.size() == 1) return write_batch(batches[0]);  // one statement needs no transaction around it
  server_.transaction([&] {
    for (const std::vector<const Record*>& batch : batches) write_batch(batch);
  });
}

void PostgresStore::write_batch(const std::vector<const Record*>& batch) {
  std::map<std::string, const std::string*> workloads;
  for (const Record* record : batch) workloads[digest_of(record->workload)] = &record->workload;
  std::vector<std::string> digests, keys;
  for (const auto& [digest, key] : workloads) {
    digests.push_back(digest);
    keys.push_back(*key);
  }
  std::vector<std::string> arrays = {postgres_array(digests), postgres_array(keys)};
  for (const Column& column : kColumns) {
    std::vector<std::string> values;
    for (const Record* record : batch) values.push_back(column.value(*record));
    arrays.push_back(postgres_array(values));
  }
  static const std::string sql = insertion();
  server_.run(sql, arrays);
}

void PostgresStore::mark(const std::vector<Record>& chosen) {
  const auto group_of = [](const Record& r) {
    return rpc::sha256_of(r.workload) + "\n" + r.target + "\n" + r.device + "\n" + std::to_string(r.threads) +
           "\n" + r.build;
  };
  std::map<std::string, const Record*> by_group;  // of two records of a group, the last one
  for (const Record& record : chosen) by_group[group_of(record)] = &record;
  std::vector<int64_t> locks;
  std::vector<std::string> numbers, digests, workloads, targets, devices, threads, builds;
  for (const auto& [group, record] : by_group) {
    locks.push_back(lock_of(group));
    digests.push_back(digest_of(key_of(*record)));
    workloads.push_back(digest_of(record->workload));
    targets.push_back(record->target);
    devices.push_back(record->device);
    threads.push_back(std::to_string(record->threads));
    builds.push_back(record->build);
  }
  std::sort(locks.begin(), locks.end());
  for (const int64_t lock : locks) numbers.push_back(std::to_string(lock));
  server_.transaction([&] {
    // Two sessions that choose at once would otherwise each miss what the other one marks.
    server_.run("SELECT pg_advisory_xact_lock(number) FROM unnest($1::bigint[]) AS number",
                {postgres_array(numbers)});
    server_.run(
        "UPDATE tc_log.record SET chosen = (record.digest = mark.digest) "
        "FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::text[], $5::integer[], $6::text[]) "
        "AS mark (digest, workload, target, device, threads, build) "
        "WHERE record.workload = mark.workload AND record.target = mark.target AND record.device = mark.device "
        "AND record.threads = mark.threads AND record.build = mark.build "
        "AND record.chosen <> (record.digest = mark.digest)",
        {postgres_array(digests), postgres_array(workloads), postgres_array(targets), postgres_array(devices),
         postgres_array(threads), postgres_array(builds)});
  });
}

void PostgresStore::remove(const std::vector<Record>& records) {
  if (server_.value("SELECT has_table_privilege('tc_log.record', 'DELETE')") != "t")
    fail(ErrorKind::Log, name(), ": the role ", server_.role(),
         " may not remove records; only the log's owner (tc_owner) prunes it");
  std::vector<std::string> digests, times;
  for (const Record& record : records) {
    digests.push_back(digest_of(key_of(record)));
    times.push_back(std::to_string(record.created));
  }
  server_.transaction([&] {
    server_.run(
        "DELETE FROM tc_log.record USING unnest($1::bytea[], $2::bigint[]) AS surplus (digest, created) "
        "WHERE record.digest = surplus.digest AND record.created = surplus.created AND NOT chosen",
        {postgres_array(digests), postgres_array(times)});
    // Who writes a record now waits, and then adds its workload again.
    server_.run("LOCK TABLE tc_log.workload IN SHARE ROW EXCLUSIVE MODE");
    server_.run(
        "DELETE FROM tc_log.workload WHERE NOT EXISTS "
        "(SELECT 1 FROM tc_log.record WHERE record.workload = workload.digest)");
  });
}

double PostgresStore::seconds_spent(const std::string& session) const {
  double seconds = 0;
  server_.run("SELECT seconds FROM tc_log.session WHERE digest = $1::bytea", {digest_of(session)},
              [&](const PostgresRow& row) { seconds = row.number(0); });
  return seconds;
}

void PostgresStore::spend(const std::string& session, double seconds) {
  const auto add = [&] {
    server_.run(
        "INSERT INTO tc_log.session AS kept VALUES ($1::bytea, $2, $3::double precision) "
        "ON CONFLICT (digest) DO UPDATE SET seconds = kept.seconds + excluded.seconds",
        {digest_of(session), session, decimal(seconds)});
  };
  server_.transaction(add, true);
}

void PostgresStore::read(const RecordFilter& filter, const Take& take) const {
  std::string sql = selection();
  std::vector<std::string> values;
  const auto narrow = [&](const char* condition, const std::string& value) {
    values.push_back(value);
    const std::string place = "$" + std::to_string(values.size());
    sql += " AND ";
    for (const char* c = condition; *c != '\0'; ++c) sql += *c == '?' ? place : std::string(1, *c);
  };
  if (!filter.workload.empty()) narrow("workload = ?::bytea", digest_of(filter.workload));
  if (!filter.target.empty()) narrow("target = ? AND left(target, 100) = left(?, 100)", filter.target);
  if (!filter.device.empty()) narrow("device = ?", filter.device);
  if (!filter.build.empty()) narrow("build = ?", filter.build);
  if (filter.threads > 0) narrow("threads = ?::integer", std::to_string(filter.threads));
  if (filter.verified_only) sql += " AND outcome = 0";
  if (filter.above > 0) narrow("number > ?::bigint", std::to_string(filter.above));
  if (filter.most > 0) sql += text(" ORDER BY number LIMIT ", filter.most);
  const size_t held = static_cast<size_t>(bytes());
  const size_t most = kMaxText + 2 * held;
  size_t read = 0;
  server_.run(sql, values, [&](const PostgresRow& row) {
    Record record = read_record(row);
    const size_t more = text_bytes(record);
    if (read + more > most && !check_record(record))
      server_.fail_damaged(text("its records have more than ", most >> 20,
                                " MiB of text, of which the database has ", held >> 20));
    if (take(std::move(record), row.integer(0))) read += more;
  });
}

std::string PostgresStore::usual_device(const std::string& target, int threads) const {
  return server_
      .value(
          "SELECT device FROM tc_log.record WHERE target = $1 AND left(target, 100) = left($1, 100) AND threads "
          "= $2::integer AND outcome = 0 GROUP BY device "
          "ORDER BY count(DISTINCT workload) DESC, device COLLATE \"C\" LIMIT 1",
          {target, std::to_string(threads)})
      .value_or("");
}

int64_t PostgresStore::bytes() const {
  const auto size = server_.value(
      "SELECT pg_total_relation_size('tc_log.record') + pg_total_relation_size('tc_log.workload') + "
      "pg_total_relation_size('tc_log.session')");
  return size ? std::strtoll(size->c_str(), nullptr, 10) : 0;
}

StoreStats PostgresStore::stats() const {
  StoreStats stats;
  server_.run(
      "SELECT (SELECT count(*) FROM tc_log.workload), count(*), count(*) FILTER (WHERE outcome = 0), (SELECT "
      "max(schema) FROM tc_log.meta) FROM tc_log.record",
      {}, [&](const PostgresRow& row) {
        stats.workloads = row.integer(0);
        stats.records = row.integer(1);
        stats.verified = row.integer(2);
        stats.schema = static_cast<int>(row.integer(3));
      });
  stats.bytes = bytes();
  const auto group = [&](const char* column, std::map<std::string, int64_t>& into) {
    server_.run(text("SELECT ", column, ", count(*) FROM tc_log.record GROUP BY 1"), {},
                [&](const PostgresRow& row) { into[row.text(0)] = row.integer(1); });
  };
  group("left(target, 4096)", stats.by_target);
  group("left(device, 4096)", stats.by_device);
  group("left(build, 4096)", stats.by_build);
  group("left(author, 64)", stats.by_author);
  std::map<std::string, int64_t> outcomes;
  group("outcome", outcomes);
  for (const auto& [outcome, number] : outcomes) {
    stats.by_outcome[name_of(static_cast<Outcome>(std::atoi(outcome.c_str())))] = number;
  }
  return stats;
}

int64_t PostgresStore::number_before_last(size_t most) const {
  const auto number =
      server_.value(text("SELECT number FROM tc_log.record ORDER BY number DESC LIMIT 1 OFFSET ", most));
  return number ? std::strtoll(number->c_str(), nullptr, 10) : 0;
}

// Opening has looked at the tables; the server looks after its pages.
std::string PostgresStore::integrity() const { return "ok"; }

}  // namespace

std::unique_ptr<RecordStore> open_postgres_store(const std::string& place, RecordStore::Mode mode) {
  return std::make_unique<PostgresStore>(place, mode);
}

void make_postgres_store(const std::string& place) { prepare_postgres_log(place, false); }
void upgrade_postgres_store(const std::string& place) { prepare_postgres_log(place, true); }

}  // namespace tc
