// Writing the files of an artefact, and the headers of C next to it.
#pragma once

#include <functional>
#include <string>

#include "runtime/new_file.h"

namespace tc {

// The path with .h in place of its suffix.
std::string header_path(const std::string& path);

// Writes a file under that name: whole, or not at all. `write` returns whether it could; a Device error where
// it could not.
void write_file(const std::string& path, const std::function<bool(runtime::NewFile&)>& write);
void write_file(const std::string& path, const std::string& text);

// Writes a header with these declarations next to the artefact at `path`. A program that includes two
// headers whose macros or symbols would have the same names does not compile. A Device error where the
// header of another artefact has that path.
void write_header(const std::string& path, const std::string& about, const std::string& declarations);

}  // namespace tc
