#include "tuner/agent_device.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

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
constexpr int kCopiesSinceMinor = 2;         // of the protocol
constexpr int64_t kOldFileBytes = 64 << 20;  // what agents take that do not say how much
constexpr int kMaxNamesPerCall = 4096;
// In bytes per second. A link that is slower counts as broken.
constexpr double kSlowestLink = 1e5;

// Of the largest file that the device's agent takes.
int64_t store_bytes_of(const rpc::DeviceInfo& device) {
  return device.store_bytes() > 0 ? device.store_bytes() : kOldFileBytes;
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

// Reads a file from its begin to its end.
class FileReader {
 public:
  explicit FileReader(const RemoteFile& file) : file_(file) {
    if (file.path.empty()) return;
    stream_.open(file.path, std::ios::binary);
    if (!stream_) fail(ErrorKind::Device, file.path, " cannot be read");
  }

  // Sees to it that data() has at least that many bytes, or all that are left; false where none are.
  bool fill(size_t least) {
    if (file_.path.empty()) return size() > 0;
    if (size() < least && stream_) {
      buffer_.erase(0, begin_);
      begin_ = 0;
      const size_t before = buffer_.size();
      buffer_.resize(before + rpc::kMaxChunkBytes);
      stream_.read(buffer_.data() + before, rpc::kMaxChunkBytes);
      buffer_.resize(before + static_cast<size_t>(stream_.gcount()));
    }
    return size() > 0;
  }
  const char* data() const { return bytes().data() + begin_; }
  size_t size() const { return bytes().size() - begin_; }
  void take(size_t count) {
    begin_ += count;
    position_ += static_cast<int64_t>(count);
  }
  // Of data() in the file.
  int64_t position() const { return position_; }

 private:
  const std::string& bytes() const { return file_.path.empty() ? file_.bytes : buffer_; }

  const RemoteFile& file_;
  std::ifstream stream_;
  std::string buffer_;
  size_t begin_ = 0;
  int64_t position_ = 0;
};

// Bytes after which a copy is sent, although more could be copied with it: the agent ends an upload of which
// it hears nothing for some seconds.
constexpr int64_t kMaxCopyBytes = 64 << 20;

// Makes chunks that are as large as they may be, and writes them. `write` returns false where the call is
// over.
class ChunkWriter {
 public:
  ChunkWriter(rpc::Chunk& chunk, std::function<bool()> write) : chunk_(chunk), write_(std::move(write)) {}

  bool add(const FileRange& range) {
    const bool follows = chunk_.has_copy() && chunk_.copy().bytes() < kMaxCopyBytes &&
                         chunk_.copy().sha256() == range.file &&
                         chunk_.copy().offset() + chunk_.copy().bytes() == range.offset;
    if (follows) {
      chunk_.mutable_copy()->set_bytes(chunk_.copy().bytes() + range.bytes);
      return true;
    }
    if (!flush()) return false;
    chunk_.mutable_copy()->set_sha256(range.file);
    chunk_.mutable_copy()->set_offset(range.offset);
    chunk_.mutable_copy()->set_bytes(range.bytes);
    return true;
  }
  bool add(const char* data, size_t size) {
    if ((chunk_.has_copy() || chunk_.data().size() + size > rpc::kMaxChunkBytes) && !flush()) return false;
    chunk_.mutable_data()->append(data, size);
    return true;
  }
  // Writes what is left. An empty file has one chunk, too.
  void finish() {
    if (!is_begun_ || has_some()) write_();
  }

 private:
  bool has_some() const { return chunk_.has_copy() || !chunk_.data().empty(); }
  bool flush() {
    if (!has_some()) return true;
    const bool goes_on = write_();
    is_begun_ = true;
    chunk_.Clear();
    return goes_on;
  }

  rpc::Chunk& chunk_;
  const std::function<bool()> write_;
  bool is_begun_ = false;
};

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
  info_.set_store_bytes(reply.device().store_bytes());
  takes_copies_ = reply.version().minor() >= kCopiesSinceMinor;
}

