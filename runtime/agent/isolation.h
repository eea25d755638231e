// The walls around a candidate that this system can build, found out once by trying each of them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tc::agent {

struct Isolation {
  bool filter = false;          // seccomp
  bool notify = false;          // and it tells the agent of the calls
  bool memory = false;          // address space limits hold
  bool user = false;            // a user id that no one else has (an agent that is root changes to it)
  bool user_namespace = false;  // or a user namespace, in which the agent's own id has no rights
  bool processes = false;       // a process namespace: no one else can be named
  bool files = false;           // a mount namespace whose root is empty
  bool network = false;         // a network namespace
  bool ipc = false;             // System V memory, message queues and the host's name
  int landlock = 0;             // its version; 0 for none
  bool thread_times = false;    // the processor time of each thread of a process is known

  // Has no rights over what the agent's user owns.
  bool has_own_user() const { return user || user_namespace; }
  int clone_flags() const;    // of the call that makes the process
  int unshare_flags() const;  // of one that the child makes
};

const Isolation& isolation();

// For people and logs: what there is, and what is lacking, each with what a candidate can do then.
std::vector<std::string> isolation_names();
std::vector<std::string> isolation_lacks();

// A user id that no process and no line of /etc/passwd has; another each time. 0 where there is none.
uid_t unused_user();

}  // namespace tc::agent
