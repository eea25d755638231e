// The store in an SQLite file: what a stranger may have done to the file is refused, and nothing that was
// acknowledged is lost. What it has in common with others is tested in store_test.cc.
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "tests/stores.h"
#include "tuner/log_file.h"

namespace tc::testing {
namespace {

using Mode = RecordStore::Mode;

class TunerSqliteStore : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = ::testing::TempDir() + "sqlite-store-" + info->name() + ".db";
    std::filesystem::remove(path_);
  }

  // Statements of a stranger on the file.
  void tamper(const std::string& sql) const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    char* why = nullptr;
    ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &why), SQLITE_OK) << why;
    sqlite3_close(db);
  }

  std::string path_;
};

TEST_F(TunerSqliteStore, LeavesOutRowsThatNoTcWrites) {
  open_store(path_, Mode::Write)->add({some_record("w", 1), some_record("w", 2, "unroll c")});
  tamper("PRAGMA ignore_check_constraints = 1; UPDATE record SET median = -1 WHERE trace LIKE '%unroll c%'");
  const auto log = open_store(path_, Mode::Read);
  std::vector<std::string> problems;
  EXPECT_EQ(log->records({}, &problems).size(), 1u);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("record 2 is refused: it is marked as measured"), std::string::npos)
      << problems[0];
}

// A log as the first version made it.
constexpr const char* kFirstSchema =
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
INSERT INTO workload VALUES (1, 'w');
INSERT INTO record VALUES (7, 1, 'x86-64-v4', 'd', 'seconds', 1, 'layout; unroll a', 0, '', 5, 1, 1, 0, 0.8,
  0, '1.0', 1, 0, 1, 100, 1);
INSERT INTO session VALUES ('s', 2.5);
PRAGMA application_id = 1952664679;
PRAGMA user_version = 1;
)sql";

TEST_F(TunerSqliteStore, ALogOfTheFirstVersionIsReadAndUpgraded) {
  tamper(kFirstSchema);
  EXPECT_EQ(open_store(path_, Mode::Read)->stats().schema, 1);
  EXPECT_EQ(open_store(path_, Mode::Read)->records({}).size(), 1u);
  EXPECT_TRUE(open_store(path_, Mode::Read)->stats().by_author.empty());
  const auto log = open_store(path_, Mode::Write);
  EXPECT_EQ(log->stats().schema, 2);
  EXPECT_EQ(log->seconds_spent("s"), 2.5);
  EXPECT_TRUE(log->records({})[0].chosen);
  EXPECT_EQ(log->number_before_last(0), 7);
  EXPECT_TRUE(log->stats().by_author.empty());
  log->add({some_record("w", 1, "unroll b")});
  EXPECT_GE(log->number_before_last(0), 8);
  EXPECT_EQ(open_store(path_, Mode::Read)->records({}).size(), 2u);
}

TEST_F(TunerSqliteStore, SaysWhoWrote) {
  open_store(path_, Mode::Write)->add({some_record("w", 1), some_record("v", 2)});
  const passwd* user = getpwuid(geteuid());
  const std::string name = user != nullptr ? user->pw_name : text("user ", geteuid());
  const auto authors = [&] { return open_store(path_, Mode::Read)->stats().by_author; };
  EXPECT_EQ(authors(), (std::map<std::string, int64_t>{{name, 2}}));
  tamper("UPDATE record SET author = 'another'");
  open_store(path_, Mode::Write)->add({some_record("w", 3)});
  EXPECT_EQ(authors(), (std::map<std::string, int64_t>{{name, 1}, {"another", 1}})) << "the last who wrote";
}

