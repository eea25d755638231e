// Python's signals while native code runs.
#include "frontend/python/signals.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace py = pybind11;

namespace tc {
namespace {

// The time between two checks for signals.
constexpr std::chrono::milliseconds kPause{20};

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Work on a separate thread, shared by that thread and the one that waits for it.
struct InterruptibleRun {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false, abandoned = false;
  std::exception_ptr error;
  std::function<void()> work;
  std::shared_ptr<void> owned;

  void run() {
    std::exception_ptr raised;
    try {
      work();
    } catch (...) {
      raised = std::current_exception();
    }
    std::unique_lock lock(mutex);
    error = raised;
    done = true;
    changed.notify_all();
    if (!abandoned) return;
    lock.unlock();
    // When the interpreter is ending, its lock can no longer be taken: `owned` is leaked until the process
    // ends.
    if (Py_IsInitialized() == 0 || is_finalizing()) {
      new std::shared_ptr<void>(std::move(owned));
      return;
    }
    const py::gil_scoped_acquire acquire;
    work = nullptr;
    owned.reset();
  }
};

}  // namespace

// Compares with the process's main thread instead of asking Python, whose own code may be interrupted. Where
// another thread of the process started the interpreter, native work runs no signal handlers.
bool is_signal_thread() { return gettid() == getpid(); }

bool has_raised_signal() {
  if (!is_signal_thread()) return false;
  const py::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

void throw_python_error() {
  const py::gil_scoped_acquire acquire;
  throw py::error_already_set();
}

void run_interruptibly(const std::function<void()>& work, std::shared_ptr<void> owned) {
  auto interruptible = std::make_shared<InterruptibleRun>();
  interruptible->work = work;
  interruptible->owned = std::move(owned);
  const py::gil_scoped_release release;
  std::thread thread;
  try {
    thread = std::thread([interruptible] { interruptible->run(); });
  } catch (const std::system_error&) {
    return work();  // no more threads can be started
  }
  bool raised = false;
  {
    std::unique_lock lock(interruptible->mutex);
    while (!raised && !interruptible->changed.wait_for(lock, kPause, [&] { return interruptible->done; })) {
      lock.unlock();
      raised = has_raised_signal();
      lock.lock();
      // Where the work is done already, its thread has ended without freeing `owned`.
      if (raised) interruptible->abandoned = true;
    }
  }
  if (raised) {
    thread.detach();
    throw_python_error();
  }
  thread.join();
  if (interruptible->error) std::rethrow_exception(interruptible->error);
}

}  // namespace tc
