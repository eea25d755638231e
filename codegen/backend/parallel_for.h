// Divides the parts of a compilation among threads.
#pragma once

#include <cstddef>
#include <functional>

namespace tc {

// Calls work(0) to work(count - 1), started in this order, on `threads` threads, of which the caller's is
// one. Throws the error of the first part that has one, whatever the number of threads. `phase` is its name
// in reports of progress.
void work_in_parallel(size_t count, int threads, const char* phase, const std::function<void(size_t)>& work);

}  // namespace tc