TEST_F(TunerSqliteStore, RefusesWhatIsNoLog) {
  const auto open = [&](Mode mode) { return refusal([&] { open_store(path_, mode); }); };
  EXPECT_NE(open(Mode::Read).find("no such log; tuning with log= makes one"), std::string::npos);
  std::ofstream(path_) << std::string(5000, 'x');
  EXPECT_NE(open(Mode::Read).find("the log is damaged"), std::string::npos);
  EXPECT_NE(open(Mode::Write).find("the log is damaged"), std::string::npos);
  std::filesystem::remove(path_);
  tamper("CREATE TABLE t (a); PRAGMA user_version = 1");
  EXPECT_NE(open(Mode::Write).find("a database of another program"), std::string::npos);
  std::filesystem::remove(path_);
  open_store(path_, Mode::Write);
  tamper("PRAGMA user_version = 7");
  EXPECT_NE(open(Mode::Read).find("has schema 7 and this tc knows up to 2; update tc"), std::string::npos);
  EXPECT_NE(refusal([&] {
              open_store(::testing::TempDir() + "none/such.db", Mode::Write);
            }).find("check that the folder"),
            std::string::npos);
  EXPECT_NE(refusal([&] { open_store(::testing::TempDir(), Mode::Write); }).find("no regular file"),
            std::string::npos);
}

// Rows without an end.
constexpr const char* kEndless =
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, i AS workload, 'k' AS key, 'x86-64-v4' AS target, "
    "'x86-64 here' AS device, 'seconds' AS unit, 1 AS threads, '' AS trace, 0 AS outcome, '' AS detail, 5 AS samples, 1.0 AS minimum, "
    "1.0 AS median, 0.0 AS spread, 1.0 AS ratio, 0.0 AS worst_error, '1.0' AS build, 1 AS language_major, 0 AS language_minor, 1 AS seed, "
    "1 AS created, 0 AS chosen FROM n";

TEST_F(TunerSqliteStore, RunsNothingOfAStrangersSchema) {
  const std::string in_schema = "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = ";
  std::string many = "BEGIN;";
  for (int i = 0; i < 2000; ++i) many += text("CREATE TABLE t", i, " (a);");
  const std::pair<std::string, const char*> attacks[] = {
      {text("DROP TABLE record; CREATE VIEW record AS ", kEndless),
       "the view 'record' is none of those that tc makes"},
      {text("DROP TABLE workload; CREATE VIEW workload AS ", kEndless),
       "the view 'workload' is none of those"},
      {text("CREATE VIEW \"a\x1b[2J\" AS ", kEndless), "the view 'a?[2J' is none of those"},
      {"CREATE TRIGGER t AFTER INSERT ON record BEGIN UPDATE record SET ratio = 0; END",
       "the trigger 't' is none of those"},
      {"CREATE VIRTUAL TABLE f USING fts5 (a)", "the table 'f' is none of those"},
      {"ALTER TABLE record ADD COLUMN more TEXT AS (hex(zeroblob(400000000)))",
       "the table 'record' is not defined as tc defines it"},
      {"CREATE INDEX i ON record (hex(zeroblob(10)))", "the index 'i' is none of those"},
      {"CREATE TABLE sqlite (a)", "the table 'sqlite' is none of those"},
      {"ANALYZE", "the table 'sqlite_stat1' is none of those"},
      {"DROP INDEX record_by_target", "the index 'record_by_target' is missing"},
      {"DROP TABLE session", "the table 'session' is missing"},
      {in_schema + "replace(sql, 'threads >= 1', 'length(hex(zeroblob(400000000))) > 0')",
       "the table 'record' is not defined as"},
      {in_schema + "'CREATE VIEW sqlite_schema AS SELECT 1' WHERE name = 'session'", "the log is damaged ("},
      {in_schema +
           "replace(sql, 'threads >= 1', 'threads >= 1' || replace(hex(zeroblob(20000)), '00', ' AND 1'))",
       "the log is damaged ("},
      {many + "COMMIT", "more tables and indexes than tc makes"},
  };
  for (const auto& [sql, why] : attacks) {
    std::filesystem::remove(path_);
    open_store(path_, Mode::Write)->add({some_record("w", 1)});
    tamper(sql);
    const auto begin = std::clock();
    for (const Mode mode : {Mode::Read, Mode::Write}) {
      const std::string text = refusal([&] { open_store(path_, mode); });
      EXPECT_NE(text.find(why), std::string::npos) << sql << "\n" << text;
      EXPECT_NE(text.find("move it away, or put a copy of it back"), std::string::npos) << text;
      EXPECT_EQ(text.find('\x1b'), std::string::npos);
    }
    EXPECT_LT(std::clock() - begin, 2 * CLOCKS_PER_SEC) << sql;
  }
}

