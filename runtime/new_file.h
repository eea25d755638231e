// Writing files under names that users give: whole, or not at all.
#pragma once

#include <limits.h>
#include <stddef.h>

namespace tc::runtime {

// A file that is being written beside the one whose place it takes at the end. Several at once, in threads
// and processes, each have a file of their own, and the place has a whole one at any moment. Links are
// followed: what they lead to is replaced. Devices and pipes are written in place; folders, sockets and
// devices with blocks are refused.
class NewFile {
 public:
  NewFile() = default;
  ~NewFile();  // removes what did not come to its place
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Makes the file, with the permissions of new files. False where that cannot be: why() tells.
  bool open(const char* path);
  int descriptor() const { return descriptor_; }
  // Where to write to; where other programs write it, they may replace it.
  const char* path() const { return is_in_place_ ? target_ : part_; }
  bool is_in_place() const { return is_in_place_; }

  bool write(const void* data, size_t size);
  // Closes the file and puts it in its place.
  bool finish();

  // One reason, without the path.
  const char* why() const { return why_; }

 private:
  bool no(const char* reason);  // says the reason, false
  bool no();                    // that of errno
  bool open_in_place(unsigned mode);

  int descriptor_ = -1;
  bool is_in_place_ = false;
  char target_[PATH_MAX] = "", part_[PATH_MAX] = "", why_[160] = "";
};

// Has the signals that end a program (Ctrl-C, SIGTERM, SIGHUP) remove the file that is being written before
// they do.
void remove_new_file_at_signals();

}  // namespace tc::runtime
