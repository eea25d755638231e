// A real tracker under the load of a lab: boards that give signs of life, clients that lease and release,
// clients that wait, and someone who lists the devices. TC_FLEET_BOARDS and TC_FLEET_SECONDS make it larger
// and longer.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/rpc/fleet.h"

namespace tc::rpc {
namespace {

using Time = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

Time now() { return std::chrono::steady_clock::now(); }

int number_of(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}

// The program, and what its process takes.
class TrackerProgram {
 public:
  TrackerProgram() { start("127.0.0.1:0"); }
  ~TrackerProgram() { stop(SIGTERM); }
  // Killed, and started anew at the same address.
  void replace() {
    stop(SIGKILL);
    start(address_.text());
  }
  void start(const std::string& listen) {
    int out[2];
    if (pipe(out) != 0) throw std::runtime_error("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      const char* program = "runtime/tracker/tc-tracker";
      execl(program, program, "--insecure", "--listen", listen.c_str(), nullptr);
      _exit(127);
    }
    close(out[1]);
    std::string said;
    for (char c; said.find(" (") == std::string::npos && read(out[0], &c, 1) == 1;) said += c;
    out_ = out[0];
    const size_t at = said.find("listens at ");
    if (at == std::string::npos) throw std::runtime_error("the tracker did not start: " + said);
    address_ = parse_address(said.substr(at + 11, said.find(" (") - at - 11));
  }
  void stop(int signal) {
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    close(out_);
  }
  const Address& address() const { return address_; }
  int megabytes() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(file, line);)
      if (line.rfind("VmRSS:", 0) == 0) return std::atoi(line.c_str() + 6) / 1024;
    return -1;
  }
  int descriptors() const {
    const std::filesystem::directory_iterator folder("/proc/" + std::to_string(pid_) + "/fd");
    return static_cast<int>(std::distance(begin(folder), end(folder)));
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  Address address_;
};

// Milliseconds that calls took, and how many failed.
class Calls {
 public:
  void add(Time begin, const grpc::Status& status) {
    const double took = std::chrono::duration<double, std::milli>(now() - begin).count();
    const std::lock_guard lock(mutex_);
    took_.push_back(took);
    if (status.ok()) return;
    ++failed_;
    if (problem_.empty()) problem_ = status.error_message();
  }
  double percentile(double share) const {
    const std::lock_guard lock(mutex_);
    if (took_.empty()) return 0;
    std::vector<double> sorted = took_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[std::min(sorted.size() - 1,
                           static_cast<size_t>(share * static_cast<double>(sorted.size())))];
  }
  size_t count() const {
    const std::lock_guard lock(mutex_);
    return took_.size();
  }
  int failed() const { return failed_; }
  std::string text(const char* name) const {
    return std::string(name) + ": " + std::to_string(count()) + " calls, " + std::to_string(failed_) +
           " failed " + problem_ + ", 50 % within " + std::to_string(percentile(0.5)) + " ms, 99 % within " +
           std::to_string(percentile(0.99)) + " ms\n";
  }

 private:
  mutable std::mutex mutex_;
  std::vector<double> took_;
  int failed_ = 0;
  std::string problem_;
};

// A call of its own memory, which ends with its answer.
template <class Request, class Reply>
struct Asked {
  grpc::ClientContext context;
  Request request;
  Reply reply;
};

class Lab {
 public:
  Lab(int boards, int waiting) : boards_(boards), waiting_(waiting) {
    // Each board has a connection of its own, as agents have.
    const Credentials credentials = insecure_credentials(tracker_.address());
    for (int i = 0; i < boards; ++i) stubs_.push_back(stub_for(tracker_.address(), credentials));
    for (int i = 0; i < kClients; ++i) clients_.push_back(stub_for(tracker_.address(), credentials));
  }

