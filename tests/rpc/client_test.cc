// The tuner's client against a tracker and an agent of the test's own: leases, files, results, and
// what becomes of them when a side goes away.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "runtime/rpc/channel.h"
#include "runtime/rpc/log.h"
#include "runtime/rpc/sha256.h"
#include "runtime/rpc/version.h"
#include "runtime/tracker/service.h"
#include "tests/rpc/fleet.h"
#include "tuner/client.h"
#include "tuner/shared_blocks.h"

namespace tc::rpc {
namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

// Keeps files in memory and answers as the test wants.
class FakeAgent : public Agent::Service {
 public:
  explicit FakeAgent(const std::string& name, const std::string& host = "127.0.0.1")
      : announcement_(announcement(name, "one")) {
    version_ = own_version();
    Address address{host, 0};
    grpc::ServerBuilder builder;
    int port = 0;
    configure_server(builder, address, keyring_, &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    announcement_.mutable_device()->set_address("127.0.0.1:" + std::to_string(port));
  }
  ~FakeAgent() override { stop(); }
  void stop() { server_->Shutdown(std::chrono::system_clock::now()); }

  Status Hello(ServerContext*, const HelloRequest*, HelloReply* reply) override {
    *reply->mutable_version() = version_;
    *reply->mutable_device() = announcement_.device();
    if (!other_name_.empty()) reply->mutable_device()->set_name(other_name_);
    return Status::OK;
  }
  Status Missing(ServerContext*, const FileList* files, FileList* missing) override {
    for (const std::string& hash : files->sha256())
      if (!files_.count(hash)) missing->add_sha256(hash);
    return Status::OK;
  }
  Status Upload(ServerContext*, grpc::ServerReader<Chunk>* reader, Empty*) override {
    Chunk first, chunk;
    if (!reader->Read(&first)) return Status(StatusCode::INVALID_ARGUMENT, "no chunk");
    std::string bytes;
    int chunks = 0;
    chunk = first;
    do {
      if (chunk.data().size() > kMaxChunkBytes || (chunks > 0 && !chunk.sha256().empty()))
        return Status(StatusCode::INVALID_ARGUMENT, "a bad chunk");
      bytes += chunk.data();
      sent_ += static_cast<int64_t>(chunk.data().size());
      if (chunk.has_copy()) {
        if (!files_.count(chunk.copy().sha256())) return Status(StatusCode::NOT_FOUND, "no such file");
        bytes += files_[chunk.copy().sha256()].substr(static_cast<size_t>(chunk.copy().offset()),
                                                      static_cast<size_t>(chunk.copy().bytes()));
      }
      ++chunks;
    } while (reader->Read(&chunk));
    if (static_cast<int64_t>(bytes.size()) != first.total_bytes() || sha256_of(bytes) != first.sha256())
      return Status(StatusCode::INVALID_ARGUMENT, "the bytes do not have that hash");
    files_[first.sha256()] = bytes;
    chunks_ += chunks;
    return Status::OK;
  }
  Status Measure(ServerContext* context, const MeasureRequest* request,
                 grpc::ServerWriter<MeasureResult>* writer) override {
    for (int i = request->executables_size() - 1; i >= 0; --i) {
      MeasureResult result;
      result.set_candidate(i + shift_);
      result.add_samples(sample_);
      writer->Write(result);
      if (stop_after_one_) return Status(StatusCode::UNAVAILABLE, "gone");
    }
    while (hang_ && !context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return Status::OK;
  }

  AnnounceRequest announcement_;
  Version version_;
  std::string other_name_;
  std::map<std::string, std::string> files_;
  int chunks_ = 0, shift_ = 0;
  int64_t sent_ = 0;  // bytes that were not copied
  double sample_ = 0.5;
  bool stop_after_one_ = false;
  std::atomic<bool> hang_{false};

 private:
  Keyring keyring_{insecure_credentials({"127.0.0.1", 0})};
  std::unique_ptr<grpc::Server> server_;
};

class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    silence_grpc();
    options_.lease_ms = 1500;
    options_.heartbeat_ms = 60000;
    start();
    join();
  }
  void start() {
    server_.reset();
    server_ = std::make_unique<tracker::Server>(bound_, insecure_credentials(bound_), options_);
    bound_ = server_->address();
  }
  void join() { ASSERT_TRUE(server_->fleet().announce(agent_.announcement_).ok()); }
  std::string state() {
    DevicesReply reply;
    server_->fleet().list(&reply);
    return reply.devices_size() ? reply.devices(0).state() : "none";
  }
  std::unique_ptr<LeasedDevice> acquire() {
    DeviceRequest request;
    request.target = "rv64gcv";
    request.architecture = "riscv64";
    request.features = {"v"};
    return TrackerClient("insecure://" + bound_.text()).acquire(request);
  }
  // Text of the DeviceLost error that `call` throws.
  template <class Call>
  std::string lost(const Call& call) {
    try {
      call();
    } catch (const DeviceLost& error) {
      return error.what();
    }
    ADD_FAILURE() << "no DeviceLost";
    return "";
  }
  static MeasureRequest two() {
    MeasureRequest request;
    request.add_executables(std::string(64, 'a'));
    request.add_executables(std::string(64, 'b'));
    request.set_timeout_seconds(5);
    return request;
  }
  static void ignore(const MeasureResult&) {}

