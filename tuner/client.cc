#include "tuner/client.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

#include <unistd.h>

#include "runtime/rpc/channel.h"
#include "runtime/rpc/fields.h"
#include "runtime/rpc/log.h"
#include "runtime/rpc/tc_rpc.grpc.pb.h"
#include "runtime/rpc/version.h"

namespace tc {
namespace {

using Seconds = std::chrono::duration<double>;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kInsecure = "insecure://";
constexpr double kCallSeconds = 10;
constexpr int64_t kMostFileBytes = 64 << 20;
constexpr int kMostNamesPerCall = 4096;
// Slower links than this, in bytes a second, count as broken.
constexpr double kSlowestLink = 1e5;

// "ann@host": who leases, for people.
std::string client_name() {
  char host[65] = "";
  gethostname(host, sizeof host - 1);
  const char* user = std::getenv("USER");
  return std::string(user ? user : "tc") + "@" + host + ":" + std::to_string(getpid());
}

// Calls std::runtime_error's of the wire library by our own kind.
template <class Function>
auto as_device_error(const Function& function) -> decltype(function()) {
  try {
    return function();
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    fail(ErrorKind::Device, error.what());
  }
}

// The channel's credentials and address of "[insecure://]HOST:PORT".
std::pair<rpc::Address, rpc::Credentials> parse_tracker(const std::string& text,
                                                        const std::string& folder) {
  return as_device_error([&] {
    const bool insecure = text.compare(0, std::string(kInsecure).size(), kInsecure) == 0;
    const rpc::Address address = rpc::parse_address(
        insecure ? text.substr(std::string(kInsecure).size()) : text, rpc::kTrackerPort);
    return std::pair(address, insecure ? rpc::insecure_credentials(address)
                                       : rpc::load_credentials(folder, rpc::Role::Client));
  });
}

std::string result_problem(const rpc::MeasureResult& result, std::vector<bool>& seen) {
  if (result.candidate() < 0 || static_cast<size_t>(result.candidate()) >= seen.size())
    return "a result of candidate " + std::to_string(result.candidate()) + ", which there is not";
  if (seen[static_cast<size_t>(result.candidate())]) return "two results of one candidate";
  seen[static_cast<size_t>(result.candidate())] = true;
  if (!rpc::Outcome_IsValid(result.outcome())) return "an outcome that is none";
  if (result.outcome() == rpc::OK && result.samples().empty()) return "no sample of a good candidate";
  for (const double sample : result.samples())
    if (!std::isfinite(sample) || sample <= 0) return "a sample that is no positive number";
  return "";
}

}  // namespace

struct TrackerClient::Connection {
  rpc::Address address;
  rpc::Credentials credentials;
  double patience_seconds = 0;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<rpc::Tracker::Stub> stub;
  std::atomic<bool> reached{false};

  // Calls until it works or the tracker cannot be reached for as long as patience goes.
  template <class Call>
  grpc::Status call(double seconds, const Call& one_call) {
    const SteadyClock::time_point start = SteadyClock::now();
    while (true) {
      grpc::ClientContext context;
      rpc::set_deadline(context, seconds);
      const grpc::Status status = one_call(context);
      if (status.ok()) reached = true;
      const bool away = status.error_code() == grpc::StatusCode::UNAVAILABLE;
      if (!away || !reached || SteadyClock::now() - start > Seconds(patience_seconds))
        return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }

  [[noreturn]] void refuse(const grpc::Status& status) const {
    // What a tracker says itself names it already.
    const bool own_words = status.error_code() == grpc::StatusCode::NOT_FOUND ||
                           status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
    fail(ErrorKind::Device,
         own_words ? "tracker " + address.text() + ": " + rpc::printable(status.error_message(), 4000)
                   : rpc::explain(status, "the tracker", address, credentials));
  }
};

class TrackerClient::Device : public LeasedDevice {
 public:
  Device(std::shared_ptr<Connection> connection, rpc::Lease lease)
      : connection_(std::move(connection)), lease_(std::move(lease)) {
    // From here on the lease is given back whatever happens.
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
    name.set_token(lease_.token());
    rpc::Empty empty;
    connection_->stub->Release(&context, name, &empty);
  }

