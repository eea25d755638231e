// Measuring on several devices of a kind of which one cannot be trusted.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ir/error.h"
#include "tuner/builders.h"
#include "tuner/remote_measurer.h"

namespace tc {
namespace {

// A board whose programs take as long as their names say.
struct Board {
  explicit Board(const char* the_name, double the_factor = 1, double is_failing = 0)
      : name(the_name), factor(the_factor), failing(is_failing) {}
  const std::string name;
  const double factor;        // of its times
  const double failing;       // share of runs in which a program crashes
  int64_t store_bytes = 0;    // that its agent keeps of files; 0: it does not say
  int largest = 0;            // request: programs in it
  bool has_left = false;      // it is in quarantine
  std::string reason;         // why
  int jobs = 0, crashed = 0;  // programs that it ran
  std::mt19937 random{7};
};

class LeasedBoard final : public LeasedDevice {
 public:
  explicit LeasedBoard(Board& board) : board_(board) {
    info_.set_name(board.name);
    info_.set_key("a kind of board");
    info_.set_unit("seconds");
    info_.set_store_bytes(board.store_bytes);
  }
  const rpc::DeviceInfo& info() const override { return info_; }
  bool lost() const override { return false; }
  void upload(const std::vector<RemoteFile>&) override {}
  void measure(rpc::MeasureRequest request,
               const std::function<void(const rpc::MeasureResult&)>& on_result) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that all boards get work
    board_.largest = std::max(board_.largest, request.executables_size());
    for (int i = 0; i < request.executables_size(); ++i) {
      rpc::MeasureResult result;
      result.set_candidate(i);
      ++board_.jobs;
      if (std::uniform_real_distribution<>()(board_.random) < board_.failing) {
        ++board_.crashed;
        result.set_outcome(rpc::CRASH);
        result.set_detail("it died");
      } else {
        const double seconds = 1e-3 * std::stod(request.executables(i));
        for (int round = 0; round < request.rounds(); ++round)
          result.add_samples(board_.factor * seconds * (1 + 0.01 * round));
      }
      on_result(result);
    }
  }
  void cancel() override {}
  void report_failure(const std::string& reason, bool unfit) override {
    if (!unfit) return;
    board_.has_left = true;
    board_.reason = reason;
  }

 private:
  Board& board_;
  rpc::DeviceInfo info_;
};

// Programs that are called by the milliseconds that they take, the incumbent first.
ProgramSet programs(int incumbent, int first, int count) {
  ProgramSet set;
  for (int i = 0; i < count; ++i) {
    RemoteFile file;
    file.sha256 = std::to_string(i == 0 ? incumbent : first + i);
    set.executables.push_back(file);
  }
  set.outputs.push_back({"y", DType::F32, {}, std::nullopt});
  return set;
}

class Fleet {
 public:
  explicit Fleet(std::vector<Board*> boards) : boards_(std::move(boards)) {}
  OpenDevice opener() {
    return [this](bool first) -> std::unique_ptr<LeasedDevice> {
      for (Board* board : boards_) {
        if (board->has_left || taken_.count(board) > 0) continue;
        taken_.insert(board);
        return std::make_unique<LeasedBoard>(*board);
      }
      if (first) fail(ErrorKind::Device, "no board is left");
      return nullptr;
    };
  }

 private:
  std::vector<Board*> boards_;
  std::set<Board*> taken_;
};

// Measures programs on them, ten thousand times; returns the results that are not "ok".
int measure(const std::vector<Board*>& boards, int times = 10000) {
  Fleet fleet(boards);
  const auto builder = open_builder("in-process", {});
  RemoteMeasurer measurer(fleet.opener(), *builder, {});
  int failed = 0;
  for (int done = 0; done < times;) {
    const int incumbent = 100 + done / 25 % 7;
    const ProgramSet set = programs(incumbent, 200 + done % 700, 25);
    const std::vector<Measurement> results = measurer.measure_programs(set, 3);
    EXPECT_EQ(results.size(), 25u);
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].outcome != Outcome::Ok) {
        ++failed;
        continue;
      }
      // Whichever board it was, its time is compared with the incumbent's there.
      EXPECT_NEAR(results[i].ratio, std::stod(set.executables[i].sha256) / incumbent, 1e-9);
    }
    done += static_cast<int>(results.size());
  }
  return failed;
}