  tracker::FleetOptions options_;
  FakeAgent agent_{"a"};
  Address bound_{"127.0.0.1", 0};
  std::unique_ptr<tracker::Server> server_;
};

TEST_F(ClientTest, HoldsALeaseWhileItLivesAndGivesItBack) {
  auto device = acquire();
  EXPECT_EQ(device->info().name(), "a");
  // Longer than a lease.
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  EXPECT_EQ(state(), "leased");
  EXPECT_FALSE(device->lost());
  device.reset();
  EXPECT_EQ(state(), "free");
}

TEST_F(ClientTest, SendsWhatTheDeviceLacksInChunks) {
  const auto device = acquire();
  std::string large(2500000, 'x');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * i >> 3);
  const std::string path =
      std::filesystem::temp_directory_path() / ("tc-client-test-" + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary) << large;
  const std::vector<RemoteFile> files = {
      {sha256_of("small"), "", "small"}, {sha256_of(""), "", ""}, {sha256_of_file(path), path, ""}};
  device->upload(files);
  EXPECT_EQ(agent_.files_.size(), 3u);
  EXPECT_EQ(agent_.files_.at(sha256_of(large)), large);
  EXPECT_EQ(agent_.chunks_, 5);
  device->upload(files);
  EXPECT_EQ(agent_.chunks_, 5);
  std::filesystem::remove(path);
  try {
    device->upload({{std::string(64, '0'), path, ""}});
    ADD_FAILURE() << "a missing file was sent";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), path + " cannot be read");
  }
  try {
    device->upload({{std::string(64, '0'), "", "other bytes"}});
    ADD_FAILURE() << "a file under a wrong name was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("refused: the bytes do not have that hash"), std::string::npos);
  }
}