TEST_F(TunerSqliteStore, EndsAStatementThatTakesTooLong) {
  open_store(path_, Mode::Write);
  LogFile file(path_, false, 0.2);
  EXPECT_NE(refusal([&] {
              Query(file, text("SELECT count(*) FROM (", kEndless, ")")).step();
            }).find("more tables and indexes than"),
            std::string::npos)
      << "before the schema is known it has even less";
  LogFile known(path_, true, 0.2);
  known.execute("DROP TABLE record; DROP TABLE workload; DROP TABLE session");
  // SQLite keeps the table of its counters.
  known.need_schema_of({"CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT)", "DROP TABLE t"});
  EXPECT_NE(refusal([&] {
              Query(known, text("SELECT count(*) FROM (", kEndless, ")")).step();
            }).find("a statement took more than 0.2 seconds of processor time"),
            std::string::npos);
}

// A journal that a killed writer left, with the name of another file at its end: SQLite removes that file.
TEST_F(TunerSqliteStore, AJournalThatNamesAnotherFileIsRefused) {
  const std::string victim = path_ + ".victim", journal = path_ + "-journal";
  std::ofstream(victim) << "kept";
  open_store(path_, Mode::Write)->add({some_record("w", 1)});
  std::string bytes(512, '\0');
  uint32_t sum = 0;
  for (const char c : victim) sum += static_cast<uint32_t>(static_cast<int8_t>(c));
  const auto big_endian = [&](uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  };
  bytes += std::string("\0\0\0\0", 4) + victim;
  big_endian(static_cast<uint32_t>(victim.size()));
  big_endian(sum);
  bytes += "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  std::ofstream(journal, std::ios::binary) << bytes;
  for (const Mode mode : {Mode::Read, Mode::Write})
    EXPECT_NE(refusal([&] {
                open_store(path_, mode);
              }).find("names another file that is to be removed: tc writes none such"),
              std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(victim));
  std::filesystem::remove(journal);
}

// A megabyte that thousands of small rows name.
TEST_F(TunerSqliteStore, ReadsNoMoreTextThanAFewTimesTheFile) {
  open_store(path_, Mode::Write)->add({some_record(std::string(1 << 20, 'k'), 1)});
  tamper(
      "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO record SELECT 10 + i, workload, target, "
      "device, unit, threads, i || char(10), outcome, detail, samples, minimum, median, spread, ratio, worst_error, build, "
      "language_major, language_minor, seed, created, chosen, author FROM record, n");
  const auto log = open_store(path_, Mode::Read);
  EXPECT_NE(refusal([&] { log->records({}); }).find("its records have more than 13"), std::string::npos);
}

TEST_F(TunerSqliteStore, TellsTheFirstOfManyRefusedRows) {
  open_store(path_, Mode::Write)->add({some_record("w", 1)});
  tamper(
      "PRAGMA ignore_check_constraints = 1; UPDATE record SET median = -1; WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
      "WHERE i < 1000) INSERT INTO record SELECT 10 + i, workload, target, device, unit, threads, i, outcome, detail, samples, minimum, "
      "median, spread, ratio, worst_error, build, language_major, language_minor, seed, created, chosen, author FROM record, n");
  std::vector<std::string> problems;
  EXPECT_TRUE(open_store(path_, Mode::Read)->records({}, &problems).empty());
  ASSERT_EQ(problems.size(), 101u);
  EXPECT_NE(problems.back().find(": 901 more records are refused"), std::string::npos) << problems.back();
}

