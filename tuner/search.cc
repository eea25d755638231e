// The search for one kernel's schedule: first the best points by the analytic cost model, or by one that
// other kernels have trained, then evolution that is guided by a surrogate of the measured points.
#include "tuner/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/error.h"
#include "ir/hash.h"
#include "scheduler/search/sketch.h"
#include "scheduler/search/space.h"
#include "tuner/candidate_features.h"
#include "tuner/space.h"
#include "tuner/surrogate.h"

namespace tc {
namespace {

constexpr int kAnalytic = 12;  // points that the analytic cost model ranks best, tried first
// Points of the analytic ranking, and as many random ones, that a trained model predicts.
constexpr int kPredicted = 200;
constexpr int kRandomStarts = 16;  // random points to start from (from_random)
constexpr int kAttempts = 20;      // at finding one more candidate
constexpr int kMixtures = 50;      // crossovers of fast points to rate, and as many random points
constexpr size_t kTournament = 4;
constexpr size_t kElite = 4;         // fastest points whose neighbours are rated
constexpr size_t kSure = 40;         // most promising points that get a prediction with its uncertainty
constexpr size_t kSureOfFamily = 6;  // at least this many of each family
constexpr double kByFamily = 0.5;    // probability of taking the best point of a random family, not of all
constexpr size_t kPerSearch = 16;    // points proposed before the pool is searched anew

// The schedule after the lines that fix the layouts of the arguments.
Schedule after_layout(const KernelTask& task) {
  Schedule schedule(task.kernel, task.target);
  if (auto refused = schedule.replay(task.layout_lines)) fail(ErrorKind::Schedule, *refused);
  return schedule;
}

// Whether the outcome says something about the candidate, not about the device or its noise.
bool is_verdict(Outcome outcome) { return outcome != Outcome::DeviceLost && outcome != Outcome::Noisy; }

struct Candidate {
  Trace trace;
  std::string family;  // candidates of one family are likely to fail for the same reason
  bool known = false;  // has a verdict
  Measurement result;
  bool good() const { return known && result.outcome == Outcome::Ok && result.ratio > 0; }
};

struct Family {
  int tried = 0, failed = 0;
};

// A point that was built, and the candidate that it is. Many points may be one candidate.
struct Built {
  Point point;
  size_t candidate;
  const Surrogate::Place* place = nullptr;  // once it is known
};

}  // namespace

struct KernelSearch::State {
  KernelTask task;
  SearchOptions options;
  Schedule start;
  ScheduleSpace space;
  Random random;
  Surrogate surrogate;
  std::vector<Candidate> candidates;
  std::map<Trace, size_t> by_trace;
  std::map<uint64_t, size_t> by_loops;
  // By hash of the sketch: the first point that has it; nothing where a changed trace (mutate_lines) has it.
  std::map<uint64_t, std::optional<Point>> sketches;
  // All points that were tried, each with its candidate where one could be built.
  std::map<Point, std::optional<size_t>> points;
  std::vector<Built> samples;  // in the order in which they were built
  std::map<std::string, Family> families;
  size_t next_seed = 0, next_start = 0;
  std::vector<Point> starts;
  std::vector<double> of_kernel;                                            // features, for a trained model
  std::map<Point, Surrogate::Place> places;                                 // of the points that were rated
  std::vector<std::pair<Surrogate::Place, Surrogate::Prediction>> hopeful;  // since the last learn()
  std::vector<Surrogate::Place> chosen;                                     // of the hopeful ones
  std::map<int, size_t> of_family;                                          // hopeful points by family
  bool started = false, stale = true, exhausted = false;
  int evolved = 0, proposed = 0, refused = 0;
  std::string refusal;
  // best() returns a reference to this copy, since `candidates` grows.
  Trace best;

  State(const KernelTask& the_task, const SearchOptions& the_options)
      : task(the_task),
        options(the_options),
        start(after_layout(task)),
        space(start, task.threads, task.tolerance),
        random(the_options.seed ^ fnv1a(the_task.workload)),
        surrogate(space),
        best(the_task.untuned) {
    if (options.from_random) {
      for (int i = 0; i < kRandomStarts; ++i) starts.push_back(random_point(space, random));
    } else {
      starts = space.ranked(kAnalytic);
    }
    if (options.model) of_kernel = kernel_features(task.kernel, task.target, task.threads);
  }

