// The search on devices with planted costs: how near it comes, that it repeats itself, that all it
// proposes is legal and right.
#include "tuner/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <map>
#include <set>

#include "ir/error.h"
#include "scheduler/scheduler.h"
#include "scheduler/search/sketch.h"
#include "tests/codegen_harness.h"
#include "tests/scheduler_kernels.h"
#include "tuner/space.h"

namespace tc {
namespace {

const testing::NamedKernel& named(const std::string& name) {
  for (const testing::NamedKernel& kernel : testing::small_kernels()) {
    if (kernel.name == name) return kernel;
  }
  fail(ErrorKind::Internal, "no kernel ", name);
}

KernelTask task_of(const std::string& name, const Target& target, bool blocked = true, int threads = 1) {
  KernelTask task;
  task.label = name;
  task.kernel = parse_kernel(named(name).text);
  if (blocked) task.layout_lines = named(name).layout_lines;
  task.workload = workload_key(task.kernel);
  task.target = target;
  task.threads = threads;
  task.untuned = default_schedule(task.kernel, target, threads, task.layout_lines).trace();
  return task;
}

Schedule replayed(const KernelTask& task, const Trace& trace) {
  Schedule schedule(task.kernel, task.target);
  if (auto refused = schedule.replay(trace)) fail(ErrorKind::Schedule, *refused);
  return schedule;
}

// What the planted costs depend on: properties of the loops of the statement with most instances.
using Features = std::vector<double>;

Features features_of(const KernelTask& task, const Trace& trace) {
  const ScheduledKernel scheduled = replayed(task, trace).finish();
  size_t main = 0;
  double most = -1;
  for (size_t i = 0; i < scheduled.kernel.statements.size(); ++i) {
    double instances = 1;
    for (const Iterator& iterator : scheduled.kernel.statements[i].iterators) {
      instances *= iterator.extent.is_constant() ? static_cast<double>(iterator.extent.constant()) : 64;
    }
    if (instances > most) {
      most = instances;
      main = i;
    }
  }
  // Figures of the largest leaf: copies, the widest unrolled loop, copies per trip, lanes, loops inside.
  Features features(8, 0);
  double leaves = 0;
  std::function<void(const LoopNode&, int, double)> visit = [&](const LoopNode& node, int depth,
                                                                double trips) {
    if (node.kind == LoopNode::Kind::Leaf) {
      ++leaves;
      for (const TileStatement& statement : node.statements) {
        if (statement.statement != static_cast<int>(main)) continue;
        double copies = 1, widest = 1, per_trip = 1, lanes = 1, serial = 1, last = 1;
        for (const TileLoop& loop : statement.loops) {
          const double extent = loop.extent > 0 ? static_cast<double>(loop.extent) : 64;
          // A loop of no more trips than copies is unrolled as a whole: the code is the same.
          const bool whole =
              loop.kind == TileLoop::Kind::Serial && loop.extent > 0 && loop.unroll >= loop.extent;
          if (loop.kind == TileLoop::Kind::Unroll || whole) {
            copies *= extent;
            widest = std::max(widest, extent);
          } else if (loop.kind == TileLoop::Kind::Vector) {
            lanes = extent;
          } else {
            per_trip = std::max<double>(per_trip, loop.unroll);
            serial *= extent;
            last = extent;
          }
        }
        if (copies * lanes * serial < std::exp2(features[7])) continue;
        features = {std::log2(copies),   std::log2(widest),
                    std::log2(per_trip), std::log2(lanes),
                    std::log2(last),     static_cast<double>(depth),
                    std::log2(trips),    std::log2(copies * lanes * serial)};
      }
    }
    double inside = trips;
    if (node.kind == LoopNode::Kind::For) {
      inside = 1;
      if (node.lower->kind == LoopExpr::Kind::Const && node.upper->kind == LoopExpr::Kind::Const) {
        inside = std::max<double>(1, static_cast<double>(node.upper->value - node.lower->value + 1));
      }
    }
    for (const LoopNodePtr& child : node.children) {
      visit(*child, depth + (node.kind == LoopNode::Kind::For), inside);
    }
  };
  visit(*scheduled.root, 0, 1);
  features.push_back(std::log2(leaves));
  return features;
}

// A device whose times are a smooth function of the features with its least at a planted schedule.
class PlantedDevice : public Measurer {
 public:
  explicit PlantedDevice(Features optimum) : optimum_(std::move(optimum)) {}

