// Random changes of candidates: of points of the structured space, and of the lines of a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/search/space.h"
#include "tuner/record.h"

namespace tc {

// Pseudo-random numbers from a seed, the same on every machine (splitmix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // In [0, count); count must be positive.
  int64_t below(int64_t count);
  double unit();  // in [0, 1)
  bool chance(double probability) { return unit() < probability; }

 private:
  uint64_t state_;
};

using Point = ScheduleSpace::Point;

// A random point, not always one that can be built.
Point random_point(const ScheduleSpace& space, Random& random);
// The point with one dimension changed: where its values are ordered mostly to a near value, else to any.
Point mutate(const ScheduleSpace& space, const Point& point, Random& random);
// A point that takes each dimension from `a` or from `b`.
Point crossover(const Point& a, const Point& b, Random& random);
// All points that differ in one dimension: in an ordered one by a near value, in another one by any.
std::vector<Point> neighbours(const ScheduleSpace& space, const Point& point);

// The trace with one change after its first `fixed` lines: another number or order of loops, where the row of
// the primitive says that it is a choice; a mark dropped or added whose row says `tuned`; or a loop split,
// with its outer half moved outwards. Not checked for legality. Nothing where the kind of change that was
// drawn is not possible. `kind` is set to the name of the change.
std::optional<Trace> mutate_lines(const Trace& trace, size_t fixed, Random& random, std::string* kind);

}  // namespace tc
