// What a session makes of the log's records of other kernels: which it uses, what it tries first because of
// them, and what they train.
#include "tuner/transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <memory>
#include <set>

#include "ir/error.h"
#include "scheduler/scheduler.h"
#include "scheduler/search/sketch.h"
#include "scheduler/search/space.h"
#include "tests/stores.h"
#include "tuner/candidate_features.h"
#include "tuner/search.h"
#include "tuner/space.h"
#include "tuner/tune.h"

namespace tc::testing {
namespace {

constexpr const char* kBuild = "test";

// A product with a bias; `names` are those of its statements and iterators.
std::string product(int rows, int columns, int depth, const std::string& names = "") {
  const auto shape = [](int a, int b) { return text("[", a, ", ", b, "]"); };
  const std::string m = "m" + names, n = "n" + names, k = "k" + names;
  return text("kernel \"product\"\n  input A f32", shape(rows, depth), "\n  constant K f32",
              shape(depth, columns), "\n  constant B f32[", columns, "]\n  output O f32",
              shape(rows, columns), "\n  local T f32", shape(rows, columns), "\n  init", names, "[", m, ":",
              rows, ", ", n, ":", columns, "]: T[", m, ", ", n, "] = 0\n  macc", names, "[", m, ":", rows,
              ", ", n, ":", columns, ", ", k, ":", depth, "]: T[", m, ", ", n, "] += A[", m, ", ", k,
              "] * K[", k, ", ", n, "]\n  tail", names, "[", m, ":", rows, ", ", n, ":", columns, "]: O[", m,
              ", ", n, "] = max(T[", m, ", ", n, "] + B[", n, "], 0)\n");
}

KernelTask task_of(const std::string& text, const std::string& target = "x86-64-v3") {
  KernelTask task;
  task.kernel = parse_kernel(text);
  task.label = "product";
  task.workload = workload_key(task.kernel);
  task.target = parse_target(target);
  task.untuned = default_schedule(task.kernel, task.target, 1, {}).trace();
  return task;
}

Schedule replayed(const KernelTask& task, const Trace& trace) {
  Schedule schedule(task.kernel, task.target);
  if (auto refused = schedule.replay(trace)) fail(ErrorKind::Schedule, *refused);
  return schedule;
}

// A device on which a schedule is the faster the nearer the features of its loops are to planted ones, for
// every kernel alike.
class Board : public Measurer {
 public:
  explicit Board(std::vector<double> best) : best_(std::move(best)) {}
  std::string device_key() const override { return key; }
  std::string unit() const override { return "simulated cycles"; }
  double time(const KernelTask& task, const Trace& trace) const {
    const std::vector<double> loops = loop_features(replayed(task, trace));
    double sum = 0;
    for (size_t i = 0; i < loops.size(); ++i) {
      const double away = std::min(4.0, std::abs(loops[i] - best_[i]));
      sum += (i < 6 ? 0.3 : 0.02) * away * away;
    }
    return 1e9 * (1 + sum);
  }
  std::vector<Measurement> measure(const KernelTask& task, const Trace& incumbent,
                                   const std::vector<Trace>& traces, int) override {
    std::vector<Measurement> results;
    for (const Trace& trace : traces) {
      Measurement& result = results.emplace_back();
      const double of_trace = time(task, trace);
      result.time = {1, of_trace, of_trace, 0};
      result.ratio = of_trace / time(task, incumbent);
      seen.push_back(trace);
    }
    return results;
  }

  std::string key = "board";
  std::vector<Trace> seen;

 private:
  std::vector<double> best_;
};

// Learns nothing but what is said about it; predicts the distance of the loops' features to those of the
// fastest row, which is what is planted.
class NearestRow : public CostModel {
 public:
  void fit(const FeatureRows& all, const std::vector<double>& its_values) override {
    rows = all;
    values = its_values;
  }
  std::vector<double> predict(const FeatureRows& wanted) const override {
    ++predictions;
    std::vector<double> result;
    for (const std::vector<double>& row : wanted) {
      double least = INFINITY, value = 0;
      for (size_t i = 0; i < rows.size(); ++i) {
        double far = 0;
        for (size_t j = first_of_loops(); j < first_of_loops() + kLoopFeatures; ++j)
          far += (row[j] - rows[i][j]) * (row[j] - rows[i][j]);
        if (far >= least) continue;
        least = far;
        value = values[i];
      }
      result.push_back(value + 0.05 * least);
    }
    return result;
  }
  static size_t first_of_loops() {
    static const size_t first =
        kernel_features(parse_kernel(product(8, 16, 8)), parse_target("x86-64-v3"), 1).size();
    return first;
  }