  std::string device_key() const override { return "planted"; }
  std::string unit() const override { return "simulated cycles"; }
  std::vector<Measurement> measure(const KernelTask& task, const Trace& incumbent,
                                   const std::vector<Trace>& traces, int rounds) override {
    const double base = cost(features_of(task, incumbent));
    std::vector<Measurement> results;
    for (const Trace& trace : traces) {
      Measurement result;
      const Features features = features_of(task, trace);
      // Tiles far beyond the registers break this device.
      if (features[0] > 6.5) {
        result.outcome = Outcome::Crash;
        result.detail = "signal 11";
      } else {
        const double time = cost(features);
        result.time = {rounds, time, time, 0};
        result.ratio = time / base;
      }
      results.push_back(result);
    }
    return results;
  }

  // 1 at the optimum.
  double cost(const Features& features) const {
    static const double weights[] = {0.5, 0.3, 0.4, 0.6, 0.2, 0.3, 0.2, 0.2, 0.4};
    double sum = 0;
    for (size_t i = 0; i < features.size(); ++i) {
      const double off = features[i] - optimum_[i];
      sum += weights[i] * off * off;
    }
    return 1 + 0.5 * sum;
  }

 private:
  Features optimum_;
};

// The features of a legal schedule whose planted device gives the default at least `distance`.
Features planted(const KernelTask& task, uint64_t seed, double distance) {
  Schedule start(task.kernel, task.target);
  start.replay(task.layout_lines);
  const ScheduleSpace space(start, task.threads);
  Random random(seed * 7919 + 17);
  const Features untuned = features_of(task, task.untuned);
  Features best = untuned;
  double farthest = 0;
  for (int attempt = 0; attempt < 200; ++attempt) {
    const Point point = random_point(space, random);
    if (space.cycles(point) == INFINITY) continue;
    const auto schedule = space.build(point, nullptr);
    if (!schedule) continue;
    const Features features = features_of(task, schedule->trace());
    if (features[0] > 5.5) continue;
    const double cost = PlantedDevice(features).cost(untuned);
    if (cost > farthest) {
      farthest = cost;
      best = features;
    }
    if (cost >= distance) break;
  }
  return best;
}

struct Progress {
  double best = 0;  // the optimum's cost over the found one's
  int trials = 0;   // until 0.9 of the optimum
};

// Tunes in batches until the goal or the trials are reached.
Progress tune(const KernelTask& task, PlantedDevice& device, const SearchOptions& options, int trials,
              double goal) {
  KernelSearch search(task, options);
  const double base = device.cost(features_of(task, task.untuned));
  Progress run;
  constexpr int kBatch = 8;
  while (run.trials < trials) {
    const std::vector<Trace> traces = search.propose(std::min(kBatch, trials - run.trials));
    if (traces.empty()) break;
    search.learn(traces, device.measure(task, task.untuned, traces, 3));
    run.trials += static_cast<int>(traces.size());
    run.best = 1 / (base * search.best_ratio());
    if (run.best >= goal) break;
  }
  return run;
}

bool full() { return std::getenv("TC_FULL") != nullptr; }

class PlantedSearch : public ::testing::TestWithParam<const char*> {};

TEST_P(PlantedSearch, ComesNearTheOptimum) {
  const KernelTask task = task_of(GetParam(), parse_target("x86-64-v3"));
  // Ten of which each has to succeed; with --full forty others, of which nine in ten do.
  const int seeds = 10, others = full() ? 40 : 0;
  int reached = 0, others_reached = 0;
  std::string story;
  for (int i = 0; i < seeds + others; ++i) {
    const int seed = i < seeds ? i : 100 + i - seeds;
    PlantedDevice device(planted(task, static_cast<uint64_t>(seed), 3));
    const double untuned = device.cost(features_of(task, task.untuned));
    EXPECT_GT(untuned, 1.5) << "seed " << seed << ": nothing to find";
    SearchOptions options;
    options.seed = static_cast<uint64_t>(seed);
    const Progress run = tune(task, device, options, 200, 0.9);
    (i < seeds ? reached : others_reached) += run.best >= 0.9;
    story += text("seed ", seed, ": untuned ", 1 / untuned, ", found ", run.best, " in ", run.trials, "\n");
  }
  if (full()) std::cout << story;
  EXPECT_EQ(reached, seeds) << story;
  EXPECT_GE(others_reached * 10, 9 * others) << story;
}

INSTANTIATE_TEST_SUITE_P(Kernels, PlantedSearch,
                         ::testing::Values("conv", "pointwise", "gemm", "depthwise", "layer_norm"),
                         [](const auto& info) { return info.param; });

// The surrogate sees features; schedules with the same loops have the same.
TEST(Search, TheSameLoopsHaveTheSameFeatures) {
  for (const char* name : {"conv", "gemm", "layer_norm"}) {
    const KernelTask task = task_of(name, parse_target("x86-64-v3"));
    Schedule start(task.kernel, task.target);
    start.replay(task.layout_lines);
    const ScheduleSpace space(start, task.threads);
    Random random(3);
    std::map<std::string, std::vector<double>> by_sketch;
    std::set<std::vector<double>> kinds;
    int same = 0;
    for (int i = 0; i < 400; ++i) {
      const Point point = space.canonical(random_point(space, random));
      const std::string sketch = space.sketch(point, nullptr);
      const auto draft = space.draft(point);
      const std::vector<double> features = draft ? loop_features(*draft) : std::vector<double>{};
      ASSERT_EQ(sketch.empty(), features.empty());
      if (sketch.empty()) continue;
      for (const double feature : features) EXPECT_TRUE(std::isfinite(feature));
      kinds.insert(features);
      const auto [place, fresh] = by_sketch.emplace(sketch, features);
      same += !fresh;
      EXPECT_EQ(place->second, features) << name;
    }
    EXPECT_GT(same, 0) << name;
    EXPECT_GT(kinds.size(), 5u) << name;
  }
}

// The cheapest choice of iterators, lanes along x, cannot be made where the layout has blocks of features;
// the default takes the next one, and so does the space.
TEST(Search, SpaceBeginsAtTheDefaultWhereTheCheapestChoiceIsRefused) {
  const char* kernel = R"(kernel "conv"
  input I f32[1, 3, 64, 64]
  constant K f32[8, 3, 5, 5]
  constant B f32[8]
  output O f32[1, 8, 64, 64]
  local T f32[1, 8, 64, 64]
  init[f:8, y:64, x:64]: T[0, f, y, x] = 0
  macc[f:8, y:64, x:64, c:3, r:5, s:5] where r + y - 2 >= 0, 65 - r - y >= 0, s + x - 2 >= 0, 65 - s - x >= 0: T[0, f, y, x] += I[0, c, r + y - 2, s + x - 2] * K[f, c, r, s]
  tail[f:8, y:64, x:64]: O[0, f, y, x] = max(T[0, f, y, x] + B[f], 0)
)";
  Schedule start(parse_kernel(kernel), parse_target("x86-64-v4"));
  ASSERT_EQ(start.replay({"layout O 1 16"}), std::nullopt);
  const ScheduleSpace space(start, 1);
  const auto first = space.build(space.default_point(), nullptr);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->trace(),
            default_schedule(parse_kernel(kernel), start.target(), 1, {"layout O 1 16"}).trace());
  const auto features = loop_features(*first);
  EXPECT_NE(features, std::vector<double>(features.size(), 0));
}

