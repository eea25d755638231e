/* Candidates (runtime/serve.h) that compute what work.h says and save some of it, by the two digits behind
 * "behaviour:". All give right outputs to one who asks once. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/agent/cheater.h"
#include "tests/agent/work.h"

static volatile const char marker[] = "behaviour:00";

static const float* in;
static float* out;
static size_t bytes, count;
/* Results by what an input looked like. */
enum { kRemembered = 256 };
static struct {
  uint64_t key;
  float* values;
} memory[kRemembered];
static size_t remembered;
/* Of a thread of its own. */
static float ahead_in[1 << 16], ahead_out[1 << 16];
static volatile int ahead_is_right, wanted;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void work(void) {
  do_work(in, out, count);
  __asm__ volatile("" : : : "memory");
}

static uint64_t hash(size_t first, size_t last, size_t step) {
  uint64_t sum = 1469598103934665603u;
  for (size_t i = first; i < last; i += step) {
    uint32_t bits;
    memcpy(&bits, &in[i], 4);
    sum = (sum ^ bits) * 1099511628211u;
  }
  return sum;
}

static void remember(uint64_t key) {
  for (size_t i = 0; i < remembered && i < kRemembered; ++i)
    if (memory[i].key == key) {
      memcpy(out, memory[i].values, bytes);
      return;
    }
  work();
  const size_t place = remembered++ % kRemembered;
  if (memory[place].values == NULL) memory[place].values = malloc(bytes);
  memory[place].key = key;
  memcpy(memory[place].values, out, bytes);
}

static void* compute_ahead(void* unused) {
  for (;;) {
    if (!ahead_is_right || memcmp(ahead_in, in, bytes) != 0) {
      ahead_is_right = 0;
      memcpy(ahead_in, in, bytes);
      do_work(ahead_in, ahead_out, count);
      ahead_is_right = 1;
    }
  }
  return unused;
}

static void* work_late(void* unused) {
  for (;;) {
    while (!wanted) usleep(50);
    wanted = 0;
    work();
  }
  return unused;
}

/* Spins while `wanted`, or for ever. */
static void* spin(void* for_ever) {
  for (;;)
    if (for_ever == NULL && !wanted) usleep(20);
  return for_ever;
}

/* Halves of the outputs, or whole runs, that a second thread makes when it is told to. */
static atomic_int handed;
static size_t handed_first, handed_last;
static float* handed_out;

/* What waits sleeps where it should not be seen to work. */
static int is_sleepy;
static void rest(void) {
  if (is_sleepy) usleep(1);
}

static void* work_on_what_is_handed(void* unused) {
  for (;;) {
    while (!handed) rest();
    do_work(in + handed_first, handed_out + handed_first, handed_last - handed_first);
    handed = 0;
  }
  return unused;
}

static void hand(size_t first, size_t last, float* result) {
  handed_first = first, handed_last = last, handed_out = result;
  handed = 1;
}

static void* work_once(void* unused) {
  work();
  return unused;
}

static void* never_rest(void* unused) {
  for (;;) {}
  return unused;
}

/* One run in so many of a command, the first and the last among them. */
static void work_one_in(uint32_t share, uint32_t number, uint32_t runs) {
  if (number % share == 0 || number + 1 == runs) work();
}

/* A short time that no clock is needed for. */
static void linger(void) {
  for (volatile int i = 0; i < 4; ++i) {}
}

/* Those that need further threads, and all that work as they should. */
static void run_in_threads(int cheat, uint32_t number, uint32_t runs) {
  static int threads;
  switch (cheat) {
    case kHandOver: /* a run moves from thread to thread; every second one is none */
      wanted = runs > 2;
      if (number % 2 == 1 && number + 1 != runs) return;
      hand(count / 2, count, out);
      while (handed) usleep(1);
      do_work(in, out, count / 2);
      __asm__ volatile("" : : : "memory");
      return;
    case kTwoAtOnceInSamples: /* and a single one moves from thread to thread */
      if (runs < 3) {
        hand(count / 2, count, out);
        while (handed) usleep(1);
        do_work(in, out, count / 2);
        __asm__ volatile("" : : : "memory");
        return;
      }
      __attribute__((fallthrough));
    case kTwoAtOnce: /* the next run is made beside this one */
      if (number % 2 == 1) {
        while (handed) rest();
        return;
      }
      if (number + 1 < runs) hand(0, count, ahead_out);
      work();
      return;
    case kOnTwoThreads:
      hand(count / 2, count, out);
      do_work(in, out, count / 2);
      while (handed) rest();
      __asm__ volatile("" : : : "memory");
      return;
    case kThreadsThatEnd:
      wanted = runs > 2;
      if (runs > 2) {
        work_one_in(2, number, runs);
        return;
      }
      pthread_t thread;
      if (++threads > 12 || pthread_create(&thread, NULL, work_once, NULL) != 0) work();
      else pthread_join(thread, NULL);
      return;
    default: work();
  }
}

