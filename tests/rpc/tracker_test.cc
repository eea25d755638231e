// The tracker over the network, from a client's and an agent's side: who is let in, what is refused
// and in which words, and that it lives on.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <random>
#include <thread>

#include <grpcpp/generic/generic_stub.h>

#include "runtime/rpc/channel.h"
#include "runtime/rpc/fields.h"
#include "runtime/rpc/log.h"
#include "runtime/rpc/version.h"
#include "runtime/tracker/service.h"
#include "tests/rpc/fleet.h"
#include "tuner/client.h"

namespace tc::rpc {
namespace {

using grpc::Status;
using grpc::StatusCode;
using tracker::FleetOptions;
using tracker::Server;

const Address kAny{"127.0.0.1", 0};

const Authority& stranger() {
  static const Authority one;
  return one;
}

// Text of the error that the tuner's client throws, which is of its one kind; empty where it throws none.
template <class Call>
std::string client_error(const Call& call) {
  return error_of([&] {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Device);
      throw;
    }
  });
}

Status announce(const Server& server, const Credentials& credentials, const AnnounceRequest& request) {
  AnnounceReply reply;
  return call(*stub_for(server.address(), credentials), &Tracker::Stub::Announce, request, &reply);
}

class SecureTracker : public testing::Test {
 protected:
  SecureTracker() { silence_grpc(); }
  Server server_{kAny, authority().credentials(Role::Tracker), FleetOptions()};

  std::string address() const { return server_.address().text(); }
  Credentials as(Role role) const { return authority().credentials(role); }
  // A client of that folder asks for the devices; the error's text.
  std::string ask(const std::string& address, const std::string& folder) {
    return client_error([&] { TrackerClient(address, folder, 0).devices(); });
  }
  void TearDown() override {
    // Whatever came before, it serves who may.
    EXPECT_EQ(ask(address(), authority().folder()), "");
    EXPECT_EQ(announce(server_, as(Role::Agent), announcement("a", "one")).error_message(), "");
  }
};

TEST_F(SecureTracker, ServesAgentsAndClients) {
  ASSERT_TRUE(announce(server_, as(Role::Agent), announcement("a", "one")).ok());
  TrackerClient client(address(), authority().folder(), 0);
  ASSERT_EQ(client.devices().size(), 1u);
  EXPECT_EQ(client.devices()[0].device().name(), "a");
  EXPECT_EQ(client.devices()[0].state(), "free");
}

TEST_F(SecureTracker, RefusesAnotherAuthority) {
  const std::string text = ask(address(), stranger().folder());
  EXPECT_TRUE(has(text, "has a certificate of another authority than this program's (credentials of " +
                            stranger().folder() + ")"))
      << text;
}

TEST_F(SecureTracker, RefusesACertificateOfAnotherAuthority) {
  // Knows the tracker's authority but has a certificate of its own.
  Credentials credentials = stranger().credentials(Role::Client);
  credentials.authority = as(Role::Client).authority;
  DevicesReply reply;
  DevicesRequest request;
  *request.mutable_version() = own_version();
  const Status status =
      call(*stub_for(server_.address(), credentials), &Tracker::Stub::Devices, request, &reply);
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_TRUE(has(explain(status, "the tracker", server_.address(), credentials),
                  "refused this program's certificate"))
      << explain(status, "the tracker", server_.address(), credentials);
}

TEST_F(SecureTracker, RefusesAClientWithoutACertificate) {
  Credentials credentials = as(Role::Client);
  credentials.certificate.clear();
  credentials.key.clear();
  DevicesReply reply;
  const Status status =
      call(*stub_for(server_.address(), credentials), &Tracker::Stub::Devices, DevicesRequest(), &reply);
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_TRUE(has(explain(status, "the tracker", server_.address(), credentials),
                  "refused this program's certificate"));
}

