// Boards have names of their own: what certificates, announcements and tokens that are not what they
// claim to be are told, by the tracker and by clients, and that leases go on meanwhile.
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/agent/service.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/log.h"
#include "runtime/rpc/version.h"
#include "runtime/tracker/audit.h"
#include "runtime/tracker/service.h"
#include "tests/rpc/fleet.h"
#include "tuner/client.h"

namespace tc::rpc {
namespace {

using grpc::Status;
using grpc::StatusCode;

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

DevicesRequest devices_request() {
  DevicesRequest request;
  *request.mutable_version() = own_version();
  return request;
}

// A tracker with an audit log, the agent 'a' that is leased by 'ann', and what others try.
class Trust : public testing::Test {
 protected:
  Trust() : audit_path_(testing::TempDir() + "/audit"), audit_((unlink(audit_path_.c_str()), audit_path_)) {
    log_refusals("tracker");
    std::filesystem::remove(authority().folder() + "/revoked.txt");
    server_ = std::make_unique<tracker::Server>(
        Address{"127.0.0.1", 0}, authority().credentials(Role::Tracker), tracker::FleetOptions(), &audit_);
    EXPECT_EQ(announce(authority().credentials(Role::Agent), "a").error_message(), "");
    EXPECT_EQ(acquire(authority().credentials(Role::Client), &lease_).error_message(), "");
  }
  // Whatever was tried, the lease goes on, at the address that it was at.
  ~Trust() override {
    std::filesystem::remove(authority().folder() + "/revoked.txt");
    const Status status = renew(authority().credentials(Role::Client), lease_.token(), &lease_);
    EXPECT_EQ(status.error_message(), "");
    EXPECT_EQ(lease_.device().address(), "127.0.0.1:9191");
  }

  std::unique_ptr<Tracker::Stub> stub(const Credentials& credentials) {
    return stub_for(server_->address(), credentials);
  }
  template <class Method, class Request, class Reply>
  Status call(const Credentials& credentials, const Method& method, const Request& request, Reply* reply) {
    return rpc::call(*stub(credentials), method, request, reply);
  }
  Status announce(const Credentials& credentials, const std::string& name,
                  const std::string& session = "one") {
    AnnounceReply reply;
    AnnounceRequest request = announcement(name, session);
    if (session == "liar") request.mutable_device()->set_address("127.0.0.1:6666");
    return call(credentials, &Tracker::Stub::Announce, request, &reply);
  }
  Status acquire(const Credentials& credentials, Lease* lease) {
    return call(credentials, &Tracker::Stub::Acquire, wish(), lease);
  }
  Status renew(const Credentials& credentials, const std::string& token, Lease* lease) {
    LeaseName name;
    name.set_token(token);
    return call(credentials, &Tracker::Stub::Renew, name, lease);
  }
  Status check_lease(const Credentials& credentials, const std::string& device, const std::string& client,
                     CheckLeaseReply* reply) {
    CheckLeaseRequest request;
    request.set_device(device);
    request.set_token(lease_.token());
    request.set_client(client);
    return call(credentials, &Tracker::Stub::CheckLease, request, reply);
  }
  // The tracker refused the call with this sentence, and wrote it down.
  void expect_refused(const Status& status, const std::string& sentence,
                      StatusCode code = StatusCode::PERMISSION_DENIED) {
    EXPECT_EQ(status.error_code(), code);
    EXPECT_EQ(status.error_message(), sentence);
    const std::string log = read_text(audit_path_);
    EXPECT_TRUE(has(log, "\"event\": \"refused\"") && has(log, sentence)) << log;
  }
  // The handshake itself failed: what each side says of it.
  void expect_no_handshake(const Credentials& credentials, const std::string& server_says) {
    testing::internal::CaptureStderr();
    Lease lease;
    const Status status = acquire(credentials, &lease);
    EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
    EXPECT_TRUE(has(explain(status, "the tracker", server_->address(), credentials),
                    "refused this program's certificate"))
        << status.error_message();
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(has(said, "tracker: refused a TLS connection: " + server_says)) << said;
  }

