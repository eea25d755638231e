// What a child does to itself before it is a candidate: after it, it has nothing to take and nobody to hit.
//
// Only system calls: the child is the copy of one thread of many. Each function returns null, or what
// failed, for people; errno then says why.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/agent/isolation.h"

namespace tc::agent {

// The root that the candidate sees. Empty but for what a program that runs it needs.
struct Root {
  struct Shown {
    std::string source;  // a folder or a file of the agent's file system
    std::string target;  // the same without the leading '/'
    bool is_folder = false;
    bool is_device = false;  // one that is named by itself, as /dev/urandom
  };
  std::vector<std::string> folders;  // made first, outermost first
  std::vector<Shown> shown;          // read-only
  int program = -1;                  // a file that is copied to /candidate
  int64_t program_bytes = 0;
};
// With these folders and files in it; those that do not exist are left out.
Root make_root(const std::vector<std::string>& shown);

// Makes the agent's user id, and that alone, known in a new user namespace, as one without rights.
// `user` and `group` are the agent's, asked for before the namespace was made.
const char* map_user(uid_t user, gid_t group);

// Changes to the root in a mount namespace of its own.
const char* enter_root(const Root& root);

// Gives up the rights of root: capabilities, groups, user id.
const char* become_user(uid_t user);

// No file can be opened for writing or made, no address reached, no other process signalled. With
// `reads`, files can be opened for reading.
const char* forbid_files(int landlock_version, bool reads);

}  // namespace tc::agent
