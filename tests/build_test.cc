// The libraries that every part stands on are the versions the build expects.
#include <gtest/gtest.h>
#include <isl/version.h>
#include <llvm/Config/llvm-config.h>

#include <cstring>

TEST(Build, LibrariesAreTheExpectedVersions) {
  EXPECT_EQ(LLVM_VERSION_MAJOR, 19);
  EXPECT_NE(std::strstr(isl_version(), "isl-0.25"), nullptr) << isl_version();
}
