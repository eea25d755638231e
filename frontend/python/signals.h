// Python's signals, above all Ctrl-C, while native code runs.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <memory>

namespace tc {

// Whether this is the thread on which Python runs its signal handlers: its main one.
bool is_signal_thread();

// Runs the handlers of signals that have arrived; true where one raised, and then Python's error is set. May
// be called with or without the interpreter's lock; does nothing on other threads.
bool has_raised_signal();

// Throws the error that is set in Python.
[[noreturn]] void throw_python_error();

// Calls work() on a thread of its own and waits for it, without the interpreter's lock; what work() throws is
// thrown here. Where a signal handler raises meanwhile, throws py::error_already_set immediately while the
// work goes on. `owned` keeps alive all that the work uses; it is freed, with the interpreter's lock, when
// the work is done.
void run_interruptibly(const std::function<void()>& work, std::shared_ptr<void> owned);

}  // namespace tc
