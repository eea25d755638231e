// Which system calls a candidate may make: what a program that computes on memory it was given needs.
//
// All else is refused by the kernel (seccomp). Where the kernel can tell the agent of it
// (user notification, Linux 5.6), the agent knows the call and also sees every request for memory.
#pragma once

#include <cstdint>
#include <linux/filter.h>

#include <string>
#include <vector>

namespace tc::agent {

struct Filter {
  std::vector<sock_filter> program;
  // Instructions whose constant is the candidate's process number, to be filled in.
  std::vector<size_t> process_places;
};

// With `notify`, the agent is asked about calls that are not allowed and about those for memory, threads,
// signals to itself and new programs; else the former kill the process. `programs`: a program of the file
// system runs the candidate and reads its libraries; else no file can be opened at all. `interpreter`: the
// program reads files for as long as it runs and may lower its own limits; nobody is asked, and what is not
// allowed fails with EPERM, as libraries expect it that try whether they may.
struct FilterUse {
  bool notify = false;
  bool programs = false;
  bool interpreter = false;
};
Filter make_filter(const FilterUse& use);

// "openat", "socket"; "system call 123" where we know no name.
std::string system_call_name(int number);

// Whether it asks for memory, and the number of bytes asked for; whether it starts a program.
bool asks_for_memory(int number, const uint64_t* arguments, uint64_t* bytes);
bool starts_program(int number);
// Whether it starts a thread; opens a file to read it.
bool starts_thread(int number, const uint64_t* arguments);
bool reads_file(int number, const uint64_t* arguments);
// The signal that it sends; 0 for none.
int signal_of(int number, const uint64_t* arguments);

// What a refused call wanted, for people: "opens a network connection"; may be empty.
std::string intention(int number);

}  // namespace tc::agent
