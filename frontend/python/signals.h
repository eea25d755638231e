// Python's signals, Ctrl-C before all, while native code runs.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <memory>

namespace tc {

// Whether this is the thread on which Python runs its signal handlers: its main one.
bool is_signal_thread();

// Runs the handlers of signals that have come; true where one raised, and then Python's error is set. With or
// without the interpreter's lock; on other threads it does nothing.
bool has_raised_signal();

// Throws the error that Python has.
[[noreturn]] void throw_python_error();

// Calls work() on a thread of its own and waits for it, without the interpreter's lock; what it throws is
// thrown here. Where a signal's handler raises meanwhile, py::error_already_set is thrown at once, and the
// work goes on: `owned`, which keeps all that it uses, is let go with the interpreter's lock when it is done.
void run_interruptibly(const std::function<void()>& work, std::shared_ptr<void> owned);

}  // namespace tc
