// Messages with wrong fields: what the tracker, the agent and the tuner's client make of requests and replies
// whose fields, drawn by type, were changed from a fixed seed, as bytes that no stub of ours would send. Each
// is answered or refused in a sentence, within limits of time and memory, and who was asked serves on.
// TC_SEED names the seed, TC_MUTATIONS the number of requests; a quarter as many replies are changed.
#include <gtest/gtest.h>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>

#include "runtime/agent/inputs.h"
#include "runtime/agent/service.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/log.h"
#include "runtime/rpc/sha256.h"
#include "runtime/rpc/version.h"
#include "runtime/tracker/service.h"
#include "tests/onnx_node_data.h"
#include "tests/rpc/fleet.h"
#include "tests/structure_mutator.h"
#include "tuner/client.h"

namespace tc::rpc {
namespace {

using grpc::ByteBuffer;
using grpc::Status;
using grpc::StatusCode;

const Address kAny{"127.0.0.1", 0};
const std::string kToken(64, '7');
constexpr double kMaxSeconds = 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kMaxBytes = INT64_MAX;  // sanitizers keep memory of their own
#else
constexpr int64_t kMaxBytes = int64_t{400} << 20;
#endif

uint64_t number_from(const char* name, uint64_t fallback) {
  const char* given = std::getenv(name);
  return given ? std::strtoull(given, nullptr, 10) : fallback;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Most memory that this process, which is tracker, agent and client, has held.
int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    int64_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

ByteBuffer buffer_of(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return ByteBuffer(&slice, 1);
}

// Messages of the project's own schema, changed from a seed.
class Mutations {
 public:
  explicit Mutations(uint64_t seed)
      : schema_(parse_schema(read_whole_file("runtime/rpc/tc_rpc.proto"))), seed_(seed) {}

  std::string changed(const std::string& type, const std::string& bytes, uint64_t number) const {
    StructureMutator mutator(schema_, seed_ * 1000003 + number);
    ProtoMessage message = decode(schema_, type, bytes);
    mutator.mutate(message);
    return encode(schema_, message);
  }

 private:
  const ProtoSchema schema_;
  const uint64_t seed_;
};

// Allocates what a measurement of the batch would, and answers for each candidate.
class Allocating : public agent::Runner {
 public:
  std::string name() const override { return "native"; }
  std::string unit() const override { return "seconds"; }
  std::vector<std::string> isolation() const override { return {}; }
  void measure(const agent::Batch& batch, const std::function<void(const agent::Result&)>& done,
               const std::function<bool()>&) override {
    agent::Inputs inputs(batch);
    inputs.show_set(0);
    for (size_t i = 0; i < batch.executables.size(); ++i) {
      agent::Result result;
      result.candidate = static_cast<int>(i);
      done(result);
    }
  }
};

// A tracker and an agent, and valid requests to both.
class Served {
 public:
  Served() {
    silence_grpc();
    tracker::FleetOptions options;
    options.quarantine_ms = 1;
    tracker_ = std::make_unique<tracker::Server>(kAny, insecure_credentials(kAny), options);
    agent::ServerOptions small;
    small.listen = "127.0.0.1:0";
    small.store_bytes = 64 << 20;
    small.memory_bytes = 256 << 20;
    agent_ = std::make_unique<agent::Server>(runner_, keyring_, small);
    DeviceInfo device = announcement("b", "").device();
    agent_->open(device, leases_);
    channels_ = {
        {"Tracker", make_channel(tracker_->address(), insecure_credentials(kAny), Role::Tracker)},
        {"Agent", make_channel({"127.0.0.1", agent_->port()}, insecure_credentials(kAny), Role::Agent)}};
  }

  static std::vector<std::string> methods() {
    return {"Tracker/Announce",   "Tracker/Acquire", "Tracker/Renew",         "Tracker/Release",
            "Tracker/CheckLease", "Tracker/Devices", "Tracker/ReportFailure", "Agent/Hello",
            "Agent/Missing",      "Agent/Upload",    "Agent/Measure"};
  }

  // The type and the bytes of a request that is right now.
  std::pair<std::string, std::string> request(const std::string& method) {
    const bool is_about_lease =
        method == "Tracker/Renew" || method == "Tracker/Release" || method == "Tracker/ReportFailure";
    refresh(method == "Tracker/Acquire");
    if (method == "Agent/Measure" || method == "Agent/Upload") {
      // The agent drops them where it is told of a large file, though none comes.
      upload("an executable");
      upload(std::string(4000, 'x'));
    }
    if (method == "Tracker/Announce")
      return {"AnnounceRequest", announcement("a", session_).SerializeAsString()};
    if (method == "Tracker/Acquire") return {"AcquireRequest", wish().SerializeAsString()};
    if (method == "Agent/Measure") return {"MeasureRequest", measurement().SerializeAsString()};
    if (method == "Tracker/Devices" || method == "Agent/Hello") {
      DevicesRequest request;  // and HelloRequest, which has the same field
      *request.mutable_version() = own_version();
      return {method == "Agent/Hello" ? "HelloRequest" : "DevicesRequest", request.SerializeAsString()};
    }
    if (is_about_lease) {
      FailureReport request;  // and LeaseName, which has its first field
      request.set_token(lease_.token());
      if (method == "Tracker/ReportFailure") request.set_reason("it went away");
      return {method == "Tracker/ReportFailure" ? "FailureReport" : "LeaseName", request.SerializeAsString()};
    }
    if (method == "Tracker/CheckLease") {
      CheckLeaseRequest request;
      request.set_device("a");
      request.set_token(lease_.token());
      return {"CheckLeaseRequest", request.SerializeAsString()};
    }
    if (method == "Agent/Missing") {
      FileList request;
      request.set_token(kToken);
      request.add_sha256(sha256_of("an executable"));
      return {"FileList", request.SerializeAsString()};
    }
    // In turns one with its bytes and one that copies them.
    const std::string stored = "an executable";
    Chunk chunk;
    chunk.set_token(kToken);
    chunk.set_total_bytes(5);
    copies_ = !copies_;
    if (copies_) {
      chunk.set_sha256(sha256_of(stored.substr(3, 5)));
      chunk.mutable_copy()->set_sha256(sha256_of(stored));
      chunk.mutable_copy()->set_offset(3);
      chunk.mutable_copy()->set_bytes(5);
    } else {
      chunk.set_sha256(sha256_of("small"));
      chunk.set_data("small");
    }
    return {"Chunk", chunk.SerializeAsString()};
  }
  // What is right is taken.
  void expect_right_ones_taken() {
    for (const std::string& method : methods())
      EXPECT_EQ(send(method, request(method).second).error_message(), "") << method;
  }

  Status send(const std::string& method, const std::string& bytes) {
    const Status status = send_bytes(method, bytes);
    // What was acquired is given back by the end of its lease, or with its device's next session.
    if (method == "Tracker/Acquire" && status.ok()) session_ = "another" + std::to_string(++sessions_);
    return status;
  }

 private:
  Status send_bytes(const std::string& method, const std::string& bytes) {
    const std::string path = "/tc.rpc." + method, service = method.substr(0, method.find('/'));
    grpc::ChannelInterface* channel = channels_.at(service).get();
    grpc::ClientContext context;
    // A request may ask to be kept waiting.
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(method == "Tracker/Acquire" ? 300 : 20000));
    const ByteBuffer message = buffer_of(bytes);
    ByteBuffer reply;
    if (method == "Agent/Upload") {
      const grpc::internal::RpcMethod call(path.c_str(), grpc::internal::RpcMethod::CLIENT_STREAMING);
      const std::unique_ptr<grpc::ClientWriter<ByteBuffer>> writer(
          grpc::internal::ClientWriterFactory<ByteBuffer>::Create(channel, call, &context, &reply));
      writer->Write(message);
      writer->WritesDone();
      return writer->Finish();
    }
    if (method == "Agent/Measure") {
      const grpc::internal::RpcMethod call(path.c_str(), grpc::internal::RpcMethod::SERVER_STREAMING);
      const std::unique_ptr<grpc::ClientReader<ByteBuffer>> reader(
          grpc::internal::ClientReaderFactory<ByteBuffer>::Create(channel, call, &context, message));
      while (reader->Read(&reply)) {}
      return reader->Finish();
    }
    const grpc::internal::RpcMethod call(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
    return grpc::internal::BlockingUnaryCall<ByteBuffer, ByteBuffer>(channel, call, &context, message,
                                                                     &reply);
  }

  // The device 'a' is there, and leased but where it should be free, whatever came before.
  void refresh(bool is_free) {
    if (!tracker_->fleet().announce(announcement("a", session_)).ok()) {
      session_ = "another" + std::to_string(++sessions_);
      tracker_->fleet().announce(announcement("a", session_));
    }
    const auto stub = Tracker::NewStub(channels_.at("Tracker"));
    LeaseName name;
    name.set_token(lease_.token());
    Lease lease;
    Empty empty;
    grpc::ClientContext first, second;
    if (is_free) {
      if (!lease_.token().empty()) stub->Release(&first, name, &empty);
    } else if (lease_.token().empty() || !stub->Renew(&first, name, &lease).ok()) {
      if (stub->Acquire(&second, wish(), &lease).ok()) lease_ = lease;
    }
  }

  void upload(const std::string& bytes) {
    Chunk chunk;
    chunk.set_token(kToken);
    chunk.set_sha256(sha256_of(bytes));
    chunk.set_total_bytes(static_cast<int64_t>(bytes.size()));
    chunk.set_data(bytes);
    EXPECT_EQ(send("Agent/Upload", chunk.SerializeAsString()).error_message(), "");
  }

  static MeasureRequest measurement() {
    MeasureRequest request;
    request.set_token(kToken);
    for (int i = 0; i < 2; ++i) request.add_executables(sha256_of("an executable"));
    for (Port* port : {request.add_inputs(), request.add_outputs()}) {
      port->set_name("x");
      port->set_dtype("f32");
      port->add_shape(10);
      port->add_shape(100);
    }
    for (const uint64_t seed : {1, 2}) {
      auto* set = request.add_data_sets();
      set->set_seed(seed);
      set->add_expected(sha256_of(std::string(4000, 'x')));
    }
    request.set_tolerance(1e-5);
    request.set_threads(1);
    request.set_rounds(3);
    request.set_sample_seconds(0.002);
    request.set_timeout_seconds(20);
    request.set_memory_bytes(64 << 20);
    for (int i = 0; i < 2; ++i) request.add_calls(1);
    return request;
  }

  Allocating runner_;
  Keyring keyring_{insecure_credentials(kAny)};
  agent::FixedToken leases_{kToken};
  std::unique_ptr<tracker::Server> tracker_;
  std::unique_ptr<agent::Server> agent_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;
  std::string session_ = "one";
  int sessions_ = 0;
  bool copies_ = false;
  Lease lease_;
};

// The status of a call that has been answered as it should be; else what is wrong with it.
std::string broken_promise(const Status& status) {
  const std::string& text = status.error_message();
  switch (status.error_code()) {
    case StatusCode::OK: return "";
    case StatusCode::INVALID_ARGUMENT:
    case StatusCode::PERMISSION_DENIED:
    case StatusCode::NOT_FOUND:
    case StatusCode::ALREADY_EXISTS:
    case StatusCode::RESOURCE_EXHAUSTED:
    case StatusCode::FAILED_PRECONDITION:
    case StatusCode::DEADLINE_EXCEEDED:
    case StatusCode::DATA_LOSS: break;
    default: return "status " + std::to_string(status.error_code()) + ": " + text;
  }
  if (text.empty()) return "status " + std::to_string(status.error_code()) + " without a sentence";
  if (text.size() > 3000) return "a sentence of " + std::to_string(text.size()) + " characters";
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20) return "a sentence with control characters: " + text;
  return "";
}

TEST(Messages, WithWrongFieldsAreAnsweredOrRefused) {
  const uint64_t seed = number_from("TC_SEED", 1), count = number_from("TC_MUTATIONS", 1000);
  const Mutations mutations(seed);
  Served served;
  served.expect_right_ones_taken();
  const std::vector<std::string> methods = Served::methods();
  const int64_t before = peak_bytes();
  std::map<std::string, std::pair<int, int>> answered;  // by method: taken, refused
  double slowest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string& method = methods[i % methods.size()];
    const auto [type, right] = served.request(method);
    const std::string bytes = mutations.changed(type, right, i);
    const double begin = now();
    const Status status = served.send(method, bytes);
    slowest = std::max(slowest, now() - begin);
    ++(status.ok() ? answered[method].first : answered[method].second);
    EXPECT_EQ(broken_promise(status), "") << "mutation " << i << " from seed " << seed << " of " << method
                                          << ": " << testing::PrintToString(bytes);
  }
  served.expect_right_ones_taken();
  std::cout << count << " mutations from seed " << seed << ", slowest " << slowest << " s, "
            << ((peak_bytes() - before) >> 20) << " MiB more" << std::endl;
  EXPECT_LT(slowest, kMaxSeconds);
  EXPECT_LT(peak_bytes() - before, kMaxBytes);
  for (const auto& [method, both] : answered) {
    std::cout << method << ": " << both.first << " taken, " << both.second << " refused" << std::endl;
    if (count >= 1000) {
      EXPECT_GT(both.first, 0) << method;
      EXPECT_GT(both.second, 0) << method;
    }
  }
}

// Tracker and agent at once, which answer each call with the bytes that are set for its method.
class Answering : public grpc::CallbackGenericService {
 public:
  Answering() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~Answering() override { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void set(std::map<std::string, std::string> replies) {
    const std::lock_guard lock(mutex_);
    replies_ = std::move(replies);
  }

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    const std::lock_guard lock(mutex_);
    const std::string method = context->method().substr(context->method().rfind('.') + 1);
    return new Reply(replies_[method], method == "Agent/Upload");
  }

