// The mechanisms that can confine candidates on this system; found out once, by trying each of them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tc::agent {

struct Isolation {
  bool filter = false;          // seccomp
  bool notify = false;          // and it can notify the agent of calls
  bool memory = false;          // limits of the address space are enforced
  bool user = false;            // a user id of its own (only where the agent is root)
  bool user_namespace = false;  // else a user namespace, in which the agent's id has no rights
  bool processes = false;       // a process namespace: no other process is visible
  bool files = false;           // a mount namespace whose root is empty
  bool network = false;         // a network namespace
  bool ipc = false;             // own namespaces for System V IPC, message queues and the host name
  int landlock = 0;             // version of Landlock; 0 for none
  bool thread_times = false;    // the system reports the processor time of each thread

  // Whether a candidate has no rights over files and processes of the agent's user.
  bool has_own_user() const { return user || user_namespace; }
  int clone_flags() const;    // for the clone that makes the process
  int unshare_flags() const;  // for the unshare that the child calls
};

const Isolation& isolation();

// For people and logs: the mechanisms that there are; and those that are missing, each with what a candidate
// can do without it.
std::vector<std::string> isolation_names();
std::vector<std::string> isolation_lacks();

// A user id that no process and no line of /etc/passwd has, a different one each time. 0 where there is none.
uid_t unused_user();

}  // namespace tc::agent
