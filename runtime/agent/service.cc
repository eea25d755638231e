#include "runtime/agent/service.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include "runtime/rpc/channel.h"
#include "runtime/rpc/fields.h"
#include "runtime/rpc/tc_rpc.grpc.pb.h"
#include "runtime/rpc/version.h"

namespace tc::agent {
namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

constexpr int kMostFiles = 4096;       // of one list
constexpr int kMostCandidates = 64, kMostPorts = 64, kMostDataSets = 16, kMostRounds = 10000, kMostCalls = 1 << 20;
constexpr int kMostThreads = 64;
constexpr size_t kMostMemory = 256 << 20;
constexpr double kMostSeconds = 3600;

Status malformed(const std::string& problem) {
  return Status(StatusCode::INVALID_ARGUMENT, "the message is malformed: " + problem);
}

// A file that a request names is not in the store: whoever sends it again is served.
struct NotHere : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The batch that a request describes. Throws NotHere, or std::runtime_error with what is wrong with
// the request.
class BatchReader {
 public:
  BatchReader(const rpc::MeasureRequest& request, Store& store, int cores, int64_t memory_bytes)
      : request_(request), store_(store), cores_(cores), memory_bytes_(memory_bytes) {}

  Batch read() {
    count("executables", request_.executables_size(), 1, kMostCandidates);
    count("inputs", request_.inputs_size(), 0, kMostPorts);
    count("outputs", request_.outputs_size(), 1, kMostPorts);
    count("data_sets", request_.data_sets_size(), 2, kMostDataSets);
    Batch batch;
    for (const std::string& sha256 : request_.executables())
      batch.executables.push_back(find(sha256, "an executable"));
    for (const rpc::Port& port : request_.inputs()) batch.inputs.push_back(read_port(port));
    for (const rpc::Port& port : request_.outputs()) batch.outputs.push_back(read_port(port));
    for (const auto& set : request_.data_sets()) {
      Batch::DataSet& data = batch.data_sets.emplace_back();
      data.seed = set.seed();
      if (set.expected_size() != request_.outputs_size())
        fail("a data set has " + std::to_string(set.expected_size()) + " expected tensors for " +
             std::to_string(request_.outputs_size()) + " outputs");
      for (int i = 0; i < set.expected_size(); ++i) {
        data.expected.push_back(find(set.expected(i), "an expected tensor"));
        const Port& port = batch.outputs[static_cast<size_t>(i)];
        if (data.expected.back()->bytes() != port.bytes)
          fail("what is expected of output '" + port.name + "' has " +
               std::to_string(data.expected.back()->bytes()) + " bytes; the tensor has " +
               std::to_string(port.bytes));
      }
    }
    batch.tolerance = number("tolerance", request_.tolerance(), 0, 1);
    batch.threads = static_cast<int>(number("threads", request_.threads(), 1, cores_));
    batch.rounds = static_cast<int>(number("rounds", request_.rounds(), 1, kMostRounds));
    batch.sample_seconds = number("sample_seconds", request_.sample_seconds(), 0, 60);
    batch.timeout_seconds =
        number("timeout_seconds", request_.timeout_seconds(), 1e-3, kMostSeconds);
    batch.memory_bytes = static_cast<int64_t>(
        number("memory_bytes", static_cast<double>(request_.memory_bytes()), 1,
               static_cast<double>(memory_bytes_)));
    batch.slow_ratio = number("slow_ratio", request_.slow_ratio(), 0, 1e9);
    if (request_.calls_size() > 0)
      count("calls", request_.calls_size(), request_.executables_size(), request_.executables_size());
    for (const int32_t calls : request_.calls())
      batch.calls.push_back(static_cast<int>(number("calls", calls, 1, kMostCalls)));
    return batch;
  }

 private:
  [[noreturn]] static void fail(const std::string& problem) { throw std::runtime_error(problem); }

  static void count(const char* name, int value, int least, int most) {
    if (value < least || value > most)
      fail(std::string("the field '") + name + "' has " + std::to_string(value) +
           " entries, not " + std::to_string(least) + " to " + std::to_string(most));
  }

