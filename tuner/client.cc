#include "tuner/client.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

#include <unistd.h>

#include "ir/interrupt.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/fields.h"
#include "runtime/rpc/keyring.h"
#include "runtime/rpc/log.h"
#include "runtime/rpc/tc_rpc.grpc.pb.h"
#include "runtime/rpc/version.h"
#include "tuner/agent_device.h"
#include "tuner/answers.h"

namespace tc {
namespace {

using Seconds = std::chrono::duration<double>;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kInsecure = "insecure://";
constexpr double kCallSeconds = 10;
// While a device is leased, the tracker is asked so often, and is silent where it has not answered for so
// long: a user is told of a lost tracker within three seconds.
constexpr std::chrono::milliseconds kPulse(1000), kSilence(1500);
// For a look at the tracker while a client waits for a device.
constexpr double kLookSeconds = 0.9;

// "ann@host:PID": who holds the lease, for people to read.
std::string client_name() {
  char host[65] = "";
  gethostname(host, sizeof host - 1);
  const char* user = std::getenv("USER");
  return std::string(user ? user : "tc") + "@" + host + ":" + std::to_string(getpid());
}

// Address and credentials for a tracker that is written as "[insecure://]HOST:PORT".
std::pair<rpc::Address, rpc::Credentials> parse_tracker(const std::string& text, const std::string& folder) {
  return as_device_error([&] {
    const bool insecure = text.compare(0, std::string(kInsecure).size(), kInsecure) == 0;
    const rpc::Address address =
        rpc::parse_address(insecure ? text.substr(std::string(kInsecure).size()) : text, rpc::kTrackerPort);
    return std::pair(address, insecure ? rpc::insecure_credentials(address)
                                       : rpc::load_credentials(folder, rpc::Role::Client));
  });
}

}  // namespace

struct TrackerClient::Connection {
  Connection(const rpc::Address& tracker, const rpc::Credentials& credentials, double patience)
      : address(tracker),
        patience_seconds(patience),
        keyring(as_device_error([&] { return std::make_unique<rpc::Keyring>(credentials); })) {}

  // The tracker's stub, made anew where the files of the credentials have changed.
  std::shared_ptr<rpc::Tracker::Stub> stub() {
    const int64_t generation = keyring->generation();
    const std::lock_guard lock(mutex);
    if (!present || generation != stub_generation) {
      present = rpc::Tracker::NewStub(rpc::make_channel(address, keyring->now(), rpc::Role::Tracker));
      stub_generation = generation;
    }
    return present;
  }

  // Around each call that the tracker is to answer at once.
  void ask() {
    const std::lock_guard lock(pulse_mutex);
    if (!unanswered) unanswered = SteadyClock::now();
  }
  void hear(const grpc::Status& status) {
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)
      return;
    const std::lock_guard lock(pulse_mutex);
    unanswered.reset();
    heard = SteadyClock::now();
  }
  bool was_heard_lately() {
    const std::lock_guard lock(pulse_mutex);
    return SteadyClock::now() - heard < kPulse * 0.9;
  }
  double silence() {
    const std::lock_guard lock(pulse_mutex);
    const SteadyClock::time_point now = SteadyClock::now();
    return unanswered && now - *unanswered > kSilence ? Seconds(now - heard).count() : 0;
  }

