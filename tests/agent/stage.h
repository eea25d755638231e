// An agent of a test: a process of its own, as root or as another user, that measures a batch and tells
// what became of it. Beside it, of the same user, a bystander and a file that only that user may read.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/agent/process.h"
#include "runtime/agent/runner.h"

namespace tc::agent {

constexpr uid_t kNobodyElse = 61234;  // of the agent that is not root
constexpr char kSecret[] = "the-words-of-the-agents-key";

struct Staged {
  std::map<int, Result> results;
  bool agent_lives = false, bystander_lives = false;
  std::string failure;  // of the agent
};

class Stage {
 public:
  explicit Stage(uid_t user) : user_(user) {
    char name[] = "/tmp/tc-stage-XXXXXX";
    folder_ = mkdtemp(name);
    chmod(folder_.c_str(), 0755);
    std::ofstream(secret()) << kSecret << "\n";
    chmod(secret().c_str(), 0600);
    if (user_ != geteuid() && chown(secret().c_str(), user_, user_) != 0) ADD_FAILURE() << strerror(errno);
  }
  ~Stage() { std::filesystem::remove_all(folder_); }

  std::string secret() const { return folder_ + "/secret"; }
  bool has_secret() const { return access(secret().c_str(), F_OK) == 0; }
  // A copy that the user can read, of a file of the test.
  std::string copy(const std::string& path) const {
    const std::string to = folder_ + "/" + path.substr(path.rfind('/') + 1);
    std::filesystem::copy_file(path, to, std::filesystem::copy_options::overwrite_existing);
    chmod(to.c_str(), 0755);
    return to;
  }

  // `make_batch` is called by the agent, which is the process that it asks for; so is `make_runner`.
  Staged measure(const std::function<Batch(pid_t agent)>& make_batch,
                 const std::function<std::unique_ptr<Runner>()>& make_runner) const {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return {};
    const pid_t agent = fork();
    if (agent == 0) {
      close(ends[0]);
      be_agent(ends[1], make_batch, make_runner);
    }
    close(ends[1]);
    const Staged staged = read_answers(ends[0]);
    close(ends[0]);
    kill(agent, SIGKILL);
    waitpid(agent, nullptr, 0);
    return staged;
  }

 private:
  [[noreturn]] void be_agent(int answers, const std::function<Batch(pid_t)>& make_batch,
                             const std::function<std::unique_ptr<Runner>()>& make_runner) const {
    if (user_ != geteuid() && (setgroups(0, nullptr) != 0 || setresgid(user_, user_, user_) != 0 ||
                               setresuid(user_, user_, user_) != 0))
      _exit(3);
    prctl(PR_SET_DUMPABLE, 1);  // as a process that was started so
    setenv("PATH", "/usr/bin:/bin", 1);
    const pid_t bystander = fork();
    if (bystander == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
    const auto tell = [&](const std::string& line) {
      if (write(answers, line.data(), line.size()) < 0) _exit(4);
    };
    try {
      const std::unique_ptr<Runner> runner = make_runner();
      runner->measure(
          make_batch(getpid()),
          [&](const Result& result) {
            std::string detail = result.detail;
            for (char& c : detail)
              if (c == '\n') c = ' ';
            double fastest = 0;
            for (const double sample : result.samples)
              fastest = fastest == 0 ? sample : std::min(fastest, sample);
            char numbers[160];
            std::snprintf(numbers, sizeof numbers, "%d %d %zu %.9g ", result.candidate,
                          static_cast<int>(result.outcome), result.samples.size(), fastest);
            tell(numbers + detail + "\n");
          },
          nullptr);
      tell(kill(bystander, 0) == 0 && waitpid(bystander, nullptr, WNOHANG) == 0 ? "lives both\n"
                                                                                : "lives alone\n");
    } catch (const std::exception& error) {
      tell(std::string("failed ") + error.what() + "\n");
    }
    kill(bystander, SIGKILL);
    for (;;) pause();  // the stage ends it
  }

  static Staged read_answers(int answers) {
    Staged staged;
    std::string text;
    char part[4096];
    const auto is_complete = [&] {
      return text.find("\nlives ") != std::string::npos || text.rfind("lives ", 0) == 0 ||
             text.find("failed ") != std::string::npos;
    };
    for (ssize_t size; !is_complete() && (size = read(answers, part, sizeof part)) > 0;)
      text.append(part, static_cast<size_t>(size));
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line = text.substr(begin, end - begin);
      begin = end + 1;
      if (line.rfind("lives ", 0) == 0) {
        staged.agent_lives = true;
        staged.bystander_lives = line == "lives both";
      } else if (line.rfind("failed ", 0) == 0) {
        staged.agent_lives = true;
        staged.failure = line.substr(7);
      } else {
        Result result;
        int outcome = 0, used = 0;
        size_t samples = 0;
        double fastest = 0;
        if (std::sscanf(line.c_str(), "%d %d %zu %lg %n", &result.candidate, &outcome, &samples, &fastest,
                        &used) < 4)
          continue;
        result.outcome = static_cast<Outcome>(outcome);
        result.samples.assign(samples, fastest);
        result.detail = line.substr(static_cast<size_t>(used));
        staged.results[result.candidate] = result;
      }
    }
    return staged;
  }

  const uid_t user_;
  std::string folder_;
};

}  // namespace tc::agent