TEST_F(SecureTracker, RefusesPlainText) {
  EXPECT_EQ(ask("insecure://" + address(), ""), "the tracker at " + address() +
                                                    " talks TLS, this program plain text; leave insecure:// "
                                                    "(--insecure) out and use credentials");
}

TEST_F(SecureTracker, RefusesTheWrongRole) {
  const Status status = announce(server_, as(Role::Client), announcement("a", "one"));
  EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(status.error_message(),
            "this call needs the certificate of an agent, and the caller's is that of the client 'ann'; "
            "use the files agent.pem and agent.key of `python -m tc certs init`");
  Lease lease;
  EXPECT_EQ(call(*stub_for(server_.address(), as(Role::Agent)), &Tracker::Stub::Acquire, wish(), &lease)
                .error_code(),
            StatusCode::PERMISSION_DENIED);
}

TEST_F(SecureTracker, RefusesAHostThatItsCertificateDoesNotName) {
  // All of 127/8 is this machine; the certificate names 127.0.0.1.
  const Server other({"127.0.0.2", 0}, as(Role::Tracker), FleetOptions());
  EXPECT_TRUE(has(ask(other.address().text(), authority().folder()),
                  "has a certificate for other hosts; add this one on its machine with `python -m tc "
                  "certs init --hosts 127.0.0.2`"));
}

TEST_F(SecureTracker, LivesThroughRandomBytes) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<uint16_t>(server_.address().port));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(descriptor, reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (i % 2 && bytes.size() > 3) bytes.replace(0, 3, "\x16\x03\x01");
    EXPECT_EQ(send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    close(descriptor);
  }
}

// Over plain text, the same for all that follows.
class OpenTracker : public testing::Test {
 protected:
  OpenTracker() { silence_grpc(); }
  void start(FleetOptions options = {}) {
    server_.reset();
    server_ = std::make_unique<Server>(bound_, insecure_credentials(kAny), options);
    bound_ = server_->address();
  }
  std::string address() const { return "insecure://" + bound_.text(); }
  std::unique_ptr<Tracker::Stub> stub() { return stub_for(server_->address(), insecure_credentials(kAny)); }
  Status announce_here(const AnnounceRequest& request) {
    return announce(*server_, insecure_credentials(kAny), request);
  }

  Address bound_ = kAny;
  std::unique_ptr<Server> server_;
};

TEST_F(OpenTracker, PlainTextIsForLoopbackOnly) {
  EXPECT_EQ(client_error([] { TrackerClient("insecure://10.1.2.3:9190"); }),
            "plain text goes over loopback only, and 10.1.2.3:9190 is another address; use "
            "127.0.0.1, or leave --insecure out and make credentials with `python -m tc certs init`");
}

TEST_F(OpenTracker, TlsToAPlainTextPortIsExplained) {
  start();
  EXPECT_TRUE(has(client_error([&] { TrackerClient(bound_.text(), authority().folder(), 0).devices(); }),
                  "talks plain text, this program TLS; start it without --insecure"));
}

TEST_F(OpenTracker, AnAbsentTrackerIsExplained) {
  start();
  server_.reset();
  EXPECT_EQ(client_error([&] { TrackerClient(address()).devices(); }),
            "nothing listens at " + bound_.text() +
                ": the tracker is not running or has another port; start it (`python -m tc tracker`, "
                "`python -m tc agent`) or correct the address");
  EXPECT_TRUE(has(client_error([&] { TrackerClient("insecure://127.0.0.1:99999"); }),
                  "has a port above 65535; write HOST:PORT"));
  EXPECT_TRUE(has(client_error([&] { TrackerClient("127.0.0.1:9190", "/nowhere"); }),
                  "the credentials file /nowhere/ca.pem cannot be read; make credentials with "
                  "`python -m tc certs init --folder /nowhere`"));
}

