// What an artefact that programs are linked with is called in C, and the file of its header.
#pragma once

#include <string>

namespace tc {

// The path's file, without its folder.
std::string file_name(const std::string& path);

// The file's name without its suffix, as an identifier of C: what cannot stand in one becomes _, and one is put before a digit.
std::string c_name(const std::string& path);

// Letters and digits of C, _ for all else.
std::string identifier(const std::string& name);
std::string upper(std::string name);
// Text that stays inside a comment or a C string, whatever a model's file calls its parts.
std::string harmless(const std::string& name);

// The path with .h in place of its suffix.
std::string header_path(const std::string& path);

// Writes a header of these declarations beside the artefact at `path`. A program that includes two headers whose macros or symbols would have
// the same names does not compile. A Device error where the header of another artefact lies there.
void write_header(const std::string& path, const std::string& about, const std::string& declarations);

}  // namespace tc
