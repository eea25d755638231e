// Linked files: shared objects, relocatable objects, archives, executables.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/backend/backend.h"

namespace tc {

// Links with lld, in a child process. Errors are Internal errors with lld's text. Shared: a self-contained
// .so with the descriptor symbol exported and nothing else.
void link_shared(const ModelObjects& objects, const Target& target, const std::string& path);
// One relocatable object of all (`ld -r`).
void link_object(const ModelObjects& objects, const Target& target, const std::string& path);
// A static archive of the objects, `members` (the runtime's) and the constants.
void write_archive(const ModelObjects& objects, const std::vector<std::pair<std::string, Bytes>>& members,
                   const Target& target, const std::string& path);
// Folder of an architecture's libraries in the lib/ of the Python package.
const char* library_folder_name(Arch arch);
// A static executable from objects and the libraries in `library_folder` (crt1.o, libc.a,
// libtc_runtime.a, …); its main is the runtime's. `parts` are functions of the runtime to which it refers
// weakly, and which this program needs: tc_generate, tc_map_linked_weights.
void link_executable(const ModelObjects& objects, const Target& target, const std::string& library_folder,
                     const std::vector<std::string>& parts, const std::string& path);

}  // namespace tc