  static double number(const char* name, double value, double least, double most) {
    char text[160];
    std::snprintf(text, sizeof text, "the field '%s' is %g, outside %g to %g", name, value, least,
                  most);
    if (!(value >= least && value <= most)) fail(text);
    return value;
  }

  FilePtr find(const std::string& sha256, const char* what) {
    if (!rpc::is_sha256(sha256)) fail(std::string(what) + " has no SHA-256 for a name");
    FilePtr file = store_.find(sha256);
    if (file == nullptr)
      throw NotHere(std::string(what) + " is not here (" + sha256.substr(0, 12) + "...); upload it");
    return file;
  }

  static Port read_port(const rpc::Port& port) {
    return make_port(rpc::printable(port.name(), 200), rpc::printable(port.dtype(), 20),
                     {port.shape().begin(), port.shape().end()});
  }

  const rpc::MeasureRequest& request_;
  Store& store_;
  const int cores_;
  const int64_t memory_bytes_;
};

}  // namespace

class Server::Service final : public rpc::Agent::Service {
 public:
  Service(Runner& runner, const ServerOptions& options)
      : runner_(runner), credentials_(options.credentials), memory_bytes_(options.memory_bytes),
        store_(options.store_bytes) {}

  void open(const rpc::DeviceInfo& device, Leases& leases) {
    device_ = device;
    leases_.store(&leases, std::memory_order_release);
  }
  void close() { closing_ = true; }

  Status Hello(ServerContext* context, const rpc::HelloRequest* request,
               rpc::HelloReply* reply) override {
    *reply->mutable_version() = rpc::own_version();
    if (Status status = check_caller(*context); !status.ok()) return status;
    const std::string problem =
        rpc::version_problem(request->version(), "the agent '" + device_.name() + "'", "this program");
    if (!problem.empty()) return Status(StatusCode::FAILED_PRECONDITION, problem);
    *reply->mutable_device() = device_;
    return Status::OK;
  }

  Status Missing(ServerContext* context, const rpc::FileList* request,
                 rpc::FileList* reply) override {
    if (Status status = check_holder(*context, request->token()); !status.ok()) return status;
    if (request->sha256_size() > kMostFiles)
      return malformed("it asks for more than " + std::to_string(kMostFiles) + " files");
    for (const std::string& name : request->sha256()) {
      if (!rpc::is_sha256(name)) return malformed("a file's name is not 64 digits of hex");
      if (store_.find(name) == nullptr) reply->add_sha256(name);
    }
    return Status::OK;
  }

  Status Upload(ServerContext* context, grpc::ServerReader<rpc::Chunk>* reader,
                rpc::Empty*) override {
    rpc::Chunk chunk;
    if (!reader->Read(&chunk)) return malformed("an upload without a chunk");
    if (Status status = check_holder(*context, chunk.token()); !status.ok()) return status;
    if (!rpc::is_sha256(chunk.sha256())) return malformed("the file's name is not 64 digits of hex");
    const int64_t total = chunk.total_bytes();
    if (total < 0 || total > store_.most_bytes())
      return Status(StatusCode::RESOURCE_EXHAUSTED,
                    "the file has " + std::to_string(total) + " bytes; this agent takes up to " +
                        std::to_string(store_.most_bytes()) + " (--store-mib)");
    const std::lock_guard one_at_a_time(upload_);
    try {
      const std::string name = chunk.sha256();
      SharedMemory memory("tc-file", total);
      int64_t done = 0;
      do {
        const std::string& data = chunk.data();
        const auto size = static_cast<int64_t>(data.size());
        if (size > rpc::kMostChunkBytes) return malformed("a chunk is larger than 1 MiB");
        if (size > total - done) return malformed("the file is longer than announced");
        if (size > 0) std::memcpy(memory.data() + done, data.data(), data.size());
        done += size;
      } while (reader->Read(&chunk));
      if (done != total)
        return malformed("the file is shorter than announced: " + std::to_string(done) + " of " +
                         std::to_string(total) + " bytes");
      auto file = std::make_shared<const File>(std::move(memory));
      if (file->sha256() != name)
        return Status(StatusCode::DATA_LOSS, "the file's bytes do not have the SHA-256 that names it");
      store_.add(std::move(file));
      return Status::OK;
    } catch (const std::runtime_error& error) {
      return Status(StatusCode::RESOURCE_EXHAUSTED, error.what());
    }
  }

