// Opens the devices that tuning measures on: an agent of this machine, or those that a tracker lends.
#include "frontend/pipeline/tune_devices.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <iomanip>
#include <iterator>
#include <optional>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "codegen/backend/table.h"
#include "ir/error.h"
#include "ir/interrupt.h"
#include "runtime/rpc/fields.h"
#include "tuner/child_process.h"

extern char** environ;

namespace tc {
namespace {

constexpr double kAgentStartSeconds = 10, kAgentStopSeconds = 1;
constexpr double kFirstDeviceSeconds = 30;
constexpr int kMaxAcquires = 5;

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

const char* architecture_of(const Target& target) {
  switch (target.arch) {
    case Arch::X86_64: return "x86-64";
    case Arch::RiscV64: return "riscv64";
    case Arch::RiscV32: return "riscv32";
    case Arch::AArch64: return "aarch64";
    case Arch::ArmM: return "arm";
  }
  return "";
}

// A path for the socket of an agent. It lies in the given folder, or, where the folder's own path is so long
// that the address of a Unix socket (107 characters) cannot hold it, in a private folder below /tmp that is
// removed at the end.
class SocketPath {
 public:
  explicit SocketPath(const std::string& folder) : path_(folder + "/agent.sock") {
    if (path_.size() < sizeof(sockaddr_un::sun_path)) return;
    char made[] = "/tmp/tc-agent-XXXXXX";
    if (!mkdtemp(made))
      fail(ErrorKind::Device, "the path of a socket has up to ", sizeof(sockaddr_un::sun_path) - 1,
           " characters, ", path_, " is longer, and no folder can be made in /tmp: ", strerror(errno),
           "; set TMPDIR to a folder with a shorter path");
    own_folder_ = made;
    path_ = own_folder_ + "/agent.sock";
  }
  ~SocketPath() {
    if (own_folder_.empty()) return;
    unlink(path_.c_str());
    rmdir(own_folder_.c_str());
  }
  SocketPath(const SocketPath&) = delete;
  SocketPath& operator=(const SocketPath&) = delete;
  std::string address() const { return "unix:" + path_; }

