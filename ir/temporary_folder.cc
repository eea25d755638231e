// Where temporary files go.
#include "ir/temporary_folder.h"

#include <cstdlib>
#include <filesystem>

#include "ir/error.h"

namespace tc {

std::string temporary_folder() {
  const char* named = std::getenv("TMPDIR");
  const std::string folder = named != nullptr && *named != '\0' ? named : "/tmp";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    fail(ErrorKind::Device, "temporary files go to '", folder,
         "', which is no folder; set TMPDIR to a folder that can be written");
  }
  return folder;
}

}  // namespace tc
