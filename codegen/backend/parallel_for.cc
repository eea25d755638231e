// Divides the parts of a compilation among threads.
#include "codegen/backend/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "ir/interrupt.h"

namespace tc {

void work_in_parallel(size_t count, int threads, const char* phase, const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<size_t> next{0};
  std::exception_ptr interrupted;
  std::atomic<bool> stop{false};
  const auto take_parts = [&] {
    for (size_t i = next++; i < count && !stop; i = next++) {
      try {
        work_progress() = {phase, static_cast<int64_t>(i), static_cast<int64_t>(count)};
        interruption_point();
        work(i);
      } catch (const Interrupted&) {
        interrupted = std::current_exception();  // only the caller's thread is interrupted
        stop = true;
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> workers;
  const size_t wanted = static_cast<size_t>(std::max(1, threads));
  for (size_t i = 1; i < std::min(wanted, count); ++i) workers.emplace_back(take_parts);
  take_parts();
  for (std::thread& worker : workers) worker.join();
  if (interrupted) std::rethrow_exception(interrupted);
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace tc
