// tc-agent as a program: with a tracker and alone, spoken to as a tuner does, and by those who may
// not.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/create_channel.h>

#include "runtime/agent/runner.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/sha256.h"
#include "runtime/rpc/tc_rpc.grpc.pb.h"
#include "runtime/rpc/version.h"
#include "tests/agent/program.h"

namespace tc {
namespace {

using grpc::StatusCode;

const std::string kToken(64, 'a');

class Tuner {
 public:
  explicit Tuner(const std::string& address, std::string token = kToken)
      : token_(std::move(token)),
        stub_(rpc::Agent::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {}

  grpc::Status hello(rpc::HelloReply* reply, int major = rpc::kWireMajor) {
    rpc::HelloRequest request;
    *request.mutable_version() = rpc::own_version();
    request.mutable_version()->set_major(major);
    grpc::ClientContext context;
    rpc::set_deadline(context, 20);
    return stub_->Hello(&context, request, reply);
  }

  std::string name_of(const std::string& bytes) { return rpc::sha256_of(bytes); }

  // Sends a file of which `data` and `copy` make the chunks; what the first one of a file has is added here.
  grpc::Status send(const std::string& name, int64_t total, const std::vector<rpc::Chunk>& chunks,
                    double seconds = 20) {
    grpc::ClientContext context;
    rpc::set_deadline(context, seconds);
    rpc::Empty reply;
    const auto writer = stub_->Upload(&context, &reply);
    for (size_t i = 0; i < chunks.size(); ++i) {
      rpc::Chunk chunk = chunks[i];
      if (i == 0) {
        chunk.set_token(token_);
        chunk.set_sha256(name);
        chunk.set_total_bytes(total);
      }
      if (!writer->Write(chunk)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  static rpc::Chunk data_chunk(const std::string& data) {
    rpc::Chunk chunk;
    chunk.set_data(data);
    return chunk;
  }
  static rpc::Chunk copy_chunk(const std::string& from, int64_t offset, int64_t bytes) {
    rpc::Chunk chunk;
    chunk.mutable_copy()->set_sha256(from);
    chunk.mutable_copy()->set_offset(offset);
    chunk.mutable_copy()->set_bytes(bytes);
    return chunk;
  }

  grpc::Status upload(const std::string& bytes, const std::string& name, int64_t total) {
    std::vector<rpc::Chunk> chunks;
    do {
      chunks.push_back(data_chunk(bytes.substr(chunks.size() << 20, 1 << 20)));
    } while (chunks.size() << 20 < bytes.size());
    return send(name, total, chunks);
  }
  // A file of a byte 'x' and of these bytes of another file.
  grpc::Status copy(const std::string& name, int64_t total, const std::string& from, int64_t offset,
                    int64_t bytes, const std::string& data = "") {
    rpc::Chunk second = copy_chunk(from, offset, bytes);
    second.set_data(data);
    return send(name, total, {data_chunk("x"), second});
  }
  std::string upload(const std::string& bytes) {
    const grpc::Status status = upload(bytes, name_of(bytes), static_cast<int64_t>(bytes.size()));
    EXPECT_TRUE(status.ok()) << status.error_message();
    return name_of(bytes);
  }

  std::vector<std::string> missing(const std::vector<std::string>& names) {
    rpc::FileList request, reply;
    request.set_token(token_);
    for (const std::string& name : names) request.add_sha256(name);
    grpc::ClientContext context;
    rpc::set_deadline(context, 20);
    const grpc::Status status = stub_->Missing(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return {reply.sha256().begin(), reply.sha256().end()};
  }

  // y = 2 * x on 1000 floats.
  rpc::MeasureRequest request(const std::vector<std::string>& executables) {
    rpc::MeasureRequest request;
    request.set_token(token_);
    for (const std::string& name : executables) request.add_executables(name);
    const agent::Port port = agent::make_port("x", "f32", {10, 100});
    for (rpc::Port* added : {request.add_inputs(), request.add_outputs()}) {
      added->set_name("x");
      added->set_dtype("f32");
      added->add_shape(10);
      added->add_shape(100);
    }
    for (const uint64_t seed : {1, 2}) {
      std::vector<float> values(1000);
      agent::fill_sample(port, seed, 0, values.data());
      for (float& value : values) value *= 2;
      auto* set = request.add_data_sets();
      set->set_seed(seed);
      set->add_expected(upload(std::string(reinterpret_cast<const char*>(values.data()), 4000)));
    }
    request.set_tolerance(1e-5);
    request.set_threads(1);
    request.set_rounds(3);
    request.set_sample_seconds(0.002);
    request.set_timeout_seconds(20);
    request.set_memory_bytes(64 << 20);
    return request;
  }

  grpc::Status measure(const rpc::MeasureRequest& request, std::vector<rpc::MeasureResult>* results,
                       double seconds = 60) {
    grpc::ClientContext context;
    rpc::set_deadline(context, seconds);
    const auto reader = stub_->Measure(&context, request);
    rpc::MeasureResult result;
    while (reader->Read(&result)) results->push_back(result);
    return reader->Finish();
  }

 private:
  std::string token_;
  std::unique_ptr<rpc::Agent::Stub> stub_;
};

class Standalone : public testing::Test {
 protected:
  explicit Standalone(std::vector<std::string> command = {"runtime/agent/tc-agent"})
      : command_(std::move(command)) {}

  void SetUp() override {
    std::ofstream(token_file_) << kToken << "\n";
    // Paths of sockets are short.
    address_ = "unix:/tmp/tc-agent-test-" + std::to_string(getpid()) + ".sock";
    for (const std::string& word : {std::string("--standalone"), address_, std::string("--token-file"),
                                    token_file_, std::string("--store-mib"), store_mib_})
      command_.push_back(word);
    agent_ = std::make_unique<Program>(command_, "agent");
    agent_->word_after("listens at ");
  }
  ~Standalone() override { unlink(address_.c_str() + 5); }

  std::vector<std::string> command_;
  std::string token_file_ = testing::TempDir() + "/token", address_, store_mib_ = "64";
  std::unique_ptr<Program> agent_;
};

TEST_F(Standalone, MeasuresTheGoodAndClassesTheBad) {
  Tuner tuner(address_);
  rpc::HelloReply hello;
  ASSERT_TRUE(tuner.hello(&hello).ok());
  EXPECT_EQ(hello.device().runner(), "native");
  EXPECT_EQ(hello.device().unit(), "seconds");
  EXPECT_GE(hello.device().cores(), 1);
  EXPECT_GE(hello.device().features_size(), 5);
  EXPECT_NE(hello.device().key(), "");
  std::vector<std::string> names;
  for (const int behaviour : {0, 2, 4, 5, 6}) names.push_back(tuner.upload(candidate(behaviour)));
  names.push_back(tuner.upload(read_text("tests/agent/served_model")));
  EXPECT_TRUE(tuner.missing(names).empty());
  std::vector<rpc::MeasureResult> results;
  const grpc::Status status = tuner.measure(tuner.request(names), &results);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(results.size(), 6u);
  std::vector<rpc::Outcome> outcomes(6);
  for (const rpc::MeasureResult& result : results) {
    outcomes[static_cast<size_t>(result.candidate())] = result.outcome();
    EXPECT_EQ(result.samples_size(), result.outcome() == rpc::OK ? 3 : 0) << result.detail();
    EXPECT_EQ(result.detail().empty(), result.outcome() == rpc::OK);
  }
  EXPECT_EQ(outcomes, (std::vector<rpc::Outcome>{rpc::OK, rpc::CRASH, rpc::WRONG_RESULT, rpc::WRONG_RESULT,
                                                 rpc::CRASH, rpc::OK}));
  EXPECT_EQ(agent_->end(SIGTERM), 0);
}

TEST_F(Standalone, RefusesStrangersAndNonsense) {
  Tuner tuner(address_);
  rpc::HelloReply hello;
  EXPECT_EQ(tuner.hello(&hello, 99).error_code(), StatusCode::FAILED_PRECONDITION);

  Tuner stranger(address_, std::string(64, 'b'));
  std::vector<rpc::MeasureResult> results;
  rpc::MeasureRequest request = tuner.request({tuner.upload(candidate(0))});
  rpc::MeasureRequest strange = request;
  strange.set_token(std::string(64, 'b'));
  EXPECT_EQ(tuner.measure(strange, &results).error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(stranger.upload("text", stranger.name_of("text"), 4).error_code(), StatusCode::PERMISSION_DENIED);

  EXPECT_EQ(tuner.upload("text", tuner.name_of("other"), 4).error_code(), StatusCode::DATA_LOSS);
  EXPECT_EQ(tuner.upload("text", tuner.name_of("text"), 3).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(tuner.upload("text", tuner.name_of("text"), 5).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(tuner.upload("text", "../../etc/passwd", 4).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(tuner.upload("text", tuner.name_of("text"), int64_t{1} << 40).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(tuner.missing({tuner.name_of("text")}).size(), 1u);

  const auto refused = [&](auto&& change, const std::string& text,
                           StatusCode code = StatusCode::INVALID_ARGUMENT) {
    rpc::MeasureRequest changed = request;
    change(changed);
    const grpc::Status status = tuner.measure(changed, &results);
    EXPECT_EQ(status.error_code(), code);
    EXPECT_NE(status.error_message().find(text), std::string::npos) << status.error_message();
  };
  using Request = rpc::MeasureRequest;
  refused([](Request& it) { it.clear_executables(); }, "'executables' has 0 entries");
  refused([](Request& it) { it.set_executables(0, std::string(64, '0')); }, "not here",
          StatusCode::NOT_FOUND);
  refused([](Request& it) { it.mutable_data_sets()->RemoveLast(); }, "'data_sets' has 1 entries");
  refused([](Request& it) { it.mutable_outputs(0)->set_shape(0, 11); }, "4000 bytes; the tensor has 4400");
  refused([](Request& it) { it.mutable_inputs(0)->set_shape(0, int64_t{1} << 60); }, "larger than");
  refused([](Request& it) { it.set_rounds(-1); }, "'rounds' is -1");
  refused([](Request& it) { it.set_slow_ratio(-1); }, "'slow_ratio' is -1");
  refused([](Request& it) { it.set_longest_call(-1); }, "'longest_call' is -1");
  refused([](Request& it) { it.set_known_call(-1); }, "'known_call' is -1");
  refused([](Request& it) { it.add_calls(0); }, "'calls' is 0");
  refused(
      [](Request& it) {
        for (int i = 0; i < 3; ++i) it.add_calls(1);
      },
      "'calls' has 3 entries, not 1 to 1");
  refused([](Request& it) { it.set_threads(100000); }, "'threads'");
  refused([](Request& it) { it.set_timeout_seconds(NAN); }, "'timeout_seconds' is");
  refused([](Request& it) { it.set_memory_bytes(-5); }, "'memory_bytes'");
  refused([](Request& it) { it.mutable_data_sets(0)->clear_expected(); }, "0 expected tensors");
  EXPECT_TRUE(results.empty());

  EXPECT_TRUE(tuner.measure(request, &results).ok());
  EXPECT_EQ(results.size(), 1u);
}

// What a tuner leaves behind when it goes away does not block the next.
TEST_F(Standalone, CancelledCallMakesRoom) {
  Tuner tuner(address_);
  std::vector<rpc::MeasureResult> results;
  rpc::MeasureRequest request = tuner.request({tuner.upload(candidate(10))});
  EXPECT_EQ(tuner.measure(request, &results, 1).error_code(), StatusCode::DEADLINE_EXCEEDED);
  request.set_executables(0, tuner.upload(candidate(0)));
  EXPECT_TRUE(tuner.measure(request, &results, 20).ok());
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].outcome(), rpc::OK) << results[0].detail();
}

TEST_F(Standalone, StoreIsBounded) {
  Tuner tuner(address_);
  std::vector<std::string> names;
  for (char letter = 'a'; letter < 'e'; ++letter)
    names.push_back(tuner.upload(std::string(size_t{20} << 20, letter)));
  EXPECT_EQ(tuner.missing(names), std::vector<std::string>{names[0]});
}

TEST_F(Standalone, AFileIsMadeOfBytesOfAnother) {
  Tuner tuner(address_);
  rpc::HelloReply hello;
  ASSERT_TRUE(tuner.hello(&hello).ok());
  EXPECT_EQ(hello.device().store_bytes(), int64_t{64} << 20);
  const std::string abc = tuner.upload("abcdef");
  EXPECT_TRUE(tuner.copy(tuner.name_of("xbcd"), 4, abc, 1, 3).ok());
  EXPECT_TRUE(tuner.missing({tuner.name_of("xbcd")}).empty());
  const auto refused = [](const grpc::Status& status, StatusCode code, const std::string& text) {
    EXPECT_EQ(status.error_code(), code);
    EXPECT_NE(status.error_message().find(text), std::string::npos) << status.error_message();
  };
  const std::string name = tuner.name_of("xabcdef");
  const StatusCode bad = StatusCode::INVALID_ARGUMENT;
  refused(tuner.copy(name, 7, tuner.name_of("nowhere"), 0, 6), StatusCode::NOT_FOUND,
          "a file to copy from is not here; send the bytes");
  refused(tuner.copy(name, 7, "../../etc/passwd", 0, 6), bad, "a file to copy has no SHA-256 for a name");
  refused(tuner.copy(name, 7, abc, 0, 6, "y"), bad, "a chunk with data and a copy");
  refused(tuner.copy(name, 7, abc, 0, 7), bad, "a copy of 7 bytes from byte 0 of a file that has 6");
  refused(tuner.copy(name, 7, abc, -1, 6), bad, "a copy of 6 bytes from byte -1 of");
  refused(tuner.copy(name, 7, abc, INT64_MAX, INT64_MAX), bad, "of a file that has 6");
  refused(tuner.copy(name, 7, abc, 1, 0), bad, "a copy of 0 bytes");
  refused(tuner.copy(name, 6, abc, 0, 6), bad, "longer than announced");
  refused(tuner.copy(name, 7, abc, 1, 5), bad, "shorter than announced");
  refused(tuner.copy(name, 6, abc, 1, 5), StatusCode::DATA_LOSS, "do not have the SHA-256 that names it");
  EXPECT_EQ(tuner.missing({name}).size(), 1u);
}

// The static agent for boards, itself under qemu, which has no system call filters to pass on.
class Riscv64 : public Standalone {
 protected:
  Riscv64()
      : Standalone({"/usr/bin/qemu-riscv64", "runtime/agent/riscv64/tc-agent", "--launcher",
                    "/usr/bin/qemu-riscv64"}) {
    store_mib_ = "128";
  }

  void SetUp() override {
    if (access("runtime/agent/riscv64/tc-agent", F_OK) != 0)
      GTEST_SKIP() << "there is no agent for riscv64: its packages could not be fetched";
    Standalone::SetUp();
  }
};

// The emulated board hashes as slowly as a small one.
TEST_F(Riscv64, AnUploadEndsWhileItIsHashed) {
  Tuner tuner(address_);
  const std::string part = tuner.upload(std::string(size_t{1} << 20, 'p')), no_name(64, '0');
  constexpr int kParts = 50;
  constexpr int64_t kPart = 1 << 20, kTotal = kParts * kPart;
  const std::string file = tuner.name_of(std::string(kTotal, 'p'));
  const std::vector<rpc::Chunk> copies(kParts, Tuner::copy_chunk(part, 0, 1 << 20));
  ASSERT_TRUE(tuner.send(file, kTotal, copies, 60).ok());
  const auto send = [&](double deadline) {
    const std::vector<rpc::Chunk> chunks = {Tuner::data_chunk(std::string(kPart, 'x')),
                                            Tuner::copy_chunk(file, 0, kTotal)};
    return tuner.send(no_name, kTotal + kPart, chunks, deadline).error_code();
  };
  const auto seconds_of = [](auto&& action) {
    const auto begin = std::chrono::steady_clock::now();
    action();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double whole = seconds_of([&] { EXPECT_EQ(send(60), StatusCode::DATA_LOSS); });
  // The second of these has room beside the file (50 + 78 MiB), but not while the first has it.
  double cancelled = whole;
  for (int attempt = 0; attempt < 3 && cancelled > whole / 2; ++attempt)
    cancelled = seconds_of([&] {
      EXPECT_EQ(send(whole / 8), StatusCode::DEADLINE_EXCEEDED);
      EXPECT_EQ(tuner.send(no_name, int64_t{78} << 20, {Tuner::data_chunk("x")}).error_code(),
                StatusCode::INVALID_ARGUMENT);
    });
  EXPECT_TRUE(tuner.missing({file}).empty());
  EXPECT_LE(cancelled, whole / 2) << whole << " s without an end";
}

TEST_F(Riscv64, StaticAgentMeasures) {
  Tuner tuner(address_);
  rpc::HelloReply hello;
  const grpc::Status greeting = tuner.hello(&hello);
  ASSERT_TRUE(greeting.ok()) << greeting.error_message();
  EXPECT_EQ(hello.device().architecture(), "riscv64");
  for (const std::string& name : hello.device().isolation()) EXPECT_NE(name, "seccomp");
  std::vector<std::string> names;
  for (const int behaviour : {0, 2, 4, 5, 11})
    names.push_back(tuner.upload(candidate(behaviour, "tests/agent/candidate.riscv64")));
  names.push_back(tuner.upload(read_text("tests/agent/served_model.riscv64")));
  rpc::MeasureRequest request = tuner.request(names);
  std::vector<rpc::MeasureResult> results;
  const grpc::Status status = tuner.measure(request, &results);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(results.size(), 6u);
  std::vector<rpc::Outcome> outcomes(6);
  for (const rpc::MeasureResult& result : results) {
    outcomes[static_cast<size_t>(result.candidate())] = result.outcome();
    EXPECT_EQ(result.samples_size(), result.outcome() == rpc::OK ? 3 : 0) << result.detail();
  }
  EXPECT_EQ(outcomes, (std::vector<rpc::Outcome>{rpc::OK, rpc::CRASH, rpc::WRONG_RESULT, rpc::WRONG_RESULT,
                                                 rpc::CRASH, rpc::OK}));
  EXPECT_EQ(agent_->end(SIGTERM), 0);
}

TEST(Agent, JoinsItsTrackerAndComesBack) {
  auto tracker =
      std::make_unique<Program>(std::vector<std::string>{"runtime/tracker/tc-tracker", "--insecure",
                                                         "--listen", "127.0.0.1:0", "--heartbeat-ms", "200"},
                                "tracker");
  const std::string address = tracker->word_after("listens at ");
  Program agent({"runtime/agent/tc-agent", "--tracker", address, "--insecure", "--name", "here"}, "joined");
  const std::string agent_address = agent.word_after("listens at ");
  agent.word_after("announced to the tracker at ");

  const auto stub = rpc::Tracker::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  rpc::Lease lease;
  const auto acquire = [&] {
    rpc::AcquireRequest request;
    *request.mutable_version() = rpc::own_version();
    request.set_target("this machine");
    request.set_architecture("x86-64");
    request.set_wait_ms(1000);
    grpc::ClientContext context;
    rpc::set_deadline(context, 10);
    context.set_wait_for_ready(true);
    return stub->Acquire(&context, request, &lease);
  };
  ASSERT_TRUE(acquire().ok());
  EXPECT_EQ(lease.device().name(), "here");
  EXPECT_EQ(lease.device().address(), agent_address);

  Tuner tuner(agent_address, lease.token());
  std::vector<rpc::MeasureResult> results;
  rpc::MeasureRequest request = tuner.request({tuner.upload(candidate(0))});
  EXPECT_TRUE(tuner.measure(request, &results).ok());
  EXPECT_EQ(results.size(), 1u);
  rpc::MeasureRequest strange = request;
  strange.set_token(std::string(64, 'c'));
  EXPECT_EQ(tuner.measure(strange, &results).error_code(), StatusCode::PERMISSION_DENIED);

  // Another tracker in the old one's place gets the agent too.
  tracker->end(SIGKILL);
  agent.word_after("trying on");
  tracker = std::make_unique<Program>(
      std::vector<std::string>{"runtime/tracker/tc-tracker", "--insecure", "--listen", address}, "tracker");
  grpc::Status status;
  for (int i = 0; i < 100; ++i) {
    status = acquire();
    if (status.ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(agent.end(SIGTERM), 0);
}

TEST(Agent, SaysWhatIsWrongWithItsArguments) {
  const auto says = [](std::vector<std::string> arguments, const std::string& text) {
    arguments.insert(arguments.begin(), "runtime/agent/tc-agent");
    Program agent(std::move(arguments), "wrong");
    EXPECT_NE(agent.wait(), 0);
    EXPECT_NE(agent.log().find(text), std::string::npos) << agent.log();
  };
  says({}, "say where to serve");
  says({"--tracker", "10.0.0.1:9190", "--insecure"}, "loopback");
  says({"--tracker", "127.0.0.1", "--insecure", "--listen", "0.0.0.0:0"}, "loopback");
  says({"--tracker", "127.0.0.1", "--credentials", "/nowhere"}, "/nowhere");
  says({"--standalone", "unix:/tmp/x"}, "--token-file");
  says({"--standalone", "unix:/" + std::string(200, 'x'), "--token-file", "/nowhere"}, "too long");
  says({"--tracker", "127.0.0.1", "--insecure", "--runner", "qemu", "--qemu", "no-emulator"},
       "apt install qemu-user");
  says({"--tracker", "127.0.0.1", "--name", "two\nlines"}, "a name has");
}

}  // namespace
}  // namespace tc
