// What the child process does between its start and the execution of the candidate's program.
#pragma once

#include <linux/filter.h>
#include <sched.h>
#include <sys/types.h>

#include <vector>

#include "runtime/agent/confine.h"
#include "runtime/agent/filter.h"

namespace tc::agent {

struct Launch;

// A message of the child to its parent before it executes the candidate.
struct ChildStatus {
  enum Kind : int { Filter, Failed } kind;
  int value;         // Filter: descriptor of the notifications, or -1; Failed: errno
  const char* what;  // a string literal, at the same address in parent and child
};

// Everything that the child needs. It is made before the child starts, since the child may only make system
// calls.
struct ChildPlan {
  // `launch` outlives the plan; the descriptors are the child's ends of the pipes.
  explicit ChildPlan(const Launch& launch);

  const Launch* launch;
  Isolation walls;
  Root root;
  Filter filter;
  uid_t own_user = 0;  // a user id for this candidate alone; 0: the agent's
  uid_t agent_user;
  gid_t agent_group;
  std::vector<const char*> arguments;
  std::vector<int> descriptors;
  std::vector<int> parents;  // the parent's ends, which the child closes
  int input = -1, output = -1, errors = -1, status = -1;
  cpu_set_t processors;
};

// Starts the child; returns its process id, negative on failure.
pid_t start_child(ChildPlan& plan);

}  // namespace tc::agent
