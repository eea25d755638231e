// What every kind of store does: what goes in comes out, in order; what no tc would write is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/stores.h"

namespace tc::testing {
namespace {

class TunerStore : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = missing_store(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
  std::unique_ptr<RecordStore> open(RecordStore::Mode mode) const { return open_store(url_, mode); }

  const std::string url_ = fresh_store(GetParam(), "store");
};

INSTANTIATE_TEST_SUITE_P(Kinds, TunerStore, ::testing::ValuesIn(store_schemes()), scheme_name);

TEST_P(TunerStore, KeepsEveryField) {
  Record written = some_record("kernel k\nlayout in0 1 16", 0.00123456789);
  written.seed = 0xffffffffffffffffull;
  written.threads = 2;
  {
    const auto log = open(RecordStore::Mode::Write);
    log->add({written, failed_record("other", Outcome::Crash)});
  }
  const auto log = open(RecordStore::Mode::Read);
  RecordFilter filter;
  filter.workload = written.workload;
  const auto found = log->records(filter);
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
  ASSERT_EQ(log->records(filter).size(), 1u);
  EXPECT_EQ(log->records(filter)[0].measurement.outcome, Outcome::Crash);
  EXPECT_EQ(log->records(filter)[0].measurement.detail, "signal 11");
  EXPECT_EQ(log->integrity(), "ok");
}

TEST_P(TunerStore, SameKeyReplacesOtherKeysStand) {
  const auto log = open(RecordStore::Mode::Write);
  log->add({some_record("w", 2.0)});
  log->add({some_record("w", 1.0), some_record("w", 3.0, "unroll c")});
  ASSERT_EQ(log->records({}).size(), 2u);
  EXPECT_EQ(log->records({})[0].measurement.time.median, 1.0);
}

TEST_P(TunerStore, BestIsOfTheTargetAndItsUsualDevice) {
  const auto log = open(RecordStore::Mode::Write);
  Record elsewhere = some_record("w", 0.001);
  elsewhere.target = "rv64gcv";
  Record other_device = some_record("w", 0.1);
  other_device.device = "x86-64 there";
  Record older = some_record("w", 0.2, "unroll old");
  older.build = "0.9";
  Record faster = some_record("w", 1.5, "unroll c");
  faster.measurement.ratio = 0.7;
  log->add({some_record("w", 2), some_record("v", 2), faster, elsewhere, other_device, older,
            failed_record("w", Outcome::WrongResult)});
  const auto best = log->best("w", "x86-64-v4", "", 1, "1.0");
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].trace[1], "unroll c");
  EXPECT_EQ(best[1].trace[1], "unroll a");
  EXPECT_EQ(best[2].build, "0.9");
  EXPECT_EQ(log->best("w", "x86-64-v4", "x86-64 there", 1, "1.0")[0].measurement.time.median, 0.1);
  EXPECT_TRUE(log->best("w", "x86-64-v3", "", 1, "1.0").empty());
  EXPECT_TRUE(log->best("w", "x86-64-v4", "", 2, "1.0").empty());
}

TEST_P(TunerStore, WhatASessionChoseComesFirstAndStaysSo) {
  const auto log = open(RecordStore::Mode::Write);
  Record chosen = some_record("w", 3, "unroll c");
  chosen.measurement.ratio = 0.9;
  log->add({some_record("w", 2), chosen});
  EXPECT_EQ(log->best("w", "x86-64-v4", "", 1, "1.0")[0].trace[1], "unroll a");
  log->choose({chosen});
  EXPECT_EQ(log->best("w", "x86-64-v4", "", 1, "1.0")[0].trace[1], "unroll c");
  log->add({chosen});
  EXPECT_TRUE(log->best("w", "x86-64-v4", "", 1, "1.0")[0].chosen) << "measured again";
  log->choose({some_record("w", 2)});
  EXPECT_EQ(log->best("w", "x86-64-v4", "", 1, "1.0")[0].trace[1], "unroll a");
}

TEST_P(TunerStore, WhoFollowsALogSeesWhatIsAdded) {
  const auto log = open(RecordStore::Mode::Write);
  const auto reader = open(RecordStore::Mode::Read);
  const auto above = [&](int64_t number, size_t most, int64_t& last) {
    std::string traces;
    for (const NumberedRecord& each : reader->records_above(number, most, last))
      traces += each.record.trace[1] + ";";
    return traces;
  };
  int64_t last = 7;
  EXPECT_EQ(above(0, 10, last), "");
  EXPECT_EQ(last, 0);
  log->add({some_record("w", 3, "unroll c")});
  log->add({some_record("w", 1, "unroll a")});
  log->add({some_record("v", 2, "unroll b")});
  EXPECT_EQ(above(0, 2, last), "unroll c;unroll a;");
  const int64_t second = last;
  EXPECT_EQ(above(second, 2, last), "unroll b;");
  EXPECT_GT(last, second);
  log->add({some_record("w", 9, "unroll c")});  // measured again
  EXPECT_EQ(above(last, 5, last), "");
  log->add({some_record("w", 9, "unroll d")});
  EXPECT_EQ(above(last, 5, last), "unroll d;");
}

