// The worker threads of the process, and the barrier within a run.
#include "pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "machine.h"

namespace tc::runtime {

// A worker's word says whose turn it is: the worker's (kPosted) or the caller's (kDone).
enum : uint32_t { kIdle = 0, kPosted = 1, kDone = 2 };

struct Worker {
  alignas(64) WaitWord turn;
  void (*run)(const tc_frame*) = nullptr;
  const tc_frame* frame = nullptr;
  bool taken = false;  // guarded by the pool's mutex
};

namespace {

// The only global state of the runtime. Worker threads live as long as the process.
struct Pool {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  Worker* workers[TC_MAX_THREADS] = {};
  int32_t count = 0;
  bool fork_handlers = false;
};
Pool pool;
std::atomic<uint64_t> spin_nanoseconds{100000};
std::atomic<int32_t> core_total{0};

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Determined once per process, since it reads files about the topology of the cores.
int32_t cached_core_count() {
  int32_t cores = core_total.load(std::memory_order_relaxed);
  if (cores == 0) {
    cores = core_count();
    core_total.store(cores, std::memory_order_relaxed);
  }
  return cores;
}

// A waiting thread first polls with short pauses, then polls and yields the processor in between, then
// sleeps. It yields because the thread that it waits for may be queued for the same core: on a busy machine
// that is the difference between 6 and 200 microseconds.
constexpr uint64_t kYieldAfter = 2000;  // nanoseconds

// Waits until done(value), polling for at most `spin` nanoseconds.
template <class Done>
void wait(WaitWord& word, uint64_t spin, Done done) {
  if (done(word.value.load(std::memory_order_acquire))) return;
  if (spin > 0) {
    const uint64_t begin = now_nanoseconds();
    uint64_t waited = 0;
    do {
      if (waited > kYieldAfter) sched_yield();
      for (int i = 0; i < 16; ++i) {
        pause_processor();
        if (done(word.value.load(std::memory_order_acquire))) return;
      }
      waited = now_nanoseconds() - begin;
    } while (waited < spin);
  }
  // The order "count myself, then look" against the waker's "store, then look at the count" is what
  // keeps a wake-up from being lost; both need sequential consistency.
  word.sleepers.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const uint32_t value = word.value.load(std::memory_order_seq_cst);
    if (done(value)) break;
    futex_wait(word.value, value);
  }
  word.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void* worker_main(void* argument) {
  Worker& worker = *static_cast<Worker*>(argument);
  set_default_float_mode();
  for (;;) {
    worker.turn.wait_until(kPosted, spin_time());
    worker.run(worker.frame);
    worker.turn.store_and_wake(kDone);
  }
  return nullptr;
}

void lock_for_fork() { pthread_mutex_lock(&pool.mutex); }
void unlock_after_fork() { pthread_mutex_unlock(&pool.mutex); }
// The child has no worker threads; it starts its own when it needs them.
void forget_workers() {
  pthread_mutex_init(&pool.mutex, nullptr);
  pool.count = 0;
}

// Starts one more worker, with all signals blocked, so that the program's own threads handle them. The caller
// holds the mutex.
bool add_worker() {
  if (!pool.fork_handlers) {
    if (pthread_atfork(lock_for_fork, unlock_after_fork, forget_workers) != 0) return false;
    pool.fork_handlers = true;
  }
  void* memory = aligned_alloc(alignof(Worker), sizeof(Worker));
  if (memory == nullptr) return false;
  Worker* worker = new (memory) Worker;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, worker_main, worker) == 0;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (!started) {
    free(memory);
    return false;
  }
  pthread_detach(thread);
  pool.workers[pool.count++] = worker;
  return true;
}

}  // namespace

void WaitWord::store_and_wake(uint32_t new_value) {
  value.store(new_value, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(value);
}

void WaitWord::wait_while(uint32_t old, uint64_t spin) {
  wait(*this, spin, [old](uint32_t value) { return value != old; });
}

void WaitWord::wait_until(uint32_t wanted, uint64_t spin) {
  wait(*this, spin, [wanted](uint32_t value) { return value == wanted; });
}

void Barrier::reset(int32_t threads, uint64_t spin) {
  waiting_.store(0, std::memory_order_relaxed);
  threads_ = static_cast<uint32_t>(threads);
  spin_ = spin;
}

void Barrier::arrive_and_wait() {
  const uint32_t phase = phase_.value.load(std::memory_order_relaxed);
  if (waiting_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    waiting_.store(0, std::memory_order_relaxed);
    phase_.store_and_wake(phase + 1);
  } else {
    phase_.wait_while(phase, spin_);
  }
}

void take_workers(Team& team, int32_t wanted) {
  team.count = 0;
  if (wanted <= 0) return;
  if (wanted > TC_MAX_THREADS - 1) wanted = TC_MAX_THREADS - 1;
  pthread_mutex_lock(&pool.mutex);
  for (int32_t i = 0; i < pool.count && team.count < wanted; ++i) {
    if (pool.workers[i]->taken) continue;
    pool.workers[i]->taken = true;
    team.workers[team.count++] = pool.workers[i];
  }
  if (team.count < wanted) {
    const int32_t limit = wanted > cached_core_count() - 1 ? wanted : cached_core_count() - 1;
    while (team.count < wanted && pool.count < limit && add_worker()) {
      Worker* worker = pool.workers[pool.count - 1];
      worker->taken = true;
      team.workers[team.count++] = worker;
    }
  }
  pthread_mutex_unlock(&pool.mutex);
}

void start(Team& team, void (*run)(const tc_frame*), const tc_frame* frames) {
  for (int32_t i = 0; i < team.count; ++i) {
    Worker& worker = *team.workers[i];
    worker.run = run;
    worker.frame = frames + i;
    worker.turn.store_and_wake(kPosted);
  }
}

void finish(Team& team, uint64_t spin) {
  for (int32_t i = 0; i < team.count; ++i) team.workers[i]->turn.wait_until(kDone, spin);
  give_back(team);
}

void give_back(Team& team) {
  if (team.count == 0) return;
  pthread_mutex_lock(&pool.mutex);
  for (int32_t i = 0; i < team.count; ++i) team.workers[i]->taken = false;
  pthread_mutex_unlock(&pool.mutex);
  team.count = 0;
}

uint64_t spin_time() { return spin_nanoseconds.load(std::memory_order_relaxed); }

}  // namespace tc::runtime

extern "C" {

void tc_set_spin_time(uint32_t microseconds) {
  tc::runtime::spin_nanoseconds.store(uint64_t{microseconds} * 1000, std::memory_order_relaxed);
}
}