void AgentDevice::upload(const std::vector<RemoteFile>& files) {
  if (const std::string problem = room_problem(info_, files); !problem.empty())
    fail(ErrorKind::Device, problem);
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

// Sends a file. What the device has of it in other files is copied there, and does not travel again.
void AgentDevice::send(const RemoteFile& file) {
  if (takes_copies_ && send_pieces(file, true)) return;
  // It has dropped a file that was to be copied from.
  blocks_.clear();
  send_pieces(file, false);
}

// Returns false where the device could not make the file of copies.
bool AgentDevice::send_pieces(const RemoteFile& file, bool with_copies) {
  const int64_t total = size_of(file);
  bool has_copies = false, is_refused = false, is_complete = true;
  std::vector<std::pair<uint64_t, FileRange>> own;  // blocks of this file
  call(30 + static_cast<double>(total) / kSlowestLink, [&](grpc::ClientContext& context) {
    rpc::Empty empty;
    const auto writer = stub_->Upload(&context, &empty);
    rpc::Chunk chunk;
    chunk.set_token(token_);
    chunk.set_sha256(file.sha256);
    chunk.set_total_bytes(total);
    ChunkWriter chunks(chunk, [&] { return writer->Write(chunk); });
    FileReader reader(file);
    bool goes_on = true;
    while (goes_on && reader.fill(SharedBlocks::kMaxBlock)) {
      const size_t size = SharedBlocks::first_block(reader.data(), reader.size());
      const uint64_t hash = SharedBlocks::hash_of(reader.data(), size);
      const FileRange* known = with_copies ? blocks_.find(hash, size) : nullptr;
      has_copies |= known != nullptr;
      goes_on = known ? chunks.add(*known) : chunks.add(reader.data(), size);
      own.push_back({hash, {file.sha256, reader.position(), static_cast<int64_t>(size)}});
      reader.take(size);
    }
    is_complete = !goes_on || reader.position() == total;
    if (!is_complete) context.TryCancel();
    else if (goes_on) chunks.finish();
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    is_refused = has_copies && (status.error_code() == grpc::StatusCode::NOT_FOUND ||
                                status.error_code() == grpc::StatusCode::DATA_LOSS);
    return is_complete && !is_refused ? status : grpc::Status::OK;
  });
  if (!is_complete) fail(ErrorKind::Device, file.path, " changed while it was sent");
  if (is_refused) return false;
  blocks_.add(own, store_bytes_of(info_));
  return true;
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

int64_t size_of(const RemoteFile& file) {
  if (file.path.empty()) return static_cast<int64_t>(file.bytes.size());
  std::error_code error;
  const auto size = std::filesystem::file_size(file.path, error);
  if (error) fail(ErrorKind::Device, file.path, " cannot be read");
  return static_cast<int64_t>(size);
}

std::string room_problem(const rpc::DeviceInfo& device, const std::vector<RemoteFile>& files) {
  const int64_t most = store_bytes_of(device);
  const std::string device_text = text("the device '", rpc::printable(device.name(), 64), "', whose agent ");
  std::set<std::string> seen;
  int64_t all = 0;
  for (const RemoteFile& file : files) {
    if (!seen.insert(file.sha256).second) continue;
    const int64_t bytes = size_of(file);
    if (bytes > most)
      return text("a file of ", bytes, " bytes is too large for ", device_text, "takes files of up to ", most,
                  " bytes; start the agent with a larger --store-mib, if the device has the memory");
    all += bytes;
  }
  if (device.store_bytes() > 0 && all > most)
    return text("the programs and tensors of one measurement have ", all, " bytes, too many for ",
                device_text, "keeps up to ", most,
                " bytes; start the agent with a larger --store-mib, if the device has the memory");
  return "";
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
