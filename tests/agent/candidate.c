/* A hand-made candidate (runtime/serve.h): output = 2 * input, in floats. What it does wrong is in
 * the two digits behind "behaviour:", which tests overwrite in the executable's bytes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile const char marker[] = "behaviour:00";
static int* volatile nowhere;
static void* volatile kept; /* compilers may drop memory that no one looks at */

// clang-format off
enum {
  kRight = 0, kLoop, kCrash, kAllocate, kWrong, kStale, kSocket, kWriteFile, kFork, kFlood, kMute,
  kExitEarly, kUnwritten, kFirstRunOnly, kCrashLate, kReserve, kErrorFlood, kBeyond, kStopThere,
  kKillParent, kExec, kSlow, kThreads, kLoopUnready, kCloseOutput, kChangeInput, kDeepStack,
  kRawSocket, kAbort, kGarbage, kLoopLate, kNap, kSlowFirst, kMatrix
};
// clang-format on

static void say(char letter) {
  if (write(1, &letter, 1) != 1) _exit(9);
}

static void* work(void* unused) {
  (void)unused;
  return NULL;
}

static int deep(int level) {
  volatile char space[4096];
  space[level % 4096] = (char)level;
  return level < 0 ? 0 : deep(level + 1) + space[0];
}

int main(void) {
  const int behaviour = (marker[10] - '0') * 10 + marker[11] - '0';
  struct stat file;
  if (fstat(10, &file) != 0) return 7;
  const size_t bytes = (size_t)file.st_size, count = bytes / sizeof(float);
  const float* in = mmap(NULL, bytes, PROT_READ, MAP_SHARED, 10, 0);
  float* out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 11, 0);
  if (in == MAP_FAILED || out == MAP_FAILED) return 8;
  if (behaviour == kMute) pause();
  if (behaviour == kExitEarly) {
    fprintf(stderr, "nothing to do\n");
    return 3;
  }
  if (behaviour == kLoopUnready)
    for (;;) {}
  if (behaviour == kSocket) socket(AF_INET, SOCK_STREAM, 0);
  if (behaviour == kRawSocket) syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
  if (behaviour == kWriteFile) {
    const int made = open("/tmp/tc_candidate_was_here", O_CREAT | O_WRONLY, 0600);
    if (made >= 0) close(made);
  }
  if (behaviour == kFork)
    for (;;) fork();
  if (behaviour == kKillParent) kill(getppid(), SIGKILL);
  if (behaviour == kExec) execl("/bin/sh", "sh", "-c", "true", (char*)NULL);
  if (behaviour == kAllocate)
    for (;;) {
      kept = malloc(1 << 20);
      memset(kept, 1, 1 << 20);
    }
  if (behaviour == kReserve)
    for (;;) {
      kept = malloc(1 << 20);
      if (kept == NULL) return 5;
    }
  if (behaviour == kThreads) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) != 0) return 6;
    pthread_join(thread, NULL);
  }
  if (behaviour == kDeepStack) return deep(0);
  if (behaviour == kAbort) abort();
#if defined(__x86_64__)
  if (behaviour == kMatrix) {
    static const unsigned char shapes[64] __attribute__((aligned(64))) = {1, [16] = 64, [48] = 16};
    if (syscall(SYS_arch_prctl, 0x1023L, 18L) != 0) return 6;
    __asm__ volatile("ldtilecfg %0\n\ttilezero %%tmm0\n\ttilerelease" : : "m"(shapes));
  }
#endif
  if (behaviour == kChangeInput) {
    const float zero = 0;
    if (pwrite(10, &zero, sizeof zero, 0) == (ssize_t)sizeof zero) return 6;
  }
  say(behaviour == kGarbage ? 'X' : 'R');
  for (long commands = 0, runs = 0;; ++commands) {
    unsigned char command[5];
    if (read(0, command, sizeof command) != (ssize_t)sizeof command) return 0;
    uint32_t number;
    memcpy(&number, command + 1, 4);
    if (behaviour == kLoop || (behaviour == kLoopLate && commands == 3))
      for (;;) {}
    if (behaviour == kCrash || (behaviour == kCrashLate && commands == 4)) *nowhere = 1;
    if (behaviour == kCloseOutput) {
      close(1);
      pause();
    }
    for (uint32_t run = 0; run < number; ++run, ++runs) {
      /* What the first run gave, again and again. */
      static float first[1 << 16];
      if (behaviour == kStale && runs > 0) {
        memcpy(out, first, bytes);
        continue;
      }
      if (behaviour == kFirstRunOnly && run > 0) continue;
      if (behaviour == kUnwritten) continue;
      for (size_t i = 0; i < count; ++i) out[i] = 2 * in[i];
      __asm__ volatile("" : : : "memory");
      if (behaviour == kStale) memcpy(first, out, bytes);
      if (behaviour == kWrong) out[count / 2] += 1;
      if (behaviour == kBeyond) out[count] = 1;
      if (behaviour == kSlow || behaviour == kNap) {
        const struct timespec time = {0, behaviour == kSlow ? 20000000 : 10000000};
        nanosleep(&time, NULL);
      }
      /* As on a machine that is busy until its last sample: 2 data sets, 1 calibration, 5 samples. */
      if (behaviour == kSlowFirst && commands < 8) {
        const struct timespec time = {0, 4000000};
        nanosleep(&time, NULL);
      }
    }
    if (behaviour == kFlood) {
      static char text[4096];
      memset(text, 'D', sizeof text);
      while (write(1, text, sizeof text) > 0) {}
    }
    if (behaviour == kErrorFlood && commands == 0)
      for (int i = 0; i < 20000; ++i) fprintf(stderr, "line %d of many that no one asked for\n", i);
    if (behaviour == kStopThere) return 0;
    say('D');
  }
}
