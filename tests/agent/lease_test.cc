// Clients whose lease is over block nobody: stalled uploads, endless candidates, requests for more memory
// than there is, nonsense; against the tracker and the agent as programs.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/create_channel.h>
#include <grpcpp/impl/codegen/client_unary_call.h>

#include "runtime/agent/runner.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/sha256.h"
#include "runtime/rpc/tc_rpc.grpc.pb.h"
#include "runtime/rpc/version.h"
#include "tests/agent/program.h"

namespace tc {
namespace {

using grpc::Status;
using grpc::StatusCode;

constexpr int kLoop = 10;  // of tests/agent/candidate.c

// A connection of its own.
std::shared_ptr<grpc::Channel> connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxSendMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// An upload that has begun.
struct Sending {
  Sending(const std::string& address, const std::string& token, int64_t total, size_t sent)
      : stub(rpc::Agent::NewStub(connect(address))) {
    rpc::set_deadline(context, 60);
    writer = stub->Upload(&context, &reply);
    if (token.empty()) return;
    rpc::Chunk chunk;
    chunk.set_token(token);
    chunk.set_sha256(std::string(64, 'a'));
    chunk.set_total_bytes(total);
    chunk.set_data(std::string(sent, 'x'));
    writer->Write(chunk);
  }
  grpc::ClientContext context;
  rpc::Empty reply;
  std::unique_ptr<rpc::Agent::Stub> stub;
  std::unique_ptr<grpc::ClientWriter<rpc::Chunk>> writer;
};

class LeaseTest : public testing::Test {
 protected:
  void start(const std::vector<std::string>& tracker_options = {}) {
    std::vector<std::string> words = {"runtime/tracker/tc-tracker", "--insecure", "--listen", "127.0.0.1:0"};
    words.insert(words.end(), tracker_options.begin(), tracker_options.end());
    tracker_program_ = std::make_unique<Program>(words, "lease-tracker");
    tracker_address_ = tracker_program_->word_after("listens at ");
    agent_program_ = std::make_unique<Program>(
        std::vector<std::string>{"runtime/agent/tc-agent", "--tracker", tracker_address_, "--insecure",
                                 "--name", "here", "--memory-mib", "256", "--store-mib", "64"},
        "lease-agent");
    address_ = agent_program_->word_after("listens at ");
    agent_program_->word_after("announced to the tracker at ");
    tracker_ = rpc::Tracker::NewStub(connect(tracker_address_));
    agent_ = rpc::Agent::NewStub(connect(address_));
  }

  std::string acquire() {
    rpc::AcquireRequest request;
    *request.mutable_version() = rpc::own_version();
    request.set_target("this machine");
    request.set_architecture("x86-64");
    request.set_wait_ms(10000);
    grpc::ClientContext context;
    rpc::set_deadline(context, 20);
    rpc::Lease lease;
    const Status status = tracker_->Acquire(&context, request, &lease);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return lease.token();
  }
  void release(const std::string& token) {
    rpc::LeaseName name;
    name.set_token(token);
    grpc::ClientContext context;
    rpc::Empty reply;
    EXPECT_TRUE(tracker_->Release(&context, name, &reply).ok());
  }

