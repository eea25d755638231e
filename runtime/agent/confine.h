// How a child process confines itself before it becomes a candidate: afterwards it can read no files and
// affect no other process.
//
// These functions make only system calls, since the child is a copy of one of many threads. Those that return
// text return null, or the name of what failed; errno then says why.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/agent/isolation.h"

namespace tc::agent {

// The root folder that the candidate sees. It is empty, except for what a program that runs the candidate
// needs.
struct Root {
  struct Shown {
    std::string source;  // a folder or a file of the agent's file system
    std::string target;  // the same without the leading '/'
    bool is_folder = false;
    bool is_device = false;  // a character device, such as /dev/urandom
  };
  std::vector<std::string> folders;  // to be made before all else, outermost first
  std::vector<Shown> shown;          // mounted read-only
  int program = -1;                  // descriptor of a file that is copied to /candidate
  int64_t program_bytes = 0;
};
// A root with these folders and files in it; those that do not exist are left out.
Root make_root(const std::vector<std::string>& shown);

// Maps the agent's user and group, and no others, into a new user namespace, as an id without rights. `user`
// and `group` are the agent's, determined before the namespace was made.
const char* map_user(uid_t user, gid_t group);

// Makes the root folder in the child's own mount namespace, and changes to it.
const char* enter_root(const Root& root);

// Gives up the rights of the user root: capabilities, groups, user id.
const char* become_user(uid_t user);

// With Landlock, forbids as far as its version can: making files or opening them for writing, reaching
// network addresses, and signalling other processes. With `reads`, files can still be opened for reading.
const char* forbid_files(int landlock_version, bool reads);

}  // namespace tc::agent
