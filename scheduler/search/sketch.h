// What distinguishes schedules by the loops that they lead to: a key, features, and the amount of
// straight-line code.
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

// The same for `start` with the lines applied, which need not be legal. Empty, with the reason in `why`,
// where a line is refused for another reason than legality or where the straight-line code is too long.
std::string sketch_of(const Schedule& start, const std::vector<std::string>& lines, std::string* why);

// How many numbers loop_features() returns.
constexpr size_t kLoopFeatures = 10;
// What decides how fast the loops of the largest statement are, in numbers that are close for similar loops:
// logarithms of copies, lanes and trips in and around its tile, numbers of loops and of other statements.
std::vector<double> loop_features(const Schedule& schedule);

// The most copies of instructions that unrolling and wide vectors make of a statement.
int64_t straight_line_copies(const Schedule& schedule);
// More than this is refused by the search: it takes long to compile and does not pay.
constexpr int64_t kMaxStraightLine = 1024;

}  // namespace tc
