// The process's worker threads, and the barrier inside a run. Waiting threads poll briefly, then
// sleep.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi.h"
#include "tc_runtime.h"

namespace tc::runtime {

// A word that threads wait on, and how many of them sleep.
struct WaitWord {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};

  // Stores the value and wakes whoever sleeps.
  void store_and_wake(uint32_t new_value);
  // Waits until the word is not `old` / is `wanted`, polling for at most `spin` nanoseconds.
  void wait_while(uint32_t old, uint64_t spin);
  void wait_until(uint32_t wanted, uint64_t spin);
};

// Lets `threads` threads of one run meet, again and again.
class Barrier {
 public:
  // Before a run; no thread may be inside.
  void reset(int32_t threads, uint64_t spin);
  // Returns when all threads have arrived. What each did before is visible to all after.
  void arrive_and_wait();

 private:
  alignas(64) std::atomic<uint32_t> waiting_{0};
  uint32_t threads_ = 1;
  uint64_t spin_ = 0;
  alignas(64) WaitWord phase_;
};

struct Worker;

// Workers lent to one run.
struct Team {
  Worker* workers[TC_MAX_THREADS];
  int32_t count = 0;
};

// Takes up to `wanted` workers that are free, always the same ones where possible, and starts new
// threads where the pool has fewer than that. May take none.
void take_workers(Team& team, int32_t wanted);
// Has worker i run `run(frames + i)`.
void start(Team& team, void (*run)(const tc_frame*), const tc_frame* frames);
// Waits until all have returned, then gives them back. `spin` as in WaitWord.
void finish(Team& team, uint64_t spin);
void give_back(Team& team);

// Nanoseconds to poll, as tc_set_spin_time() sets it.
uint64_t spin_time();

}  // namespace tc::runtime