TEST_F(OpenTracker, ATargetWithoutDevicesIsAnErrorWithThoseThereAre) {
  start();
  ASSERT_TRUE(announce_here(announcement("pc", "one", "x86-64", "avx2")).ok());
  DeviceRequest request;
  request.target = "rv64gcv";
  request.architecture = "riscv64";
  request.features = {"v"};
  EXPECT_EQ(client_error([&] { TrackerClient(address()).acquire(request); }),
            "tracker " + bound_.text() +
                ": no device runs rv64gcv (riscv64 v); those there are: pc (x86-64, native: another "
                "architecture)");
}

TEST_F(OpenTracker, VersionSkewSaysWhomToUpdate) {
  start();
  AnnounceRequest old = announcement("a", "one");
  old.mutable_device()->mutable_version()->set_major(kWireMajor - 1);
  old.mutable_device()->mutable_version()->set_minor(3);
  old.mutable_device()->mutable_version()->set_build("0.0.9");
  Status status = announce_here(old);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(),
            "the agent 'a' speaks protocol 0.3 (tc 0.0.9), the tracker speaks protocol 1.2 (tc 0.1.0): "
            "update the agent 'a'");
  DevicesRequest request;
  request.mutable_version()->set_major(kWireMajor + 1);
  DevicesReply reply;
  status = call(*stub(), &Tracker::Stub::Devices, request, &reply);
  EXPECT_EQ(status.error_message(),
            "this program speaks protocol 2.0, the tracker speaks protocol 1.2 (tc 0.1.0): update the "
            "tracker");
  // A newer minor is understood.
  request.mutable_version()->set_major(kWireMajor);
  request.mutable_version()->set_minor(kWireMinor + 7);
  EXPECT_TRUE(call(*stub(), &Tracker::Stub::Devices, request, &reply).ok());
}