TEST_P(TunerStore, FindsTheLastRecordsHoweverManyWereRemoved) {
  const auto log = open(RecordStore::Mode::Write);
  const auto number_of = [&](const std::string& line) {
    int64_t last = 0;
    for (const NumberedRecord& each : log->records_above(0, 100, last))
      if (each.record.trace[1] == line) return each.number;
    return int64_t{0};
  };
  EXPECT_EQ(log->number_before_last(0), 0);
  log->add({some_record("w", 1, "unroll a"), some_record("w", 2, "unroll b")});
  log->add({some_record("w", 3, "unroll c")});
  log->add({some_record("w", 9, "unroll d")});
  EXPECT_EQ(log->number_before_last(4), 0);
  EXPECT_EQ(log->number_before_last(1), number_of("unroll c"));
  const int64_t greatest = number_of("unroll d");
  EXPECT_EQ(log->number_before_last(0), greatest);
  EXPECT_EQ(log->prune({3}), 1) << "the slowest, which was added last";
  EXPECT_EQ(log->number_before_last(1) == 0, false);
  log->add({some_record("w", 4, "unroll e")});
  EXPECT_EQ(log->number_before_last(1), number_of("unroll c"));
  EXPECT_EQ(log->number_before_last(0), number_of("unroll e"));
  // A file of lines is written anew.
  if (GetParam() != "jsonl") EXPECT_GT(number_of("unroll e"), greatest);
}

TEST_P(TunerStore, SumsUpWhatSessionsSpent) {
  const auto log = open(RecordStore::Mode::Write);
  EXPECT_EQ(log->seconds_spent("s"), 0);
  log->add_seconds_spent("s", 1.5);
  log->add_seconds_spent("s", 2);
  log->add_seconds_spent("t", 9);
  EXPECT_EQ(log->seconds_spent("s"), 3.5);
}

TEST_P(TunerStore, RefusesMalformedRecordsByReason) {
  const auto log = open(RecordStore::Mode::Write);
  const auto why = [&](auto change) {
    Record bad = some_record("w", 1);
    change(bad);
    return refusal([&] { log->add({some_record("good", 1), bad}); });
  };
  EXPECT_NE(why([](Record& r) { r.workload = ""; }).find("the workload has 0 bytes"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.unit = "hours"; }).find("neither seconds nor simulated cycles"),
            std::string::npos);
  EXPECT_NE(why([](Record& r) { r.threads = 0; }).find("0 threads"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.language_major = 2; }).find("in language 2.0"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.trace.assign(501, "x"); }).find("more than 500 lines"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.trace = {"a\nb"}; }).find("control characters"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.device = ""; }).find("is empty"), std::string::npos);
  EXPECT_NE(why([](Record& r) { r.target = "\x1b[2J"; }).find("other characters than printable ASCII"),
            std::string::npos);
  EXPECT_NE(why([](Record& r) { r.workload += '\0'; }).find("the workload has control characters"),
            std::string::npos);
  EXPECT_NE(why([](Record& r) { r.workload = "k\xc3("; }).find("the workload is not UTF-8"),
            std::string::npos);
  EXPECT_NE(why([](Record& r) { r.trace = {"unroll \xff"}; }).find("a line of the trace is not UTF-8"),
            std::string::npos);
  EXPECT_NE(why([](Record& r) {
              r = failed_record("w", Outcome::Crash);
              r.measurement.detail = "\xed\xa0\x80";
            }).find("the detail is not UTF-8"),
            std::string::npos);
  EXPECT_NE(why([](Record& r) { r.workload = "k\x1b[2J"; }).find("the workload has control characters"),
            std::string::npos);
  EXPECT_NE(why([](Record& r) {
              r.measurement.time = {5, 2.7e-11, 2.7e-11, 0};
            }).find("is below what any call takes"),
            std::string::npos);
  EXPECT_NE(why([](Record& r) { r.measurement.time.median = NAN; }).find("times are no times"),
            std::string::npos);
  EXPECT_NE(why([](Record& r) { r.measurement.outcome = Outcome::Crash; }).find("and has a time"),
            std::string::npos);
  EXPECT_NE(
      why([](Record& r) { r.measurement.outcome = static_cast<Outcome>(12); }).find("outcome 12 is unknown"),
      std::string::npos);
  EXPECT_TRUE(log->records({}).empty()) << "all or none";
}