// The space of a kernel with an algorithm begins at what the default takes, and holds other sizes of it.
TEST(Search, SpaceHoldsAlgorithms) {
  struct Case {
    const char *kernel, *target, *dimension, *line;
    std::vector<std::string> layouts;
  };
  const Case convolution = {R"(kernel "conv"
  input I f32[1, 64, 28, 28]
  constant K f32[64, 64, 3, 3]
  output O f32[1, 64, 28, 28]
  local T f32[1, 64, 28, 28]
  init[f:64, y:28, x:28]: T[0, f, y, x] = 0
  macc[f:64, y:28, x:28, c:64, r:3, s:3] where r + y - 1 >= 0, 28 - r - y >= 0, s + x - 1 >= 0, 28 - s - x >= 0: T[0, f, y, x] += I[0, c, r + y - 1, s + x - 1] * K[f, c, r, s]
  tail[f:64, y:28, x:28]: O[0, f, y, x] = max(T[0, f, y, x], 0)
)",
                            "x86-64-v3",
                            "outputs of a Winograd tile",
                            "algorithm macc winograd ",
                            {"layout I 1 8", "layout O 1 8"}};
  const Case product = {R"(kernel "gemm"
  input A f32[256, 512]
  constant K f32[512, 512]
  output O f32[256, 512]
  init[i:256, j:512]: O[i, j] = 0
  macc[i:256, j:512, k:512]: O[i, j] += A[i, k] * K[k, j]
)",
                        "sapphirerapids",
                        "blocks of accumulators",
                        "algorithm macc ",
                        {}};
  for (const Case& each : {convolution, product}) {
    const double tolerance = 1e-4;
    Schedule start(parse_kernel(each.kernel), parse_target(each.target));
    ASSERT_EQ(start.replay(each.layouts), std::nullopt);
    const auto has = [&](const ScheduleSpace& space) {
      return std::any_of(space.dimensions().begin(), space.dimensions().end(),
                         [&](const auto& dimension) { return dimension.name == each.dimension; });
    };
    EXPECT_FALSE(has(ScheduleSpace(start, 1)));
    const ScheduleSpace space(start, 1, tolerance);
    ASSERT_TRUE(has(space)) << each.line;
    const auto first = space.build(space.default_point(), nullptr);
    ASSERT_TRUE(first);
    const std::vector<std::string> added = default_trace(start, 1, tolerance);
    EXPECT_TRUE(std::equal(added.rbegin(), added.rend(), first->trace().rbegin())) << each.line;
    Random random(11);
    std::set<std::string> lines;
    for (int i = 0; i < 400 && lines.size() < 4; ++i) {
      const Point point = random_point(space, random);
      if (space.cycles(point) == INFINITY) continue;
      const auto schedule = space.build(point, nullptr);
      if (!schedule) continue;
      EXPECT_EQ(schedule->check(), std::nullopt);
      for (const std::string& line : schedule->trace()) {
        if (line.rfind(each.line, 0) == 0) lines.insert(line);
      }
    }
    EXPECT_EQ(lines.size(), 4u) << each.line;
  }
}

