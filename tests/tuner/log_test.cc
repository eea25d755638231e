// The log: what goes in comes out, in order; what no tc would write is refused; nothing that was
// acknowledged is lost.
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "ir/error.h"
#include "tuner/log.h"

namespace tc {
namespace {

class TunerLog : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = ::testing::TempDir() + "log-" + info->name() + ".db";
    std::filesystem::remove(path_);
  }

  static Record record(const std::string& workload, double median, const std::string& line = "unroll a") {
    Record record;
    record.workload = workload;
    record.target = "x86-64-v4";
    record.device = "x86-64 here";
    record.unit = "seconds";
    record.trace = {"layout in0 1 16", line};
    record.measurement.time = {5, median * 0.9, median, 0.01};
    record.measurement.ratio = 0.8;
    record.measurement.worst_error = 1e-6;
    record.build = "1.0";
    record.created = 100;
    return record;
  }

  static Record failure(const std::string& workload, Outcome outcome) {
    Record failed = record(workload, 1, "unroll b");
    failed.measurement = {};
    failed.measurement.outcome = outcome;
    failed.measurement.detail = "signal 11";
    return failed;
  }

  // The text of the Log error that the action throws.
  template <class Action>
  static std::string refusal(const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Log);
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
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

TEST_F(TunerLog, KeepsEveryField) {
  Record written = record("kernel k\nlayout in0 1 16", 0.00123456789);
  written.seed = 0xffffffffffffffffull;
  written.threads = 2;
  {
    Log log(path_, Log::Mode::Write);
    log.add({written, failure("other", Outcome::Crash)});
  }
  const Log log(path_, Log::Mode::Read);
  RecordFilter filter;
  filter.workload = written.workload;
  const auto found = log.records(filter);
  ASSERT_EQ(found.size(), 1u);
  const Record& read = found[0];
  EXPECT_EQ(read.trace, written.trace);
  EXPECT_EQ(read.measurement.time.median, written.measurement.time.median);
  EXPECT_EQ(read.measurement.time.count, 5);
  EXPECT_EQ(read.measurement.ratio, 0.8);
  EXPECT_EQ(read.seed, written.seed);
  EXPECT_EQ(read.threads, 2);
  EXPECT_EQ(read.build, "1.0");
  EXPECT_EQ(read.created, 100);
  filter.workload = "other";
  ASSERT_EQ(log.records(filter).size(), 1u);
  EXPECT_EQ(log.records(filter)[0].measurement.outcome, Outcome::Crash);
  EXPECT_EQ(log.records(filter)[0].measurement.detail, "signal 11");
  EXPECT_EQ(log.integrity(), "ok");
}

TEST_F(TunerLog, SameKeyReplacesOtherKeysStand) {
  Log log(path_, Log::Mode::Write);
  log.add({record("w", 2.0)});
  log.add({record("w", 1.0), record("w", 3.0, "unroll c")});
  ASSERT_EQ(log.records({}).size(), 2u);
  EXPECT_EQ(log.records({})[0].measurement.time.median, 1.0);
}

TEST_F(TunerLog, BestIsOfTheTargetAndItsUsualDevice) {
  Log log(path_, Log::Mode::Write);
  Record elsewhere = record("w", 0.001);
  elsewhere.target = "rv64gcv";
  Record other_device = record("w", 0.1);
  other_device.device = "x86-64 there";
  Record older = record("w", 0.2, "unroll old");
  older.build = "0.9";
  Record faster = record("w", 1.5, "unroll c");
  faster.measurement.ratio = 0.7;
  log.add({record("w", 2), record("v", 2), faster, elsewhere, other_device, older,
           failure("w", Outcome::WrongResult)});
  const auto best = log.best("w", "x86-64-v4", "", 1, "1.0");
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].trace[1], "unroll c");
  EXPECT_EQ(best[1].trace[1], "unroll a");
  EXPECT_EQ(best[2].build, "0.9");
  EXPECT_EQ(log.best("w", "x86-64-v4", "x86-64 there", 1, "1.0")[0].measurement.time.median, 0.1);
  EXPECT_TRUE(log.best("w", "x86-64-v3", "", 1, "1.0").empty());
  EXPECT_TRUE(log.best("w", "x86-64-v4", "", 2, "1.0").empty());
}