TEST_P(TunerStore, MergeKeepsTheNewer) {
  const auto log = open(RecordStore::Mode::Write);
  const auto other = open_store(fresh_store(GetParam(), "other"), RecordStore::Mode::Write);
  Record newer = some_record("w", 1);
  newer.created = 200;
  log->add({some_record("w", 2), some_record("v", 2)});
  Record older = some_record("v", 1);
  older.created = 50;
  other->add({newer, older, some_record("u", 1)});
  EXPECT_EQ(log->merge(*other), 2);
  const auto all = log->records({});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].workload, "u");
  EXPECT_EQ(all[1].measurement.time.median, 2) << "the older of v was not taken";
  EXPECT_EQ(all[2].measurement.time.median, 1);
  EXPECT_EQ(log->stats().records, 3);
  EXPECT_EQ(log->stats().by_outcome.at("ok"), 3);
}

TEST_P(TunerStore, PruneKeepsTheFastestTheChosenAndFailures) {
  const auto log = open(RecordStore::Mode::Write);
  std::vector<Record> records;
  for (int i = 0; i < 6; ++i) {
    records.push_back(some_record("w", 1 + i, "unroll x" + std::to_string(i)));
    records.back().measurement.ratio = 0.1 * (1 + i);
  }
  records[4].created = 900;
  Record other = some_record("w", 9);
  other.device = "another";
  log->add(records);
  log->add({other, some_record("v", 3), failed_record("w", Outcome::Crash)});
  log->choose({records[5]});

  const auto traces = [&] {
    std::string found;
    for (const Record& record : log->records({})) found += record.workload + record.trace.back() + ", ";
    return found;
  };
  const std::string before = traces();
  EXPECT_EQ(log->prune({2}, false), 3);
  EXPECT_EQ(traces(), before) << "only counted";
  EXPECT_EQ(log->prune({2, false, 500}), 2) << "not the one of the time 900";
  EXPECT_EQ(log->prune({2}), 1);
  EXPECT_EQ(log->records({}).size(), 6u);
  RecordFilter filter;
  filter.workload = "w";
  filter.verified_only = true;
  std::set<double> times;
  for (const Record& record : log->records(filter)) times.insert(record.measurement.time.median);
  EXPECT_EQ(times, (std::set<double>{1, 2, 6, 9})) << "6 is the chosen one, 9 of another device";
  EXPECT_EQ(log->prune({2, true}), 1) << "the failure";
  EXPECT_EQ(log->prune({1, true}), 1);
  EXPECT_EQ(log->stats().workloads, 2);
  EXPECT_EQ(log->prune({1, true}), 0);
  EXPECT_EQ(log->integrity(), "ok");
}

// Keys are what a store gives back: an empty line and a long detail are no others.
TEST_P(TunerStore, TakesRecordsInOneForm) {
  const auto log = open(RecordStore::Mode::Write);
  Record blank = failed_record("w", Outcome::Crash);
  blank.trace.push_back("");
  blank.measurement.detail = std::string(10000, 'd');
  log->add({failed_record("w", Outcome::Crash)});
  log->add({blank});
  log->choose({blank});
  const auto found = log->records({});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].trace, failed_record("w", Outcome::Crash).trace);
  EXPECT_EQ(found[0].measurement.detail, std::string(4096, 'd'));
  EXPECT_TRUE(found[0].chosen);
}

