#include "tuner/agent_device.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "runtime/rpc/channel.h"
#include "runtime/rpc/fields.h"
#include "runtime/rpc/keyring.h"
#include "runtime/rpc/log.h"
#include "runtime/rpc/sha256.h"
#include "runtime/rpc/version.h"
#include "tuner/answers.h"

namespace tc {
namespace {

constexpr double kCallSeconds = 10;
constexpr int64_t kMaxFileBytes = 64 << 20;
constexpr int kMaxNamesPerCall = 4096;
// In bytes per second. A link that is slower counts as broken.
constexpr double kSlowestLink = 1e5;

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

AgentDevice::AgentDevice(rpc::Address address, rpc::Credentials credentials, std::string token)
    : token_(std::move(token)), address_(std::move(address)), credentials_(std::move(credentials)) {}

std::string AgentDevice::name() const {
  return info_.name().empty() ? "the agent" : "the agent '" + info_.name() + "'";
}

void AgentDevice::lose(const std::string& why) {
  const std::lock_guard lock(mutex_);
  why_lost_ = why;
  lost_ = true;
}

// One call to the agent. Where the agent refuses the request itself, this throws a Device error; every other
// failure means that the device cannot go on (DeviceLost).
template <class Call>
void AgentDevice::call(double seconds, const Call& one_call) {
  grpc::ClientContext context;
  rpc::set_deadline(context, seconds);
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) throw DeviceLost("cancelled");
    running_ = &context;
  }
  // A guard, so that running_ is reset also where the call throws: cancel() must not reach a context that no
  // longer exists.
  const std::shared_ptr<void> end(nullptr, [&](void*) {
    const std::lock_guard lock(mutex_);
    running_ = nullptr;
  });
  const grpc::Status status = answer_of(context, [&] { return one_call(context); });
  if (status.ok()) return;
  {
    // The agent's status says only that the lease is over; the tracker has said why.
    const std::lock_guard lock(mutex_);
    if (!cancelled_ && !why_lost_.empty()) throw DeviceLost(name() + " is no longer leased: " + why_lost_);
  }
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    const std::lock_guard lock(mutex_);
    throw DeviceLost(cancelled_ ? "cancelled"
                                : name() + " ended the call: the lease is over, or the call stalled");
  }
  const std::string text = rpc::explain(status, name(), address_, credentials_);
  if (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT ||
      status.error_code() == grpc::StatusCode::FAILED_PRECONDITION)
    fail(ErrorKind::Device, text);
  throw DeviceLost(text);
}

void AgentDevice::greet(const rpc::DeviceInfo& expected) {
  info_ = expected;
  stub_ = rpc::Agent::NewStub(rpc::make_channel(address_, credentials_, rpc::Role::Agent, expected.name()));
  rpc::HelloRequest request;
  *request.mutable_version() = rpc::own_version();
  rpc::HelloReply reply;
  std::string stranger;
  call(kCallSeconds, [&](grpc::ClientContext& context) {
    const grpc::Status status = stub_->Hello(&context, request, &reply);
    if (status.ok() && !credentials_.insecure)
      stranger = as_device_error([&] {
        return rpc::server_problem(*context.auth_context(), credentials_, rpc::Role::Agent, expected.name());
      });
    return status;
  });
  if (!stranger.empty())
    throw DeviceLost(name() + " at " + address_.text() + " is not to be trusted: " + stranger);
  std::string problem = rpc::version_problem(reply.version(), "this program", name());
  // An agent without a tracker gives its socket as its address, which device_problem() would refuse.
  rpc::DeviceInfo described = reply.device();
  if (expected.name().empty()) described.set_address("localhost:1");
  if (problem.empty())
    if (const std::string malformed = rpc::device_problem(described); !malformed.empty())
      problem = name() + " describes itself wrongly: " + malformed;
  if (!problem.empty()) fail(ErrorKind::Device, problem);
  if (expected.name().empty()) info_ = reply.device();
  else if (reply.device().name() != expected.name() || reply.device().key() != expected.key())
    throw DeviceLost(name() + " at " + address_.text() + " is now another device, '" +
                     rpc::printable(reply.device().name(), 64) + "'");
}

void AgentDevice::upload(const std::vector<RemoteFile>& files) {
  rpc::FileList wanted, missing;
  for (size_t begin = 0; begin < files.size(); begin += kMaxNamesPerCall) {
    wanted.clear_sha256();
    wanted.set_token(token_);
    const size_t end = std::min(files.size(), begin + kMaxNamesPerCall);
    for (size_t i = begin; i < end; ++i) wanted.add_sha256(files[i].sha256);
    rpc::FileList part;
    call(kCallSeconds, [&](grpc::ClientContext& context) { return stub_->Missing(&context, wanted, &part); });
    for (const std::string& hash : part.sha256()) missing.add_sha256(hash);
  }
  for (const std::string& hash : missing.sha256()) {
    const auto file = std::find_if(files.begin(), files.end(),
                                   [&](const RemoteFile& candidate) { return candidate.sha256 == hash; });
    if (file == files.end()) throw DeviceLost(name() + " asks for a file that it was not told of");
    send(*file);
  }
}

void AgentDevice::measure(rpc::MeasureRequest request,
                          const std::function<void(const rpc::MeasureResult&)>& on_result) {
  request.set_token(token_);
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

void AgentDevice::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (running_) running_->TryCancel();
}

void AgentDevice::send(const RemoteFile& file) {
  std::ifstream stream;
  int64_t total = static_cast<int64_t>(file.bytes.size());
  if (!file.path.empty()) {
    stream.open(file.path, std::ios::binary | std::ios::ate);
    if (!stream) fail(ErrorKind::Device, file.path, " cannot be read");
    total = static_cast<int64_t>(stream.tellg());
    stream.seekg(0);
  }
  if (total > kMaxFileBytes)
    fail(ErrorKind::Device, "a file of ", total, " bytes is too large for a device, which takes ",
         kMaxFileBytes);
  bool complete = true;
  call(30 + static_cast<double>(total) / kSlowestLink, [&](grpc::ClientContext& context) {
    rpc::Empty empty;
    const auto writer = stub_->Upload(&context, &empty);
    rpc::Chunk chunk;
    chunk.set_token(token_);
    chunk.set_sha256(file.sha256);
    chunk.set_total_bytes(total);
    int64_t sent = 0;
    do {
      const int64_t size = std::min<int64_t>(rpc::kMaxChunkBytes, total - sent);
      std::string* data = chunk.mutable_data();
      data->resize(static_cast<size_t>(size));
      if (file.path.empty()) data->assign(file.bytes, static_cast<size_t>(sent), static_cast<size_t>(size));
      else if (!stream.read(data->data(), size)) complete = false;
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

RemoteFile remote_file(const std::string& path) {
  return {as_device_error([&] { return rpc::sha256_of_file(path); }), path, ""};
}

RemoteFile remote_bytes(const void* data, size_t size) {
  RemoteFile file;
  file.bytes.assign(static_cast<const char*>(data), size);
  file.sha256 = rpc::sha256_of(file.bytes);
  return file;
}

std::unique_ptr<LeasedDevice> connect_agent(const std::string& address, const std::string& token) {
  rpc::silence_grpc();
  if (address.compare(0, 6, "unix:/") != 0)
    fail(ErrorKind::Device, "an agent without a tracker is at unix:/PATH, not at '",
         rpc::printable(address, 200), "'");
  rpc::Credentials plain;
  plain.insecure = true;
  auto device = std::make_unique<AgentDevice>(rpc::Address{address, 0}, plain, token);
  device->greet({});
  return device;
}

}  // namespace tc
