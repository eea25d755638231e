// Writes files under names that users give, so that a file appears complete or not at all.
#pragma once

#include <limits.h>
#include <stddef.h>

namespace tc::runtime {

// A file that is written under a temporary name in the folder of its target, and renamed to the target at the
// end. Several threads and processes may write the same target at a time: each has its own temporary file,
// and the target is complete at any moment. Symbolic links are followed: the file that they lead to is
// replaced. Character devices and pipes are written in place; folders, sockets and block devices are refused.
class NewFile {
 public:
  NewFile() = default;
  ~NewFile();  // removes the temporary file if it was not renamed
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Makes the file, with the permissions of new files. On false, why() has the reason.
  bool open(const char* path);
  int descriptor() const { return descriptor_; }
  // The path to write to. Another program that writes it may replace the file.
  const char* path() const { return is_in_place_ ? target_ : part_; }
  bool is_in_place() const { return is_in_place_; }

  bool write(const void* data, size_t size);
  // Closes the file and renames it to its target.
  bool finish();

  // The reason of the last failure, without the path.
  const char* why() const { return why_; }

 private:
  bool no(const char* reason);  // keeps the reason; returns false
  bool no();                    // the same with the reason of errno
  bool open_in_place(unsigned mode);

  int descriptor_ = -1;
  bool is_in_place_ = false;
  char target_[PATH_MAX] = "", part_[PATH_MAX] = "", why_[160] = "";
};

// After this call, a signal that ends the program (Ctrl-C, SIGTERM, SIGHUP) first removes the file that is
// being written.
void remove_new_file_at_signals();

}  // namespace tc::runtime
