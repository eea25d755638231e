// Static programs with gRPC run, for this machine and for riscv64 under qemu.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

std::string output_of(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string out;
  std::array<char, 256> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe)) out += buffer.data();
  return out + "exit " + std::to_string(pclose(pipe));
}

const char* kExpected =
    "code 0 protocol 1\n"
    "the address 'nowhere' has no port; write HOST:PORT, as in board7.local:9190, 127.0.0.1:9190 "
    "or [::1]:9190\n"
    "exit 0";

TEST(Static, ServesAndCallsHere) { EXPECT_EQ(output_of("tests/rpc/hello"), kExpected); }

TEST(Static, ServesAndCallsOnRiscv64) {
  if (access("tests/rpc/riscv64/hello", F_OK) != 0)
    GTEST_SKIP() << "there is no program for riscv64: its packages could not be fetched";
  EXPECT_EQ(output_of("qemu-riscv64 tests/rpc/riscv64/hello"), kExpected);
}

}  // namespace