  // Puts the points that the trained model predicts to be the fastest first.
  void predict_starts() {
    std::vector<Point> pool = space.ranked(kPredicted);
    for (int i = 0; i < kPredicted; ++i) pool.push_back(random_point(space, random));
    pool.erase(std::remove_if(pool.begin(), pool.end(),
                              [&](const Point& point) { return space.cycles(point) == INFINITY; }),
               pool.end());
    rate(pool);
    pool.erase(std::remove_if(pool.begin(), pool.end(),
                              [&](const Point& point) { return places.at(point).features.empty(); }),
               pool.end());
    std::stable_sort(pool.begin(), pool.end(), [&](const Point& a, const Point& b) {
      return places.at(a).predicted < places.at(b).predicted;
    });
    pool.resize(std::min(pool.size(), size_t{kAnalytic}));
    starts.insert(starts.begin(), pool.begin(), pool.end());
  }

  void refuse(const std::string& why) {
    ++refused;
    if (refusal.empty()) refusal = why;
  }

  void note(const Point& point, size_t candidate) {
    points[point] = candidate;
    samples.push_back({point, candidate});
    stale = stale || candidates[candidate].known;
  }

  // Adds the schedule where it is legal and new; returns whether it is a new candidate.
  bool take(const Schedule& schedule, const std::string& family, const std::optional<Point>& point) {
    const Trace& trace = schedule.trace();
    auto same = [&](size_t candidate) {
      if (point) note(*point, candidate);
      return false;
    };
    if (auto found = by_trace.find(trace); found != by_trace.end()) return same(found->second);
    std::string loops;
    try {
      if (auto illegal = schedule.check()) {
        refuse(*illegal);
        return false;
      }
      loops = str(schedule.finish());
    } catch (const Error& error) {
      refuse(error.what());
      return false;
    }
    const auto [place, fresh] = by_loops.emplace(fnv1a(loops), candidates.size());
    if (!fresh) {
      by_trace[trace] = place->second;
      return same(place->second);
    }
    add(trace, family);
    same(candidates.size() - 1);
    return true;
  }

  void add(const Trace& trace, const std::string& family) {
    by_trace[trace] = candidates.size();
    candidates.push_back({trace, family, false, {}});
  }

  bool take_point(const Point& point) {
    if (points.count(point) > 0) return false;
    points[point] = std::nullopt;
    std::string why;
    try {
      const std::string sketch = space.sketch(point, &why);
      if (sketch.empty()) {
        refuse(why);
        return false;
      }
      const auto [place, fresh] = sketches.emplace(fnv1a(sketch), point);
      if (!fresh) {
        // Another point with the same sketch was built or refused already.
        const auto candidate = place->second ? points[*place->second] : std::nullopt;
        if (candidate) note(point, *candidate);
        return false;
      }
      const auto schedule = space.build(point, &why);
      if (schedule) return take(*schedule, text("space ", space.family(point)), point);
    } catch (const Error& error) {
      why = error.what();
    }
    refuse(why);
    return false;
  }

  bool take_trace(const Trace& trace, const std::string& family) {
    if (by_trace.count(trace) > 0) return false;
    const Trace lines(trace.begin() + static_cast<std::ptrdiff_t>(task.layout_lines.size()), trace.end());
    for (const std::string& line : lines) {
      if (!changes_argument(line)) continue;
      refuse("a layout line changes an argument of the kernel");
      return false;
    }
    Schedule schedule = start;
    try {
      std::string why;
      const std::string sketch = sketch_of(start, lines, &why);
      if (sketch.empty()) {
        refuse(why);
        return false;
      }
      if (!sketches.emplace(fnv1a(sketch), std::nullopt).second) return false;
      if (auto why = schedule.replay(lines)) {
        refuse(*why);
        return false;
      }
    } catch (const Error& error) {
      refuse(error.what());
      return false;
    }
    return take(schedule, family, std::nullopt);
  }

  // Whether the line changes the layout of an input or output: that would be a different kernel.
  bool changes_argument(const std::string& line) const {
    const auto read = read_line(line);
    for (size_t i = 1; read && i < read->words.size(); ++i) {
      const int index = read->arguments[i]->changes_layout ? task.kernel.buffer_index(read->words[i]) : -1;
      if (index < 0) continue;
      const Scope scope = task.kernel.buffers[static_cast<size_t>(index)].scope;
      if (scope == Scope::Input || scope == Scope::Output) return true;
    }
    return false;
  }

  bool has_layout(const Trace& trace) const {
    return trace.size() >= task.layout_lines.size() &&
           std::equal(task.layout_lines.begin(), task.layout_lines.end(), trace.begin());
  }

