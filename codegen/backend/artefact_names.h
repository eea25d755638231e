// What an artefact that programs are linked with is called in C, and the file of its header.
#pragma once

#include <functional>
#include <string>

#include "ir/dtype.h"
#include "runtime/new_file.h"

namespace tc {

// The path's file, without its folder.
std::string file_name(const std::string& path);

// The file's name without its suffix, as an identifier of C: what cannot stand in one becomes _, and one is
// put before a digit.
std::string c_name(const std::string& path);

// Letters and digits of C, _ for all else.
std::string identifier(const std::string& name);
std::string upper(std::string name);
// Text that stays inside a comment or a C string, whatever a model's file calls its parts.
std::string harmless(const std::string& name);

// C's type of an element in memory; formats that C lacks are their bits.
const char* c_type(DType dtype);

// The path with .h in place of its suffix.
std::string header_path(const std::string& path);

// Writes a file under that name: whole, or not at all. `write` returns whether it could; a Device error where
// it could not.
void write_file(const std::string& path, const std::function<bool(runtime::NewFile&)>& write);
void write_file(const std::string& path, const std::string& text);

// Writes a header of these declarations beside the artefact at `path`. A program that includes two headers
// whose macros or symbols would have the same names does not compile. A Device error where the header of
// another artefact lies there.
void write_header(const std::string& path, const std::string& about, const std::string& declarations);

}  // namespace tc
