// Golden text files: compared, or rewritten where TC_UPDATE names the repository's root.
#pragma once

#include <string>

namespace tc {

// Fails the running test where the file (path from the repository's root) does not hold `text`;
// with TC_UPDATE set, writes it instead.
void expect_golden(const std::string& path, const std::string& text);

}  // namespace tc