  FeatureRows rows;
  std::vector<double> values;
  mutable int predictions = 0;
};

// The features of the loops of some schedule of the kernel that is not the default.
std::vector<double> other_loops(const KernelTask& task) {
  const ScheduleSpace space(Schedule(task.kernel, task.target), 1);
  const std::vector<double> untuned = loop_features(replayed(task, task.untuned));
  Random random(5);
  std::vector<double> best;
  double most = 0;
  for (int i = 0; i < 100; ++i) {
    const auto schedule = space.build(random_point(space, random), nullptr);
    if (!schedule || straight_line_copies(*schedule) > 128) continue;
    const std::vector<double> loops = loop_features(*schedule);
    double far = 0;
    for (size_t j = 0; j < 6; ++j) far += std::min(4.0, std::abs(loops[j] - untuned[j]));
    if (far <= most) continue;
    most = far;
    best = loops;
  }
  return best;
}

class TunerTransfer : public ::testing::Test {
 protected:
  std::unique_ptr<RecordStore> writer() { return open_store(url_, RecordStore::Mode::Write); }

  TuneResult tuned(const KernelTask& task, Board& board, int trials,
                   const std::shared_ptr<CostModel>& model = nullptr) {
    const auto log = writer();
    TuneOptions options;
    options.trials = trials;
    options.build = kBuild;
    options.seed = 1;
    options.model = model;
    return tune({task}, board, *log, options, nullptr, nullptr);
  }

  Transfer transfer(const std::vector<KernelTask>& tasks, const OwnRecords& own = {"none", kBuild}) {
    kept_.push_back(tasks);
    return Transfer(kept_.back(), *writer(), own);
  }