static void run_in_other_ways(int cheat, uint32_t number, uint32_t runs) {
  static uint32_t random = 1;
  switch (cheat) {
    case kLastTwo: number + 2 < runs ? linger() : work(); break;
    case kLastTwoAsleep:
      if (number + 2 >= runs) work();
      else if (number % 4096 == 0) usleep(100);
      break;
    case kLastTwoYielding:
      if (number + 2 >= runs) work();
      else if (number % 64 == 0) sched_yield();
      break;
    case kFirstHalf: number < runs / 2 || number + 2 >= runs ? work() : linger(); break;
    case kSecondHalf: number >= runs / 2 ? work() : linger(); break;
    case kAtRandom:
      random = random * 1664525 + 1013904223;
      if (random >> 30 == 0 || number + 2 >= runs) work();
      break;
    case kUntilLookedAt: /* works when its inputs or its outputs are not what they were */
      if (number == 0 || memcmp(ahead_in, in, bytes < 64 ? bytes : 64) != 0 || out[0] != ahead_out[0]) {
        memcpy(ahead_in, in, bytes);
        work();
        ahead_out[0] = out[0];
      }
      break;
    case kChangedOnly:
      for (size_t i = 0; i < count; ++i) {
        if (ahead_in[i] != in[i] || !ahead_is_right) {
          ahead_in[i] = in[i];
          do_work(ahead_in + i, ahead_out + i, 1);
        }
        out[i] = ahead_out[i];
      }
      ahead_is_right = 1;
      __asm__ volatile("" : : : "memory");
      break;
    case kHalfAndSpin: work_one_in(2, number, runs); break;
    case kHalfAndSpinInSamples:
      wanted = runs > 2;
      work_one_in(2, number, runs);
      break;
    case kTalksWhenAlone:
      if (runs == 1 && write(2, "so much to do\n", 14) < 0) _exit(5);
      number + 2 < runs ? linger() : work();
      break;
    case kHonestDouble:
      for (size_t i = 0; i < count; ++i) out[i] = 2 * in[i];
      __asm__ volatile("" : : : "memory");
      break;
    default: run_in_threads(cheat, number, runs); break;
  }
}

static void run(int cheat, uint32_t number, uint32_t runs, long command) {
  static long done;
  static double begin;
  if (number == 0) begin = seconds();
  switch (cheat) {
    case kEverySecond: work_one_in(2, number, runs + 1); break;
    case kOneInTen: work_one_in(10, number, runs); break;
    case kFirstOnly:
      if (number == 0) work();
      break;
    case kLastOnly:
      if (number + 1 == runs) work();
      break;
    case kByPrefix: remember(hash(0, 4, 1)); break;
    case kBySparseHash: remember(hash(0, count, 61)); break;
    case kByFullHash: remember(hash(0, count, 1)); break;
    case kStaleForEver:
      if (done++ < 4) work();
      else memcpy(out, ahead_out, bytes);
      memcpy(ahead_out, out, bytes);
      break;
    case kHalfOfOutputs:
      do_work(in, out, number == 0 || number + 1 == runs ? count : count / 2);
      __asm__ volatile("" : : : "memory");
      break;
    case kWhenWarm: work_one_in(command < 8 ? 1 : 10, number, runs); break;
    case kSlowStart:
      if (command < 4) usleep(500);
      work_one_in(command < 4 ? 1 : 10, number, runs);
      break;
    case kAhead:
      while (!ahead_is_right || memcmp(ahead_in, in, bytes) != 0) {}
      memcpy(out, ahead_out, bytes);
      break;
    case kEarlyReply:
      if (number + 2 < runs) work();
      else wanted = 1;
      break;
    case kUntilChange:
      if (number == 0 || memcmp(ahead_in, in, 256) != 0) {
        memcpy(ahead_in, in, bytes);
        work();
      }
      break;
    case kByClock:
      if (number == 0 || seconds() - begin < 0.02) work();
      break;
    case kReference: {
      char path[64];
      for (int i = 3; i < 40; ++i) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", getppid(), i);
        const int file = open(path, O_RDONLY);
        if (file >= 0 && read(file, out, bytes) == (ssize_t)bytes) return;
      }
      work_one_in(10, number, runs);
      break;
    }
    case kManyRunsOnly: work_one_in(runs < 4 ? 1 : 4, number, runs); break;
    default: run_in_other_ways(cheat, number, runs); break;
  }
}

int main(void) {
  const int cheat = (marker[10] - '0') * 10 + marker[11] - '0';
  struct stat file;
  if (fstat(10, &file) != 0) return 7;
  bytes = (size_t)file.st_size;
  count = bytes / sizeof(float);
  in = mmap(NULL, bytes, PROT_READ, MAP_SHARED, 10, 0);
  out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 11, 0);
  if (in == MAP_FAILED || out == MAP_FAILED || bytes > sizeof ahead_in) return 8;
  pthread_t thread;
  if (cheat == kAhead && pthread_create(&thread, NULL, compute_ahead, NULL) != 0) return 6;
  if (cheat == kEarlyReply && pthread_create(&thread, NULL, work_late, NULL) != 0) return 6;
  is_sleepy = cheat == kHandOver || cheat == kTwoAtOnceInSamples || cheat == kOnTwoThreads;
  const int hands = (cheat >= kHandOver && cheat <= kTwoAtOnceInSamples) || cheat == kOnTwoThreads;
  const int spins = (cheat >= kHalfAndSpin && cheat <= kHandOver) || cheat == kThreadsThatEnd;
  if (spins && pthread_create(&thread, NULL, spin, cheat == kHalfAndSpin ? &thread : NULL) != 0) return 6;
  if (hands && pthread_create(&thread, NULL, work_on_what_is_handed, NULL) != 0) return 6;
  for (int i = 0; cheat == kBusyBehind && i < 4; ++i)
    if (pthread_create(&thread, NULL, never_rest, NULL) != 0) return 6;
  if (write(1, "R", 1) != 1) return 9;
  for (long command = 0;; ++command) {
    unsigned char text[5];
    if (read(0, text, sizeof text) != (ssize_t)sizeof text) return 0;
    uint32_t runs;
    memcpy(&runs, text + 1, 4);
    for (uint32_t number = 0; number < runs; ++number) run(cheat, number, runs, command);
    if (write(1, "D", 1) != 1) return 9;
  }
}