  // Connects to the agent and sees that it is the one that was leased.
  void greet() {
    as_device_error([&] {
      const std::string problem = rpc::device_problem(lease_.device());
      if (!problem.empty()) fail(ErrorKind::Device, "the tracker's device is malformed: ", problem);
      address_ = rpc::parse_address(lease_.device().address());
      if (connection_->credentials.insecure) rpc::insecure_credentials(address_);
    });
    stub_ = rpc::Agent::NewStub(
        rpc::make_channel(address_, connection_->credentials, rpc::Role::Agent));
    rpc::HelloRequest request;
    *request.mutable_version() = rpc::own_version();
    rpc::HelloReply reply;
    call(kCallSeconds, [&](grpc::ClientContext& context) {
      return stub_->Hello(&context, request, &reply);
    });
    const std::string problem =
        rpc::version_problem(reply.version(), "this program", name());
    if (!problem.empty()) fail(ErrorKind::Device, problem);
    if (reply.device().name() != info().name() || reply.device().key() != info().key())
      throw DeviceLost(name() + " at " + address_.text() + " is now another device, '" +
                       rpc::printable(reply.device().name(), 64) + "'");
  }

  const rpc::DeviceInfo& info() const override { return lease_.device(); }
  bool lost() const override { return lost_; }

  void upload(const std::vector<RemoteFile>& files) override {
    rpc::FileList wanted, missing;
    for (size_t begin = 0; begin < files.size(); begin += kMostNamesPerCall) {
      wanted.clear_sha256();
      wanted.set_token(lease_.token());
      const size_t end = std::min(files.size(), begin + kMostNamesPerCall);
      for (size_t i = begin; i < end; ++i) wanted.add_sha256(files[i].sha256);
      rpc::FileList part;
      call(kCallSeconds, [&](grpc::ClientContext& context) {
        return stub_->Missing(&context, wanted, &part);
      });
      for (const std::string& hash : part.sha256()) missing.add_sha256(hash);
    }
    for (const std::string& hash : missing.sha256()) {
      const auto file = std::find_if(files.begin(), files.end(), [&](const RemoteFile& candidate) {
        return candidate.sha256 == hash;
      });
      if (file == files.end())
        throw DeviceLost(name() + " asks for a file that it was not told of");
      send(*file);
    }
  }

  void measure(rpc::MeasureRequest request,
               const std::function<void(const rpc::MeasureResult&)>& on_result) override {
    request.set_token(lease_.token());
    const size_t count = static_cast<size_t>(request.executables_size());
    std::vector<bool> seen(count, false);
    const double seconds = 30 + static_cast<double>(count) * (request.timeout_seconds() + 1);
    std::string broken;
    call(seconds, [&](grpc::ClientContext& context) {
      const auto reader = stub_->Measure(&context, request);
      rpc::MeasureResult result;
      while (reader->Read(&result)) {
        broken = result_problem(result, seen);
        if (!broken.empty()) {
          context.TryCancel();
          break;
        }
        on_result(result);
      }
      while (!broken.empty() && reader->Read(&result)) {}
      const grpc::Status status = reader->Finish();
      return broken.empty() ? status : grpc::Status::OK;
    });
    if (broken.empty() && std::count(seen.begin(), seen.end(), false) > 0)
      broken = "no result of some candidates";
    if (!broken.empty()) throw DeviceLost(name() + " answered with " + broken);
  }

  void cancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (running_) running_->TryCancel();
  }

  void report_failure(const std::string& reason) override {
    grpc::ClientContext context;
    rpc::set_deadline(context, 2);
    rpc::FailureReport report;
    report.set_token(lease_.token());
    report.set_reason(rpc::printable(reason, 200));
    rpc::Empty empty;
    connection_->stub->ReportFailure(&context, report, &empty);
  }

 private:
  std::string name() const { return "the agent '" + info().name() + "'"; }

  // One call to the agent. What it refuses for the request's own sake is a Device error; all else
  // means that the device cannot go on.
  template <class Call>
  void call(double seconds, const Call& one_call) {
    grpc::ClientContext context;
    rpc::set_deadline(context, seconds);
    {
      const std::lock_guard lock(mutex_);
      if (cancelled_) throw DeviceLost("cancelled");
      running_ = &context;
    }
    // Also where the callback throws, nobody cancels what is gone.
    const std::shared_ptr<void> end(nullptr, [&](void*) {
      const std::lock_guard lock(mutex_);
      running_ = nullptr;
    });
    const grpc::Status status = one_call(context);
    if (status.ok()) return;
    if (status.error_code() == grpc::StatusCode::CANCELLED) throw DeviceLost("cancelled");
    const std::string text =
        rpc::explain(status, name(), address_, connection_->credentials);
    if (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT ||
        status.error_code() == grpc::StatusCode::FAILED_PRECONDITION)
      fail(ErrorKind::Device, text);
    throw DeviceLost(text);
  }

