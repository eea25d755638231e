// Our own programs started by tests, and hand-made candidates (tests/agent/candidate.c).
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace tc {

// A program of ours, its output in a file; killed at the end.
class Program {
 public:
  Program(std::vector<std::string> arguments, const std::string& name)
      : log_(testing::TempDir() + "/" + name + ".log") {
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    unlink(log_.c_str());
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    EXPECT_EQ(posix_spawn(&pid_, words[0], &actions, nullptr, words.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Program() { end(SIGKILL); }

  int end(int signal_number) {
    if (pid_ < 0) return -1;
    kill(pid_, signal_number);
    return wait();
  }
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  pid_t pid() const { return pid_; }
  std::string log() const {
    std::ifstream file(log_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Waits until the log has the text; the word behind it.
  std::string word_after(const std::string& text) const {
    for (int i = 0; i < 600; ++i) {
      const std::string all = log();
      if (const size_t at = all.find(text); at != std::string::npos) {
        const size_t begin = at + text.size(), end = all.find_first_of(" \n", begin);
        if (end != std::string::npos) return all.substr(begin, end - begin);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ADD_FAILURE() << "'" << text << "' never came; the log is: " << log();
    return "";
  }

 private:
  std::string log_;
  pid_t pid_ = -1;
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The bytes of the one that behaves so.
inline std::string candidate(int behaviour, const std::string& file = "tests/agent/candidate") {
  std::string bytes = read_text(file);
  const size_t at = bytes.find("behaviour:");
  bytes[at + 10] = static_cast<char>('0' + behaviour / 10);
  bytes[at + 11] = static_cast<char>('0' + behaviour % 10);
  return bytes;
}

}  // namespace tc
