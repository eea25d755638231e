// Changes of candidates: of points of the structured space, and of the lines of a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/search/space.h"
#include "tuner/record.h"

namespace tc {

// Numbers that a seed decides, the same on every machine (splitmix64).
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

// Any point; not always one that can be built.
Point random_point(const ScheduleSpace& space, Random& random);
// The point with one dimension changed: a neighbour where values are ordered (mostly), else any.
Point mutate(const ScheduleSpace& space, const Point& point, Random& random);
// Each dimension from either.
Point crossover(const Point& a, const Point& b, Random& random);
// All points that differ in one dimension: near values of ordered dimensions, all others.
std::vector<Point> neighbours(const ScheduleSpace& space, const Point& point);

// The trace with one line after the first `fixed` changed: another number or another order where the rows of
// the primitives say that it is a choice, a mark dropped or added that they call tuned, a loop divided and
// half of it moved outwards. Not checked for legality. Nothing where no line can be changed so; `kind` is set
// to a name of what was done.
std::optional<Trace> mutate_lines(const Trace& trace, size_t fixed, Random& random, std::string* kind);

}  // namespace tc
