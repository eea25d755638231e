// Identifiers and types of C that artefacts use.
#pragma once

#include <string>

#include "ir/dtype.h"

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

}  // namespace tc