TEST_F(TunerLog, WhatASessionChoseComesFirstAndStaysSo) {
  Log log(path_, Log::Mode::Write);
  Record chosen = record("w", 3, "unroll c");
  chosen.measurement.ratio = 0.9;
  log.add({record("w", 2), chosen});
  EXPECT_EQ(log.best("w", "x86-64-v4", "", 1, "1.0")[0].trace[1], "unroll a");
  log.choose({chosen});
  EXPECT_EQ(log.best("w", "x86-64-v4", "", 1, "1.0")[0].trace[1], "unroll c");
  log.add({chosen});
  EXPECT_TRUE(log.best("w", "x86-64-v4", "", 1, "1.0")[0].chosen) << "measured again";
  log.choose({record("w", 2)});
  EXPECT_EQ(log.best("w", "x86-64-v4", "", 1, "1.0")[0].trace[1], "unroll a");
}

TEST_F(TunerLog, SumsUpWhatSessionsSpent) {
  Log log(path_, Log::Mode::Write);
  EXPECT_EQ(log.seconds_spent("s"), 0);
  log.add_seconds_spent("s", 1.5);
  log.add_seconds_spent("s", 2);
  log.add_seconds_spent("t", 9);
  EXPECT_EQ(log.seconds_spent("s"), 3.5);
}

TEST_F(TunerLog, RefusesMalformedRecordsByReason) {
  Log log(path_, Log::Mode::Write);
  const auto why = [&](auto change) {
    Record bad = record("w", 1);
    change(bad);
    return refusal([&] { log.add({record("good", 1), bad}); });
  };
  EXPECT_NE(why([](Record& r) { r.workload = ""; }).find("the workload has 0 bytes"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.unit = "hours"; }).find("neither seconds nor simulated cycles"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.threads = 0; }).find("0 threads"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.language_major = 2; }).find("in language 2.0"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.trace.assign(501, "x"); }).find("more than 500 lines"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.trace = {"a\nb"}; }).find("control characters"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.device = ""; }).find("is empty"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.measurement.time = {5, 2.7e-11, 2.7e-11, 0}; }).find("is below what any call takes"),
            std::string::npos);
  EXPECT_NE(why([](Record& r) { r.measurement.time.median = NAN; }).find("times are no times"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.measurement.outcome = Outcome::Crash; }).find("and has a time"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.measurement.outcome = static_cast<Outcome>(12); }).find("outcome 12 is unknown"),
            std::string::npos);
  EXPECT_TRUE(log.records({}).empty()) << "all or none";
}

TEST_F(TunerLog, LeavesOutRowsThatNoTcWrites) {
  { Log(path_, Log::Mode::Write).add({record("w", 1), record("w", 2, "unroll c")}); }
  tamper("PRAGMA ignore_check_constraints = 1; UPDATE record SET median = -1 WHERE trace LIKE '%unroll c%'");
  const Log log(path_, Log::Mode::Read);
  std::vector<std::string> problems;
  EXPECT_EQ(log.records({}, &problems).size(), 1u);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("record 2 is refused: it is marked as measured"), std::string::npos) << problems[0];
}

TEST_F(TunerLog, RefusesWhatIsNoLog) {
  const auto open = [&](Log::Mode mode) { return refusal([&] { Log log(path_, mode); }); };
  EXPECT_NE(open(Log::Mode::Read).find("no such log; tuning with log= makes one"), std::string::npos);
  std::ofstream(path_) << std::string(5000, 'x');
  EXPECT_NE(open(Log::Mode::Read).find("the log is damaged"), std::string::npos);
  EXPECT_NE(open(Log::Mode::Write).find("the log is damaged"), std::string::npos);
  std::filesystem::remove(path_);
  tamper("CREATE TABLE t (a); PRAGMA user_version = 1");
  EXPECT_NE(open(Log::Mode::Write).find("a database of another program"), std::string::npos);
  std::filesystem::remove(path_);
  { Log log(path_, Log::Mode::Write); }
  tamper("PRAGMA user_version = 7");
  EXPECT_NE(open(Log::Mode::Read).find("has schema 7 and this tc knows up to 1; update tc"), std::string::npos);
  EXPECT_NE(refusal([&] { Log log(::testing::TempDir() + "none/such.db", Log::Mode::Write); }).find("check that the folder"),
            std::string::npos);
  EXPECT_NE(refusal([&] { Log log(::testing::TempDir(), Log::Mode::Write); }).find("no regular file"), std::string::npos);
}