// Bytes without a pattern.
std::string noise(size_t size, uint64_t seed) {
  std::string bytes(size, ' ');
  std::mt19937_64 random(seed);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST_F(ClientTest, ProgramsThatShareTheirWeightsSendThemOnce) {
  const auto device = acquire();
  const std::string weights = noise(4 << 20, 1);
  const auto program = [&](size_t code, uint64_t seed) {
    return noise(code, seed) + weights + noise(999, seed + 1);
  };
  const auto upload = [&](const std::string& bytes) {
    device->upload({remote_bytes(bytes.data(), bytes.size())});
    EXPECT_EQ(agent_.files_.count(sha256_of(bytes)), 1u);
    return std::exchange(agent_.sent_, 0);
  };
  const std::string first = program(100'000, 2), second = program(130'001, 4), third = program(7, 6);
  EXPECT_EQ(upload(first), static_cast<int64_t>(first.size()));
  // The blocks at both ends of the weights are cut elsewhere.
  EXPECT_LT(upload(second), 130'001 + 999 + 3 * static_cast<int64_t>(SharedBlocks::kMaxBlock));
  // An agent that has dropped what it would copy from gets all of the bytes.
  agent_.files_.clear();
  EXPECT_GE(upload(third), static_cast<int64_t>(third.size()));
  EXPECT_LT(upload(first), 101'000 + 3 * static_cast<int64_t>(SharedBlocks::kMaxBlock));
}

TEST(SharedBlocks, WhatADeviceHasDroppedIsForgotten) {
  constexpr int64_t kBytes = 1000, kMost = 10 * kBytes;
  constexpr int kBlocks = 10;  // of a file
  SharedBlocks blocks;
  // Each file has a block of its own in each place but the first, which all of them share.
  const auto hash = [](int file, int block) {
    return static_cast<uint64_t>(block == 0 ? 0 : file * kBlocks + block);
  };
  for (int file = 1; file <= 1000; ++file) {
    std::vector<std::pair<uint64_t, FileRange>> of_file;
    for (int block = 0; block < kBlocks; ++block)
      of_file.push_back(
          {hash(file, block), {std::to_string(file), block * kBytes / kBlocks, kBytes / kBlocks}});
    blocks.add(of_file, kMost);
    EXPECT_LE(blocks.size(), 10u * (kBlocks - 1) + 1);
  }
  EXPECT_EQ(blocks.size(), 10u * (kBlocks - 1) + 1);
  EXPECT_EQ(blocks.find(hash(990, 1), kBytes / kBlocks), nullptr);
  for (const int file : {991, 1000}) {
    const FileRange* found = blocks.find(hash(file, 1), kBytes / kBlocks);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->file, std::to_string(file));
    EXPECT_EQ(found->offset, kBytes / kBlocks);
  }
  EXPECT_EQ(blocks.find(0, kBytes / kBlocks)->file, "1000");
  // A file that is larger than all that a device keeps is remembered nevertheless.
  blocks.add({{7, {"large", 0, 2 * kMost}}}, kMost);
  EXPECT_EQ(blocks.size(), 1u);
  blocks.clear();
  EXPECT_EQ(blocks.size(), 0u);
}

TEST_F(ClientTest, AnAgentOfBeforeGetsNoCopies) {
  agent_.version_.set_minor(1);
  const auto device = acquire();
  const std::string weights = noise(1 << 20, 1);
  for (const char* name : {"one", "two"}) {
    const std::string bytes = name + weights;
    device->upload({remote_bytes(bytes.data(), bytes.size())});
    EXPECT_EQ(agent_.files_.at(sha256_of(bytes)), bytes);
    EXPECT_EQ(std::exchange(agent_.sent_, 0), static_cast<int64_t>(bytes.size()));
  }
}

TEST_F(ClientTest, WhatADeviceCannotKeepIsRefusedBeforeItIsSent) {
  const auto refusal = [&](int64_t store, const std::vector<size_t>& sizes) {
    agent_.announcement_.mutable_device()->set_store_bytes(store);
    const auto device = acquire();
    std::vector<RemoteFile> files;
    for (const size_t size : sizes) {
      const std::string bytes = noise(size, size);
      for (int i = 0; i < 2; ++i) files.push_back(remote_bytes(bytes.data(), bytes.size()));  // counts once
    }
    const std::string text = error_of([&] { device->upload(files); });
    EXPECT_EQ(agent_.sent_ == 0, !text.empty());
    agent_.sent_ = 0;
    return text;
  };
  EXPECT_EQ(
      refusal(1000, {1001}),
      "a file of 1001 bytes is too large for the device 'a', whose agent takes files of up to 1000 bytes; "
      "start the agent with a larger --store-mib, if the device has the memory");
  EXPECT_EQ(refusal(1000, {600, 401}),
            "the programs and tensors of one measurement have 1001 bytes, too many for the device 'a', whose "
            "agent keeps up to 1000 bytes; start the agent with a larger --store-mib, if the device has the "
            "memory");
  EXPECT_EQ(refusal(1001, {600, 401}), "");
  // Agents of before do not say what they keep.
  EXPECT_TRUE(has(refusal(0, {(size_t{64} << 20) + 1}), "a file of 67108865 bytes is too large for"));
  agent_.announcement_.mutable_device()->set_store_bytes(-1);
  EXPECT_TRUE(has(error_of([&] { acquire(); }), "the field 'device.store_bytes' is -1"));
}

TEST_F(ClientTest, HashesAreThoseOfTheStandard) {
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(ClientTest, GivesResultsAsTheyCome) {
  const auto device = acquire();
  std::vector<int> order;
  device->measure(two(), [&](const MeasureResult& result) { order.push_back(result.candidate()); });
  EXPECT_EQ(order, (std::vector<int>{1, 0}));
}

TEST_F(ClientTest, ResultsThatCannotBeAreALostDevice) {
  const auto device = acquire();
  agent_.shift_ = 1;
  EXPECT_EQ(lost([&] { device->measure(two(), ignore); }),
            "the agent 'a' answered with a result of candidate 2, which there is not");
  agent_.shift_ = 0;
  agent_.sample_ = -1;
  EXPECT_EQ(lost([&] { device->measure(two(), ignore); }),
            "the agent 'a' answered with a sample that is no positive number");
}

TEST_F(ClientTest, AnAgentThatGoesAwayIsALostDeviceAndWhatCameBeforeIsKept) {
  const auto device = acquire();
  agent_.stop_after_one_ = true;
  int results = 0;
  lost([&] { device->measure(two(), [&](const MeasureResult&) { ++results; }); });
  EXPECT_EQ(results, 1);
  agent_.stop();
  EXPECT_NE(lost([&] { device->measure(two(), ignore); }).find("nothing listens at"), std::string::npos);
  device->report_failure("it went away");
  EXPECT_FALSE(device->lost());
}

TEST_F(ClientTest, AnAgentThatDoesNotAnswerCountsAsAFailure) {
  agent_.stop();
  for (int i = 0; i < 3; ++i) lost([&] { acquire(); });
  EXPECT_EQ(state(), "quarantined");
}

TEST_F(ClientTest, AnotherDeviceAtTheAddressIsFoundOut) {
  agent_.other_name_ = "b";
  EXPECT_NE(lost([&] { acquire(); }).find("is now another device, 'b'"), std::string::npos);
  EXPECT_EQ(state(), "free");
}

TEST_F(ClientTest, AnAgentOfAnotherMajorIsRefused) {
  agent_.version_.set_major(kWireMajor - 1);
  try {
    acquire();
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("update the agent 'a'"), std::string::npos);
  }
}

TEST_F(ClientTest, ACallCanBeCancelled) {
  const auto device = acquire();
  agent_.hang_ = true;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    device->cancel();
  });
  EXPECT_EQ(lost([&] { device->measure(two(), ignore); }), "cancelled");
  other.join();
  EXPECT_EQ(lost([&] { device->measure(two(), ignore); }), "cancelled");
}