  const std::string audit_path_;
  tracker::AuditLog audit_;
  std::unique_ptr<tracker::Server> server_;
  Lease lease_;
};

const std::string kOtherAuthority =
    "certificate verify failed; the caller's certificate is of another authority, or out of date";

TEST_F(Trust, AnAgentAnnouncesItsOwnDeviceAlone) {
  expect_refused(
      announce(authority().agent("b"), "a", "liar"),
      "the caller's certificate is that of the agent 'b', which does not speak for the device 'a'; "
      "leave --name out, or make a certificate with `python -m tc certs add a`");
  DevicesReply reply;
  server_->fleet().list(&reply);
  ASSERT_EQ(reply.devices_size(), 1);
  EXPECT_EQ(reply.devices(0).device().address(), "127.0.0.1:9191");
  EXPECT_EQ(reply.devices(0).state(), "leased");
}

TEST_F(Trust, AnAgentAsksAboutItsOwnLeasesAlone) {
  CheckLeaseReply reply;
  expect_refused(
      check_lease(authority().agent("b"), "a", "ann", &reply),
      "the caller's certificate is that of the agent 'b', which does not speak for the device 'a'; "
      "leave --name out, or make a certificate with `python -m tc certs add a`");
  EXPECT_FALSE(reply.valid());
  const Credentials own = authority().credentials(Role::Agent);
  EXPECT_TRUE(check_lease(own, "a", "ann", &reply).ok());
  EXPECT_TRUE(reply.valid());
  // The token in another client's hands.
  EXPECT_TRUE(check_lease(own, "a", "eve", &reply).ok());
  EXPECT_FALSE(reply.valid());
}

TEST_F(Trust, ALeaseIsItsHoldersAlone) {
  const Credentials eve = authority().client("eve");
  const std::string sentence =
      "this lease is that of the client 'ann', and the caller is 'eve'; acquire a device of your own";
  Lease lease;
  expect_refused(renew(eve, lease_.token(), &lease), sentence);
  LeaseName name;
  name.set_token(lease_.token());
  FailureReport report;
  report.set_token(lease_.token());
  Empty empty;
  expect_refused(call(eve, &Tracker::Stub::Release, name, &empty), sentence);
  for (int i = 0; i < 3; ++i)
    expect_refused(call(eve, &Tracker::Stub::ReportFailure, report, &empty), sentence);
}

TEST_F(Trust, ReplaysAreRefused) {
  // An announcement from before the agent was started anew.
  const Credentials own = authority().credentials(Role::Agent);
  ASSERT_TRUE(announce(own, "a", "two").ok());
  const Status status = announce(own, "a", "one");
  EXPECT_TRUE(has(status.error_message(), "the name 'a' is now that of another agent"));
  expect_refused(status, status.error_message(), StatusCode::ALREADY_EXISTS);
  // A token from before, and one that was given back.
  const Credentials ann = authority().credentials(Role::Client);
  Lease lease;
  const std::string ended =
      "this lease has ended: it was not renewed in time, its device failed or went away, or the tracker was "
      "started anew; acquire a device again";
  expect_refused(renew(ann, lease_.token(), &lease), ended, StatusCode::NOT_FOUND);
  ASSERT_TRUE(acquire(ann, &lease_).ok());
  LeaseName name;
  name.set_token(lease_.token());
  Empty empty;
  ASSERT_TRUE(call(ann, &Tracker::Stub::Release, name, &empty).ok());
  expect_refused(renew(ann, name.token(), &lease), ended, StatusCode::NOT_FOUND);
  FailureReport report;
  report.set_token(name.token());
  expect_refused(call(ann, &Tracker::Stub::ReportFailure, report, &empty), ended, StatusCode::NOT_FOUND);
  CheckLeaseReply reply;
  ASSERT_TRUE(check_lease(own, "a", "ann", &reply).ok());
  EXPECT_FALSE(reply.valid());
  ASSERT_TRUE(acquire(ann, &lease_).ok());
}

TEST_F(Trust, CertificatesWithoutANameAreRefused) {
  const std::string folder = authority().issue({Role::Client, ""});
  EXPECT_EQ(error_of([&] { load_credentials(folder, Role::Client); }),
            "the certificate " + folder +
                "/client.pem has no name in it, as those of earlier versions; issue new "
                "ones with `python -m tc certs init` where the authority's key is, and copy the files here");
  Lease lease;
  expect_refused(
      acquire(unchecked_credentials(folder, Role::Client), &lease),
      "the caller's certificate has no name in it, as those of earlier versions; issue new ones with "
      "`python -m tc certs init` where the authority's key is, and copy the files");
}

TEST_F(Trust, ARenamedCertificateIsStillWhatItIs) {
  const std::string folder = authority().issue({Role::Client, "ann"});
  for (const char* end : {".pem", ".key"})
    std::filesystem::copy(folder + "/client" + end, folder + "/agent" + end);
  EXPECT_EQ(
      error_of([&] { load_credentials(folder, Role::Agent); }),
      "the certificate " + folder +
          "/agent.pem is that of the client 'ann', and this program is an agent; issue "
          "one for it with `python -m tc certs init` where the authority's key is, and copy the files here");
  expect_refused(
      announce(unchecked_credentials(folder, Role::Agent), "a", "liar"),
      "this call needs the certificate of an agent, and the caller's is that of the client 'ann'; use the "
      "files agent.pem and agent.key of `python -m tc certs init`");
}

TEST_F(Trust, RevokedCertificatesAreRefusedWhileTheTrackerRuns) {
  const std::string folder = authority().issue({Role::Client, "bob"});
  const Credentials bob = load_credentials(folder, Role::Client);
  // One connection, from before.
  const auto kept = stub(bob);
  const auto devices = [&] {
    DevicesReply reply;
    return rpc::call(*kept, &Tracker::Stub::Devices, devices_request(), &reply);
  };
  EXPECT_TRUE(devices().ok());
  revoke(authority().folder(), folder, Role::Client);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  expect_refused(devices(), "the caller's certificate of the client 'bob' is revoked (serial " +
                                bob.own.serial +
                                "); issue another with `python -m tc certs add bob --role client`");
  // Others are not concerned, and another one of that name is not either.
  EXPECT_TRUE(call(authority().client("bob"), &Tracker::Stub::Devices, devices_request(),
                   std::make_unique<DevicesReply>().get())
                  .ok());
  // A list that cannot be understood is not taken.
  testing::internal::CaptureStderr();
  std::ofstream(authority().folder() + "/revoked.txt") << "# remark\n\nnonsense\n";
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_EQ(devices().error_code(), StatusCode::PERMISSION_DENIED);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(said, "the list from before stays in use: the list of revoked certificates")) << said;
  EXPECT_TRUE(has(said, "has no serial number in line 3; `python -m tc certs revoke NAME` writes it"))
      << said;
  EXPECT_TRUE(has(error_of([&] { Keyring keyring(authority().credentials(Role::Tracker)); }),
                  "has no serial number"));
}

TEST_F(Trust, ARevokedAgentIsNotAnnounced) {
  const std::string folder = authority().issue({Role::Agent, "a"});
  const Credentials stolen = load_credentials(folder, Role::Agent);
  revoke(authority().folder(), folder, Role::Agent);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  const std::string sentence = "the caller's certificate of the agent 'a' is revoked (serial " +
                               stolen.own.serial + "); issue another with `python -m tc certs add a`";
  expect_refused(announce(stolen, "a", "liar"), sentence);
  CheckLeaseReply reply;
  expect_refused(check_lease(stolen, "a", "ann", &reply), sentence);
  EXPECT_FALSE(reply.valid());
}

TEST_F(Trust, AnExpiredAgentIsNotAnnounced) {
  const std::string folder = authority().issue({Role::Agent, "a", "-20 days", "-10 days"});
  EXPECT_TRUE(has(error_of([&] { load_credentials(folder, Role::Agent); }), "/agent.pem ended on 20"));
  expect_no_handshake(unchecked_credentials(folder, Role::Agent), kOtherAuthority);
}

TEST_F(Trust, ExpiredCertificatesAreRefused) {
  const std::string folder = authority().issue({Role::Client, "ann", "-20 days", "-10 days"});
  EXPECT_TRUE(has(error_of([&] { load_credentials(folder, Role::Client); }), "/client.pem ended on 20"));
  const std::string later = authority().issue({Role::Client, "ann", "10 days", "20 days"});
  EXPECT_TRUE(has(error_of([&] { load_credentials(later, Role::Client); }), "by this machine's clock"));
  expect_no_handshake(unchecked_credentials(folder, Role::Client), kOtherAuthority);
}

TEST_F(Trust, ACertificateThatEndsUnderWayIsRefused) {
  // No call outlives a certificate, however old its connection.
  const Credentials brief =
      load_credentials(authority().issue({Role::Client, "bob", "-1 days", "3 seconds"}), Role::Client);
  const auto kept = stub(brief);
  const auto devices = [&] {
    DevicesReply reply;
    return rpc::call(*kept, &Tracker::Stub::Devices, devices_request(), &reply);
  };
  EXPECT_EQ(devices().error_message(), "");
  std::this_thread::sleep_for(std::chrono::seconds(4));
  expect_refused(devices(), "the caller's certificate of the client 'bob' ended on " +
                                day_of(brief.own.ends) +
                                "; issue another with `python -m tc certs add bob --role client`");
}

TEST_F(Trust, CertificatesOfOtherAuthoritiesAreRefused) {
  const Authority stranger;
  Credentials foreign = stranger.credentials(Role::Client);
  foreign.authority = authority().credentials(Role::Client).authority;
  expect_no_handshake(foreign, kOtherAuthority);
  const std::string folder = authority().issue({Role::Client, "ann"});
  std::filesystem::copy(stranger.folder() + "/ca.pem", folder + "/ca.pem",
                        std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(error_of([&] { load_credentials(folder, Role::Client); }),
            "the certificate " + folder + "/client.pem is not of the authority " + folder +
                "/ca.pem; copy both from where they were made");
}

TEST_F(Trust, ACertificateForgedWithAnotherOnesKeyIsRefused) {
  // An agent's key signs a certificate for another device: it is no authority.
  const std::string folder = authority().issue({Role::Agent, "b"});
  const std::string script =
      "cd " + folder +
      " && openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout f.key "
      "-out f.csr -subj /CN=tc-agent && echo subjectAltName=URI:tc://agent/a >names && openssl x509 -req "
      "-in f.csr -CA agent.pem -CAkey agent.key -set_serial 7 -days 9 -extfile names -out f.pem && "
      "cat agent.pem >>f.pem && mv f.pem agent.pem && mv f.key agent.key";
  ASSERT_EQ(std::system(("{ " + script + "; } >/dev/null 2>&1").c_str()), 0);
  EXPECT_TRUE(has(error_of([&] { load_credentials(folder, Role::Agent); }), "is not of the authority"));
  expect_no_handshake(unchecked_credentials(folder, Role::Agent), kOtherAuthority);
}

TEST_F(Trust, CallersWithoutACertificateAreRefused) {
  Credentials none = authority().credentials(Role::Client);
  none.certificate.clear();
  none.key.clear();
  expect_no_handshake(none, "peer did not return a certificate; the caller has no credentials");
}

// What a server offers to a new connection.
std::string serial_at(const Address& address) {
  const std::string command =
      "openssl s_client -connect " + address.text() + " </dev/null 2>/dev/null | openssl x509 -noout -serial";
  FILE* pipe = popen(command.c_str(), "r");
  char line[100] = "";
  if (fgets(line, sizeof line, pipe) == nullptr) line[0] = 0;
  pclose(pipe);
  const std::string text = line;
  return text.compare(0, 7, "serial=") == 0 ? text.substr(7, text.find('\n') - 7) : text;
}

TEST(Rotation, NewCredentialsAreUsedWithoutAStop) {
  log_refusals("tracker");
  const Authority own;
  const tracker::Server server({"127.0.0.1", 0}, own.credentials(Role::Tracker), tracker::FleetOptions());
  TrackerClient client(server.address().text(), own.folder(), 0);
  EXPECT_TRUE(client.devices().empty());
  const std::string first = own.credentials(Role::Tracker).own.serial;
  EXPECT_EQ(serial_at(server.address()), first);
  const auto take = [&](const std::string& from, const std::string& name) {
    std::filesystem::copy(from + "/" + name, own.folder() + "/" + name,
                          std::filesystem::copy_options::overwrite_existing);
  };
  // Half of a pair, then the whole.
  const std::string next = own.issue({Role::Tracker, "tracker"});
  testing::internal::CaptureStderr();
  take(next, "tracker.pem");
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_EQ(serial_at(server.address()), first);
  take(next, "tracker.key");
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_EQ(serial_at(server.address()), unchecked_credentials(next, Role::Tracker).own.serial);
  const std::string other = own.issue({Role::Tracker, "another"});
  take(other, "tracker.pem");
  take(other, "tracker.key");
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_EQ(serial_at(server.address()), unchecked_credentials(next, Role::Tracker).own.serial);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(said, "changed credentials are not taken, those from before stay in use: the certificate " +
                            own.folder() + "/tracker.pem and the key tracker.key do not fit together"))
      << said;
  EXPECT_TRUE(has(said, "took new credentials from " + own.folder() + ", valid until 20")) << said;
  EXPECT_TRUE(has(said, "this program goes by the name 'tracker' until it is started anew")) << said;
  // A client that has been there all the time takes its new ones, too.
  EXPECT_TRUE(client.devices().empty());
  const std::string mine = own.issue({Role::Client, "ann"});
  revoke(own.folder(), own.folder(), Role::Client);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_TRUE(has(error_of([&] { client.devices(); }), "of the client 'ann' is revoked"));
  take(mine, "client.pem");
  take(mine, "client.key");
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_EQ(error_of([&] { client.devices(); }), "");
}

TEST(Rotation, TheEndIsSaidAMonthAhead) {
  const Authority own;
  EXPECT_EQ(expiry_warning(own.credentials(Role::Tracker)), "");
  const std::string folder = own.issue({Role::Client, "ann", "-1 days", "11 days"});
  const Credentials soon = load_credentials(folder, Role::Client);
  const std::string text = expiry_warning(soon);
  EXPECT_TRUE(
      has(text, "the certificate " + folder + "/client.pem ends on " + day_of(soon.own.ends) + ", in 1"))
      << text;
  EXPECT_TRUE(
      has(text,
          " days; issue another with `python -m tc certs init` where the authority's key is, and copy "
          "the files here"))
      << text;
}

// An agent with TLS that says it is whoever it is asked to be.
class Liar : public Agent::Service {
 public:
  Liar(const Credentials& credentials, const DeviceInfo& device) : keyring_(credentials), device_(device) {
    grpc::ServerBuilder builder;
    configure_server(builder, {"127.0.0.1", 0}, keyring_, &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  Status Hello(grpc::ServerContext*, const HelloRequest*, HelloReply* reply) override {
    *reply->mutable_version() = own_version();
    *reply->mutable_device() = device_;
    return Status::OK;
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  Keyring keyring_;
  DeviceInfo device_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(LeasedDevice, IsTheOneThatWasLeased) {
  silence_grpc();
  const Authority own;
  AnnounceRequest a = announcement("a", "one");
  const std::string folder = own.issue({Role::Agent, "a"});
  Liar other(own.agent("b"), a.device()), revoked(load_credentials(folder, Role::Agent), a.device()),
      same(own.credentials(Role::Agent), a.device());
  tracker::Server server({"127.0.0.1", 0}, own.credentials(Role::Tracker), tracker::FleetOptions());
  const auto acquire_at = [&](const std::string& address) {
    a.mutable_device()->set_address(address);
    EXPECT_TRUE(server.fleet().announce(a).ok());
    return error_of([&] {
      DeviceRequest request;
      request.target = "rv64gcv";
      request.architecture = "riscv64";
      TrackerClient(server.address().text(), own.folder()).acquire(request);
    });
  };
  EXPECT_EQ(acquire_at(other.address()),
            "the agent 'a' at " + other.address() +
                " is not the device that was leased: its certificate has another "
                "name; see that each board has the certificate that `python -m tc certs add` made for it");
  EXPECT_EQ(acquire_at(same.address()), "");
  revoke(own.folder(), folder, Role::Agent);
  EXPECT_TRUE(has(acquire_at(revoked.address()),
                  "is not to be trusted: its certificate of the agent 'a' is revoked"));
}

// Measures nothing, quickly.
class Idle : public agent::Runner {
 public:
  std::string name() const override { return "native"; }
  std::string unit() const override { return "seconds"; }
  std::vector<std::string> isolation() const override { return {}; }
  void measure(const agent::Batch&, const std::function<void(const agent::Result&)>&,
               const std::function<bool()>&) override {}
};

TEST_F(Trust, AnAgentServesTheHolderOfItsLeaseAlone) {
  Idle runner;
  Keyring keyring(authority().agent("b"));
  agent::Server agent(runner, keyring, {"127.0.0.1:0"});
  DeviceInfo device = announcement("b", "").device();
  device.set_address("127.0.0.1:" + std::to_string(agent.port()));
  device.set_architecture("aarch64");
  agent::Membership membership(device, server_->address(), keyring);
  agent.open(device, membership);
  AcquireRequest request = wish(5000);
  request.set_architecture("aarch64");
  const Credentials ann = authority().credentials(Role::Client);
  Lease lease;
  ASSERT_EQ(call(ann, &Tracker::Stub::Acquire, request, &lease).error_message(), "");
  const auto missing = [&](const Credentials& credentials, const std::string& token) {
    const auto agent_stub =
        Agent::NewStub(make_channel(parse_address(device.address()), credentials, Role::Agent, "b"));
    grpc::ClientContext context;
    set_deadline(context, 10);
    FileList list, reply;
    list.set_token(token);
    return agent_stub->Missing(&context, list, &reply).error_message();
  };
  const std::string refused = "this device is not leased under that token; acquire it from the tracker";
  testing::internal::CaptureStderr();
  EXPECT_EQ(missing(ann, lease.token()), "");
  EXPECT_EQ(missing(authority().client("eve"), lease.token()), refused);
  EXPECT_EQ(missing(ann, lease_.token()), refused) << "the lease of another device";
  EXPECT_EQ(missing(ann, std::string(64, '0')), refused);
  EXPECT_EQ(
      missing(authority().agent("c"), lease.token()),
      "this call needs the certificate of a client, and the caller's is that of the agent 'c'; use the files "
      "client.pem and client.key of `python -m tc certs init`");
  EXPECT_EQ(missing(ann, lease.token()), "");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(said, "refused Missing of 'eve' from ipv4:127.0.0.1:")) << said;
  EXPECT_TRUE(has(said, "refused Missing of 'ann' from ipv4:127.0.0.1:")) << said;  // with leases of others
  EXPECT_TRUE(has(said, "refused Missing of 'c' from ipv4:127.0.0.1:")) << said;
  LeaseName name;
  name.set_token(lease.token());
  Empty empty;
  EXPECT_TRUE(call(ann, &Tracker::Stub::Release, name, &empty).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  testing::internal::CaptureStderr();
  EXPECT_EQ(missing(ann, lease.token()), refused) << "replayed";
  const std::string replayed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(replayed, "refused Missing of 'ann' from ipv4:127.0.0.1:")) << replayed;
}

TEST(LineLimit, LetsALineThroughNowAndThen) {
  LineLimit limit;
  int64_t left_out = 0;
  int passed = 0;
  for (int64_t now = 0; now < 60000; ++now) passed += limit.pass(now, &left_out);
  EXPECT_EQ(passed, 20 + 19);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(limit.pass(1000000, &left_out));
  EXPECT_FALSE(limit.pass(1000000, &left_out));
  EXPECT_FALSE(limit.pass(1000001, &left_out));
  EXPECT_TRUE(limit.pass(1004000, &left_out));
  EXPECT_EQ(left_out, 2);
}

TEST(AuditLog, EscapesAppendsAndRotates) {
  const std::string path = testing::TempDir() + "/audit-alone";
  for (const char* end : {"", ".1", ".2", ".3", ".4"}) unlink((path + end).c_str());
  {
    tracker::AuditLog log(path, 1000);
    log.write("leased", {{"client", "e\x1b[2J\n\"\\\xff" + std::string(1000, 'x')}, {"empty", ""}});
  }
  {
    tracker::AuditLog log(path, 1000);
    log.write("left", {});
  }
  const std::string text = read_text(path);
  EXPECT_TRUE(has(text, "\"event\": \"leased\", \"client\": \"e\\u001b[2J\\u000a\\u0022\\u005c\\u00ffxxx"))
      << text;
  EXPECT_FALSE(has(text, "empty"));
  EXPECT_TRUE(has(text, "x...\"}\n{\"time\": \"20")) << text;
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  tracker::AuditLog log(path, 1000);
  for (int i = 0; i < 200; ++i) log.write("announced", {{"device", "board"}, {"number", std::to_string(i)}});
  EXPECT_LE(std::filesystem::file_size(path), 1000u);
  EXPECT_TRUE(has(read_text(path), "\"199\""));
  EXPECT_TRUE(std::filesystem::exists(path + ".3"));
  EXPECT_FALSE(std::filesystem::exists(path + ".4"));
  EXPECT_TRUE(
      has(error_of([] { tracker::AuditLog("/nowhere/audit"); }),
          "the audit log /nowhere/audit cannot be appended to (No such file or directory); name another file "
          "with --audit-log"));
}

}  // namespace
}  // namespace tc::rpc