TEST_F(TunerSqliteStore, RefusesADamagedFile) {
  {
    const auto log = open_store(path_, Mode::Write);
    for (int i = 0; i < 200; ++i) log->add({some_record(text("w", i), 1)});
  }
  const auto size = std::filesystem::file_size(path_);
  int refused = 0;
  for (uintmax_t at = 4096 + 50; at < size; at += 4096) {
    const std::string copy = path_ + ".damaged";
    std::filesystem::copy_file(path_, copy, std::filesystem::copy_options::overwrite_existing);
    std::fstream(copy, std::ios::in | std::ios::out | std::ios::binary)
            .seekp(static_cast<std::streamoff>(at - 50))
        << std::string(100, '\xff');
    try {
      const auto log = open_store(copy, Mode::Read);
      log->records({});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Log);
      ++refused;
    }
  }
  EXPECT_GT(refused, 5);
  std::filesystem::resize_file(path_, size / 2);
  EXPECT_NE(refusal([&] { open_store(path_, Mode::Write); }).find("the log is damaged"), std::string::npos);
}

// The child adds one record at a time and says so after each; whatever it said is there after.
int acknowledged_by(pid_t child, int from_child) {
  int count = 0;
  char byte;
  while (read(from_child, &byte, 1) == 1) ++count;
  int status = 0;
  waitpid(child, &status, 0);
  return count;
}

TEST_F(TunerSqliteStore, FullDiskLosesNothingAcknowledged) {
  open_store(path_, Mode::Write);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{200000, 200000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto log = open_store(path_, Mode::Write);
    try {
      for (int i = 0; i < 100000; ++i) {
        log->add({some_record(text("w", i, std::string(500, 'k')), 1)});
        if (write(ends[1], "a", 1) != 1) _exit(3);
      }
    } catch (const Error& error) {
      const bool told = std::string(error.what()).find("free some disk space") != std::string::npos;
      _exit(told ? 0 : 4);
    }
    _exit(5);
  }
  close(ends[1]);
  int count = 0;
  char byte;
  while (read(ends[0], &byte, 1) == 1) ++count;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_GT(count, 20);
  const auto log = open_store(path_, Mode::Write);  // Write: the child's journal may want a rollback
  EXPECT_EQ(log->records({}).size(), static_cast<size_t>(count));
  EXPECT_EQ(log->integrity(), "ok");
}

TEST_F(TunerSqliteStore, WhatAKilledWriterLeftHalfDoneIsTakenBack) {
  {
    const auto log = open_store(path_, Mode::Write);
    for (int i = 0; i < 50; ++i) log->add({some_record(text("w", i, std::string(500, 'k')), 1)});
  }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    // A transaction larger than the cache reaches the file before its end.
    sqlite3* db = nullptr;
    sqlite3_open(path_.c_str(), &db);
    const bool begun =
        sqlite3_exec(db, "PRAGMA cache_size = 1; BEGIN; UPDATE record SET detail = hex(zeroblob(1500))",
                     nullptr, nullptr, nullptr) == SQLITE_OK;
    if (write(ends[1], begun ? "a" : "b", 1) != 1) _exit(3);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'a');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(std::filesystem::exists(path_ + "-journal"));
  const auto log = open_store(path_, Mode::Read);
  const std::vector<Record> found = log->records({});
  EXPECT_EQ(found.size(), 50u);
  for (const Record& each : found) EXPECT_EQ(each.measurement.detail, "");
  EXPECT_EQ(log->integrity(), "ok");
  EXPECT_FALSE(std::filesystem::exists(path_ + "-journal"));
}

TEST_F(TunerSqliteStore, KilledWritersLoseNothingAcknowledged) {
  open_store(path_, Mode::Write);
  size_t expected = 0;
  for (int round = 0; round < 10; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      const auto log = open_store(path_, Mode::Write);
      for (int i = 0;; ++i) {
        log->add({some_record(text("round ", round, " w", i), 1)});
        if (write(ends[1], "a", 1) != 1) _exit(3);
      }
    }
    close(ends[1]);
    usleep(20000 + 7000 * static_cast<unsigned>(round));
    kill(child, SIGKILL);
    expected += static_cast<size_t>(acknowledged_by(child, ends[0]));
    close(ends[0]);
    const auto log = open_store(path_, Mode::Write);
    const size_t found = log->records({}).size();
    EXPECT_GE(found, expected);
    EXPECT_LE(found, expected + 1) << "at most the one that was not yet acknowledged";
    EXPECT_EQ(log->integrity(), "ok");
    expected = found;
  }
}

}  // namespace
}  // namespace tc::testing
