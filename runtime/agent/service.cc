#include "runtime/agent/service.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include "runtime/agent/calls.h"
#include "runtime/agent/process.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/log.h"
#include "runtime/rpc/fields.h"
#include "runtime/rpc/sha256.h"
#include "runtime/rpc/tc_rpc.grpc.pb.h"
#include "runtime/rpc/version.h"

namespace tc::agent {
namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

constexpr int kMaxFiles = 4096;  // of one list
constexpr int kMaxCandidates = 64, kMaxPorts = 64, kMaxDataSets = 16, kMaxRounds = 10000, kMaxCalls = 1 << 20;
constexpr int kMaxThreads = 64;
constexpr size_t kMaxMemory = 256 << 20;
constexpr double kMaxSeconds = 3600;
constexpr double kRoomSeconds = 2;  // in which uploads that are being ended free their memory
// Each chunk of an upload has to follow the last within this time, and the whole upload may not be slower
// than this many bytes per second.
constexpr double kChunkSeconds = 15, kUploadSeconds = 30, kSlowestLink = 1e5;
constexpr int64_t kStep =
    1 << 20;  // bytes that are copied and hashed before it is asked whether the call goes on

// An agent has few clients, and they send files.
rpc::ListenerLimits listener_limits() {
  rpc::ListenerLimits limits;
  limits.open = 1000;
  limits.memory = kMaxMemory;
  limits.receive_bytes = 0;
  return limits;
}

Status malformed(const std::string& problem) {
  return Status(StatusCode::INVALID_ARGUMENT, "the message is malformed: " + problem);
}

// Thrown where a file that a request names is not in the store; the client may send it again and retry.
struct NotHere : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Reads the batch that a request describes. Throws NotHere, or a std::runtime_error that says what is wrong
// with the request.
class BatchReader {
 public:
  BatchReader(const rpc::MeasureRequest& request, Store& store, int cores, int64_t memory_bytes)
      : request_(request), store_(store), cores_(cores), memory_bytes_(memory_bytes) {}

  Batch read() {
    count("executables", request_.executables_size(), 1, kMaxCandidates);
    count("inputs", request_.inputs_size(), 0, kMaxPorts);
    count("outputs", request_.outputs_size(), 1, kMaxPorts);
    count("data_sets", request_.data_sets_size(), 2, kMaxDataSets);
    Batch batch;
    for (const std::string& sha256 : request_.executables())
      batch.executables.push_back(find(sha256, "an executable"));
    for (const rpc::Port& port : request_.inputs()) batch.inputs.push_back(read_port(port));
    for (const rpc::Port& port : request_.outputs()) batch.outputs.push_back(read_port(port));
    check_memory(batch);
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
    batch.rounds = static_cast<int>(number("rounds", request_.rounds(), 1, kMaxRounds));
    batch.sample_seconds = number("sample_seconds", request_.sample_seconds(), 0, 60);
    batch.timeout_seconds = number("timeout_seconds", request_.timeout_seconds(), 1e-3, kMaxSeconds);
    batch.memory_bytes = static_cast<int64_t>(number(
        "memory_bytes", static_cast<double>(request_.memory_bytes()), 1, static_cast<double>(memory_bytes_)));
    batch.slow_ratio = number("slow_ratio", request_.slow_ratio(), 0, 1e9);
    batch.longest_call = number("longest_call", request_.longest_call(), 0, 1e15);
    batch.known_call = number("known_call", request_.known_call(), 0, 1e15);
    if (request_.calls_size() > 0)
      count("calls", request_.calls_size(), request_.executables_size(), request_.executables_size());
    for (const int32_t calls : request_.calls())
      batch.calls.push_back(static_cast<int>(number("calls", calls, 1, kMaxCalls)));
    return batch;
  }

 private:
  [[noreturn]] static void fail(const std::string& problem) { throw std::runtime_error(problem); }

  static void count(const char* name, int value, int least, int most) {
    if (value < least || value > most)
      fail(std::string("the field '") + name + "' has " + std::to_string(value) + " entries, not " +
           std::to_string(least) + " to " + std::to_string(most));
  }

  static double number(const char* name, double value, double least, double most) {
    char text[160];
    std::snprintf(text, sizeof text, "the field '%s' is %g, outside %g to %g", name, value, least, most);
    if (!(value >= least && value <= most)) fail(text);
    return value;
  }