  std::list<std::vector<KernelTask>> kept_;
  std::string url_ = fresh_store("memory", "transfer");
  const KernelTask small_ = task_of(product(24, 48, 32, "_a"));
  const KernelTask large_ = task_of(product(36, 80, 64));
};

TEST(TunerStructure, IsTheTextWithoutSizes) {
  EXPECT_EQ(
      structure_of("kernel k\n  input b0 f32[1, 64]\n  s0[i0:64]: b1[2*i0 + 3] = b0[0, i0]\nlayout b0 1 16"),
      "kernel k\n  input b0 f32[#, #]\n  s0[i0:#]: b1[i0 + #] = b0[#, i0]\nlayout b0 # #");
  const auto of = [](const std::string& text) { return structure_of(workload_key(parse_kernel(text))); };
  EXPECT_EQ(of(product(4, 5, 6)), of(product(40, 50, 60, "_x")));
  std::string other = product(4, 5, 6);
  other.replace(other.find("max("), 4, "min(");
  EXPECT_NE(of(product(4, 5, 6)), of(other));
}

// The log forgets names, but lines of traces have them.
TEST_F(TunerTransfer, SeedsAreLegalForAnotherSizeOfTheKernel) {
  Board board(other_loops(small_));
  // The names are those of the session's kernel, as every compilation of a model gives them.
  const KernelTask same_names = task_of(product(24, 48, 32));
  tuned(same_names, board, 40);
  const std::vector<Trace> seeds = transfer({large_}).seeds(large_, 4);
  ASSERT_EQ(seeds.size(), 1u);
  EXPECT_EQ(replayed(large_, seeds[0]).check(), std::nullopt);
  EXPECT_LT(board.time(large_, seeds[0]), board.time(large_, large_.untuned));
}

TEST_F(TunerTransfer, NearerKernelsComeFirstAndTheSameOneIsLeftToTheSession) {
  Board board(other_loops(large_));
  for (const auto& [rows, columns] : {std::pair(4, 8), {32, 72}, {36, 80}})
    tuned(task_of(product(rows, columns, 64)), board, 30);
  const std::vector<Trace> seeds = transfer({large_}).seeds(large_, 4);
  ASSERT_GE(seeds.size(), 1u);
  std::map<double, Trace> of_near;
  for (const Record& record : writer()->records({}))
    if (record.workload == workload_key(parse_kernel(product(32, 72, 64))))
      of_near[record.measurement.time.median] = record.trace;
  EXPECT_EQ(seeds[0], of_near.begin()->second);
  EXPECT_EQ(transfer({large_}).seeds(large_, 1).size(), 1u);
}

TEST_F(TunerTransfer, TrainsOnTimesRelativeToTheFastest) {
  Board board(other_loops(large_));
  tuned(task_of(product(32, 72, 64)), board, 30);
  NearestRow model;
  const Transfer found = transfer({large_});
  ASSERT_GT(found.train(model), 20u);
  EXPECT_EQ(model.rows.size(), model.values.size());
  EXPECT_EQ(*std::min_element(model.values.begin(), model.values.end()), 0);
  EXPECT_GT(*std::max_element(model.values.begin(), model.values.end()), 0.3);
  for (const auto& row : model.rows) {
    EXPECT_EQ(row.size(), model.rows[0].size());
    for (const double feature : row) EXPECT_TRUE(std::isfinite(feature));
  }
  // Another core of the same architecture differs in features; another architecture teaches nothing.
  NearestRow other;
  EXPECT_GT(transfer({task_of(product(36, 80, 64), "x86-64-v4")}).train(other), 20u);
  EXPECT_EQ(transfer({task_of(product(36, 80, 64), "rv64gcv")}).train(other), 0u);
}

// What the session itself measured is not among its lessons, or else it would propose other schedules when it
// goes on than it did before.
TEST_F(TunerTransfer, LeavesOutTheSessionsOwnRecords) {
  Board board(other_loops(large_));
  tuned(large_, board, 30);
  NearestRow model;
  EXPECT_EQ(transfer({large_}, {"board", kBuild}).train(model), 0u);
  EXPECT_GT(transfer({large_}, {"another board", kBuild}).train(model), 20u);
  EXPECT_GT(transfer({large_}, {"board", "another build"}).train(model), 20u);
}

TEST_F(TunerTransfer, PassesOverRecordsOfStrangers) {
  const std::string good = workload_key(parse_kernel(product(32, 72, 64)));
  std::vector<Record> strange;
  const auto add = [&](const std::string& workload, const Trace& trace, const std::string& target) {
    for (int i = 0; i < 5; ++i) {
      Record record = some_record(workload, 100 + i);
      record.trace = trace;
      record.trace.push_back(text("unroll x", i));
      record.target = target;
      strange.push_back(record);
    }
  };
  add(good, {"split nothing 4 as a b"}, "x86-64-v3");
  add(good, {"no primitive at all"}, "x86-64-v3");
  add(good, {}, "a target that is none");
  std::string damaged = good;
  // The structure is the same, but an access leaves its buffer.
  damaged.replace(damaged.find("f32[32, 64]"), 11, "f32[32, 63]");
  add(damaged, large_.untuned, "x86-64-v3");
  std::string huge = good;
  huge.replace(huge.find("f32[32, 64]"), 11, "f32[32, 99999999999999999999]");
  add(huge, large_.untuned, "x86-64-v3");
  writer()->add(strange);
  NearestRow model;
  EXPECT_EQ(transfer({large_}).train(model), 0u);
  EXPECT_TRUE(model.rows.empty());
  Board board(other_loops(large_));
  const TuneResult result = tuned(large_, board, 20);
  EXPECT_EQ(result.last.trials, 20);
}

TEST_F(TunerTransfer, ATrainedModelSavesMeasurements) {
  const std::vector<double> best = other_loops(large_);
  // Until the search is within a tenth of the best that is known.
  const auto needed = [&](const std::shared_ptr<CostModel>& model, double goal) {
    Board board(best);
    url_ = fresh_store("memory", "transfer");
    if (model)
      for (const auto& [rows, columns] : {std::pair(24, 48), {32, 72}})
        tuned(task_of(product(rows, columns, 64)), board, 48);
    board.seen.clear();
    tuned(large_, board, 96, model);
    for (size_t i = 0; i < board.seen.size(); ++i)
      if (board.time(large_, board.seen[i]) <= goal) return static_cast<int>(i) + 1;
    return 1000;
  };
  Board board(best);
  tuned(large_, board, 120);
  double goal = INFINITY;
  for (const Trace& trace : board.seen) goal = std::min(goal, board.time(large_, trace));
  ASSERT_LT(goal, 0.9 * board.time(large_, large_.untuned)) << "nothing to find";
  const int alone = needed(nullptr, 1.03 * goal),
            taught = needed(std::make_shared<NearestRow>(), 1.03 * goal);
  EXPECT_LE(3 * taught, alone);
}

TEST_F(TunerTransfer, TheSameLogAndSeedGiveTheSameMeasurements) {
  const std::vector<double> best = other_loops(large_);
  Board board(best);
  tuned(task_of(product(32, 72, 64)), board, 50);
  std::vector<Trace> before;
  for (int round = 0; round < 2; ++round) {
    const std::string url = fresh_store("memory", "transfer");
    make_store(url);
    open_store(url, RecordStore::Mode::Write)->merge(*writer());
    const std::string taught = std::exchange(url_, url);
    Board again(best);
    const TuneResult result = tuned(large_, again, 40, std::make_shared<NearestRow>());
    EXPECT_TRUE(std::any_of(result.notes.begin(), result.notes.end(), [](const std::string& note) {
      return note.find("the cost model is trained on ") == 0;
    }));
    if (round == 0) before = again.seen;
    EXPECT_EQ(again.seen, before);
    // The session that goes on measures only what is new.
    Board later(best);
    tuned(large_, later, 48, std::make_shared<NearestRow>());
    EXPECT_EQ(later.seen.size(), 8u);
    for (const Trace& trace : later.seen) EXPECT_EQ(std::count(before.begin(), before.end(), trace), 0);
    url_ = taught;
  }
}

TEST_F(TunerTransfer, AModelThatNothingTrainsIsNotAsked) {
  Board board(other_loops(large_));
  const auto model = std::make_shared<NearestRow>();
  const TuneResult result = tuned(large_, board, 30, model);
  EXPECT_EQ(model->predictions, 0);
  EXPECT_EQ(std::count(result.notes.begin(), result.notes.end(),
                       "the log has no records of other kernels like these that could train the cost model: "
                       "the search learns from its own measurements alone"),
            1);
}

// A model that is always wrong costs measurements, and nothing else: times decide.
TEST_F(TunerTransfer, AWrongModelDoesNotMakeTheKernelSlower) {
  class Wrong : public NearestRow {
   public:
    std::vector<double> predict(const FeatureRows& rows) const override {
      std::vector<double> values = NearestRow::predict(rows);
      for (double& value : values) value = -value;
      return values;
    }
  };
  const std::vector<double> best = other_loops(large_);
  Board board(best);
  tuned(task_of(product(32, 72, 64)), board, 50);
  const TuneResult result = tuned(large_, board, 64, std::make_shared<Wrong>());
  EXPECT_LE(result.last.kernels[0].best, result.last.kernels[0].untuned);
  EXPECT_LT(result.last.kernels[0].best, 0.95 * result.last.kernels[0].untuned);
}

// A device with the target's core on which the untuned schedule runs at nearly the core's peak rate.
TEST_F(TunerTransfer, StopsAtTheRoof) {
  class Peak : public Measurer {
   public:
    std::string device_key() const override { return key; }
    std::string unit() const override { return "simulated cycles"; }
    std::vector<Measurement> measure(const KernelTask& task, const Trace&, const std::vector<Trace>& traces,
                                     int) override {
      const double cycles = times_roof * 2 * 36 * 80 * 64 / (2 * 8 * task.target.multiply_adds);
      measured += static_cast<int>(traces.size());
      return std::vector<Measurement>(traces.size(),
                                      Measurement{Outcome::Ok, "", {1, cycles, cycles, 0}, 1, 0});
    }
    std::string key;
    double times_roof = 1.1;
    int measured = 0;
  };
  const KernelTask task = task_of(product(36, 80, 64), "x86-64-v3@znver4");
  const auto measured = [&](const std::string& key, double times_roof, std::vector<std::string>* notes) {
    Peak device;
    device.key = key;
    device.times_roof = times_roof;
    const auto log = open_store(fresh_store("memory", "roof"), RecordStore::Mode::Write);
    TuneOptions options;
    options.trials = 24;
    options.build = kBuild;
    *notes = tune({task}, device, *log, options, nullptr, nullptr).notes;
    return device.measured;
  };
  std::vector<std::string> notes;
  // The roof leaves out the bias and the maximum, which it counts as operations, too.
  EXPECT_EQ(measured("simulated_znver4", 1.02, &notes), 1);
  EXPECT_EQ(
      std::count(notes.begin(), notes.end(),
                 "1 of 1 kernels take no more than 2 % longer than the core's peak rate allows: no more "
                 "schedules of them were tried"),
      1);
  EXPECT_EQ(measured("simulated_znver4", 1.2, &notes), 24);
  EXPECT_EQ(measured("another", 1.02, &notes), 24);
  // Faster than the table says is possible: the table is not the device's.
  EXPECT_EQ(measured("simulated_znver4", 0.8, &notes), 24);
}

}  // namespace
}  // namespace tc::testing
