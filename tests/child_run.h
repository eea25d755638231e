// Work that may crash, hang or take all memory, done in a child process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tc {

struct ChildLimits {
  int64_t bytes = int64_t{1} << 30;  // that it may hold at once besides what it begins with
  int seconds = 20;                  // of processor time
};

// What became of it: "" where `work` returned "" within the limits, else what it returned, or a sentence that
// names the signal, the exception, or the limit and how far it was passed. Sanitizers keep memory of their
// own: under them the limit on bytes is not checked.
std::string run_in_child(const std::function<std::string()>& work, const ChildLimits& limits);

}  // namespace tc