  // Candidates that were verified, fastest first.
  std::vector<size_t> order() const {
    std::vector<size_t> result;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].good()) result.push_back(i);
    }
    std::stable_sort(result.begin(), result.end(), [&](size_t a, size_t b) {
      return candidates[a].result.ratio < candidates[b].result.ratio;
    });
    return result;
  }

  bool avoided(const std::string& family) {
    const auto found = families.find(family);
    if (found == families.end() || found->second.failed < 4) return false;
    const double rate = static_cast<double>(found->second.failed) / found->second.tried;
    return rate > 0.6 && !random.chance(0.1);
  }

  // The fastest of a few elements drawn at random.
  template <class Element>
  const Element& tournament(const std::vector<Element>& fastest_first) {
    auto best = static_cast<int64_t>(fastest_first.size());
    for (size_t i = 0; i < kTournament; ++i) {
      best = std::min(best, random.below(static_cast<int64_t>(fastest_first.size())));
    }
    return fastest_first[static_cast<size_t>(best)];
  }

  // Points of verified candidates, fastest first.
  std::vector<Point> fast_points() const {
    std::vector<std::pair<double, Point>> sorted;
    for (const auto& [point, candidate, place] : samples) {
      if (candidates[candidate].good()) sorted.emplace_back(candidates[candidate].result.ratio, point);
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Point> result;
    for (auto& [ratio, point] : sorted) result.push_back(std::move(point));
    return result;
  }

  // The fastest point of each family, fastest first.
  static std::vector<Point> fastest_of_families(const ScheduleSpace& space,
                                                const std::vector<Point>& fastest_first) {
    std::vector<Point> result;
    std::set<int> seen;
    for (const Point& point : fastest_first) {
      if (seen.insert(space.family(point)).second) result.push_back(point);
    }
    return result;
  }

  // Finds the places of points, all of which the trained model then predicts at once. Features are empty
  // where a point has no schedule, and zeros for an algorithm: the point itself says everything.
  template <class Points>
  void rate(const Points& wanted) {
    std::vector<const Point*> predicted;
    FeatureRows rows;
    for (const Point& point : wanted) {
      const auto [found, fresh] = places.try_emplace(point);
      if (!fresh) continue;
      Surrogate::Place& place = found->second;
      place.point = point;
      if (space.is_algorithm(point)) {
        place.features.assign(kLoopFeatures, 0);
        continue;
      }
      const auto schedule = space.draft(point);
      if (!schedule) continue;
      place.features = loop_features(*schedule);
      if (!options.model) continue;
      rows.push_back(candidate_features(of_kernel, *schedule));
      predicted.push_back(&found->first);
    }
    if (rows.empty()) return;
    const std::vector<double> values = options.model->predict(rows);
    TC_CHECK(values.size() == rows.size(), "a value for each row");
    for (size_t i = 0; i < values.size(); ++i) places.at(*predicted[i]).predicted = values[i];
  }

  void fit_surrogate() {
    if (!stale) return;
    stale = false;
    double worst = 0;
    for (const Candidate& candidate : candidates) {
      if (candidate.good()) worst = std::max(worst, std::log(candidate.result.ratio));
    }
    std::vector<Point> fresh;
    for (const Built& sample : samples) {
      if (candidates[sample.candidate].known && !sample.place) fresh.push_back(sample.point);
    }
    rate(fresh);
    std::vector<Surrogate::Measured> known;
    for (Built& sample : samples) {
      const Candidate& which = candidates[sample.candidate];
      if (!which.known) continue;
      if (!sample.place) sample.place = &places.at(sample.point);
      known.push_back({sample.place, which.good() ? std::log(which.result.ratio) : worst + 0.3});
    }
    surrogate.fit(known);
  }

  // Fills `hopeful`: collects neighbours and crossovers of the fastest points and random points, and keeps
  // those that are most promising by the surrogate.
  void find_hopeful() {
    hopeful.clear();
    const std::vector<Point> fast = fast_points();
    std::set<Point> pool;
    auto add_point = [&](Point point) {
      point = space.canonical(std::move(point));
      if (points.count(point) == 0 && space.cycles(point) < INFINITY) pool.insert(std::move(point));
    };
    for (size_t i = 0; i < std::min(kElite, fast.size()); ++i) {
      for (Point& point : neighbours(space, fast[i])) add_point(std::move(point));
    }
    for (const Point& one : fastest_of_families(space, fast)) {
      for (Point& point : neighbours(space, one)) add_point(std::move(point));
    }
    for (int i = 0; i < kMixtures; ++i) {
      if (!fast.empty()) {
        Point both = crossover(tournament(fast), tournament(fast), random);
        add_point(random.chance(0.5) ? mutate(space, space.canonical(both), random) : both);
        add_point(mutate(space, mutate(space, tournament(fast), random), random));
      }
      add_point(random_point(space, random));
    }
    fit_surrogate();
    std::vector<Point> rated;
    for (const Point& point : pool) {
      if (!avoided(text("space ", space.family(point)))) rated.push_back(point);
    }
    rate(rated);
    std::vector<std::pair<double, Surrogate::Place>> sorted;
    for (const Point& point : rated) {
      Surrogate::Place place = places.at(point);
      if (place.features.empty()) continue;
      const double mean = surrogate.mean(place);
      sorted.emplace_back(mean, std::move(place));
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    of_family.clear();
    for (size_t i = 0; i < sorted.size(); ++i) {
      Surrogate::Place& place = sorted[i].second;
      const int family = space.family(place.point);
      if (i >= kSure && of_family[family] >= kSureOfFamily) continue;
      ++of_family[family];
      const Surrogate::Prediction prediction = surrogate.predict(place);
      hopeful.emplace_back(std::move(place), prediction);
    }
  }

  // Takes the next of the hopeful points. A random weight decides how much a point's uncertainty counts in
  // its favour, next to its expected time; points that differ from those chosen since the last results are
  // preferred.
  std::optional<Point> next_hopeful() {
    if (hopeful.empty() || chosen.size() >= kPerSearch) {
      find_hopeful();
      chosen.clear();
    }
    if (hopeful.empty()) return std::nullopt;
    const double hope = 0.5 * static_cast<double>(random.below(4));
    // Sometimes the choice is within one family: a family that is slower now may become the fastest once its
    // best tile is found.
    std::optional<int> family;
    if (random.chance(kByFamily)) {
      const auto which = random.below(static_cast<int64_t>(of_family.size()));
      family = std::next(of_family.begin(), which)->first;
    }
    size_t best = hopeful.size();
    double least = INFINITY;
    for (size_t i = 0; i < hopeful.size(); ++i) {
      const auto& [place, prediction] = hopeful[i];
      if (family && space.family(place.point) != *family) continue;
      double alike = 0;
      for (const Surrogate::Place& other : chosen)
        alike = std::max(alike, surrogate.similarity(place, other));
      const double value = prediction.mean + (alike - hope) * prediction.deviation;
      if (value >= least) continue;
      least = value;
      best = i;
    }
    if (best == hopeful.size()) best = 0;  // no point of that family is left: the one of least mean
    Surrogate::Place place = std::move(hopeful[best].first);
    hopeful.erase(hopeful.begin() + static_cast<std::ptrdiff_t>(best));
    chosen.push_back(place);
    return place.point;
  }

  bool evolve_by_lines() {
    const std::vector<size_t> fast = order();
    std::vector<size_t> parents = fast;
    // Before anything has been measured, all candidates so far are parents.
    for (size_t i = 0; parents.empty() && i < candidates.size(); ++i) parents.push_back(i);
    if (parents.empty()) return false;
    for (int attempt = 0; attempt < 4; ++attempt) {
      const Trace parent = candidates[tournament(parents)].trace;
      std::string kind;
      auto changed = mutate_lines(parent, task.layout_lines.size(), random, &kind);
      if (!changed || avoided("lines " + kind)) continue;
      if (take_trace(*changed, "lines " + kind)) return true;
    }
    return false;
  }

  bool evolve_by_points() {
    const std::vector<Point> fast = fast_points(), leaders = fastest_of_families(space, fast);
    for (int attempt = 0; attempt < 8; ++attempt) {
      Point point = fast.empty() ? random_point(space, random) : tournament(fast);
      // Half of the time starts from the fastest point of some family, or else the search would stay with the
      // first family that was fast.
      if (!leaders.empty() && random.chance(0.5)) {
        point = leaders[static_cast<size_t>(random.below(static_cast<int64_t>(leaders.size())))];
      }
      if (fast.size() > 1 && random.chance(0.4)) point = crossover(point, tournament(fast), random);
      point = space.canonical(mutate(space, space.canonical(std::move(point)), random));
      if (space.cycles(point) == INFINITY || avoided(text("space ", space.family(point)))) continue;
      if (take_point(point)) return true;
    }
    return false;
  }

  bool evolve() {
    const bool has_points = !space.dimensions().empty();
    for (int attempt = 0; attempt < 3; ++attempt) {
      const int kind = evolved++ % 6;
      if (kind == 5 || !has_points) {
        if (evolve_by_lines()) return true;
      } else if (kind == 4) {
        if (evolve_by_points()) return true;
      } else {
        for (int i = 0; i < 8; ++i) {
          const auto point = next_hopeful();
          if (!point) break;
          if (take_point(*point)) return true;
        }
      }
    }
    return false;
  }

  // Finds one more candidate and appends it.
  bool find_one() {
    if (!started && !options.from_random) {
      started = true;
      if (by_trace.count(task.untuned) == 0) {
        // The default schedule as it was built, also where the space would refuse it.
        Schedule schedule(task.kernel, task.target);
        if (auto why = schedule.replay(task.untuned)) fail(ErrorKind::Schedule, *why);
        by_loops.emplace(fnv1a(str(schedule.finish())), candidates.size());
        add(task.untuned, "untuned");
        return true;
      }
    }
    while (next_seed < options.seeds.size()) {
      const Trace& seed = options.seeds[next_seed++];
      Trace whole = seed;
      if (!has_layout(seed)) whole.insert(whole.begin(), task.layout_lines.begin(), task.layout_lines.end());
      if (take_trace(whole, "seed")) return true;
    }
    if (next_start == 0 && options.model && !options.from_random) predict_starts();
    while (next_start < starts.size()) {
      const Point point = starts[next_start++];
      if (space.cycles(point) < INFINITY || !options.from_random) {
        if (take_point(point)) return true;
      } else {
        // Replaces a point that would take long to compile.
        starts.push_back(random_point(space, random));
        if (starts.size() > 50 * kRandomStarts) break;
      }
    }
    for (int attempt = 0; attempt < kAttempts && !exhausted; ++attempt) {
      if (evolve()) return true;
    }
    exhausted = true;
    return false;
  }
};

KernelSearch::KernelSearch(const KernelTask& task, const SearchOptions& options)
    : state_(std::make_shared<State>(task, options)) {}

std::vector<Trace> KernelSearch::propose(int count) {
  std::vector<Trace> result;
  for (int i = 0; i < count && state_->find_one(); ++i) {
    result.push_back(state_->candidates.back().trace);
    ++state_->proposed;
  }
  return result;
}

void KernelSearch::learn(const std::vector<Trace>& traces, const std::vector<Measurement>& results) {
  TC_CHECK(traces.size() == results.size(), "a result per trace");
  State& s = *state_;
  for (size_t i = 0; i < traces.size(); ++i) {
    auto found = s.by_trace.find(traces[i]);
    if (found == s.by_trace.end()) {
      s.add(traces[i], "log");
      found = s.by_trace.find(traces[i]);
    }
    if (!is_verdict(results[i].outcome)) continue;
    Candidate& candidate = s.candidates[found->second];
    const bool again = candidate.known;
    const bool better_known =
        !again || results[i].outcome != Outcome::Ok || results[i].time.count >= candidate.result.time.count;
    if (!again) {
      Family& family = s.families[candidate.family];
      ++family.tried;
      family.failed += results[i].outcome != Outcome::Ok;
    }
    if (!better_known) continue;
    candidate.known = true;
    candidate.result = results[i];
    if (traces[i] == s.task.untuned && candidate.good()) candidate.result.ratio = 1;
  }
  s.stale = true;
  s.hopeful.clear();
  s.chosen.clear();
  const std::vector<size_t> fast = s.order();
  s.best = s.task.untuned;
  if (!fast.empty() && (s.options.from_random || s.candidates[fast[0]].result.ratio < 1)) {
    s.best = s.candidates[fast[0]].trace;
  }
}

const Trace& KernelSearch::best() const { return state_->best; }

double KernelSearch::best_ratio() const {
  const auto found = state_->by_trace.find(state_->best);
  if (found == state_->by_trace.end()) return 1;
  const Candidate& candidate = state_->candidates[found->second];
  return candidate.good() ? candidate.result.ratio : 1;
}

std::vector<Trace> KernelSearch::fastest(int count) const {
  std::vector<Trace> result;
  for (size_t i : state_->order()) {
    if (static_cast<int>(result.size()) >= count) break;
    result.push_back(state_->candidates[i].trace);
  }
  return result;
}

int KernelSearch::proposed() const { return state_->proposed; }
int KernelSearch::refused() const { return state_->refused; }
const std::string& KernelSearch::refusal() const { return state_->refusal; }

}  // namespace tc