// The longest of everything, of characters that do not compress, that have several bytes, or that an array
// or a statement could take for its own.
TEST_P(TunerStore, KeepsWhatIsLargestAndOddest) {
  uint32_t state = 1;
  const auto noise = [&](size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += static_cast<char>('!' + (state = state * 1664525 + 1013904223) % 94);
    return text;
  };
  Record largest = some_record("a" + noise((1 << 20) - 1), 2e-9);
  largest.target = noise(4096);
  largest.device = noise(4096);
  largest.build = noise(4096);
  largest.threads = 4096;
  largest.trace.assign(64, noise(1023));
  Record odd =
      failed_record("k \"{},\\NULL'; DROP TABLE record; -- $1 \u00e9\U0001f600\n\t", Outcome::WrongResult);
  odd.trace = {"NULL", "\"", "\\", "{a,b}", "\u00e9"};
  odd.measurement.worst_error = INFINITY;
  odd.measurement.detail = std::string(4095, 'd') + "\u00e9";  // the bound is within the last character
  odd.measurement.ratio = NAN;
  odd.created = -1;
  const auto log = open(RecordStore::Mode::Write);
  log->add({largest, odd});
  std::vector<std::string> problems;
  const auto found = log->records({}, &problems);
  ASSERT_EQ(found.size(), 2u) << (problems.empty() ? "" : problems[0]);
  EXPECT_EQ(found[0].workload, largest.workload);
  EXPECT_EQ(found[0].trace, largest.trace);
  EXPECT_EQ(found[0].build, largest.build);
  EXPECT_EQ(found[0].measurement.time.median, 2e-9);
  EXPECT_EQ(found[1].workload, odd.workload);
  EXPECT_EQ(found[1].trace, odd.trace);
  EXPECT_EQ(found[1].measurement.worst_error, INFINITY);
  EXPECT_EQ(found[1].measurement.detail, std::string(4095, 'd'));
  EXPECT_EQ(found[1].measurement.ratio, 0) << "no number is kept as none";
  EXPECT_EQ(found[1].created, -1);
  RecordFilter filter;
  filter.target = largest.target;
  filter.workload = largest.workload;
  filter.device = largest.device;
  filter.build = largest.build;
  EXPECT_EQ(log->records(filter).size(), 1u);
  EXPECT_EQ(log->usual_device(largest.target, 4096), largest.device);
  log->choose({largest});
  EXPECT_TRUE(log->records(filter)[0].chosen);
}

TEST_P(TunerStore, OfTwoRecordsWithOneKeyTheLastIsKept) {
  const auto log = open(RecordStore::Mode::Write);
  log->add({some_record("w", 2), some_record("v", 2), some_record("w", 1)});
  const auto found = log->records({});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].measurement.time.median, 1);
}

// More than one statement takes.
TEST_P(TunerStore, TakesManyAtOnce) {
  std::vector<Record> many;
  for (int i = 0; i < 2500; ++i) many.push_back(some_record(text("w", i % 50), 1 + i, text("unroll a", i)));
  const auto log = open(RecordStore::Mode::Write);
  log->add(many);
  EXPECT_EQ(log->stats().records, 2500);
  EXPECT_EQ(log->stats().workloads, 50);
  log->add(many);
  EXPECT_EQ(log->records({}).size(), 2500u);
}

TEST_P(TunerStore, IsMadeAndUpgradedByItsOwner) {
  const std::string url = absent_store(GetParam(), "made");
  EXPECT_NE(refusal([&] { upgrade_store(url); }).find("log"), std::string::npos) << "there is none";
  make_store(url);
  open_store(url, RecordStore::Mode::Write)->add({some_record("w", 1)});
  make_store(url);
  upgrade_store(url);
  EXPECT_EQ(open_store(url, RecordStore::Mode::Read)->records({}).size(), 1u);
}

TEST_P(TunerStore, FindsRecordsByEachField) {
  const auto log = open(RecordStore::Mode::Write);
  const Record one = some_record("w", 1);
  Record other = some_record("v", 1);
  other.target = "rv64gcv";
  other.device = "board";
  other.build = "2.0";
  other.threads = 4;
  log->add({one, other, failed_record("w", Outcome::Crash)});
  const auto found = [&](const auto& narrow) {
    RecordFilter filter;
    narrow(filter);
    return log->records(filter).size();
  };
  EXPECT_EQ(found([](RecordFilter&) {}), 3u);
  EXPECT_EQ(found([](RecordFilter& filter) { filter.workload = "w"; }), 2u);
  EXPECT_EQ(found([](RecordFilter& filter) { filter.target = "rv64gcv"; }), 1u);
  EXPECT_EQ(found([](RecordFilter& filter) { filter.device = "board"; }), 1u);
  EXPECT_EQ(found([](RecordFilter& filter) { filter.build = "2.0"; }), 1u);
  EXPECT_EQ(found([](RecordFilter& filter) { filter.threads = 4; }), 1u);
  EXPECT_EQ(found([](RecordFilter& filter) { filter.verified_only = true; }), 2u);
  EXPECT_EQ(found([](RecordFilter& filter) { filter.workload = "w", filter.target = "rv64gcv"; }), 0u);
}