  Status Measure(ServerContext* context, const rpc::MeasureRequest* request,
                 grpc::ServerWriter<rpc::MeasureResult>* writer) override {
    if (Status status = check_holder(*context, request->token()); !status.ok()) return status;
    // A call of a tuner that went away ends within a moment.
    std::unique_lock one_at_a_time(measure_, std::defer_lock);
    while (!one_at_a_time.try_lock_for(std::chrono::milliseconds(100)))
      if (context->IsCancelled() || closing_) return Status(StatusCode::CANCELLED, "cancelled");
    Batch batch;
    try {
      batch = BatchReader(*request, store_, std::max(device_.cores(), 1), memory_bytes_).read();
    } catch (const NotHere& error) {
      return Status(StatusCode::NOT_FOUND, error.what());
    } catch (const std::runtime_error& error) {
      return malformed(error.what());
    }
    bool gone = false;
    const auto done = [&](const Result& result) {
      rpc::MeasureResult message;
      message.set_candidate(result.candidate);
      message.set_outcome(static_cast<rpc::Outcome>(static_cast<int>(result.outcome)));
      message.set_detail(rpc::printable(result.detail, 2000));
      for (const double sample : result.samples) message.add_samples(sample);
      message.set_worst_error(result.worst_error);
      message.set_runs_per_sample(result.runs_per_sample);
      message.set_peak_bytes(result.peak_bytes);
      leases_.load()->count_measured(1);
      if (!writer->Write(message)) gone = true;
    };
    const auto cancelled = [&] { return gone || closing_ || context->IsCancelled(); };
    try {
      runner_.measure(batch, done, cancelled);
    } catch (const std::exception& error) {
      return Status(StatusCode::INTERNAL, "the device failed: " + rpc::printable(error.what(), 500));
    }
    if (closing_) return Status(StatusCode::UNAVAILABLE, "the agent is being stopped");
    return Status::OK;
  }

 private:
  Status check_caller(const ServerContext& context) const {
    if (leases_.load(std::memory_order_acquire) == nullptr)
      return Status(StatusCode::UNAVAILABLE, "the agent is starting");
    if (rpc::caller_is(context, credentials_, rpc::Role::Client)) return Status::OK;
    return Status(StatusCode::PERMISSION_DENIED,
                  "this call needs the certificate of a client; use the files client.pem and "
                  "client.key of `python -m tc certs init`");
  }

  Status check_holder(const ServerContext& context, const std::string& token) const {
    if (Status status = check_caller(context); !status.ok()) return status;
    return leases_.load()->check(token);
  }

  Runner& runner_;
  const rpc::Credentials credentials_;
  const int64_t memory_bytes_;
  Store store_;
  rpc::DeviceInfo device_;                  // written once, before leases_
  std::atomic<Leases*> leases_ = nullptr;
  std::atomic<bool> closing_ = false;
  std::mutex upload_;
  std::timed_mutex measure_;
};

Server::Server(Runner& runner, const ServerOptions& options)
    : address_(options.listen), service_(std::make_unique<Service>(runner, options)) {
  grpc::ServerBuilder builder;
  const bool is_local = options.listen.rfind("unix:", 0) == 0;
  if (is_local) {
    builder.SetMaxReceiveMessageSize(rpc::kMostMessageBytes);
    builder.SetMaxSendMessageSize(rpc::kMostMessageBytes);
    builder.AddListeningPort(options.listen, rpc::server_credentials(options.credentials), &port_);
  } else {
    const rpc::Address address = rpc::parse_address(options.listen);
    address_ = address.host;
    rpc::configure_server(builder, address, options.credentials, &port_);
  }
  grpc::ResourceQuota quota("agent");
  quota.SetMaxThreads(kMostThreads).Resize(kMostMemory);
  server_ = rpc::start_server(builder, *service_, quota, options.listen, port_);
}

Server::~Server() {
  service_->close();
  if (server_) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(1000));
}

void Server::open(const rpc::DeviceInfo& device, Leases& leases) { service_->open(device, leases); }

}  // namespace tc::agent