  // Inputs are stored once for each data set, once for the candidates to see, and twice for the agent's own;
  // outputs once for each candidate. None of this has been allocated yet.
  void check_memory(const Batch& batch) const {
    int64_t inputs = 0, outputs = 0;
    for (const Port& port : batch.inputs) inputs += port.bytes;
    for (const Port& port : batch.outputs) outputs += port.bytes;
    const int64_t all = inputs * (request_.data_sets_size() + 3) + outputs * request_.executables_size();
    // At most half of the machine's memory.
    const int64_t most =
        std::min(memory_bytes_, int64_t{sysconf(_SC_PHYS_PAGES)} / 2 * sysconf(_SC_PAGESIZE));
    if (all > most)
      fail("the inputs and outputs of this batch take " + std::to_string(all) + " bytes; this agent gives " +
           std::to_string(most) + " (--memory-mib): measure fewer candidates together, or smaller tensors");
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
  Service(Runner& runner, rpc::Keyring& keyring, const ServerOptions& options)
      : runner_(runner),
        keyring_(keyring),
        memory_bytes_(options.memory_bytes),
        store_(options.store_bytes),
        calls_([this](const std::string& token, const std::string& client) {
          return leases_.load()->check(token, keyring_.insecure() ? "" : client);
        }) {}

  void open(const rpc::DeviceInfo& device, Leases& leases) {
    device_ = device;
    device_.set_store_bytes(store_.most_bytes());
    leases_.store(&leases, std::memory_order_release);
  }
  void close() { closing_ = true; }

  Status Hello(ServerContext* context, const rpc::HelloRequest* request, rpc::HelloReply* reply) override {
    *reply->mutable_version() = rpc::own_version();
    return serve("Hello", *context, [&](const rpc::Caller&) {
      const std::string problem =
          rpc::version_problem(request->version(), "the agent '" + device_.name() + "'", "this program");
      if (!problem.empty()) return Status(StatusCode::FAILED_PRECONDITION, problem);
      *reply->mutable_device() = device_;
      return Status::OK;
    });
  }

  Status Missing(ServerContext* context, const rpc::FileList* request, rpc::FileList* reply) override {
    return serve("Missing", *context, [&](const rpc::Caller& caller) {
      if (Status status = leases_.load()->check(request->token(), caller.name); !status.ok()) return status;
      if (request->sha256_size() > kMaxFiles)
        return malformed("it asks for more than " + std::to_string(kMaxFiles) + " files");
      for (const std::string& name : request->sha256()) {
        if (!rpc::is_sha256(name)) return malformed("a file's name is not 64 digits of hex");
        if (store_.find(name) == nullptr) reply->add_sha256(name);
      }
      return Status::OK;
    });
  }

  Status Upload(ServerContext* context, grpc::ServerReader<rpc::Chunk>* reader, rpc::Empty*) override {
    return serve("Upload", *context, [&](const rpc::Caller& caller) {
      return with_call(Calls::Kind::Upload, *context, caller,
                       [&](Calls::Call& call) { return receive(*context, *reader, call, caller); });
    });
  }

  Status Measure(ServerContext* context, const rpc::MeasureRequest* request,
                 grpc::ServerWriter<rpc::MeasureResult>* writer) override {
    return serve("Measure", *context, [&](const rpc::Caller& caller) {
      if (Status status = leases_.load()->check(request->token(), caller.name); !status.ok()) return status;
      return with_call(Calls::Kind::Measure, *context, caller, [&](Calls::Call& call) {
        const Status status = call.hold(request->token());
        return !status.ok() ? status : measure(*request, *context, *writer, call);
      });
    });
  }

 private:
  // Answers a client's call. Logs callers that are refused for their identity, or that send invalid requests.
  template <class Answer>
  Status serve(const char* name, const ServerContext& context, const Answer& answer) {
    if (leases_.load(std::memory_order_acquire) == nullptr)
      return Status(StatusCode::UNAVAILABLE, "the agent is starting");
    rpc::Caller caller;
    Status status = rpc::check_caller(context, keyring_, rpc::Role::Client, &caller);
    if (status.ok()) status = answer(caller);
    const bool hostile = status.error_code() == StatusCode::PERMISSION_DENIED ||
                         status.error_code() == StatusCode::INVALID_ARGUMENT ||
                         status.error_code() == StatusCode::RESOURCE_EXHAUSTED ||
                         status.error_code() == StatusCode::DEADLINE_EXCEEDED;
    return hostile ? rpc::log_refusal(name, caller, status) : status;
  }

  template <class Answer>
  Status with_call(Calls::Kind kind, ServerContext& context, const rpc::Caller& caller,
                   const Answer& answer) {
    const std::unique_ptr<Calls::Call> call =
        calls_.begin(kind, keyring_.insecure() ? caller.peer : caller.name, context);
    const Status status = answer(*call);
    return call->is_over() ? call->why() : status;
  }

  Status receive(const ServerContext& context, grpc::ServerReader<rpc::Chunk>& reader, Calls::Call& call,
                 const rpc::Caller& caller) {
    rpc::Chunk chunk;
    if (!reader.Read(&chunk)) return malformed("an upload without a chunk");
    if (Status status = leases_.load()->check(chunk.token(), caller.name); !status.ok()) return status;
    if (Status status = call.hold(chunk.token()); !status.ok()) return status;
    if (!rpc::is_sha256(chunk.sha256())) return malformed("the file's name is not 64 digits of hex");
    const int64_t total = chunk.total_bytes();
    if (total < 0 || total > store_.most_bytes())
      return Status(StatusCode::RESOURCE_EXHAUSTED,
                    "the file has " + std::to_string(total) + " bytes; this agent takes up to " +
                        std::to_string(store_.most_bytes()) + " (--store-mib)");
    auto room = store_.make_room(total, kRoomSeconds);
    if (!room)
      return Status(StatusCode::RESOURCE_EXHAUSTED,
                    "files that are on their way take all the memory there is for them (--store-mib); "
                    "send one after the other");
    try {
      std::shared_ptr<const File> file;
      const Status status = receive_file(context, reader, call, chunk, file);
      if (status.ok()) store_.add(std::move(file), std::move(room));
      return status;
    } catch (const NotHere& error) {
      return Status(StatusCode::NOT_FOUND, error.what());
    } catch (const std::runtime_error& error) {
      return Status(StatusCode::RESOURCE_EXHAUSTED, error.what());
    }
  }

  // The bytes of a chunk: its own, or those of a file that is here.
  struct Piece {
    FilePtr source;
    const void* data = nullptr;
    int64_t size = 0;
  };

  // Fills in the piece; throws NotHere.
  Status read_piece(const rpc::Chunk& chunk, Piece& piece) {
    if (!chunk.has_copy()) {
      piece.data = chunk.data().data();
      piece.size = static_cast<int64_t>(chunk.data().size());
      return piece.size > rpc::kMaxChunkBytes ? malformed("a chunk is larger than 1 MiB") : Status::OK;
    }
    const rpc::Copy& copy = chunk.copy();
    if (!chunk.data().empty()) return malformed("a chunk with data and a copy");
    if (!rpc::is_sha256(copy.sha256())) return malformed("a file to copy has no SHA-256 for a name");
    piece.source = store_.find(copy.sha256());
    if (piece.source == nullptr) throw NotHere("a file to copy from is not here; send the bytes");
    const int64_t all = piece.source->bytes();
    if (copy.bytes() < 1 || copy.offset() < 0 || copy.offset() > all || copy.bytes() > all - copy.offset())
      return malformed("a copy of " + std::to_string(copy.bytes()) + " bytes from byte " +
                       std::to_string(copy.offset()) + " of a file that has " + std::to_string(all));
    piece.data = piece.source->data() + copy.offset();
    piece.size = copy.bytes();
    return Status::OK;
  }

  // Receives the file that begins with that chunk; throws NotHere. A copy may be as large as the store, and a
  // small board hashes slowly: the call can be ended after each step.
  Status receive_file(const ServerContext& context, grpc::ServerReader<rpc::Chunk>& reader, Calls::Call& call,
                      rpc::Chunk& chunk, std::shared_ptr<const File>& file) {
    const std::string name = chunk.sha256();
    const int64_t total = chunk.total_bytes();
    SharedMemory memory("tc-file", total);
    rpc::Sha256 hash;
    int64_t done = 0;
    const double end = now_seconds() + kUploadSeconds + static_cast<double>(total) / kSlowestLink;
    // Limits both pauses and slow uploads in small chunks.
    const auto goes_on = [&] { call.expect_within(std::min(kChunkSeconds, end - now_seconds())); };
    do {
      Piece piece;
      if (Status status = read_piece(chunk, piece); !status.ok()) return status;
      if (piece.size > total - done) return malformed("the file is longer than announced");
      if (piece.size == 0 && total > 0) return malformed("a chunk without data");
      for (int64_t begin = 0; begin < piece.size; begin += kStep) {
        if (context.IsCancelled()) return Status(StatusCode::CANCELLED, "cancelled");
        goes_on();
        const size_t size = static_cast<size_t>(std::min(kStep, piece.size - begin));
        std::memcpy(memory.data() + done, static_cast<const uint8_t*>(piece.data) + begin, size);
        hash.add(memory.data() + done, size);
        done += static_cast<int64_t>(size);
      }
      goes_on();
    } while (reader.Read(&chunk));
    if (done != total)
      return malformed("the file is shorter than announced: " + std::to_string(done) + " of " +
                       std::to_string(total) + " bytes");
    if (hash.hex() != name)
      return Status(StatusCode::DATA_LOSS, "the file's bytes do not have the SHA-256 that names it");
    file = std::make_shared<const File>(std::move(memory), name);
    return Status::OK;
  }

  Status measure(const rpc::MeasureRequest& request, const ServerContext& context,
                 grpc::ServerWriter<rpc::MeasureResult>& writer, const Calls::Call& call) {
    bool gone = false;
    const auto cancelled = [&] { return gone || closing_ || context.IsCancelled() || call.is_over(); };
    // Waits in steps, so that the call of a tuner that went away ends soon.
    std::unique_lock one_at_a_time(measure_, std::defer_lock);
    while (!one_at_a_time.try_lock_for(std::chrono::milliseconds(100)))
      if (cancelled()) return Status(StatusCode::CANCELLED, "cancelled");
    Batch batch;
    try {
      batch = BatchReader(request, store_, std::max(device_.cores(), 1), memory_bytes_).read();
    } catch (const NotHere& error) {
      return Status(StatusCode::NOT_FOUND, error.what());
    } catch (const std::runtime_error& error) {
      return malformed(error.what());
    }
    const auto done = [&](const Result& result) {
      leases_.load()->count_measured(1);
      if (!writer.Write(message_of(result))) gone = true;
    };
    try {
      runner_.measure(batch, done, cancelled);
    } catch (const std::exception& error) {
      return Status(StatusCode::INTERNAL, "the device failed: " + rpc::printable(error.what(), 500));
    }
    if (closing_) return Status(StatusCode::UNAVAILABLE, "the agent is being stopped");
    return Status::OK;
  }

  static rpc::MeasureResult message_of(const Result& result) {
    rpc::MeasureResult message;
    message.set_candidate(result.candidate);
    message.set_outcome(static_cast<rpc::Outcome>(static_cast<int>(result.outcome)));
    message.set_detail(rpc::printable(result.detail, 2000));
    for (const double sample : result.samples) message.add_samples(sample);
    message.set_worst_error(result.worst_error);
    message.set_runs_per_sample(result.runs_per_sample);
    message.set_peak_bytes(result.peak_bytes);
    return message;
  }

  Runner& runner_;
  rpc::Keyring& keyring_;
  const int64_t memory_bytes_;
  Store store_;
  rpc::DeviceInfo device_;  // written once, before leases_
  std::atomic<Leases*> leases_ = nullptr;
  std::atomic<bool> closing_ = false;
  std::timed_mutex measure_;
  Calls calls_;  // last, as its thread uses the leases
};

Server::Server(Runner& runner, rpc::Keyring& keyring, const ServerOptions& options)
    : address_(options.listen), service_(std::make_unique<Service>(runner, keyring, options)) {
  grpc::ServerBuilder builder;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  if (options.listen.rfind("unix:", 0) == 0) {
    builder.SetMaxReceiveMessageSize(rpc::kMaxMessageBytes);
    builder.SetMaxSendMessageSize(rpc::kMaxMessageBytes);
    builder.AddListeningPort(options.listen, keyring.server_credentials(), &port_);
  } else {
    const rpc::Address address = rpc::parse_address(options.listen);
    address_ = address.host;
    listener_ = std::make_unique<rpc::Listener>(rpc::bound_address(address, keyring), listener_limits());
    port_ = listener_->port();
    rpc::limit_server(builder);
    acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        keyring.server_credentials());
  }
  grpc::ResourceQuota quota("agent");
  quota.SetMaxThreads(kMaxThreads).Resize(kMaxMemory);
  server_ = rpc::start_server(builder, *service_, quota, options.listen, port_);
  if (listener_) listener_->start(std::move(acceptor));
}

Server::~Server() {
  if (listener_) listener_->stop();
  service_->close();
  if (server_) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(1000));
}

void Server::open(const rpc::DeviceInfo& device, Leases& leases) { service_->open(device, leases); }

}  // namespace tc::agent
