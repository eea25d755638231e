// Golden text files: compared, or rewritten where TC_UPDATE names the repository's root.
#include "tests/golden_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace tc {

void expect_golden(const std::string& path, const std::string& text) {
  if (const char* root = std::getenv("TC_UPDATE")) {
    std::ofstream out(std::string(root) + "/" + path);
    out << text;
    ASSERT_TRUE(out.good()) << "cannot write " << path;
    return;
  }
  std::ifstream in(path);
  ASSERT_TRUE(in.good()) << path << " is missing; `./check --update` writes it";
  const std::string golden((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(golden, text) << path << " is stale; `./check --update` rewrites it";
}

}  // namespace tc
