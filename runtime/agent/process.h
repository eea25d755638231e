// One candidate's process: starts it confined and with limits, sends it commands, watches it and ends it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/agent/isolation.h"
#include "runtime/agent/runner.h"

namespace tc::agent {

// How to start a candidate.
struct Launch {
  // The program of the file system that is executed, which finds the candidate's file at program_path().
  // Where empty, the file itself is executed.
  std::string program;                 // empty: the file
  std::vector<std::string> shown;      // folders and files that the program needs
  std::vector<std::string> arguments;  // argv
  int executable = -1;
  int64_t executable_bytes = 0;
  std::vector<int> descriptors;  // they become 10, 11, …
  bool is_interpreter = false;   // reads files for as long as it runs (FilterUse)
  int report = -1;               // becomes kReportDescriptor; -1: none
  int64_t memory_bytes = 0;      // limit of the address space; a request beyond it ends the candidate
  int64_t extra_bytes = 0;       // further address space for an emulator; negative: no limit
  double cpu_seconds = 10;
  int threads = 64;               // the most that it may start
  std::vector<int> processors;    // on which it may run; empty: on any
  Isolation walls = isolation();  // all that this system supports; tests leave some out
};
constexpr int kExecutableDescriptor = 8;
constexpr int kReportDescriptor = 9;

// The path at which a program that runs the candidate finds the candidate's file.
std::string program_path();

// The folders in which programs find their libraries, for Launch::shown.
std::vector<std::string> library_folders();

// What a candidate did wrong. Thrown by Process and its users, but never out of a runner.
struct Misbehaviour {
  Outcome outcome;
  std::string detail;
};

class Process {
 public:
  // Starts the process; throws a std::runtime_error where this machine cannot.
  explicit Process(const Launch& launch);
  ~Process();  // kills the whole group and waits for it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(const void* bytes, size_t count);
  // Waits for this byte on its standard output. `doing` is what the process is doing, for messages. Returns
  // the time, in seconds of now_seconds(), at which the byte arrived.
  double expect(char letter, double seconds, const std::string& doing,
                const std::function<bool()>& cancelled);
  // The same until that time at most; returns nothing where the byte has not arrived by then.
  std::optional<double> expect_until(char letter, double clock, const std::string& doing,
                                     const std::function<bool()>& cancelled);
  // Stop all of its threads, and let them go on. A stopped process changes nothing, sees nothing and uses no
  // processor time.
  void stop();
  void go_on();
  // The seconds of processor time that it has used; nothing where the system does not tell.
  std::optional<double> processor_seconds() const;
  // For each of its threads, by thread id: the processor time so far, and how often it was scheduled on a
  // processor. Exact while the process is stopped; empty where the system does not tell.
  struct ThreadTime {
    double seconds = 0;
    int64_t switches = 0;
  };
  std::map<int, ThreadTime> thread_times() const;
  // Sets the processors on which all of its threads run from now on; the process has to be stopped. Returns
  // whether that succeeded.
  bool stay_on(const std::vector<int>& processors);
  // Checks that it has written nothing to its standard output that was not expected.
  void expect_silence(const std::string& doing);
  // How often the agent has done work for it so far: decided on a system call, or read its standard error.
  int64_t requests() const { return requests_; }
  // The most memory that it has used so far, in bytes.
  int64_t peak_bytes() const;

 private:
  void answer_notification(const std::string& doing);
  bool may_have_memory(uint64_t bytes, const std::string& doing);
  void take_status();
  std::optional<double> take_letter(char letter, const std::string& doing);
  void read_errors();
  [[noreturn]] void explain_end(const std::string& doing);
  [[noreturn]] void explain_signal(int number, int64_t most_resident, const std::string& doing);
  [[noreturn]] void misbehave(Outcome outcome, const std::string& detail);
  int64_t address_space() const;
  std::string said() const;
  void kill_group();

  Launch launch_;
  pid_t pid_ = -1;
  Descriptor input_, output_, errors_, notifications_, status_;
  std::string error_text_;
  bool ready_ = false;     // it has sent its first reply
  bool programs_ = false;  // a program was started
  int threads_ = 0;        // how many it has started
  int64_t requests_ = 0;
  bool stopped_ = false;
  bool reaped_ = false;
  int wait_status_ = 0;
};

// Thrown by expect() where `cancelled` returned true.
struct Cancelled {};

// Processor seconds of the calling thread.
double thread_seconds();
// Seconds of the monotonic clock.
double now_seconds();
// The processors on which the calling thread may run.
std::vector<int> own_processors();
// Makes the calling thread run on these processors only; returns whether that succeeded.
bool run_on(const std::vector<int>& processors);

}  // namespace tc::agent