  std::string upload(const std::string& token, const std::string& bytes) {
    rpc::Chunk chunk;
    chunk.set_token(token);
    chunk.set_sha256(rpc::sha256_of(bytes));
    chunk.set_total_bytes(static_cast<int64_t>(bytes.size()));
    grpc::ClientContext context;
    rpc::set_deadline(context, 20);
    rpc::Empty reply;
    const auto writer = agent_->Upload(&context, &reply);
    for (size_t done = 0; done < bytes.size();) {
      chunk.set_data(bytes.substr(done, 1 << 20));
      done += chunk.data().size();
      if (!writer->Write(chunk)) break;
      chunk.Clear();
    }
    writer->WritesDone();
    const Status status = writer->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return rpc::sha256_of(bytes);
  }
  // y = 2 * x on 1000 floats, by a candidate of that behaviour.
  rpc::MeasureRequest request(const std::string& token, int behaviour) {
    rpc::MeasureRequest request;
    request.set_token(token);
    request.add_executables(upload(token, candidate(behaviour)));
    for (rpc::Port* port : {request.add_inputs(), request.add_outputs()}) {
      port->set_name("x");
      port->set_dtype("f32");
      port->add_shape(1000);
    }
    for (const uint64_t seed : {1, 2}) {
      std::vector<float> values(1000);
      agent::fill_sample(agent::make_port("x", "f32", {1000}), seed, 0, values.data());
      for (float& value : values) value *= 2;
      auto* set = request.add_data_sets();
      set->set_seed(seed);
      set->add_expected(upload(token, std::string(reinterpret_cast<const char*>(values.data()), 4000)));
    }
    request.set_tolerance(1e-5);
    request.set_threads(1);
    request.set_rounds(3);
    request.set_sample_seconds(0.002);
    request.set_timeout_seconds(behaviour == kLoop ? 3600 : 20);
    request.set_memory_bytes(64 << 20);
    return request;
  }
  Status measure(const rpc::MeasureRequest& request, std::vector<rpc::MeasureResult>* results = nullptr) {
    grpc::ClientContext context;
    rpc::set_deadline(context, 60);
    const auto stub = rpc::Agent::NewStub(connect(address_));
    const auto reader = stub->Measure(&context, request);
    rpc::MeasureResult result;
    while (reader->Read(&result))
      if (results != nullptr) results->push_back(result);
    return reader->Finish();
  }
  // The next client finds the device as if nothing had been.
  void expect_good_measurement_within(double seconds) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string token = acquire();
    std::vector<rpc::MeasureResult> results;
    const Status status = measure(request(token, 0), &results);
    EXPECT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].outcome(), rpc::OK) << results[0].detail();
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), seconds);
    release(token);
  }
  // Most memory that the agent has had so far, in MiB.
  int64_t peak_mib() const {
    const std::string status = read_text("/proc/" + std::to_string(agent_program_->pid()) + "/status");
    return std::stoll(status.substr(status.find("VmHWM:") + 6)) >> 10;
  }

  std::unique_ptr<Program> tracker_program_, agent_program_;
  std::string tracker_address_, address_;
  std::unique_ptr<rpc::Tracker::Stub> tracker_;
  std::unique_ptr<rpc::Agent::Stub> agent_;
};

TEST_F(LeaseTest, StalledUploadsBlockNobody) {
  start();
  const std::string token = acquire();
  std::vector<std::unique_ptr<Sending>> stalled;
  for (int i = 0; i < 90; ++i) stalled.push_back(std::make_unique<Sending>(address_, token, 1 << 20, 100));
  for (int i = 0; i < 90; ++i) stalled.push_back(std::make_unique<Sending>(address_, "", 0, 0));
  release(token);
  expect_good_measurement_within(20);
  int refused = 0;
  for (const auto& upload : stalled) {
    const Status status = upload->writer->Finish();
    EXPECT_NE(status.error_code(), StatusCode::OK);
    EXPECT_NE(status.error_code(), StatusCode::DEADLINE_EXCEEDED) << "its own deadline, not the agent's";
    if (status.error_message().find("under way already, which is all it may have; wait for one to end") !=
        std::string::npos)
      ++refused;
  }
  EXPECT_GT(refused, 0);
  EXPECT_NE(agent_program_->log().find("refused Upload"), std::string::npos);
}

TEST_F(LeaseTest, OneStalledUploadDoesNotHoldUpTheHoldersOthers) {
  start();
  const std::string token = acquire();
  Sending stalled(address_, token, 1 << 20, 100);
  const auto begin = std::chrono::steady_clock::now();
  upload(token, "another file");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  stalled.context.TryCancel();
  stalled.writer->Finish();
}

TEST_F(LeaseTest, UploadsTakeNoMoreMemoryThanTheStore) {
  start();
  const std::string token = acquire();
  std::vector<std::unique_ptr<Sending>> uploads;
  for (int i = 0; i < 12; ++i)
    uploads.push_back(std::make_unique<Sending>(address_, token, int64_t{60} << 20, 100));
  int refused = 0;
  std::this_thread::sleep_for(std::chrono::seconds(3));
  for (size_t i = 0; i < uploads.size(); ++i) {
    uploads[i]->writer->WritesDone();
    const std::string text = uploads[i]->writer->Finish().error_message();
    if (text.find("files that are on their way take all the memory there is for them (--store-mib)") !=
        std::string::npos)
      ++refused;
  }
  EXPECT_EQ(refused, 3);
  EXPECT_LT(peak_mib(), 256);
}