TEST_P(TunerStore, CountsWhatItHolds) {
  const auto log = open(RecordStore::Mode::Write);
  EXPECT_EQ(log->stats().records, 0);
  Record other = some_record("v", 1);
  other.device = "board";
  log->add({some_record("w", 1), other, failed_record("w", Outcome::Crash)});
  const StoreStats stats = log->stats();
  EXPECT_EQ(stats.workloads, 2);
  EXPECT_EQ(stats.records, 3);
  EXPECT_EQ(stats.verified, 2);
  EXPECT_GT(stats.bytes, 0);
  EXPECT_EQ(stats.by_target, (std::map<std::string, int64_t>{{"x86-64-v4", 3}}));
  EXPECT_EQ(stats.by_device, (std::map<std::string, int64_t>{{"board", 1}, {"x86-64 here", 2}}));
  EXPECT_EQ(stats.by_build, (std::map<std::string, int64_t>{{"1.0", 3}}));
  EXPECT_EQ(stats.by_outcome, (std::map<std::string, int64_t>{{"crash", 1}, {"ok", 2}}));
}

TEST_P(TunerStore, ReadingMakesAndChangesNothing) {
  const std::string absent = absent_store(GetParam(), "absent");
  EXPECT_NE(refusal([&] { open_store(absent, RecordStore::Mode::Read); }).find(": no such log; "),
            std::string::npos);
  open(RecordStore::Mode::Write)->add({some_record("w", 1)});
  const auto log = open(RecordStore::Mode::Read);
  const auto why = [&](const auto& change) { return refusal([&] { change(); }); };
  const std::string reason = log->name() + ": is open for reading alone; open it for writing to change it";
  EXPECT_EQ(why([&] { log->add({some_record("v", 1)}); }), reason);
  EXPECT_EQ(why([&] { log->choose({some_record("w", 1)}); }), reason);
  EXPECT_EQ(why([&] { log->add_seconds_spent("s", 1); }), reason);
  EXPECT_EQ(log->records({}).size(), 1u);
}

TEST_P(TunerStore, IsSharedByAllThatOpenIt) {
  const auto one = open(RecordStore::Mode::Write), other = open(RecordStore::Mode::Write);
  one->add({some_record("w", 1)});
  EXPECT_EQ(other->records({}).size(), 1u);
  other->add({some_record("v", 1)});
  EXPECT_EQ(open(RecordStore::Mode::Read)->records({}).size(), 2u);
}

TEST(TunerStores, MergeAcrossKinds) {
  for (const std::string& from : store_schemes()) {
    for (const std::string& to : store_schemes()) {
      if (!missing_store(from).empty() || !missing_store(to).empty()) continue;
      const auto source = open_store(fresh_store(from, "from"), RecordStore::Mode::Write);
      const auto place = open_store(fresh_store(to, "to"), RecordStore::Mode::Write);
      source->add({some_record("w", 1), failed_record("v", Outcome::Timeout)});
      EXPECT_EQ(place->merge(*source), 2) << from << " " << to;
      EXPECT_EQ(place->merge(*source), 0) << from << " " << to;
      EXPECT_EQ(place->records({}).size(), 2u);
    }
  }
}

TEST(TunerStores, AUrlNamesTheKindAndAPathIsAFile) {
  const std::string path = ::testing::TempDir() + "named.db";
  std::filesystem::remove(path);
  open_store(path, RecordStore::Mode::Write)->add({some_record("w", 1)});
  EXPECT_EQ(open_store("sqlite:" + path, RecordStore::Mode::Read)->records({}).size(), 1u);
  EXPECT_EQ(open_store("sqlite:" + path, RecordStore::Mode::Read)->name(), path);
  EXPECT_EQ(file_of_store(path), path);
  EXPECT_EQ(file_of_store("sqlite:" + path), path);
  EXPECT_EQ(file_of_store("memory:x"), "");
  for (const char* name : {"./a:b.db", "a", "C:x", "/x:y", "A:b", "x y:z"})
    EXPECT_EQ(file_of_store(name), name);
}

TEST(TunerStores, AnUnknownKindIsASentenceThatListsThem) {
  EXPECT_EQ(refusal([] { open_store("mysql://me:secret@host/db", RecordStore::Mode::Read); }),
            "no log is opened by 'mysql:'; give a path, or one of sqlite:FILE (a file; a plain path names "
            "one, too), postgresql://USER@HOST/DATABASE (a team's, on a PostgreSQL server), "
            "jsonl:FILE (a text file of lines of JSON), memory:NAME (in this process, and gone with it: for "
            "tests); a file whose name has a colon is sqlite:FILE");
  EXPECT_EQ(refusal([] { open_store("sqlite:", RecordStore::Mode::Write); }),
            "the log 'sqlite:' has no name; give sqlite:FILE");
}

}  // namespace
}  // namespace tc::testing