 private:
  class Reply : public grpc::ServerGenericBidiReactor {
   public:
    Reply(const std::string& bytes, bool reads_all) : reply_(buffer_of(bytes)), reads_all_(reads_all) {
      StartRead(&request_);
    }
    void OnReadDone(bool ok) override {
      if (ok && reads_all_) return StartRead(&request_);
      StartWriteAndFinish(&reply_, {}, Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    ByteBuffer request_, reply_;
    const bool reads_all_;
  };

  int port_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::string> replies_;
  std::unique_ptr<grpc::Server> server_;
};

// Replies that a tracker and an agent would give.
std::map<std::string, std::pair<std::string, std::string>> replies_at(const std::string& address) {
  DeviceInfo device = announcement("a", "one").device();
  device.set_address(address);
  DevicesReply devices;
  *devices.mutable_version() = own_version();
  DeviceState* state = devices.add_devices();
  *state->mutable_device() = device;
  state->set_state("free");
  Lease lease;
  lease.set_token(kToken);
  *lease.mutable_device() = device;
  lease.set_ttl_ms(10000);
  HelloReply hello;
  *hello.mutable_version() = own_version();
  *hello.mutable_device() = device;
  FileList missing;
  missing.add_sha256(sha256_of("small"));
  MeasureResult result;
  result.set_detail("a sentence");
  for (int i = 0; i < 3; ++i) result.add_samples(0.5);
  result.set_runs_per_sample(7);
  return {{"Tracker/Devices", {"DevicesReply", devices.SerializeAsString()}},
          {"Tracker/Acquire", {"Lease", lease.SerializeAsString()}},
          {"Tracker/Renew", {"Lease", lease.SerializeAsString()}},
          {"Tracker/Release", {"Empty", ""}},
          {"Tracker/ReportFailure", {"Empty", ""}},
          {"Agent/Hello", {"HelloReply", hello.SerializeAsString()}},
          {"Agent/Missing", {"FileList", missing.SerializeAsString()}},
          {"Agent/Upload", {"Empty", ""}},
          {"Agent/Measure", {"MeasureResult", result.SerializeAsString()}}};
}

// All that a tuner asks for; "" or what it must not end in.
std::string used(const std::string& address) {
  try {
    TrackerClient tracker("insecure://" + address, "", 0);
    tracker.devices();
    DeviceRequest request;
    request.target = "rv64gcv";
    request.architecture = "riscv64";
    request.features = {"v"};
    const auto device = tracker.acquire(request);
    device->upload({{sha256_of("small"), "", "small"}});
    MeasureRequest two;
    for (const char name : {'a', 'b'}) two.add_executables(std::string(64, name));
    two.set_timeout_seconds(5);
    device->measure(two, [](const MeasureResult& result) {
      EXPECT_TRUE(result.candidate() == 0 || result.candidate() == 1);
      for (const double sample : result.samples()) EXPECT_GT(sample, 0);
    });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Device)
      return std::string("an error that is not of a device: ") + error.what();
    return std::string(error.what()).empty() ? "an error without a sentence" : "";
  } catch (const std::exception& error) {
    return std::string("an exception escaped: ") + error.what();
  }
  return "";
}

TEST(Messages, RepliesWithWrongFieldsAreUsedOrRefused) {
  silence_grpc();
  const uint64_t seed = number_from("TC_SEED", 1), count = number_from("TC_MUTATIONS", 1000) / 4;
  const Mutations mutations(seed + 1000);
  Answering server;
  const auto right = replies_at(server.address());
  std::map<std::string, std::string> replies;
  for (const auto& [method, reply] : right) replies[method] = reply.second;
  server.set(replies);
  ASSERT_EQ(used(server.address()), "");
  const int64_t before = peak_bytes();
  double slowest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto& [method, reply] = *std::next(right.begin(), static_cast<std::ptrdiff_t>(i % right.size()));
    auto changed = replies;
    changed[method] = mutations.changed(reply.first, reply.second, i);
    server.set(changed);
    const double begin = now();
    const std::string what = used(server.address());
    slowest = std::max(slowest, now() - begin);
    EXPECT_EQ(what, "") << "mutation " << i << " from seed " << seed + 1000 << " of the reply to " << method
                        << ": " << testing::PrintToString(changed[method]);
  }
  std::cout << count << " mutations of replies, slowest " << slowest << " s, "
            << ((peak_bytes() - before) >> 20) << " MiB more" << std::endl;
  EXPECT_LT(slowest, kMaxSeconds);
  EXPECT_LT(peak_bytes() - before, kMaxBytes);
}

}  // namespace
}  // namespace tc::rpc
