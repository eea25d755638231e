// A process that this one has started, with a pipe each way.
#pragma once

#include <string>
#include <vector>

#include "tuner/child_process.h"

namespace tc {

// Ends with its owner: what lies behind a pipe ends when its input does, and the process is killed otherwise.
class PipedChild {
 public:
  // Starts the program, in a process group of its own, so that Ctrl-C reaches this process alone. Its
  // temporary files go to the folder; empty: where this process's go. Throws a Device error where it cannot
  // be started.
  explicit PipedChild(const std::vector<std::string>& command, const std::string& temporary_folder = "");
  ~PipedChild();
  PipedChild(const PipedChild&) = delete;
  PipedChild& operator=(const PipedChild&) = delete;

  int in() const { return in_; }    // what is written there, it reads
  int out() const { return out_; }  // what it writes is read here
  // Closes the pipes, and kills it where it has not ended after `seconds`.
  void end(double seconds);
  // "", or how it ended: "by signal 11 (Segmentation fault)", "with exit status 1".
  std::string how_it_ended();
  ChildProcess& process() { return process_; }

 private:
  ChildProcess process_;
  int in_ = -1, out_ = -1;
};

}  // namespace tc