TEST_F(LeaseTest, ACandidateEndsWhenItsLeaseIsGivenBack) {
  start();
  const std::string token = acquire();
  const rpc::MeasureRequest endless = request(token, kLoop);
  Status status;
  std::thread client([&] { status = measure(endless); });
  std::this_thread::sleep_for(std::chrono::seconds(1));
  release(token);
  expect_good_measurement_within(20);
  client.join();
  EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(status.error_message().find("the measurement was ended: its lease is over"), 0u)
      << status.error_message();
}

TEST_F(LeaseTest, ACandidateEndsWhenItsLeaseRunsOut) {
  start({"--lease-ms", "6000"});
  const rpc::MeasureRequest endless = request(acquire(), kLoop);
  const auto begin = std::chrono::steady_clock::now();
  const Status status = measure(endless);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(25));
  EXPECT_EQ(status.error_message(), "the measurement was ended: its lease is over");
}

TEST_F(LeaseTest, MeasurementsThatWaitAreFew) {
  start();
  const std::string token = acquire();
  const rpc::MeasureRequest endless = request(token, kLoop);
  const auto stub = rpc::Agent::NewStub(connect(address_));
  std::vector<std::thread> clients;
  std::atomic<int> refused = 0;
  for (int i = 0; i < 10; ++i)
    clients.emplace_back([&] {
      grpc::ClientContext context;
      rpc::set_deadline(context, 30);
      const auto reader = stub->Measure(&context, endless);
      rpc::MeasureResult result;
      while (reader->Read(&result)) {}
      if (reader->Finish().error_message() ==
          "this lease has 4 measurements under way already, which is all it may have; wait for one to end")
        ++refused;
    });
  std::this_thread::sleep_for(std::chrono::seconds(1));
  release(token);
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(refused, 6);
}

TEST_F(LeaseTest, InputsAndOutputsCountAsMemory) {
  start();
  rpc::MeasureRequest large = request(acquire(), 0);
  large.mutable_inputs(0)->set_shape(0, int64_t{256} << 20);
  const Status status = measure(large);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(
      status.error_message(),
      "the message is malformed: the inputs and outputs of this batch take 5368713120 bytes; this agent gives "
      "268435456 (--memory-mib): measure fewer candidates together, or smaller tensors");
  large.mutable_inputs(0)->set_shape(0, int64_t{400} << 20);
  for (int i = 0; i < 50; ++i) *large.add_inputs() = large.inputs(0);
  EXPECT_EQ(measure(large).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_LT(peak_mib(), 200);
}

TEST_F(LeaseTest, NonsenseLeavesFewLines) {
  start();
  // The name of an agent, or a token, that is not UTF-8.
  const std::string body("\x0a\x04\x0a\x02\xff\xfe", 6), token("\x0a\x02\xff\xfe", 4);
  const auto send = [](const std::string& address, const char* method, const std::string& bytes) {
    const auto channel = connect(address);
    const grpc::Slice slice(bytes);
    for (int i = 0; i < 1000; ++i) {
      const grpc::ByteBuffer message(&slice, 1);
      grpc::ByteBuffer reply;
      grpc::ClientContext context;
      rpc::set_deadline(context, 20);
      const grpc::internal::RpcMethod call(method, grpc::internal::RpcMethod::NORMAL_RPC);
      const Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
          channel.get(), call, &context, message, &reply);
      EXPECT_FALSE(status.ok());
    }
  };
  send(tracker_address_, "/tc.rpc.Tracker/Announce", body);
  send(address_, "/tc.rpc.Agent/Missing", token);
  for (const Program* program : {tracker_program_.get(), agent_program_.get()}) {
    EXPECT_LT(program->log().size(), 20000u);
    EXPECT_NE(program->log().find("refused a message that cannot be read: String field"), std::string::npos)
        << program->log().substr(0, 2000);
  }
  expect_good_measurement_within(20);
}

}  // namespace
}  // namespace tc