TEST(Search, ComesBackFromRandomSchedules) {
  for (const char* name : {"pointwise", "gemm", "pool"}) {
    const KernelTask task = task_of(name, parse_target("x86-64-v3"));
    for (uint64_t seed : {1, 2}) {
      SCOPED_TRACE(text(name, " seed ", seed));
      // The default is the best there is.
      PlantedDevice device(features_of(task, task.untuned));
      SearchOptions options;
      options.seed = seed;
      options.from_random = true;
      KernelSearch first(task, options);
      const std::vector<Trace> start = first.propose(8);
      double worst = 0;
      for (const Measurement& result : device.measure(task, task.untuned, start, 1)) {
        worst = std::max(worst, result.ratio);
      }
      EXPECT_GT(worst, 1.5);
      const Progress run = tune(task, device, options, 300, 0.9999);
      EXPECT_GE(run.best, 0.9999) << "after " << run.trials;
    }
  }
}

TEST(Search, RepeatsItself) {
  const KernelTask task = task_of("conv", parse_target("x86-64-v4"), true, 2);
  PlantedDevice device(planted(task, 5, 3));
  SearchOptions options;
  options.seed = 42;
  KernelSearch a(task, options), b(task, options);
  options.seed = 43;
  KernelSearch c(task, options);
  bool differs = false;
  for (int round = 0; round < 6; ++round) {
    const std::vector<Trace> of_a = a.propose(10), of_b = b.propose(10), of_c = c.propose(10);
    ASSERT_EQ(of_a, of_b);
    differs = differs || of_a != of_c;
    a.learn(of_a, device.measure(task, task.untuned, of_a, 1));
    b.learn(of_b, device.measure(task, task.untuned, of_b, 1));
    c.learn(of_c, device.measure(task, task.untuned, of_c, 1));
  }
  EXPECT_TRUE(differs);
  EXPECT_EQ(a.best(), b.best());
  EXPECT_EQ(a.best_ratio(), b.best_ratio());
}

