// Leaving long work: where it is left, and that threads which help are left with it.
#include "ir/interrupt.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "ir/loop.h"

namespace tc {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> asked_to_end{false};

// Sets the check for as long as it lives.
struct Checked {
  Checked() {
    asked_to_end = false;
    set_interruption_check([] { return asked_to_end.load(); });
  }
  ~Checked() { set_interruption_check(nullptr); }
};

void pass_points_for(std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  while (Clock::now() < end) interruption_point();
}

TEST(Interrupt, NothingEndsWithoutACheck) { EXPECT_NO_THROW(pass_points_for(std::chrono::milliseconds(60))); }

TEST(Interrupt, ThePointThrowsOnceItIsAskedFor) {
  const Checked checked;
  EXPECT_NO_THROW(pass_points_for(std::chrono::milliseconds(60)));
  asked_to_end = true;
  EXPECT_THROW(pass_points_for(std::chrono::seconds(5)), Interrupted);
}

TEST(Interrupt, TheCheckIsNotAskedAtEveryPoint) {
  static std::atomic<int> times;
  times = 0;
  set_interruption_check([] {
    ++times;
    return false;
  });
  pass_points_for(std::chrono::milliseconds(200));
  set_interruption_check(nullptr);
  EXPECT_GE(times, 1);
  EXPECT_LE(times, 12);
}

TEST(Interrupt, ThePointThrowsOnceTheTimeIsOver) {
  {
    const TimeLimit outer(60), limit(0.1);  // the innermost counts
    const auto begin = Clock::now();
    EXPECT_THROW(pass_points_for(std::chrono::seconds(5)), Interrupted);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
    EXPECT_TRUE(limit.is_over());
    const TimeLimit longer(60);  // does not give more time than the one around it
    EXPECT_THROW(pass_points_for(std::chrono::seconds(5)), Interrupted);
    EXPECT_FALSE(longer.is_over());
  }
  const TimeLimit none(0);
  EXPECT_NO_THROW(pass_points_for(std::chrono::milliseconds(60)));
}

TEST(Interrupt, AHelperIsLeftWithTheOneItHelps) {
  std::atomic<bool> stop{false}, left{false};
  std::thread helper([&] {
    const Helping helping(stop);
    try {
      pass_points_for(std::chrono::seconds(20));
    } catch (const Interrupted&) {
      left = true;
    }
  });
  stop = true;
  helper.join();
  EXPECT_TRUE(left);
  EXPECT_NO_THROW(interruption_point());  // this thread helps nobody
}

TEST(Interrupt, TheInterpreterIsLeftInTheMidstOfAStatement) {
  const Kernel kernel = parse_kernel(
      "kernel k\n"
      "  input in0 f32[4000, 4000]\n"
      "  output out0 f32[4000]\n"
      "sum[i:4000, j:4000, k:4000]: out0[i] += in0[i, j] * in0[j, k]\n");
  std::map<std::string, Tensor> buffers;
  buffers.emplace("in0", Tensor(DType::F32, {4000, 4000}));
  const Checked checked;
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    asked_to_end = true;
  });
  const auto begin = Clock::now();
  EXPECT_THROW(interpret(kernel, {}, buffers), Interrupted);
  later.join();
  // All of it would take the interpreter half an hour.
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(60));
}

}  // namespace
}  // namespace tc