  void send(const RemoteFile& file) {
    std::ifstream stream;
    int64_t total = static_cast<int64_t>(file.bytes.size());
    if (!file.path.empty()) {
      stream.open(file.path, std::ios::binary | std::ios::ate);
      if (!stream) fail(ErrorKind::Device, file.path, " cannot be read");
      total = static_cast<int64_t>(stream.tellg());
      stream.seekg(0);
    }
    if (total > kMostFileBytes)
      fail(ErrorKind::Device, "a file of ", total, " bytes is too large for a device, which takes ",
           kMostFileBytes);
    bool complete = true;
    call(30 + static_cast<double>(total) / kSlowestLink, [&](grpc::ClientContext& context) {
      rpc::Empty empty;
      const auto writer = stub_->Upload(&context, &empty);
      rpc::Chunk chunk;
      chunk.set_token(lease_.token());
      chunk.set_sha256(file.sha256);
      chunk.set_total_bytes(total);
      int64_t sent = 0;
      do {
        const int64_t size = std::min<int64_t>(rpc::kMostChunkBytes, total - sent);
        std::string* data = chunk.mutable_data();
        data->resize(static_cast<size_t>(size));
        if (file.path.empty())
          data->assign(file.bytes, static_cast<size_t>(sent), static_cast<size_t>(size));
        else if (!stream.read(data->data(), size))
          complete = false;
        if (!complete || !writer->Write(chunk)) break;
        sent += size;
        chunk.Clear();
      } while (sent < total);
      if (!complete) context.TryCancel();
      writer->WritesDone();
      const grpc::Status status = writer->Finish();
      return complete ? status : grpc::Status::OK;
    });
    if (!complete) fail(ErrorKind::Device, file.path, " became shorter while it was sent");
  }

  // Renews three times a lease's length; a tracker that is away is asked again until the lease ends.
  void renew() {
    std::unique_lock lock(mutex_);
    SteadyClock::time_point end = SteadyClock::now() + std::chrono::milliseconds(lease_.ttl_ms());
    auto pause = std::chrono::milliseconds(std::clamp(lease_.ttl_ms() / 3, 10, 10000));
    while (!wake_.wait_for(lock, pause, [&] { return stop_; })) {
      lock.unlock();
      grpc::ClientContext context;
      rpc::set_deadline(context, std::max(0.1, lease_.ttl_ms() / 3000.0));
      rpc::LeaseName name;
      name.set_token(lease_.token());
      rpc::Lease renewed;
      const grpc::Status status = connection_->stub->Renew(&context, name, &renewed);
      lock.lock();
      if (status.ok()) end = SteadyClock::now() + std::chrono::milliseconds(renewed.ttl_ms());
      if (status.error_code() == grpc::StatusCode::NOT_FOUND || SteadyClock::now() > end) {
        lost_ = true;
        return;
      }
    }
  }

  const std::shared_ptr<Connection> connection_;
  const rpc::Lease lease_;
  rpc::Address address_;
  std::unique_ptr<rpc::Agent::Stub> stub_;
  std::atomic<bool> lost_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false, cancelled_ = false;
  grpc::ClientContext* running_ = nullptr;
  std::thread renewer_;
};

TrackerClient::TrackerClient(const std::string& address, const std::string& credentials,
                             double patience_seconds)
    : connection_(std::make_shared<Connection>()) {
  rpc::silence_grpc();
  std::tie(connection_->address, connection_->credentials) = parse_tracker(address, credentials);
  connection_->patience_seconds = patience_seconds;
  connection_->channel =
      rpc::make_channel(connection_->address, connection_->credentials, rpc::Role::Tracker);
  connection_->stub = rpc::Tracker::NewStub(connection_->channel);
}

TrackerClient::~TrackerClient() = default;

std::vector<rpc::DeviceState> TrackerClient::devices() {
  rpc::DevicesRequest request;
  *request.mutable_version() = rpc::own_version();
  rpc::DevicesReply reply;
  const grpc::Status status = connection_->call(kCallSeconds, [&](grpc::ClientContext& context) {
    return connection_->stub->Devices(&context, request, &reply);
  });
  if (!status.ok()) connection_->refuse(status);
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
  rpc::Lease lease;
  const grpc::Status status = connection_->call(
      kCallSeconds + wanted.wait_seconds, [&](grpc::ClientContext& context) {
        return connection_->stub->Acquire(&context, request, &lease);
      });
  if (!status.ok()) connection_->refuse(status);
  auto device = std::make_unique<Device>(connection_, std::move(lease));
  try {
    device->greet();
  } catch (const Error& error) {
    device->report_failure(error.what());
    throw;
  }
  return device;
}

}  // namespace tc
