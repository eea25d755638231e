// Which system calls a candidate may make: those that a program needs which computes on memory that it was
// given.
//
// The kernel refuses all others (seccomp). Where it can notify the agent (user notification, Linux 5.6), the
// agent can name the refused call, and also sees every request for memory.
#pragma once

#include <cstdint>
#include <linux/filter.h>

#include <string>
#include <vector>

namespace tc::agent {

struct Filter {
  std::vector<sock_filter> program;
  // Indices of instructions whose constant has to be set to the candidate's process id.
  std::vector<size_t> process_places;
};

// With `notify`, the agent is asked about calls that are not allowed, and about requests for memory, threads,
// signals to the process itself and new programs; without it, calls that are not allowed kill the process.
// With `programs`, a program of the file system runs the candidate and reads its libraries; without it, no
// file can be opened at all. With `interpreter`, the program reads files as long as it runs and may lower its
// own limits. Nobody is asked then, and calls that are not allowed fail with EPERM, which libraries expect
// when they try something.
struct FilterUse {
  bool notify = false;
  bool programs = false;
  bool interpreter = false;
};
Filter make_filter(const FilterUse& use);

// "openat", "socket"; "number 123" for a call without a known name.
std::string system_call_name(int number);

// Whether the call asks for memory, and for how many bytes; whether it starts a program.
bool asks_for_memory(int number, const uint64_t* arguments, uint64_t* bytes);
bool starts_program(int number);
// Whether the call starts a thread; whether it opens a file for reading.
bool starts_thread(int number, const uint64_t* arguments);
bool reads_file(int number, const uint64_t* arguments);
// The signal that the call sends; 0 for none.
int signal_of(int number, const uint64_t* arguments);

// What a refused call was meant to do, for messages: "uses the network"; may be empty.
std::string intention(int number);

}  // namespace tc::agent
