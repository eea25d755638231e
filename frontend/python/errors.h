// Errors of tc as Python exceptions.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

namespace tc {

// Text of ours as a Python string: names out of files need not be UTF-8.
pybind11::str python_text(const std::string& words);
pybind11::list python_texts(const std::vector<std::string>& lines);

// Makes whatever native code of the module being defined throws the class of its kind in tc.errors.
void add_errors();

// Of a function that Python calls without pybind11: in a catch clause, makes the exception that is handled
// Python's.
void raise_current_exception();

}  // namespace tc