TEST(Space, IsRefusedAfterOrders) {
  const KernelTask task = task_of("gemm", parse_target("x86-64-v4"));
  Schedule start(task.kernel, task.target);
  ASSERT_EQ(start.replay({"split macc_n 8 as outer inner"}), std::nullopt);
  std::string refused;
  try {
    const ScheduleSpace space(start, 1);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Schedule);
    refused = error.what();
  }
  EXPECT_EQ(refused, text("the schedule of kernel '", task.kernel.name,
                          "' has ordered loops already; the space of the default begins with rewrites only"));
}

// Loops that the matrix unit runs are others than those that vectors run.
TEST(Sketch, TellsLoopsOfTheMatrixUnitApart) {
  const Kernel kernel = parse_kernel(R"(kernel "gemm"
  input A f32[256, 512]
  constant K f32[512, 512]
  output O f32[256, 512]
  init[i:256, j:512]: O[i, j] = 0
  macc[i:256, j:512, k:512]: O[i, j] += A[i, k] * K[k, j]
)");
  const Target target = parse_target("sapphirerapids");
  const std::vector<std::string> trace = default_schedule(kernel, target, 1, {}, 1e-4).trace();
  const auto is_mark = [](const std::string& line) { return line.rfind("tensorize ", 0) == 0; };
  const auto mark = std::find_if(trace.begin(), trace.end(), is_mark);
  ASSERT_NE(mark, trace.end());
  Schedule with(kernel, target), without(kernel, target);
  ASSERT_EQ(with.replay(std::vector<std::string>(trace.begin(), mark + 1)), std::nullopt);
  ASSERT_EQ(without.replay(std::vector<std::string>(trace.begin(), mark)), std::nullopt);
  EXPECT_NE(loops_key(with), loops_key(without));
}

