// The structured space around the analytic default: points of small integers, which are compared without isl.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"

namespace tc {

// All choices that the strategies of the default leave open, as one value per dimension. Points are cheap;
// only build() applies primitives.
class ScheduleSpace {
 public:
  struct Dimension {
    std::string name;  // "columns of the tile"
    std::vector<int64_t> values;
    // From this index on values grow, and close ones give similar schedules; those before are choices without
    // an order.
    size_t ordered_from = 0;
  };
  using Point = std::vector<int>;  // an index into the values, by dimension

  // The space of the schedules that begin with `start`, on which only rewrites of layout have been applied,
  // with the algorithms that the tolerance allows. Tries each strategy of the default once.
  ScheduleSpace(const Schedule& start, int threads, double tolerance = 0);

  // None where the default leaves the kernel as it is.
  const std::vector<Dimension>& dimensions() const;
  // The default's choices: build() of it is default_schedule(), except where default_schedule() takes a
  // smaller tile than the best one by the analytic cost model (for windows and heavy epilogues).
  const Point& default_point() const;
  // The point with each choice that makes no difference there set to a fixed value, and with sizes cut to the
  // extents.
  Point canonical(Point point) const;
  // Predicted cycles by the analytic cost model; infinite where the point is not worth building.
  double cycles(const Point& point) const;
  // The same number for points that tend to fail or succeed together: those with the same strategy and choice
  // of iterators.
  int family(const Point& point) const;
  // Up to `count` canonical points, the default first, then by predicted cycles with a preference for points
  // that differ from those before.
  std::vector<Point> ranked(int count) const;
  // The legal schedule of the point; nothing, and in `why` the reason, where there is none or its
  // straight-line code is too long.
  std::optional<Schedule> build(const Point& point, std::string* why) const;
  // loops_key() of the built schedule, or of what it would be if it were legal; much cheaper than build().
  // Two points with one sketch have the same loops, or are both refused. Empty, and in `why` the reason,
  // where there is no schedule.
  std::string sketch(const Point& point, std::string* why) const;
  // Whether the point's strategy is an algorithm, which rewrites the kernel: building it takes long.
  bool is_algorithm(const Point& point) const;
  // As build(), without asking whether the schedule is legal.
  std::optional<Schedule> draft(const Point& point) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace tc
