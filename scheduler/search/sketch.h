// What tells schedules apart by the loops that they lead to: a key, features, and how much straight-line code
// they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"

namespace tc {

// The schedule's statements, tree and marks as text, without what makes no difference to the loops:
// names, loops of one trip, numbers of copies above the number of trips.
std::string loops_key(const Schedule& schedule);

// The same for a start and lines that need not be legal; empty, and in `why` the reason, where a line
// is refused for another reason than order or where the straight-line code is too long.
std::string sketch_of(const Schedule& start, const std::vector<std::string>& lines, std::string* why);

// Numbers of loop_features().
constexpr size_t kLoopFeatures = 10;
// What decides how fast the loops of the largest statement are, in numbers that are near for alike loops:
// logarithms of copies, lanes and trips in and around its tile, numbers of loops and of other statements.
std::vector<double> loop_features(const Schedule& schedule);

// Instructions' copies that unrolling and wide vectors make of the largest statement.
int64_t straight_line_copies(const Schedule& schedule);
// More than this is refused by the search: it takes long to compile and does not pay.
constexpr int64_t kMostStraightLine = 1024;

}  // namespace tc
