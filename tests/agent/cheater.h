/* How the candidates of cheater.c save work, by number. */
#pragma once

/* clang-format off */
#define CHEATS(X)                                                                                    \
  X(kHonest) X(kEverySecond) X(kOneInTen) X(kFirstOnly) X(kLastOnly) X(kByPrefix) X(kBySparseHash)   \
  X(kByFullHash) X(kStaleForEver) X(kHalfOfOutputs) X(kWhenWarm) X(kSlowStart) X(kAhead)             \
  X(kEarlyReply) X(kUntilChange) X(kByClock) X(kReference) X(kManyRunsOnly)                          \
  X(kLastTwo) X(kLastTwoAsleep) X(kLastTwoYielding) X(kFirstHalf) X(kSecondHalf) X(kAtRandom)         \
  X(kUntilLookedAt) X(kChangedOnly) X(kHalfAndSpin) X(kHalfAndSpinInSamples) X(kHandOver)             \
  X(kTwoAtOnce) X(kTwoAtOnceInSamples) X(kThreadsThatEnd) X(kTalksWhenAlone)
/* clang-format on */

#define NUMBER(name) name,
/* kBusyBehind saves nothing: it takes time from who else is measured. kHonestDouble only doubles its inputs.
 * kOnTwoThreads makes half of each run beside the other half. */
enum Cheat { CHEATS(NUMBER) kCheats, kBusyBehind = kCheats, kHonestDouble, kOnTwoThreads };
#undef NUMBER
