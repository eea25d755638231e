// Parts of a compilation that threads divide among themselves.
#pragma once

#include <cstddef>
#include <functional>

namespace tc {

// Calls work(0) to work(count - 1), in the order of their numbers, on so many threads, the caller's included.
// An error is that of the first part that has one, whatever the number of threads. `phase` is what progress
// calls it.
void work_in_parallel(size_t count, int threads, const char* phase, const std::function<void(size_t)>& work);

}  // namespace tc
