// The worker threads of the process, and the barrier within a run. Waiting threads poll briefly, then sleep.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi.h"
#include "tc_runtime.h"

namespace tc::runtime {

// A word that threads wait on, and the number of threads that sleep.
struct WaitWord {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};

  // Stores the value and wakes all threads that sleep.
  void store_and_wake(uint32_t new_value);
  // Wait until the word is not `old`, or is `wanted`. They poll for at most `spin` nanoseconds, then sleep.
  void wait_while(uint32_t old, uint64_t spin);
  void wait_until(uint32_t wanted, uint64_t spin);
};

// A barrier for the threads of one run, which can be used any number of times.
class Barrier {
 public:
  // Called before a run; no thread may be in arrive_and_wait().
  void reset(int32_t threads, uint64_t spin);
  // Returns when all threads have arrived. What each thread wrote before is then visible to all.
  void arrive_and_wait();

 private:
  alignas(64) std::atomic<uint32_t> waiting_{0};
  uint32_t threads_ = 1;
  uint64_t spin_ = 0;
  alignas(64) WaitWord phase_;
};

struct Worker;

// Workers that are lent to one run.
struct Team {
  Worker* workers[TC_MAX_THREADS];
  int32_t count = 0;
};

// Takes up to `wanted` free workers, the same ones each time where possible, and starts new threads where the
// pool has fewer workers than that. May take none.
void take_workers(Team& team, int32_t wanted);
// Makes worker i call `run(frames + i)`.
void start(Team& team, void (*run)(const tc_frame*), const tc_frame* frames);
// Waits until all workers have returned, then gives them back. `spin` is that of WaitWord.
void finish(Team& team, uint64_t spin);
void give_back(Team& team);

// How long to poll, in nanoseconds; tc_set_spin_time() sets it.
uint64_t spin_time();

}  // namespace tc::runtime