TEST(RemoteMeasurer, ABoardThatFailsWhereOthersDoNotIsPutAside) {
  Board one("one"), two("two"), three("three"), bad("bad", 1, 0.05);
  // What failed there is measured on another board, too.
  EXPECT_LE(measure({&one, &bad, &two, &three}), 2);
  EXPECT_TRUE(bad.has_left) << bad.jobs << " jobs, " << bad.crashed << " crashed";
  EXPECT_NE(bad.reason.find("whose programs run rightly on others of its kind"), std::string::npos)
      << bad.reason;
  EXPECT_LE(bad.jobs, 250);
  EXPECT_FALSE(one.has_left || two.has_left || three.has_left);
}

TEST(RemoteMeasurer, ABoardThatIsSlowIsPutAside) {
  Board one("one"), two("two"), slow("slow", 1.3);
  EXPECT_EQ(measure({&one, &slow, &two}), 0);
  EXPECT_TRUE(slow.has_left);
  EXPECT_NE(slow.reason.find("takes 30 % longer"), std::string::npos) << slow.reason;
  EXPECT_FALSE(one.has_left || two.has_left);
}

TEST(RemoteMeasurer, ProgramsThatFailEverywhereAreAtFaultThemselves) {
  Board one("one", 1, 1), two("two", 1, 1);
  EXPECT_EQ(measure({&one, &two}, 250), 250);
  EXPECT_FALSE(one.has_left || two.has_left);
}

TEST(RemoteMeasurer, AMeasurementTakesNoMoreFilesThanTheBoardKeeps) {
  Board board("small");
  board.store_bytes = 350;
  Fleet fleet({&board});
  const auto builder = open_builder("in-process", {});
  RemoteMeasurer measurer(fleet.opener(), *builder, {});
  ProgramSet set = programs(100, 200, 8);
  for (RemoteFile& file : set.executables) file.bytes = std::string(100, 'x');
  set.executables[5].bytes = std::string(251, 'x');
  const std::vector<Measurement> results = measurer.measure_programs(set, 3);
  EXPECT_EQ(board.largest, 3) << "the incumbent and two more";
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].outcome, i == 5 ? Outcome::OutOfMemory : Outcome::Ok) << results[i].detail;
  }
  EXPECT_NE(results[5].detail.find("the programs and tensors of one measurement have 351 bytes"),
            std::string::npos)
      << results[5].detail;
  EXPECT_FALSE(board.has_left);
}

TEST(RemoteMeasurer, WhatOneBoardHasNoRoomForGoesToAnother) {
  // A measurement of few programs needs no second board but for their size, one of many has work for both.
  for (const int count : {2, 25}) {
    Board small("small"), large("large");
    small.store_bytes = 350;
    large.store_bytes = 5000;
    Fleet fleet({&small, &large});
    const auto builder = open_builder("in-process", {});
    RemoteMeasurer measurer(fleet.opener(), *builder, {});
    ProgramSet set = programs(100, 200, count);
    for (RemoteFile& file : set.executables) file.bytes = std::string(100, 'x');
    set.executables[1].bytes = std::string(1000, 'x');
    for (const Measurement& result : measurer.measure_programs(set, 3))
      EXPECT_EQ(result.outcome, Outcome::Ok) << result.detail;
    EXPECT_LE(small.largest, 3);
    EXPECT_GE(large.jobs, 2);
    EXPECT_EQ(small.jobs > 0, count > 2);
    EXPECT_EQ(small.has_left || large.has_left, false);

    set.executables[1].bytes = std::string(5000, 'x');
    const std::vector<Measurement> results = measurer.measure_programs(set, 3);
    EXPECT_EQ(results[1].outcome, Outcome::OutOfMemory);
    EXPECT_NE(results[1].detail.find("too many for the device 'large'"), std::string::npos)
        << results[1].detail;
  }
}

}  // namespace
}  // namespace tc