  // Seconds until the tracker has all boards, each of which tries every two seconds, as agents do at most.
  double join() {
    const Time begin = now();
    for (int i = 0; now() < begin + std::chrono::minutes(2); ++i) {
      beat(i % boards_, joining_);
      std::this_thread::sleep_until(begin + i * milliseconds(2000) / boards_);
      if (i % boards_ != boards_ - 1) continue;
      settle();
      DevicesRequest request;
      *request.mutable_version() = wish().version();
      DevicesReply reply;
      call(*clients_[1], &Tracker::Stub::Devices, request, &reply);
      if (reply.devices_size() == boards_) break;
    }
    return std::chrono::duration<double>(now() - begin).count();
  }

  // All boards of the second kind are leased, and clients wait for one.
  void fill() {
    for (int i = 0; i < boards_ / 10; ++i) {
      Lease lease;
      const grpc::Status status = call(*clients_[0], &Tracker::Stub::Acquire, second_kind(0), &lease);
      ASSERT_TRUE(status.ok()) << status.error_message();
      held_.push_back(lease.token());
    }
    for (int i = 0; i < waiting_; ++i) wait_for_one(i);
  }

  void run(int seconds) {
    const Time begin = now(), end = begin + std::chrono::seconds(seconds);
    Time beats = begin, leases = begin, renewals = begin, lists = begin;
    int board = 0, lease = 0;
    size_t held = 0;
    const auto every = [](Time& next, double rate) {
      next += std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(1 / rate));
    };
    while (now() < end) {
      // A sign of life of each board in two seconds, and a hundred leases a second.
      for (; beats <= now(); every(beats, boards_ / 2.0)) beat(board++ % boards_, beats_);
      for (; leases <= now(); every(leases, 100)) lease_and_release(lease++);
      for (; renewals <= now(); every(renewals, static_cast<double>(held_.size()) / 3))
        renew(held_[held++ % held_.size()]);
      for (; lists <= now(); every(lists, 1)) list();
      std::this_thread::sleep_for(milliseconds(1));
    }
    settle();
  }

  // Ends what is under way.
  void close() {
    for (const auto& waiting : waiters_) waiting->context.TryCancel();
    settle_all();
  }

  TrackerProgram tracker_;
  Calls joining_, beats_, acquires_, lists_, renewals_, waits_;

 private:
  static constexpr int kClients = 16;

  static AcquireRequest second_kind(int wait_ms) {
    AcquireRequest request = wish(wait_ms);
    request.add_features("zfh");
    return request;
  }

  template <class Request, class Reply>
  std::shared_ptr<Asked<Request, Reply>> asked() {
    auto call = std::make_shared<Asked<Request, Reply>>();
    set_deadline(call->context, 10);
    ++under_way_;
    return call;
  }

  void beat(int i, Calls& calls) {
    const auto call = asked<AnnounceRequest, AnnounceReply>();
    // A tenth has a feature more, and is never free.
    call->request = announcement("board" + std::to_string(i), "one", "riscv64",
                                 i % 10 == 0 ? "v zvl128b zfh" : "v zvl128b d");
    const Time begin = now();
    stubs_[static_cast<size_t>(i)]->async()->Announce(
        &call->context, &call->request, &call->reply,
        [this, call, begin, &calls](const grpc::Status& status) {
          calls.add(begin, status);
          --under_way_;
        });
  }

  void lease_and_release(int number) {
    Tracker::Stub& stub = *clients_[static_cast<size_t>(number % kClients)];
    const auto call = asked<AcquireRequest, Lease>();
    call->request = wish(0, "client" + std::to_string(number % 40) + "@desk");
    call->request.add_features("d");
    const Time begin = now();
    stub.async()->Acquire(&call->context, &call->request, &call->reply,
                          [this, call, begin, &stub](const grpc::Status& status) {
                            acquires_.add(begin, status);
                            if (status.ok()) release(stub, call->reply.token());
                            --under_way_;
                          });
  }

  void release(Tracker::Stub& stub, const std::string& token) {
    const auto call = asked<LeaseName, Empty>();
    call->request.set_token(token);
    stub.async()->Release(&call->context, &call->request, &call->reply,
                          [this, call](const grpc::Status&) { --under_way_; });
  }

