// When one of several devices of a kind is not trusted.
#include "tuner/device_health.h"

#include <gtest/gtest.h>

#include <random>

namespace tc {
namespace {

std::string program(int number) { return "program" + std::to_string(number); }

TEST(DeviceHealth, NothingSpeaksAgainstDevicesThatAgree) {
  std::mt19937 random(1);
  DeviceHealth health;
  for (int i = 0; i < 200; ++i)
    for (const char* device : {"a", "b", "c"})
      health.add_run(device, program(i % 20), 1e-3 * (1 + 0.1 * std::uniform_real_distribution<>()(random)));
  for (const char* device : {"a", "b", "c", "unknown"}) EXPECT_EQ(health.problem(device), "");
}

TEST(DeviceHealth, AFailureOfAllIsThatOfTheProgram) {
  DeviceHealth health;
  for (int i = 0; i < 50; ++i)
    for (const char* device : {"a", "b"})
      i % 2 ? health.add_failure(device, program(i)) : health.add_run(device, program(i), 1);
  EXPECT_EQ(health.problem("a"), "");
  EXPECT_EQ(health.problem("b"), "");
}

TEST(DeviceHealth, ADeviceThatFailsWhereOthersDoNotIsSeenWithinFiftyRuns) {
  int seen = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    DeviceHealth health;
    for (int i = 0; i < 50; ++i) {
      health.add_run("good", program(i % 8), 1);
      if (std::uniform_real_distribution<>()(random) < 0.15) health.add_failure("bad", program(i % 8));
      else health.add_run("bad", program(i % 8), 1);
    }
    EXPECT_EQ(health.problem("good"), "") << seed;
    seen += !health.problem("bad").empty();
  }
  EXPECT_GE(seen, 95);
  DeviceHealth health;
  for (int i = 0; i < 40; ++i)
    health.add_run("a", "p", 1), i % 10 ? health.add_run("b", "p", 1) : health.add_failure("b", "p");
  EXPECT_EQ(health.problem("b"), "failed in 4 of 40 runs, whose programs run rightly on others of its kind");
}

TEST(DeviceHealth, ADeviceThatIsSlowerIsSeen) {
  DeviceHealth health;
  for (int i = 0; i < 6; ++i)
    for (const auto& [device, factor] : {std::pair("a", 1.0), {"b", 1.02}, {"slow", 1.3}})
      health.add_run(device, program(i), factor * (1 + i));
  EXPECT_EQ(health.problem("slow"), "") << "once may be the fault of other work on its machine";
  EXPECT_EQ(health.problem("slow"), "takes 29 % longer for 6 programs than others of its kind");
  EXPECT_EQ(health.problem("a"), "");
  EXPECT_EQ(health.problem("b"), "");
  // A slow moment is none of the device's: the least time counts.
  health.add_run("a", program(0), 9);
  EXPECT_EQ(health.problem("a"), "");
}

TEST(DeviceHealth, AMomentInWhichAllProgramsAreSlowIsNoneOfTheDevices) {
  DeviceHealth health;
  const auto run = [&](const char* device, double factor) {
    for (int i = 0; i < 6; ++i) health.add_run(device, program(i), factor * (1 + i));
  };
  run("a", 1);
  for (int moment = 0; moment < 3; ++moment) {
    const std::string device = "b" + std::to_string(moment);
    run(device.c_str(), 2);
    EXPECT_EQ(health.problem(device), "");
    run(device.c_str(), 1);
    EXPECT_EQ(health.problem(device), "");
    EXPECT_EQ(health.problem(device), "");
  }
}

}  // namespace
}  // namespace tc