TEST_F(OpenTracker, MalformedFieldsAreRefused) {
  start();
  const auto refused = [&](const std::function<void(AnnounceRequest&)>& change) {
    AnnounceRequest request = announcement("a", "one");
    change(request);
    const Status status = announce_here(request);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  using Request = AnnounceRequest;
  EXPECT_EQ(refused([](Request& r) { r.mutable_device()->set_name(""); }),
            "the message is malformed: the field 'device.name' is empty");
  EXPECT_EQ(refused([](Request& r) { r.mutable_device()->set_name("a\x1b[2J"); }),
            "the message is malformed: the field 'device.name' is 'a?[2J', which is no plain text of "
            "at most 64 characters");
  EXPECT_TRUE(has(refused([](Request& r) { r.mutable_device()->set_address("here"); }),
                  "the address 'here' has no port"));
  EXPECT_TRUE(has(refused([](Request& r) { r.mutable_device()->set_address("a\nb:1"); }),
                  "the address 'a?b:1' has a host with odd characters"));
  EXPECT_TRUE(has(refused([](Request& r) { r.mutable_device()->set_unit("parsecs"); }),
                  "neither 'seconds' nor 'simulated cycles'"));
  EXPECT_TRUE(has(refused([](Request& r) { r.mutable_device()->set_cores(-1); }),
                  "the field 'device.cores' is -1, outside 0 to 65536"));
  EXPECT_TRUE(has(refused([](Request& r) { r.mutable_device()->set_clock_ghz(0.0 / 0.0); }),
                  "the field 'device.clock_ghz' is"));
  EXPECT_TRUE(has(refused([](Request& r) {
                    for (int i = 0; i < 1000; ++i) r.mutable_device()->add_features("f");
                  }),
                  "has 1002 entries, more than 512"));
  EXPECT_TRUE(has(refused([](Request& r) { r.set_session(""); }), "the session is no plain text"));
  LeaseName name;
  name.set_token("x'; DROP TABLE leases");
  Lease lease;
  EXPECT_EQ(call(*stub(), &Tracker::Stub::Renew, name, &lease).error_message(),
            "the message is malformed: the token is not 64 digits of hex");
  AcquireRequest request = wish(-5);
  EXPECT_EQ(call(*stub(), &Tracker::Stub::Acquire, request, &lease).error_code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(announce_here(announcement("a", "one")).ok());
}

// gRPC and protobuf have no words of their own for these.
TEST_F(OpenTracker, UnreadableMessagesAndUnknownCallsAreToldApart) {
  start();
  grpc::GenericStub stranger(
      grpc::CreateCustomChannel(bound_.text(), grpc::InsecureChannelCredentials(), {}));
  const auto answer_to = [&](const std::string& method) {
    grpc::Slice bytes("\xff\xff\xff");
    const grpc::ByteBuffer request(&bytes, 1);
    grpc::ByteBuffer reply;
    grpc::ClientContext context;
    set_deadline(context, 10);
    std::promise<Status> status;
    stranger.UnaryCall(&context, method, {}, &request, &reply,
                       [&](const Status& found) { status.set_value(found); });
    return status.get_future().get();
  };
  const Status unreadable = answer_to("/tc.rpc.Tracker/Devices");
  EXPECT_EQ(unreadable.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(unreadable.error_message(),
            "the message is malformed: it cannot be read, or a text in it is not UTF-8; use a program of the "
            "same version of tc");
  EXPECT_EQ(answer_to("/tc.rpc.Tracker/Nothing").error_code(), StatusCode::UNIMPLEMENTED);
}

TEST_F(OpenTracker, OversizeMessagesAreRefused) {
  start();
  AnnounceRequest request = announcement("a", "one");
  request.mutable_device()->set_processor(std::string(5 << 20, 'x'));
  // A sender without our own limit.
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(-1);
  const auto stranger_stub = Tracker::NewStub(
      grpc::CreateCustomChannel(bound_.text(), grpc::InsecureChannelCredentials(), arguments));
  AnnounceReply reply;
  const Status status = call(*stranger_stub, &Tracker::Stub::Announce, request, &reply);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(has(status.error_message(), "larger than max")) << status.error_message();
  EXPECT_TRUE(announce_here(announcement("a", "one")).ok());
}

TEST_F(OpenTracker, ATrackerStartedAnewLearnsItsAgentsAndEndsLeases) {
  start();
  ASSERT_TRUE(announce_here(announcement("a", "one")).ok());
  Lease lease;
  ASSERT_TRUE(call(*stub(), &Tracker::Stub::Acquire, wish(), &lease).ok());
  TrackerClient client(address());
  EXPECT_EQ(client.devices()[0].state(), "leased");
  start();
  std::thread agent([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_TRUE(announce_here(announcement("a", "one")).ok());
  });
  LeaseName name;
  name.set_token(lease.token());
  EXPECT_EQ(call(*stub(), &Tracker::Stub::Renew, name, &lease).error_code(), StatusCode::NOT_FOUND);
  EXPECT_TRUE(call(*stub(), &Tracker::Stub::Acquire, wish(5000), &lease).ok());
  agent.join();
  // The client's connection was cut too; it comes back by itself.
  EXPECT_EQ(client.devices()[0].state(), "leased");
}

TEST_F(OpenTracker, TheLeaseOfAClientThatDiedComesFree) {
  FleetOptions options;
  options.lease_ms = 1000;
  start(options);
  ASSERT_TRUE(announce_here(announcement("a", "one")).ok());
  Lease lease;
  ASSERT_TRUE(call(*stub(), &Tracker::Stub::Acquire, wish(), &lease).ok());
  EXPECT_EQ(call(*stub(), &Tracker::Stub::Acquire, wish(), &lease).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(call(*stub(), &Tracker::Stub::Acquire, wish(5000), &lease).ok());
}

TEST_F(OpenTracker, ALeaseThatIsRenewedWithoutEndStarvesNobody) {
  FleetOptions options;
  options.lease_ms = 300;
  options.longest_lease_ms = 1000;
  start(options);
  ASSERT_TRUE(announce_here(announcement("a", "one")).ok());
  Lease lease, second;
  ASSERT_TRUE(call(*stub(), &Tracker::Stub::Acquire, wish(), &lease).ok());
  std::atomic<bool> over = false;
  Status ended;
  std::thread holder([&] {
    LeaseName name;
    name.set_token(lease.token());
    for (Lease renewed; !over && ended.ok(); std::this_thread::sleep_for(std::chrono::milliseconds(50)))
      ended = call(*stub(), &Tracker::Stub::Renew, name, &renewed);
  });
  EXPECT_TRUE(call(*stub(), &Tracker::Stub::Acquire, wish(8000), &second).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  over = true;
  holder.join();
  EXPECT_TRUE(has(ended.error_message(), "another client waited for it, and the longest lease is 1 s then"))
      << ended.error_message();
}

TEST_F(OpenTracker, ManyWaitWithoutThreadsOfTheirOwn) {
  start();
  ASSERT_TRUE(announce_here(announcement("a", "one")).ok());
  Lease lease;
  ASSERT_TRUE(call(*stub(), &Tracker::Stub::Acquire, wish(), &lease).ok());
  constexpr int kWaiting = 100;
  const auto own = stub();
  const auto other = stub(), third = stub();
  std::vector<grpc::ClientContext> contexts(kWaiting);
  std::vector<Lease> leases(kWaiting);
  std::vector<Status> answers(kWaiting);
  std::atomic<int> answered = 0;
  const AcquireRequest request = wish(30000);
  for (size_t i = 0; i < kWaiting; ++i)
    (i % 3 == 0   ? own
     : i % 3 == 1 ? other
                  : third)
        ->async()
        ->Acquire(&contexts[i], &request, &leases[i], [&, i](const Status& status) {
          answers[i] = status;
          ++answered;
        });
  for (int i = 0; i < 200 && TrackerClient(address()).devices()[0].waiting_count() < kWaiting; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(TrackerClient(address()).devices()[0].waiting_count(), kWaiting);
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  EXPECT_LT(threads, 60);
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (int i = 0; i < 200 && answered < kWaiting; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(answered, kWaiting);
  for (int i = 0; i < 200 && TrackerClient(address()).devices()[0].waiting_size() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(TrackerClient(address()).devices()[0].waiting_size(), 0);
}

TEST_F(OpenTracker, APortThatIsTakenIsASentence) {
  start();
  EXPECT_EQ(error_of([&] { Server(bound_, insecure_credentials(kAny), FleetOptions()); }),
            "cannot listen at " + bound_.text() +
                ": another program has the port, or the address is not this machine's; choose another "
                "with --listen");
}

TEST(CredentialFiles, AnOpenKeyIsRefused) {
  const Authority own;
  const std::string key = own.folder() + "/client.key";
  std::filesystem::permissions(key, std::filesystem::perms(0644));
  EXPECT_EQ(client_error([&] { TrackerClient("127.0.0.1:9190", own.folder()); }),
            "the private key " + key + " is open to other users of this machine; close it with `chmod 600 " +
                key + "`");
}

TEST(Addresses, AreRead) {
  EXPECT_EQ(parse_address("board7.local:9190").text(), "board7.local:9190");
  EXPECT_EQ(parse_address("board7", 9190).text(), "board7:9190");
  EXPECT_EQ(parse_address("[::1]:80").text(), "[::1]:80");
  EXPECT_TRUE(parse_address("[::1]:80").is_loopback());
  EXPECT_TRUE(parse_address("127.3.2.1:80").is_loopback());
  EXPECT_TRUE(parse_address("localhost:80").is_loopback());
  EXPECT_FALSE(parse_address("127.evil.example:80").is_loopback());
  EXPECT_FALSE(parse_address("0.0.0.0:80").is_loopback());
  for (const char* text : {"", ":", ":80", "a:", "a:b", "a:1:2", "a:-1", "a:65536", "a:999999", "a b:1",
                           "[::1", "[::1]", "[::1]80", "[x]:1", "a/b:1", "unix:/x"})
    EXPECT_THROW(parse_address(text), std::runtime_error) << text;
}

}  // namespace
}  // namespace tc::rpc