TEST(Standalone, AnAgentAtASocketNeedsNoTracker) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("tc-client-socket-" + std::to_string(getpid()));
  const std::string address = "unix:" + path, token(64, '7');
  {
    FakeAgent agent("alone", address);
    const auto device = connect_agent(address, token);
    EXPECT_EQ(device->info().name(), "alone");
    device->upload({{sha256_of("small"), "", "small"}});
    EXPECT_EQ(agent.files_.size(), 1u);
  }
  try {
    connect_agent(address, token);
    ADD_FAILURE() << "nobody is there";
  } catch (const DeviceLost& error) {
    EXPECT_NE(std::string(error.what()).find("nothing listens at " + address), std::string::npos);
  }
  EXPECT_THROW(connect_agent("10.0.0.1:9", token), Error);
}

TEST_F(ClientTest, ATrackerStartedAnewEndsTheLeaseAndANewOneIsGiven) {
  auto device = acquire();
  start();
  join();
  for (int i = 0; i < 200 && !device->lost(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(device->lost());
  EXPECT_EQ(acquire()->info().name(), "a");
}

TEST_F(ClientTest, AReachedTrackerIsWaitedForWhenItGoesAway) {
  TrackerClient client("insecure://" + bound_.text());
  EXPECT_EQ(client.devices().size(), 1u);
  server_.reset();
  std::thread restart([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    start();
    join();
  });
  EXPECT_NO_THROW(client.devices());
  restart.join();
}

}  // namespace
}  // namespace tc::rpc
