// Errors of tc as Python exceptions.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

namespace tc {

// One of tc's texts as a Python string. Names from files in it need not be UTF-8.
pybind11::str python_text(const std::string& words);
pybind11::list python_texts(const std::vector<std::string>& lines);

// Turns what native code of the module being defined throws into the class of tc.errors for its kind.
void add_errors();

// For functions that Python calls without pybind11: called in a catch clause, sets the exception being
// handled as Python's error.
void raise_current_exception();

}  // namespace tc