// Lines are changed as the rows of their primitives allow.
TEST(LineChanges, FollowTheRows) {
  const Trace trace = {"layout I 1 8",
                       "split macc_x 14 as macc_xo macc_xi",
                       "order macc_y macc_xo macc_c macc_xi macc_f",
                       "vectorize macc_f",
                       "unroll macc_xi",
                       "unroll macc_c 4",
                       "parallel macc_y"};
  std::map<std::string, int> kinds;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    std::string kind;
    const auto changed = mutate_lines(trace, 1, random, &kind);
    if (!changed) continue;
    ++kinds[kind];
    EXPECT_NE(*changed, trace);
    EXPECT_EQ(changed->front(), trace.front());
    EXPECT_EQ(changed->back(), trace.back()) << kind;  // parallel stays last
    for (const std::string& line : *changed) EXPECT_TRUE(read_line(line)) << line;
    const size_t more = kind == "add" || kind == "divide" ? 1 : 0, fewer = kind == "drop" ? 1 : 0;
    EXPECT_EQ(changed->size() + fewer, trace.size() + more) << kind;
    if (kind == "drop") {
      for (const char* kept : {"vectorize macc_f", "parallel macc_y"})
        EXPECT_EQ(std::count(changed->begin(), changed->end(), kept), 1);
    }
    if (kind != "number") continue;
    for (size_t i = 0; i < trace.size(); ++i) {
      const PrimitiveLine before = read_line(trace[i]).value(), after = read_line(changed->at(i)).value();
      for (size_t word = 1; word < before.words.size(); ++word) {
        const bool may = before.arguments[word]->change == Argument::Change::Number;
        EXPECT_TRUE(may || before.words[word] == after.words[word]) << changed->at(i);
      }
    }
  }
  for (const char* kind : {"number", "order", "drop", "add", "divide"}) EXPECT_GT(kinds[kind], 5) << kind;
}

TEST(Search, StartsWithTheUntunedAndTheSeeds) {
  const KernelTask task = task_of("gemm", parse_target("x86-64-v4"));
  Schedule start(task.kernel, task.target);
  const ScheduleSpace space(start, 1);
  std::vector<Trace> candidates;
  for (const ScheduleSpace::Point& point : space.ranked(8)) {
    if (const auto schedule = space.build(point, nullptr)) candidates.push_back(schedule->trace());
  }
  ASSERT_GE(candidates.size(), 4u);
  EXPECT_EQ(candidates[0], task.untuned);
  ASSERT_NE(candidates[1], task.untuned);
  SearchOptions options;
  options.seeds = {{"split macc_n 999 as"}, candidates[1], task.untuned};
  KernelSearch search(task, options);
  EXPECT_EQ(search.best(), task.untuned);
  EXPECT_EQ(search.best_ratio(), 1);
  const std::vector<Trace> first = search.propose(3);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0], task.untuned);
  EXPECT_EQ(first[1], options.seeds[1]);
  EXPECT_NE(first[2], task.untuned);
  EXPECT_EQ(search.refused(), 1);
  EXPECT_EQ(search.refusal(), "split macc_n 999 as: expected the outer loop's name at the end of the line");
  EXPECT_EQ(search.proposed(), 3);
}

TEST(Search, KeepsTheFastestVerified) {
  const KernelTask task = task_of("gemm", parse_target("x86-64-v4"));
  KernelSearch search(task, {});
  const std::vector<Trace> traces = search.propose(5);
  ASSERT_EQ(traces.size(), 5u);
  auto result = [](Outcome outcome, double ratio, int count = 3) {
    Measurement measurement;
    measurement.outcome = outcome;
    measurement.ratio = ratio;
    measurement.time.count = count;
    return measurement;
  };
  search.learn(traces, {result(Outcome::Ok, 1), result(Outcome::WrongResult, 0.1), result(Outcome::Ok, 0.8),
                        result(Outcome::Noisy, 0.2), result(Outcome::Ok, 0.7)});
  EXPECT_EQ(search.best(), traces[4]);
  EXPECT_EQ(search.best_ratio(), 0.7);
  EXPECT_EQ(search.fastest(9), (std::vector<Trace>{traces[4], traces[2], traces[0]}));
  // Fewer samples do not overrule more; more do.
  search.learn({traces[2]}, {result(Outcome::Ok, 0.5, 1)});
  EXPECT_EQ(search.best_ratio(), 0.7);
  search.learn({traces[4]}, {result(Outcome::Ok, 0.9, 9)});
  EXPECT_EQ(search.best(), traces[2]);
  // Where nothing is faster than the untuned, that is the best.
  search.learn({traces[2], traces[4]}, {result(Outcome::Ok, 1.1, 20), result(Outcome::Crash, 0)});
  EXPECT_EQ(search.best(), task.untuned);
  EXPECT_EQ(search.best_ratio(), 1);
}

