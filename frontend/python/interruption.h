// The compiler's long work as Python's users see it: it ends at Ctrl-C and tells how far it has come.
#pragma once

#include <pybind11/pybind11.h>

namespace tc {

// Has interruption_point() run Python's signal handlers, on its main thread, and leave where one raises.
void look_for_interruptions();

// For the object's lifetime `progress(phase, done, total)` is called now and then by the work of this thread; None: nothing is. Made and
// ended with the interpreter's lock.
class Telling {
 public:
  explicit Telling(const pybind11::object& progress);
  ~Telling();
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;

 private:
  pybind11::object before_;
};

}  // namespace tc
