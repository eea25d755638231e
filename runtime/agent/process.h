// One candidate's process, held by walls and limits: started, spoken to, watched and ended.
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
  // What is executed: the file itself, or, where there is one, a program of the file system, which
  // then finds the file at program_path().
  std::string program;                 // empty: the file
  std::vector<std::string> shown;      // folders and files that the program needs
  std::vector<std::string> arguments;  // argv
  int executable = -1;
  int64_t executable_bytes = 0;
  std::vector<int> descriptors;  // become 10, 11, …
  bool is_interpreter = false;   // reads files for as long as it runs (FilterUse)
  int report = -1;               // becomes kReportDescriptor, where there is one
  int64_t memory_bytes = 0;      // address space, beyond which a request ends the candidate
  int64_t extra_bytes = 0;       // address space of the emulator; no limit where negative
  double cpu_seconds = 10;
  int threads = 64;               // most that it may start
  std::vector<int> processors;    // where it may run; empty for anywhere
  Isolation walls = isolation();  // all that this system has; tests leave some out
};
constexpr int kExecutableDescriptor = 8;
constexpr int kReportDescriptor = 9;

// Where a program that runs the candidate finds its file.
std::string program_path();

// Folders where programs find their libraries, for Launch::shown.
std::vector<std::string> library_folders();

// What a candidate did wrong. Thrown by Process, never out of the runners.
struct Misbehaviour {
  Outcome outcome;
  std::string detail;
};

class Process {
 public:
  // Starts it; throws std::runtime_error where this machine cannot.
  explicit Process(const Launch& launch);
  ~Process();  // kills the whole group and waits for it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(const void* bytes, size_t count);
  // Waits for this byte from its standard output. `doing` is what it should do, for the detail.
  // Returns the clock, in seconds, at which the byte was here.
  double expect(char letter, double seconds, const std::string& doing,
                const std::function<bool()>& cancelled);
  // The same until that clock and no longer; nothing where the byte was not here by then.
  std::optional<double> expect_until(char letter, double clock, const std::string& doing,
                                     const std::function<bool()>& cancelled);
  // Stops all of its threads, and has them go on. While it is stopped it changes nothing, learns nothing and
  // takes no one's time.
  void stop();
  void go_on();
  // Seconds of processor time that it used so far; nothing where the system cannot say.
  std::optional<double> processor_seconds() const;
  // Of each of its threads, by number, the processor time so far and how often it was given a processor:
  // exact where it is stopped; none where the system cannot say.
  struct ThreadTime {
    double seconds = 0;
    int64_t turns = 0;
  };
  std::map<int, ThreadTime> thread_times() const;
  // Where all of its threads run from now on; it is stopped. Whether the system did so.
  bool stay_on(const std::vector<int>& processors);
  // Nothing may have come from its standard output that no one waited for.
  void expect_silence(const std::string& doing);
  // How often so far it had the agent do something for it: decide on a system call, read its standard error.
  int64_t requests() const { return requests_; }
  // Most memory that it had in use so far, in bytes.
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
  bool ready_ = false;     // it said its first letter
  bool programs_ = false;  // a program was started
  int threads_ = 0;        // that it started
  int64_t requests_ = 0;
  bool stopped_ = false;
  bool reaped_ = false;
  int wait_status_ = 0;
};

// Thrown by expect() where `cancelled` said so.
struct Cancelled {};

// Processor seconds of the thread that calls.
double thread_seconds();
// Seconds of the monotonic clock.
double now_seconds();
// Those where the calling thread may run.
std::vector<int> own_processors();
// Whether the calling thread runs there from now on, and nowhere else.
bool run_on(const std::vector<int>& processors);

}  // namespace tc::agent