TEST_F(TunerLog, RefusesADamagedFile) {
  {
    Log log(path_, Log::Mode::Write);
    for (int i = 0; i < 200; ++i) log.add({record(text("w", i), 1)});
  }
  const auto size = std::filesystem::file_size(path_);
  int refused = 0;
  for (uintmax_t at = 4096 + 50; at < size; at += 4096) {
    const std::string copy = path_ + ".damaged";
    std::filesystem::copy_file(path_, copy, std::filesystem::copy_options::overwrite_existing);
    std::fstream(copy, std::ios::in | std::ios::out | std::ios::binary).seekp(static_cast<std::streamoff>(at - 50))
        << std::string(100, '\xff');
    try {
      const Log log(copy, Log::Mode::Read);
      log.records({});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Log);
      ++refused;
    }
  }
  EXPECT_GT(refused, 5);
  std::filesystem::resize_file(path_, size / 2);
  EXPECT_NE(refusal([&] { Log log(path_, Log::Mode::Write); }).find("the log is damaged"), std::string::npos);
}

TEST_F(TunerLog, MergeKeepsTheNewer) {
  const std::string other_path = path_ + ".other";
  std::filesystem::remove(other_path);
  Log log(path_, Log::Mode::Write), other(other_path, Log::Mode::Write);
  Record newer = record("w", 1);
  newer.created = 200;
  log.add({record("w", 2), record("v", 2)});
  Record older = record("v", 1);
  older.created = 50;
  other.add({newer, older, record("u", 1)});
  EXPECT_EQ(log.merge(other), 2);
  const auto all = log.records({});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].workload, "u");
  EXPECT_EQ(all[1].measurement.time.median, 2) << "the older of v was not taken";
  EXPECT_EQ(all[2].measurement.time.median, 1);
  EXPECT_EQ(log.stats().records, 3);
  EXPECT_EQ(log.stats().by_outcome.at("ok"), 3);
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

TEST_F(TunerLog, FullDiskLosesNothingAcknowledged) {
  { Log log(path_, Log::Mode::Write); }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{200000, 200000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Log log(path_, Log::Mode::Write);
    try {
      for (int i = 0; i < 100000; ++i) {
        log.add({record(text("w", i, std::string(500, 'k')), 1)});
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
  const Log log(path_, Log::Mode::Write);   // Write: the child's journal may want a rollback
  EXPECT_EQ(log.records({}).size(), static_cast<size_t>(count));
  EXPECT_EQ(log.integrity(), "ok");
}

TEST_F(TunerLog, WhatAKilledWriterLeftHalfDoneIsTakenBack) {
  {
    Log log(path_, Log::Mode::Write);
    for (int i = 0; i < 50; ++i) log.add({record(text("w", i, std::string(500, 'k')), 1)});
  }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    // A transaction larger than the cache reaches the file before its end.
    sqlite3* db = nullptr;
    sqlite3_open(path_.c_str(), &db);
    const bool begun = sqlite3_exec(db, "PRAGMA cache_size = 1; BEGIN; UPDATE record SET detail = hex(zeroblob(1500))",
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
  const Log log(path_, Log::Mode::Read);
  const std::vector<Record> found = log.records({});
  EXPECT_EQ(found.size(), 50u);
  for (const Record& each : found) EXPECT_EQ(each.measurement.detail, "");
  EXPECT_EQ(log.integrity(), "ok");
  EXPECT_FALSE(std::filesystem::exists(path_ + "-journal"));
}

TEST_F(TunerLog, KilledWritersLoseNothingAcknowledged) {
  { Log log(path_, Log::Mode::Write); }
  size_t expected = 0;
  for (int round = 0; round < 10; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      Log log(path_, Log::Mode::Write);
      for (int i = 0;; ++i) {
        log.add({record(text("round ", round, " w", i), 1)});
        if (write(ends[1], "a", 1) != 1) _exit(3);
      }
    }
    close(ends[1]);
    usleep(20000 + 7000 * static_cast<unsigned>(round));
    kill(child, SIGKILL);
    expected += static_cast<size_t>(acknowledged_by(child, ends[0]));
    close(ends[0]);
    const Log log(path_, Log::Mode::Write);
    const size_t found = log.records({}).size();
    EXPECT_GE(found, expected);
    EXPECT_LE(found, expected + 1) << "at most the one that was not yet acknowledged";
    EXPECT_EQ(log.integrity(), "ok");
    expected = found;
  }
}

}  // namespace
}  // namespace tc