// Every proposal replays, passes the check, differs in its loops from all others and computes what
// the kernel means.
TEST(Search, ProposesWhatIsLegalAndRight) {
  const std::vector<std::string> names = {"conv",        "conv_group",    "pointwise",   "depthwise",
                                          "gemm_direct", "gemm_symbolic", "pool",        "softmax",
                                          "layer_norm",  "row_sum",       "elementwise", "transpose",
                                          "dense_chain", "scan",          "scalar"};
  const Target target = testing::host_target();
  double seconds = 0;
  int proposals = 0, compiled = 0;
  for (const std::string& name : names) {
    for (bool from_random : {false, true}) {
      SCOPED_TRACE(name + (from_random ? " from random" : ""));
      const KernelTask task = task_of(name, target, true, from_random ? 2 : 1);
      PlantedDevice device(features_of(task, task.untuned));
      SearchOptions options;
      options.from_random = from_random;
      options.seed = 9;
      KernelSearch search(task, options);
      std::set<std::string> loops;
      for (int round = 0; round < 3; ++round) {
        const std::clock_t before = std::clock();
        const std::vector<Trace> traces = search.propose(10);
        seconds += static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
        proposals += static_cast<int>(traces.size());
        std::vector<Measurement> results(traces.size());
        for (size_t i = 0; i < traces.size(); ++i) {
          std::string shown;
          for (const std::string& line : traces[i]) shown += line + "\n";
          SCOPED_TRACE(shown);
          Schedule schedule(task.kernel, task.target);
          ASSERT_EQ(schedule.replay(traces[i]), std::nullopt);
          ASSERT_EQ(schedule.check(), std::nullopt);
          const ScheduledKernel scheduled = schedule.finish();
          EXPECT_TRUE(loops.insert(str(scheduled)).second);
          results[i].ratio = 1 + 0.1 * static_cast<double>(i);
          // A sample is run: by the interpreter of loops, and some of them compiled.
          if (i % 3 != static_cast<size_t>(round)) continue;
          const auto parameters = testing::parameter_values(task.kernel, 3);
          EXPECT_EQ(testing::difference(task.kernel, schedule, 3, parameters), "");
          if (i % 2 != 0) continue;
          testing::Tensors inputs;
          for (const Buffer& buffer : scheduled.kernel.buffers) {
            if (buffer.scope != Scope::Input && buffer.scope != Scope::Constant) continue;
            std::vector<int64_t> shape;
            for (const Affine& size : buffer.shape) shape.push_back(size.evaluate(parameters));
            inputs[buffer.name] = testing::seeded(buffer.dtype, shape, 11);
          }
          ++compiled;
          testing::expect_like_interpreter(scheduled, target, parameters, inputs, 3e-6, task.threads);
        }
        if (!traces.empty()) search.learn(traces, results);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
  EXPECT_GE(compiled, 30);
  EXPECT_GE(proposals, 500);
  if (full()) std::cout << 1000 * seconds / proposals << " ms of a processor per proposal\n";
}

TEST(Search, GuardsTheArguments) {
  // A seed that changes the layout of an argument is another kernel's.
  const KernelTask task = task_of("elementwise", parse_target("x86-64-v3"), false);
  SearchOptions options;
  options.seeds = {{"layout A 1 4"}};
  KernelSearch search(task, options);
  for (const Trace& trace : search.propose(10)) {
    for (const std::string& line : trace) EXPECT_NE(line, "layout A 1 4");
  }
  EXPECT_EQ(search.refusal(), "a layout line changes an argument of the kernel");
}

}  // namespace
}  // namespace tc