 private:
  std::string path_, own_folder_;
};

// An agent of our own on this machine, reached by a socket.
class OwnAgent {
 public:
  OwnAgent(const std::string& program, const std::string& folder)
      : socket_(folder), address_(socket_.address()), token_(random_token()) {
    const std::string token_file = folder + "/agent.token";
    const int descriptor = open(token_file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0 ||
        write(descriptor, token_.data(), token_.size()) != static_cast<ssize_t>(token_.size()))
      fail(ErrorKind::Device, "cannot write ", token_file, ": ", strerror(errno));
    close(descriptor);
    const std::vector<std::string> words = {program,        "--standalone", address_,
                                            "--token-file", token_file,     "--while-input"};
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    int input[2];  // closed when this process ends, which ends the agent
    if (pipe2(input, O_CLOEXEC) != 0)
      fail(ErrorKind::Device, "cannot make a pipe for ", program, ": ", strerror(errno));
    input_ = input[1];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // Ctrl-C is the tuner's to handle
    pid_t child = -1;
    const int code = posix_spawn(&child, program.c_str(), &actions, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(input[0]);
    if (code != 0) {
      close(input_);
      fail(ErrorKind::Device, "cannot start ", program, ": ", strerror(code), "; reinstall tc");
    }
    child_ = ChildProcess(child);
  }
  ~OwnAgent() {
    child_.stop(kAgentStopSeconds);
    close(input_);
  }
  OwnAgent(const OwnAgent&) = delete;
  OwnAgent& operator=(const OwnAgent&) = delete;

  std::unique_ptr<LeasedDevice> connect() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kAgentStartSeconds);
    for (;;) {
      try {
        return connect_agent(address_, token_);
      } catch (const Error&) {
        if (child_.has_ended())
          fail(ErrorKind::Device,
               "the agent of this machine ended at once; run it by hand to see why: python -m tc agent");
        if (std::chrono::steady_clock::now() > end) throw;
        interruption_point();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
  }

 private:
  // A password between two processes of one user; no result depends on this random number.
  static std::string random_token() {
    std::random_device device;
    std::ostringstream out;
    // 64 digits, as the tracker makes them
    for (int i = 0; i < 8; ++i) out << std::hex << std::setw(8) << std::setfill('0') << device();
    return out.str();
  }
  SocketPath socket_;
  std::string address_, token_;
  ChildProcess child_;
  int input_ = -1;
};

// Which devices of the architecture there are, and who has them, as text for people.
std::string waiting_text(const rpc::DevicesReply& state, const std::string& architecture) {
  constexpr int kMostNamed = 3;
  std::string taken;
  int count = 0;
  for (const rpc::DeviceState& device : state.devices()) {
    if (device.device().architecture() != architecture || ++count > kMostNamed) continue;
    taken += text(taken.empty() ? "" : ", ", "'", rpc::printable(device.device().name(), 64), "' is ",
                  device.state());
    if (device.state() != "leased") continue;
    const std::string client = rpc::printable(device.client(), 100);
    taken += text(" by ", client.empty() ? "someone" : client, " since ", std::lround(device.lease_seconds()),
                  " s");
  }
  if (count > kMostNamed) taken += text(" and ", count - kMostNamed, " more");
  if (count == 0) taken = "the tracker has none of " + architecture;
  return text("waiting for a device: ", taken, "; clients that wait: ", state.counters().waiting());
}

// Acquires a device, and tells every two seconds what is waited for.
std::unique_ptr<LeasedDevice> acquire_telling(TrackerClient& tracker, const DeviceRequest& wanted,
                                              const Tell& tell) {
  constexpr std::chrono::milliseconds kStep(100), kBetween(2000);
  const std::function<void()> nothing = [] {};
  const LookingAround quiet(nothing);  // what is told here also tells of a lost tracker
  std::atomic<bool> stop = false;
  std::future<std::unique_ptr<LeasedDevice>> acquired = std::async(std::launch::async, [&] {
    const Helping helping(stop);
    return tracker.acquire(wanted);
  });
  try {
    auto next = std::chrono::steady_clock::now() + kBetween;
    while (acquired.wait_for(kStep) != std::future_status::ready) {
      interruption_point();
      if (std::chrono::steady_clock::now() < next) continue;
      next = std::chrono::steady_clock::now() + kBetween;
      const std::optional<rpc::DevicesReply> state = tracker.look();
      tell(state ? "waiting" : "silent",
           state ? waiting_text(*state, wanted.architecture)
                 : text("waiting for a device: the tracker at ", tracker.address(),
                        " does not answer; tuning goes on if it does within ",
                        std::lround(tracker.patience()), " s"));
    }
  } catch (...) {
    stop = true;
    acquired.wait();
    throw;
  }
  return acquired.get();
}

}  // namespace

std::shared_ptr<TrackerClient> tracker_of(const TuneRequest& request, const Target& target) {
  if (request.tracker.empty() || !target.has_runtime) return nullptr;
  return std::make_shared<TrackerClient>(request.tracker, request.credentials);
}

OpenDevice device_opener(const TuneRequest& request, const std::shared_ptr<TrackerClient>& tracker,
                         const Target& target, double most_wait, const Tell& tell) {
  if (!target.has_runtime)
    fail(ErrorKind::Target, "cannot tune for target ", target.name,
         ": an agent, which measures schedules, needs an operating system with addresses of "
         "64 bits; compile without tuning");
  if (!tracker) {
    std::string why;
    if (!runs_here(target, &why))
      fail(
          ErrorKind::Target, "code for ", target.name, " does not run on this machine (", why,
          "): to tune for it, start a tracker and an agent on a board and give tracker=\"host:port\" (docs/tuning.md)");
    auto agent = std::make_shared<OwnAgent>(request.programs + "/tc-agent", request.work_folder);
    // There is one device: this machine measures one batch at a time.
    return [agent](bool first) { return first ? agent->connect() : std::unique_ptr<LeasedDevice>(); };
  }
  DeviceRequest wanted;
  wanted.target = target.name;
  wanted.architecture = architecture_of(target);
  wanted.priority = request.priority;
  wanted.features = split_words(default_backend().features(target));
  auto key = std::make_shared<std::string>();
  const double wait = std::min(most_wait, kFirstDeviceSeconds);
  return [tracker, wanted, key, tell, wait](bool first) -> std::unique_ptr<LeasedDevice> {
    DeviceRequest like_first = wanted;
    like_first.device_key = *key;  // only times of the same kind of device as the first are compared
    like_first.wait_seconds = first ? wait : 0;
    for (int attempt = 0;; ++attempt) {
      try {
        auto device = first ? acquire_telling(*tracker, like_first, tell) : tracker->acquire(like_first);
        if (key->empty()) *key = device->info().key();
        return device;
      } catch (const DeviceLost&) {
        if (attempt == kMaxAcquires) throw;
      }
    }
  };
}

void TrackerWatch::look() {
  if (!tracker_) return;
  double silent = tracker_->silence();
  if (silent > 0 && told_ > 0 && silent >= told_ + 2 && tracker_->look()) silent = 0;
  if (silent == 0) {
    if (told_ > 0) tell_("back", text("the tracker at ", tracker_->address(), " answers again"));
    told_ = 0;
  } else if (silent >= told_ + 2) {
    told_ = silent;
    tell_("silent", text("the tracker at ", tracker_->address(), " has not answered for ",
                         std::lround(silent), " s; tuning goes on if it answers soon"));
  }
}

}  // namespace tc