  void renew(const std::string& token) {
    const auto call = asked<LeaseName, Lease>();
    call->request.set_token(token);
    const Time begin = now();
    clients_[0]->async()->Renew(&call->context, &call->request, &call->reply,
                                [this, call, begin](const grpc::Status& status) {
                                  renewals_.add(begin, status);
                                  --under_way_;
                                });
  }

  void list() {
    const auto call = asked<DevicesRequest, DevicesReply>();
    *call->request.mutable_version() = wish().version();
    const Time begin = now();
    clients_[1]->async()->Devices(&call->context, &call->request, &call->reply,
                                  [this, call, begin](const grpc::Status& status) {
                                    lists_.add(begin, status);
                                    --under_way_;
                                  });
  }

  void wait_for_one(int number) {
    const auto call = std::make_shared<Asked<AcquireRequest, Lease>>();
    set_deadline(call->context, 1000);
    call->request = second_kind(600000);
    call->request.set_client("waiting" + std::to_string(number) + "@desk");
    const Time begin = now();
    ++waiting_now_;
    waiters_.push_back(call);
    clients_[static_cast<size_t>(number % kClients)]->async()->Acquire(
        &call->context, &call->request, &call->reply, [this, call, begin](const grpc::Status& status) {
          waits_.add(begin, status);
          --waiting_now_;
        });
  }

  void settle() {
    while (under_way_ > 0) std::this_thread::sleep_for(milliseconds(5));
  }
  void settle_all() {
    settle();
    while (waiting_now_ > 0) std::this_thread::sleep_for(milliseconds(5));
  }

  const int boards_, waiting_;
  std::vector<std::unique_ptr<Tracker::Stub>> stubs_, clients_;
  std::vector<std::string> held_;
  std::vector<std::shared_ptr<Asked<AcquireRequest, Lease>>> waiters_;
  std::atomic<int> under_way_ = 0, waiting_now_ = 0;
};

TEST(FleetLoad, ATrackerServesALab) {
  const int boards = number_of("TC_FLEET_BOARDS", 200), seconds = number_of("TC_FLEET_SECONDS", 8);
  Lab lab(boards, 200);
  std::printf("all boards joined within %.1f s\n", lab.join());
  lab.fill();
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  lab.run(std::max(2, seconds / 4));
  const int memory = lab.tracker_.megabytes(), descriptors = lab.tracker_.descriptors();
  lab.run(seconds);
  const int memory_now = lab.tracker_.megabytes(), descriptors_now = lab.tracker_.descriptors();
  std::printf("%s%s%s%s%d MB, then %d MB; %d descriptors, then %d\n", lab.beats_.text("heartbeats").c_str(),
              lab.acquires_.text("leases").c_str(), lab.renewals_.text("renewals").c_str(),
              lab.lists_.text("lists").c_str(), memory, memory_now, descriptors, descriptors_now);
  EXPECT_EQ(lab.waits_.count(), 0u) << "those who wait go on waiting";
  EXPECT_EQ(lab.beats_.failed(), 0);
  EXPECT_EQ(lab.acquires_.failed(), 0);
  EXPECT_EQ(lab.renewals_.failed(), 0);
  EXPECT_EQ(lab.lists_.failed(), 0);
  EXPECT_LT(memory_now, 200);
  EXPECT_LE(memory_now, memory + 16);
  EXPECT_LE(descriptors_now, descriptors + 8);
  // On a machine at rest a hundredth of these; here other tests may run beside.
  EXPECT_LT(lab.acquires_.percentile(0.5), 100);
  EXPECT_LT(lab.lists_.percentile(0.5), 100);
  lab.close();
  EXPECT_EQ(lab.waits_.count(), 200u);
  lab.tracker_.replace();
  const double back = lab.join();
  std::printf("a tracker started anew had them after %.1f s\n", back);
  EXPECT_LT(back, 30);
}

}  // namespace
}  // namespace tc::rpc
