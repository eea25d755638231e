// A log of lines of JSON: what people and killed writers leave in the file.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "tests/stores.h"

namespace tc::testing {
namespace {

std::string contents_of(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  return all.str();
}

void write_file(const std::string& path, const std::string& contents) { std::ofstream(path) << contents; }

class TunerJsonLines : public ::testing::Test {
 protected:
  std::unique_ptr<RecordStore> open(RecordStore::Mode mode) const { return open_store(url_, mode); }
  size_t count() const { return open(RecordStore::Mode::Read)->records({}).size(); }

  const std::string url_ = fresh_store("jsonl", "lines");
  const std::string path_ = file_of_store(url_);
};

TEST_F(TunerJsonLines, ALineIsARecordWithPythonsNames) {
  Record record = some_record("kernel \"k\"\nλ", 0.1);
  record.seed = std::numeric_limits<uint64_t>::max();
  record.measurement.worst_error = std::numeric_limits<double>::infinity();
  const auto log = open(RecordStore::Mode::Write);
  log->add({record});
  EXPECT_EQ(
      contents_of(path_),
      "{\"build\": \"1.0\", \"chosen\": false, \"created\": 100, \"detail\": \"\", \"device\": "
      "\"x86-64 here\", \"language\": \"1.0\", \"median\": 0.1, \"minimum\": 0.09000000000000001, "
      "\"outcome\": \"ok\", \"ratio\": 0.8, \"samples\": 5, \"seed\": 18446744073709551615, \"spread\": "
      "0.01, \"target\": \"x86-64-v4\", \"threads\": 1, \"trace\": [\"layout in0 1 16\", \"unroll a\"], "
      "\"unit\": \"seconds\", \"workload\": \"kernel \\\"k\\\"\\nλ\", \"worst_error\": 9e999}\n");
  const Record read = open(RecordStore::Mode::Read)->records({}).at(0);
  EXPECT_EQ(read.workload, record.workload);
  EXPECT_EQ(read.seed, record.seed);
  EXPECT_EQ(read.measurement.time.minimum, record.measurement.time.minimum);
  EXPECT_EQ(read.measurement.worst_error, record.measurement.worst_error);
}

TEST_F(TunerJsonLines, WhatAKilledWriterLeftIsNotThereAndIsOverwritten) {
  open(RecordStore::Mode::Write)->add({some_record("w", 1)});
  const std::string whole = contents_of(path_);
  for (const std::string& rest : {"#" + whole.substr(1), "#" + whole.substr(1, 30), std::string("#")}) {
    write_file(path_, whole + rest);
    EXPECT_EQ(count(), 1u);
  }
  open(RecordStore::Mode::Write)->add({some_record("v", 1)});
  EXPECT_EQ(count(), 2u);
  EXPECT_EQ(contents_of(path_).find('#'), std::string::npos);
}

TEST_F(TunerJsonLines, TheLastLineNeedsNoNewline) {
  open(RecordStore::Mode::Write)->add({some_record("w", 1)});
  std::string edited = contents_of(path_);
  edited.pop_back();
  write_file(path_, edited);
  const auto reader = open(RecordStore::Mode::Read);
  EXPECT_EQ(reader->records({}).size(), 1u);
  open(RecordStore::Mode::Write)->add({some_record("v", 1)});
  EXPECT_EQ(reader->records({}).size(), 2u);
  EXPECT_EQ(count(), 2u);
}

TEST_F(TunerJsonLines, TwoBranchesMergeByTheirLines) {
  open(RecordStore::Mode::Write)->add({some_record("w", 2)});
  const std::string ours = contents_of(path_);
  open(RecordStore::Mode::Write)->add({some_record("w", 1), some_record("v", 1)});
  write_file(path_, ours + "\n" + contents_of(path_));
  const auto merged = open(RecordStore::Mode::Read)->records({});
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[1].measurement.time.median, 1);
}

TEST_F(TunerJsonLines, ALineThatIsNoObjectIsASentence) {
  open(RecordStore::Mode::Write)->add({some_record("w", 1)});
  const std::string whole = contents_of(path_);
  for (const char* line : {"<<<<<<< ours", "[1]", "{\"build\": ", "7", "\"text\""}) {
    write_file(path_, whole + line + "\n" + whole);
    EXPECT_EQ(refusal([&] { open(RecordStore::Mode::Read); }),
              path_ +
                  ": line 2 is no record of a log, which is an object of JSON as `python -m tc log "
                  "export` writes them; mend or remove the line");
  }
  write_file(path_, whole + std::string((4 << 20) + 1, 'x') + "\n");
  EXPECT_EQ(refusal([&] { open(RecordStore::Mode::Read); }), path_ + ": line 2 has more than 4 MB");
}

TEST_F(TunerJsonLines, FieldsOfOtherTypesAreRefusedRecordByRecord) {
  open(RecordStore::Mode::Write)->add({some_record("w", 1)});
  const std::string whole = contents_of(path_);
  std::string lines = "{}\n" + whole;
  const std::pair<std::string, std::string> changes[] = {{"\"threads\": 1", "\"threads\": \"1\""},
                                                         {"\"build\": \"1.0", "\"build\": \"é"},
                                                         {"\"ok\"", "\"fast\""},
                                                         {"\"median\": 1", "\"median\": null"}};
  for (const auto& [from, to] : changes) {
    std::string line = whole;
    line.replace(line.find(from), from.size(), to);
    const std::string workload = "\"workload\": \"";  // records of one key would replace each other
    lines += line.insert(line.find(workload) + workload.size(), std::to_string(lines.size()));
  }
  write_file(path_, lines);
  std::vector<std::string> problems;
  EXPECT_EQ(open(RecordStore::Mode::Read)->records({}, &problems).size(), 1u);
  EXPECT_EQ(problems.size(), 5u);
}

TEST_F(TunerJsonLines, AnotherWriterOfThePrunedFileIsSeen) {
  const auto log = open(RecordStore::Mode::Write), other = open(RecordStore::Mode::Write);
  log->add({some_record("w", 1), some_record("w", 2, "unroll b")});
  PruneRule rule;
  rule.keep = 1;
  EXPECT_EQ(other->prune(rule), 1);
  log->add({some_record("v", 1)});
  EXPECT_EQ(other->records({}).size(), 2u);
  EXPECT_EQ(log->records({}).size(), 2u);
}

}  // namespace
}  // namespace tc::testing
