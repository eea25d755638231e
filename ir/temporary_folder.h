// Where temporary files go.
#pragma once

#include <string>

namespace tc {

// The folder that TMPDIR names, else /tmp; a Device error where that is no folder.
std::string temporary_folder();

}  // namespace tc
