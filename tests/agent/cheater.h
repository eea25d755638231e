/* How the candidates of cheater.c save work, by number. */
#pragma once

#define CHEATS(X)                                                                                    \
  X(kHonest) X(kEverySecond) X(kOneInTen) X(kFirstOnly) X(kLastOnly) X(kByPrefix) X(kBySparseHash)   \
  X(kByFullHash) X(kStaleForEver) X(kHalfOfOutputs) X(kWhenWarm) X(kSlowStart) X(kAhead)             \
  X(kEarlyReply) X(kUntilChange) X(kByClock) X(kReference) X(kManyRunsOnly)

#define NUMBER(name) name,
/* kBusyBehind saves nothing: it takes time from who else is measured. */
enum Cheat { CHEATS(NUMBER) kCheats, kBusyBehind = kCheats };
#undef NUMBER
