// Identifiers and types of C for artefacts that are linked into programs, and writing their headers.
#pragma once

#include <functional>
#include <string>

#include "ir/dtype.h"
#include "runtime/new_file.h"

namespace tc {

// The path's file, without its folder.
std::string file_name(const std::string& path);

// The file's name without its suffix, as an identifier of C: other characters become _, and a _ is put
// before a digit at the beginning.
std::string c_name(const std::string& path);

// The name as an identifier of C: characters other than letters and digits become _.
std::string identifier(const std::string& name);
std::string upper(std::string name);
// The name without characters that could end a comment or a C string: names come from a model's file.
std::string harmless(const std::string& name);

// C's type of an element in memory; for formats that C lacks, the integer type of their bits.
const char* c_type(DType dtype);

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