  // Repeats the call while the tracker, once it has been reached, is away, for at most `patience` seconds.
  template <class Call>
  grpc::Status call(double seconds, double patience, const Call& one_call) {
    const SteadyClock::time_point start = SteadyClock::now();
    while (true) {
      grpc::ClientContext context;
      rpc::set_deadline(context, seconds);
      const auto present_stub = stub();
      const grpc::Status status = answer_of(context, [&] { return one_call(*present_stub, context); });
      if (status.ok()) {
        reached = true;
        hear(status);
        see_who_answered(context);
      }
      const bool away = status.error_code() == grpc::StatusCode::UNAVAILABLE;
      if (!away || !reached || SteadyClock::now() - start > Seconds(patience)) return status;
      for (int i = 0; i < 10; ++i) {
        interruption_point();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
  }

  void see_who_answered(const grpc::ClientContext& context) {
    const rpc::Credentials credentials = keyring->now();
    if (credentials.insecure) return;
    const std::string problem = as_device_error(
        [&] { return rpc::server_problem(*context.auth_context(), credentials, rpc::Role::Tracker, ""); });
    if (!problem.empty())
      fail(ErrorKind::Device, "the tracker at ", address.text(), " is not to be trusted: ", problem);
  }

  [[noreturn]] void refuse(const grpc::Status& status) const {
    // With these codes the message is the tracker's own sentence and needs no explanation.
    const bool own_words = status.error_code() == grpc::StatusCode::NOT_FOUND ||
                           status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
    fail(ErrorKind::Device,
         own_words ? "tracker " + address.text() + ": " + rpc::printable(status.error_message(), 4000)
                   : rpc::explain(status, "the tracker", address, keyring->now()));
  }

  const rpc::Address address;
  const double patience_seconds;
  const std::unique_ptr<rpc::Keyring> keyring;
  std::atomic<bool> reached{false};
  std::mutex mutex;  // guards the two below
  std::shared_ptr<rpc::Tracker::Stub> present;
  int64_t stub_generation = 0;
  std::mutex pulse_mutex;                              // guards the two below
  std::optional<SteadyClock::time_point> unanswered;   // since when the tracker owes an answer
  SteadyClock::time_point heard = SteadyClock::now();  // when it answered last
};

class TrackerClient::Device : public AgentDevice {
 public:
  Device(std::shared_ptr<Connection> connection, const rpc::Lease& lease, rpc::Address address)
      : AgentDevice(std::move(address), connection->keyring->now(), lease.token()),
        connection_(std::move(connection)),
        ttl_ms_(lease.ttl_ms()) {
    // From here on the destructor runs, and gives the lease back whatever happens.
    renewer_ = std::thread([this] { renew(); });
  }

  ~Device() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    renewer_.join();
    if (lost_) return;
    grpc::ClientContext context;
    rpc::set_deadline(context, 2);
    rpc::LeaseName name;
    name.set_token(token_);
    rpc::Empty empty;
    connection_->stub()->Release(&context, name, &empty);
  }

  void report_failure(const std::string& reason, bool unfit) override {
    grpc::ClientContext context;
    rpc::set_deadline(context, 2);
    rpc::FailureReport report;
    report.set_token(token_);
    report.set_reason(rpc::printable(reason, 200));
    report.set_unfit(unfit);
    rpc::Empty empty;
    connection_->stub()->ReportFailure(&context, report, &empty);
  }

 private:
  // Renews the lease three times within its length, and so often that the tracker is heard at each pulse. A
  // tracker that cannot be reached is asked again until the lease ends.
  void renew() {
    std::unique_lock lock(mutex_);
    const auto third = std::chrono::milliseconds(std::clamp(ttl_ms_ / 3, 10, 10000));
    const auto pause = std::min(third, kPulse);
    SteadyClock::time_point renewed_at = SteadyClock::now();
    SteadyClock::time_point end = renewed_at + std::chrono::milliseconds(ttl_ms_);
    while (!wake_.wait_for(lock, pause, [&] { return stop_; })) {
      // Another device's renewal may have shown that the tracker answers.
      if (SteadyClock::now() - renewed_at + pause < third && connection_->was_heard_lately()) continue;
      lock.unlock();
      grpc::ClientContext context;
      rpc::set_deadline(context, std::max(0.1, ttl_ms_ / 3000.0));
      rpc::LeaseName name;
      name.set_token(token_);
      rpc::Lease renewed;
      connection_->ask();
      const grpc::Status status = connection_->stub()->Renew(&context, name, &renewed);
      connection_->hear(status);
      lock.lock();
      if (status.ok()) {
        renewed_at = SteadyClock::now();
        end = renewed_at + std::chrono::milliseconds(renewed.ttl_ms());
      }
      if (status.error_code() == grpc::StatusCode::NOT_FOUND || SteadyClock::now() > end) {
        lose(status.error_code() == grpc::StatusCode::NOT_FOUND ? rpc::printable(status.error_message(), 400)
                                                                : "");
        return;
      }
    }
  }

  const std::shared_ptr<Connection> connection_;
  const int ttl_ms_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread renewer_;
};

TrackerClient::TrackerClient(const std::string& address, const std::string& credentials,
                             double patience_seconds) {
  rpc::silence_grpc();
  const auto [where, own] = parse_tracker(address, credentials);
  connection_ = std::make_shared<Connection>(where, own, patience_seconds);
}

TrackerClient::~TrackerClient() = default;

std::string TrackerClient::warning() const { return rpc::expiry_warning(connection_->keyring->now()); }

rpc::DevicesReply TrackerClient::state() {
  rpc::DevicesRequest request;
  *request.mutable_version() = rpc::own_version();
  rpc::DevicesReply reply;
  const grpc::Status status = connection_->call(kCallSeconds, connection_->patience_seconds,
                                                [&](rpc::Tracker::Stub& stub, grpc::ClientContext& context) {
                                                  return stub.Devices(&context, request, &reply);
                                                });
  if (!status.ok()) connection_->refuse(status);
  return reply;
}

std::optional<rpc::DevicesReply> TrackerClient::look() {
  rpc::DevicesRequest request;
  *request.mutable_version() = rpc::own_version();
  rpc::DevicesReply reply;
  grpc::ClientContext context;
  rpc::set_deadline(context, kLookSeconds);
  const auto stub = connection_->stub();
  const grpc::Status status = answer_of(context, [&] { return stub->Devices(&context, request, &reply); });
  if (!status.ok()) return std::nullopt;
  connection_->reached = true;
  connection_->hear(status);
  return reply;
}

double TrackerClient::silence() const { return connection_->silence(); }

std::string TrackerClient::address() const { return connection_->address.text(); }

double TrackerClient::patience() const { return connection_->patience_seconds; }

std::vector<rpc::DeviceState> TrackerClient::devices() {
  const rpc::DevicesReply reply = state();
  return {reply.devices().begin(), reply.devices().end()};
}

std::unique_ptr<LeasedDevice> TrackerClient::acquire(const DeviceRequest& wanted) {
  rpc::AcquireRequest request;
  *request.mutable_version() = rpc::own_version();
  request.set_target(wanted.target);
  request.set_architecture(wanted.architecture);
  for (const std::string& feature : wanted.features) request.add_features(feature);
  request.set_runner(wanted.runner);
  request.set_device_key(wanted.device_key);
  request.set_wait_ms(static_cast<int>(std::clamp(wanted.wait_seconds, 0.0, 600.0) * 1000));
  request.set_client(client_name());
  request.set_priority(wanted.priority);
  rpc::Lease lease;
  // Who does not wait for a device does not wait for the tracker either.
  const double patience = wanted.wait_seconds > 0 ? connection_->patience_seconds : 0;
  const grpc::Status status = connection_->call(kCallSeconds + wanted.wait_seconds, patience,
                                                [&](rpc::Tracker::Stub& stub, grpc::ClientContext& context) {
                                                  return stub.Acquire(&context, request, &lease);
                                                });
  if (!status.ok()) connection_->refuse(status);
  const std::string problem = rpc::device_problem(lease.device());
  if (!problem.empty()) fail(ErrorKind::Device, "the tracker's device is malformed: ", problem);
  const rpc::Address address = as_device_error([&] {
    const rpc::Address parsed = rpc::parse_address(lease.device().address());
    if (connection_->keyring->insecure()) rpc::insecure_credentials(parsed);
    return parsed;
  });
  auto device = std::make_unique<Device>(connection_, lease, address);
  try {
    device->greet(lease.device());
  } catch (const Error& error) {
    device->report_failure(error.what(), false);
    throw;
  }
  return device;
}

}  // namespace tc
