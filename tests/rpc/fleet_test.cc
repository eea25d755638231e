// The tracker's book under a clock of the test's own: leases, heartbeats, quarantine.
#include <gtest/gtest.h>

#include <thread>

#include "runtime/tracker/fleet.h"
#include "tests/rpc/fleet.h"

namespace tc::tracker {
namespace {

using grpc::Status;
using grpc::StatusCode;
using rpc::announcement;
using rpc::wish;

class FleetTest : public testing::Test {
 protected:
  // Heartbeat 2 s, lease 10 s, quarantine 60 s.
  FleetTest() : fleet_({}, [this] { return now_.load(); }) { now_ += 100000; }

  void join(const std::string& name, const std::string& session = "one") {
    ASSERT_TRUE(fleet_.announce(announcement(name, session)).ok());
  }
  Status acquire(rpc::Lease* lease, const rpc::AcquireRequest& request = wish()) {
    return fleet_.acquire(request, [] { return false; }, lease);
  }
  // Time goes by while the agents named beat.
  void pass(int64_t milliseconds, const std::vector<std::string>& beating) {
    for (int64_t step = 0; step < milliseconds; step += 1000) {
      now_ += std::min<int64_t>(1000, milliseconds - step);
      for (const std::string& name : beating) join(name);
    }
  }
  std::string states() {
    rpc::DevicesReply reply;
    fleet_.list(&reply);
    std::string text;
    for (const auto& device : reply.devices()) text += device.device().name() + " " + device.state() + ";";
    return text;
  }

  std::atomic<int64_t> now_{1000};
  Fleet fleet_;
};

TEST_F(FleetTest, LeasesAreExclusive) {
  join("a");
  join("b");
  rpc::Lease first, second, third;
  ASSERT_TRUE(acquire(&first).ok());
  ASSERT_TRUE(acquire(&second).ok());
  EXPECT_NE(first.device().name(), second.device().name());
  EXPECT_NE(first.token(), second.token());
  EXPECT_EQ(first.token().size(), 64u);
  const Status status = acquire(&third);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(
      status.error_message(),
      "every device that runs rv64gcv is taken: a is leased by ann@desk since 0 s, of at most 3600 s, b is leased "
      "by ann@desk since 0 s, of at most 3600 s; wait longer, or start another agent");
  ASSERT_TRUE(fleet_.release(first.token()).ok());
  ASSERT_TRUE(acquire(&third).ok());
  EXPECT_EQ(third.device().name(), first.device().name());
  EXPECT_NE(third.token(), first.token());
  // A lease of old does nothing to the new one.
  EXPECT_TRUE(fleet_.release(first.token()).ok());
  EXPECT_EQ(states(), "a leased;b leased;");
}

TEST_F(FleetTest, ManyClientsNeverShareADevice) {
  join("a");
  join("b");
  std::atomic<int> holders{0}, most{0}, got{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        rpc::Lease lease;
        // The test's clock stands still, so that nobody waits in vain.
        if (!acquire(&lease, wish(1000)).ok()) continue;
        const int present = ++holders;
        int seen = most;
        while (seen < present && !most.compare_exchange_weak(seen, present)) {}
        ++got;
        --holders;
        fleet_.release(lease.token());
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(got, 160);
  EXPECT_LE(most, 2);
}

TEST_F(FleetTest, ALeaseThatIsNotRenewedEnds) {
  join("a");
  rpc::Lease lease, other;
  ASSERT_TRUE(acquire(&lease).ok());
  EXPECT_EQ(lease.ttl_ms(), 10000);
  pass(6000, {"a"});
  EXPECT_EQ(fleet_.lease_left_ms("a", lease.token()), 4000);
  ASSERT_TRUE(fleet_.renew(lease.token(), &lease).ok());
  pass(9000, {"a"});
  EXPECT_EQ(fleet_.lease_left_ms("a", lease.token()), 1000);
  EXPECT_EQ(fleet_.lease_left_ms("b", lease.token()), 0);
  EXPECT_EQ(fleet_.lease_left_ms("a", std::string(64, '0')), 0);
  EXPECT_EQ(fleet_.lease_left_ms("a", ""), 0);
  pass(1000, {"a"});
  EXPECT_EQ(fleet_.lease_left_ms("a", lease.token()), 0);
  EXPECT_EQ(fleet_.renew(lease.token(), &other).error_code(), StatusCode::NOT_FOUND);
  EXPECT_TRUE(acquire(&other).ok());
}

TEST_F(FleetTest, AnAgentThatFallsSilentIsGone) {
  join("a");
  join("b");
  rpc::Lease lease;
  ASSERT_TRUE(acquire(&lease).ok());
  ASSERT_EQ(lease.device().name(), "a");
  pass(6000, {"b"});
  EXPECT_EQ(states(), "a leased;b free;");
  pass(1000, {"b"});
  EXPECT_EQ(states(), "b free;");
  const Status status = fleet_.renew(lease.token(), &lease);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_NE(status.error_message().find("acquire a device again"), std::string::npos);
}

TEST_F(FleetTest, AnAgentThatLeavesIsGoneAtOnce) {
  join("a");
  rpc::AnnounceRequest leaving = announcement("a", "another");
  leaving.set_leaving(true);
  ASSERT_TRUE(fleet_.announce(leaving).ok());
  EXPECT_EQ(states(), "a free;");
  leaving.set_session("one");
  ASSERT_TRUE(fleet_.announce(leaving).ok());
  EXPECT_EQ(states(), "");
}

TEST_F(FleetTest, AnAgentThatStartsAnewEndsItsLeaseAndReplacesTheOld) {
  join("a", "one");
  rpc::Lease lease;
  ASSERT_TRUE(acquire(&lease).ok());
  join("a", "one");
  EXPECT_GT(fleet_.lease_left_ms("a", lease.token()), 0);
  join("a", "two");
  EXPECT_EQ(fleet_.lease_left_ms("a", lease.token()), 0);
  const Status status = fleet_.announce(announcement("a", "one"));
  EXPECT_EQ(status.error_code(), StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(status.error_message(),
            "the name 'a' is now that of another agent, at 127.0.0.1:9191; "
            "give this one a certificate of its own (`python -m tc certs add`), or with "
            "--insecure another --name");
}

TEST_F(FleetTest, ThreeFailuresInARowPutADeviceInQuarantine) {
  join("a");
  rpc::Lease lease;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(acquire(&lease).ok()) << i;
    ASSERT_TRUE(fleet_.report_failure(lease.token(), "it \n died").ok());
    EXPECT_TRUE(fleet_.release(lease.token()).ok());
  }
  EXPECT_EQ(states(), "a quarantined;");
  const Status status = acquire(&lease);
  EXPECT_EQ(status.error_message(),
            "every device that runs rv64gcv is taken: a is in quarantine for 60 s (it ? died); wait "
            "longer, or start another agent");
  EXPECT_EQ(fleet_.report_failure(lease.token(), "late").error_code(), StatusCode::NOT_FOUND);
  pass(59000, {"a"});
  EXPECT_EQ(states(), "a quarantined;");
  pass(1000, {"a"});
  EXPECT_EQ(states(), "a free;");
  // One more leads back.
  ASSERT_TRUE(acquire(&lease).ok());
  ASSERT_TRUE(fleet_.report_failure(lease.token(), "again").ok());
  EXPECT_EQ(states(), "a quarantined;");
  // So it does where somebody started the agent anew, who did not wait.
  join("a", "two");
  EXPECT_EQ(states(), "a free;");
  ASSERT_TRUE(acquire(&lease).ok());
  ASSERT_TRUE(fleet_.report_failure(lease.token(), "still").ok());
  EXPECT_EQ(states(), "a quarantined;");
}

TEST_F(FleetTest, AnUnfitDeviceIsInQuarantineForLongerEachTime) {
  join("a");
  rpc::Lease lease;
  for (const int seconds : {60, 120, 240}) {
    ASSERT_TRUE(acquire(&lease).ok());
    ASSERT_TRUE(fleet_.report_failure(lease.token(), "takes 30 % longer", {}, true).ok());
    pass(seconds * 1000 - 1000, {"a"});
    EXPECT_EQ(states(), "a quarantined;");
    pass(1000, {"a"});
    EXPECT_EQ(states(), "a free;");
  }
  // A lease without a failure proves that it is fit again.
  ASSERT_TRUE(acquire(&lease).ok());
  ASSERT_TRUE(fleet_.release(lease.token()).ok());
  ASSERT_TRUE(acquire(&lease).ok());
  ASSERT_TRUE(fleet_.report_failure(lease.token(), "takes 30 % longer", {}, true).ok());
  pass(60000, {"a"});
  EXPECT_EQ(states(), "a free;");
}

TEST_F(FleetTest, AGoodLeaseForgivesFailures) {
  join("a");
  rpc::Lease lease;
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(acquire(&lease).ok()) << i;
    if (i % 3 != 2) {
      ASSERT_TRUE(fleet_.report_failure(lease.token(), "it died").ok());
    }
    ASSERT_TRUE(fleet_.release(lease.token()).ok());
  }
  EXPECT_EQ(states(), "a free;");
}

TEST_F(FleetTest, ADeviceThatFailedComesLast) {
  join("a");
  join("b");
  rpc::Lease lease;
  ASSERT_TRUE(acquire(&lease).ok());
  ASSERT_EQ(lease.device().name(), "a");
  fleet_.report_failure(lease.token(), "it died");
  fleet_.release(lease.token());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(acquire(&lease).ok());
    EXPECT_EQ(lease.device().name(), "b");
    fleet_.release(lease.token());
  }
}

TEST_F(FleetTest, ATargetWithoutADeviceListsThoseThereAre) {
  rpc::Lease lease;
  Status status = acquire(&lease);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(),
            "no device runs rv64gcv (riscv64 v); no agent has joined this tracker: start one with "
            "`python -m tc agent`");
  fleet_.announce(announcement("pc", "one", "x86-64", "avx2"));
  fleet_.announce(announcement("small", "one", "riscv64", "f d"));
  status = acquire(&lease);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(),
            "no device runs rv64gcv (riscv64 v); those there are: pc (x86-64, native: another "
            "architecture), small (riscv64, native: lacks v)");
}

TEST_F(FleetTest, RunnerAndDeviceKeyAreHeld) {
  join("a");
  rpc::Lease lease;
  rpc::AcquireRequest request = wish();
  request.set_runner("qemu");
  EXPECT_EQ(acquire(&lease, request).error_code(), StatusCode::NOT_FOUND);
  request.set_runner("native");
  request.set_device_key("another key");
  EXPECT_EQ(acquire(&lease, request).error_code(), StatusCode::NOT_FOUND);
  request.set_device_key(announcement("a", "one").device().key());
  EXPECT_TRUE(acquire(&lease, request).ok());
}

// A client of that name waits for a device; what it is told.
struct Waits {
  Waits(Fleet& fleet, const std::string& name, int wait_ms = 3600000, int priority = 0)
      : request(wish(wait_ms, name + "@desk")) {
    request.set_priority(priority);
    fleet.acquire_later(request, {name, 0, ""}, [this](const Status& found, const rpc::Lease& lent) {
      status = found;
      lease = lent;
      answered = true;
    });
  }
  rpc::AcquireRequest request;
  Status status;
  rpc::Lease lease;
  bool answered = false;
};

const rpc::Caller kAnn{"ann", 0, ""};

TEST_F(FleetTest, ALeaseGoesOnWhileNobodyWaits) {
  join("a");
  Waits ann(fleet_, "ann");
  ASSERT_TRUE(ann.answered);
  rpc::Lease lease;
  for (int i = 0; i < 2000; ++i) {
    pass(5000, {"a"});
    ASSERT_TRUE(fleet_.renew(ann.lease.token(), &lease, kAnn).ok()) << i;
  }
  EXPECT_EQ(lease.ttl_ms(), 10000);
  // Who waits for more devices of its own ends none of its leases.
  Waits more(fleet_, "ann");
  EXPECT_TRUE(fleet_.renew(ann.lease.token(), &lease, kAnn).ok());
  // Nor does who needs another device.
  rpc::AcquireRequest another = wish(1000000);
  another.set_runner("qemu");
  rpc::Lease none;
  fleet_.announce(announcement("b", "one", "x86-64", "avx2"));
  EXPECT_EQ(fleet_.acquire(another, [] { return false; }, &none, {"bob", 0, ""}).error_code(),
            StatusCode::NOT_FOUND);
  EXPECT_TRUE(fleet_.renew(ann.lease.token(), &lease, kAnn).ok());
}

TEST_F(FleetTest, ALeaseEndsAtTheLongestWhereAnotherWaits) {
  join("a");
  Waits ann(fleet_, "ann");
  rpc::Lease lease;
  for (int i = 0; i < 719; ++i) {  // 3,595 s
    pass(5000, {"a"});
    ASSERT_TRUE(fleet_.renew(ann.lease.token(), &lease, kAnn).ok());
  }
  Waits bob(fleet_, "bob");
  ASSERT_TRUE(fleet_.renew(ann.lease.token(), &lease, kAnn).ok());
  EXPECT_EQ(lease.ttl_ms(), 5000) << "not beyond the longest";
  EXPECT_FALSE(bob.answered);
  pass(5000, {"a"});
  fleet_.serve_waiting();
  ASSERT_TRUE(bob.answered);
  EXPECT_EQ(bob.lease.device().name(), "a");
  EXPECT_EQ(fleet_.lease_left_ms("a", ann.lease.token(), "ann"), 0);
  const Status status = fleet_.renew(ann.lease.token(), &lease, kAnn);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(
      status.error_message(),
      "this lease of the device 'a' has ended: another client waited for it, and the longest lease is 3600 s "
      "then; acquire a device again");
  // It comes after those who waited, and has its turn by the same rule.
  Waits again(fleet_, "ann");
  EXPECT_FALSE(again.answered);
}

TEST_F(FleetTest, ALeaseBeyondTheLongestEndsWithItsNextRenewal) {
  join("a");
  Waits ann(fleet_, "ann");
  rpc::Lease lease;
  for (int i = 0; i < 1000; ++i) {
    pass(5000, {"a"});
    ASSERT_TRUE(fleet_.renew(ann.lease.token(), &lease, kAnn).ok());
  }
  Waits bob(fleet_, "bob");
  EXPECT_FALSE(bob.answered);
  EXPECT_NE(
      fleet_.renew(ann.lease.token(), &lease, kAnn).error_message().find("another client waited for it"),
      std::string::npos);
  fleet_.serve_waiting();
  EXPECT_TRUE(bob.answered && bob.status.ok());
}

TEST_F(FleetTest, TheQueueIsTold) {
  join("a");
  Waits ann(fleet_, "ann");
  pass(1000, {"a"});
  Waits bob(fleet_, "bob", 60000), cleo(fleet_, "cleo", 2000);
  pass(1500, {"a"});
  rpc::DevicesReply reply;
  fleet_.list(&reply);
  const rpc::DeviceState& state = reply.devices(0);
  EXPECT_EQ(state.lease_seconds(), 2.5);
  EXPECT_EQ(state.longest_lease_seconds(), 3600);
  ASSERT_EQ(state.waiting_size(), 2);
  EXPECT_EQ(state.waiting(0).client(), "bob (bob@desk)");
  EXPECT_EQ(state.waiting(0).seconds(), 1.5);
  EXPECT_EQ(state.waiting(0).seconds_left(), 58.5);
  EXPECT_EQ(state.waiting(1).client(), "cleo (cleo@desk)");
  pass(500, {"a"});
  fleet_.serve_waiting();
  ASSERT_TRUE(cleo.answered);
  EXPECT_EQ(cleo.status.error_message(),
            "every device that runs rv64gcv is taken: a is leased by ann (ann@desk) since 3 s, of at most "
            "3600 s; wait longer, or start another agent");
  EXPECT_FALSE(bob.answered);
  fleet_.close();
  EXPECT_EQ(bob.status.error_message(), "the tracker is being stopped");
}

TEST(FleetWaits, FirstComeFirstServed) {
  Fleet fleet({});
  fleet.announce(announcement("a", "one"));
  rpc::Lease held;
  ASSERT_TRUE(fleet.acquire(wish(), [] { return false; }, &held).ok());
  std::mutex mutex;
  std::string order;
  std::vector<std::thread> clients;
  for (const char* name : {"1", "2", "3"}) {
    clients.emplace_back([&, name] {
      rpc::Lease lease;
      ASSERT_TRUE(fleet.acquire(wish(30000), [] { return false; }, &lease).ok());
      {
        const std::lock_guard lock(mutex);
        order += name;
      }
      fleet.release(lease.token());
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  fleet.release(held.token());
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(order, "123");
}

TEST(FleetWaits, AClientThatGaveUpLeavesTheQueue) {
  Fleet fleet({});
  fleet.announce(announcement("a", "one"));
  rpc::Lease held, lease;
  ASSERT_TRUE(fleet.acquire(wish(), [] { return false; }, &held).ok());
  const Status status = fleet.acquire(wish(30000), [] { return true; }, &lease);
  EXPECT_EQ(status.error_code(), StatusCode::CANCELLED);
  fleet.release(held.token());
  EXPECT_TRUE(fleet.acquire(wish(), [] { return false; }, &lease).ok());
}

TEST(FleetWaits, AYoungTrackerWaitsForAgentsToJoinAgain) {
  Fleet fleet({});
  rpc::Lease lease;
  std::thread agent([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    fleet.announce(announcement("a", "one"));
  });
  EXPECT_TRUE(fleet.acquire(wish(30000), [] { return false; }, &lease).ok());
  agent.join();
}

TEST_F(FleetTest, OneClientDoesNotTakeAllPlacesOfTheQueue) {
  join("a");
  rpc::Lease lease;
  ASSERT_TRUE(acquire(&lease).ok());
  std::vector<std::unique_ptr<Waits>> waiting;
  for (int i = 0; i < 136; ++i) waiting.push_back(std::make_unique<Waits>(fleet_, "eve"));
  for (int i = 0; i < 136; ++i) ASSERT_EQ(waiting[i]->answered, i >= 128) << i;
  EXPECT_EQ(waiting.back()->status.error_message(),
            "the client 'eve' waits for devices 128 times already; try again later");
  EXPECT_FALSE(Waits(fleet_, "ann", 0).status.error_message().find("is taken") == std::string::npos);
  fleet_.close();
}

// Bob has had the device for a while: each further client of his comes after those of others.
TEST_F(FleetTest, WhoHasHadLessIsServedFirst) {
  join("a");
  Waits first(fleet_, "bob");
  pass(60000, {"a"});
  ASSERT_TRUE(fleet_.lease_left_ms("a", first.lease.token(), "bob") == 0) << "not renewed";
  Waits held(fleet_, "cleo");
  ASSERT_TRUE(held.answered);
  Waits bob(fleet_, "bob"), ann(fleet_, "ann"), again(fleet_, "ann");
  const auto next = [&](const Waits& served, const Waits& holder, const std::string& name) {
    EXPECT_TRUE(fleet_.release(holder.lease.token(), {name, 0, ""}).ok());
    fleet_.serve_waiting();
    EXPECT_TRUE(served.answered);
  };
  next(ann, held, "cleo");
  pass(2000, {"a"});
  EXPECT_FALSE(bob.answered);
  next(again, ann, "ann");
  pass(9000, {"a"});
  Waits late(fleet_, "ann");
  next(bob, again, "ann");
  // After an hour nobody remembers.
  for (int i = 0; i < 720; ++i) {
    pass(5000, {"a"});
    rpc::Lease lease;
    fleet_.renew(bob.lease.token(), &lease, {"bob", 0, ""});
  }
  fleet_.close();
}

TEST_F(FleetTest, ClientsOfAHigherPriorityAreServedFirst) {
  join("a");
  Waits held(fleet_, "cleo");
  Waits low(fleet_, "ann", 60000, -1), usual(fleet_, "bob"), high(fleet_, "dora", 60000, 3);
  rpc::DevicesReply reply;
  fleet_.list(&reply);
  ASSERT_EQ(reply.devices(0).waiting_size(), 3);
  EXPECT_EQ(reply.devices(0).waiting(0).client(), "dora (dora@desk)");
  EXPECT_EQ(reply.devices(0).waiting(0).priority(), 3);
  EXPECT_EQ(reply.devices(0).waiting(2).client(), "ann (ann@desk)");
  EXPECT_EQ(reply.devices(0).waiting_count(), 3);
  fleet_.release(held.lease.token(), {"cleo", 0, ""});
  fleet_.serve_waiting();
  EXPECT_TRUE(high.answered && !usual.answered && !low.answered);
  fleet_.release(high.lease.token(), {"dora", 0, ""});
  fleet_.serve_waiting();
  EXPECT_TRUE(usual.answered && !low.answered);
  fleet_.close();
}

// A client that needs what no free device has does not hold up others.
TEST_F(FleetTest, WhoCanBeServedIsServed) {
  join("a");
  fleet_.announce(announcement("pc", "one", "x86-64", "avx2"));
  Waits ann(fleet_, "ann"), bob(fleet_, "bob");
  ASSERT_TRUE(ann.answered && !bob.answered);
  rpc::AcquireRequest request = wish(1000);
  request.set_architecture("x86-64");
  request.clear_features();
  rpc::Lease lease;
  ASSERT_TRUE(acquire(&lease, request).ok());
  EXPECT_EQ(lease.device().name(), "pc");
  // What the agent has learnt about its device counts from its next heartbeat on.
  rpc::AnnounceRequest more = announcement("c", "one", "riscv64", "d");
  fleet_.announce(more);
  fleet_.serve_waiting();
  EXPECT_FALSE(bob.answered);
  more.mutable_device()->add_features("v");
  fleet_.announce(more);
  fleet_.serve_waiting();
  ASSERT_TRUE(bob.answered);
  EXPECT_EQ(bob.lease.device().name(), "c");
}

TEST_F(FleetTest, CountsWhatHappens) {
  join("a");
  Waits ann(fleet_, "ann"), bob(fleet_, "bob", 1500);
  rpc::AnnounceRequest beat = announcement("a", "one");
  beat.set_measured(7);
  beat.mutable_condition()->set_celsius(51.5);
  fleet_.announce(beat);
  fleet_.report_failure(ann.lease.token(), "it died", kAnn);
  now_ += 2000;
  fleet_.serve_waiting();
  EXPECT_TRUE(bob.answered);
  rpc::DevicesReply reply;
  fleet_.list(&reply);
  const rpc::FleetCounters& counters = reply.counters();
  EXPECT_EQ(counters.announcements(), 2);
  EXPECT_EQ(counters.leases(), 1);
  EXPECT_EQ(counters.without_device(), 1);
  EXPECT_EQ(counters.failures(), 1);
  EXPECT_EQ(counters.measured(), 7);
  EXPECT_EQ(counters.waiting(), 0);
  EXPECT_EQ(reply.devices(0).condition().celsius(), 51.5);
  EXPECT_FALSE(reply.devices(0).condition().has_load());
}

// A thousand devices and two hundred clients: what a call takes does not grow with them as it would where all
// were compared with all.
TEST(FleetSize, AThousandDevicesAndTwoHundredClients) {
  int64_t now = 100000;
  Fleet fleet({}, [&] { return now; });
  const auto beat = [&](int i) {
    fleet.announce(announcement("board" + std::to_string(i), "one", "riscv64",
                                i % 10 == 0 ? "v zvl128b zfh" : "v zvl128b"));
  };
  for (int i = 0; i < 1000; ++i) beat(i);
  std::vector<std::unique_ptr<Waits>> holders, waiting;
  for (int i = 0; i < 1000; ++i)
    holders.push_back(std::make_unique<Waits>(fleet, "holder" + std::to_string(i % 97)));
  for (int i = 0; i < 200; ++i)
    waiting.push_back(std::make_unique<Waits>(fleet, "c" + std::to_string(i % 50)));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10000; ++i) beat(i % 1000);
  rpc::Lease lease;
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(
        fleet.renew(holders[i]->lease.token(), &lease, {"holder" + std::to_string(i % 97), 0, ""}).ok());
  for (int i = 0; i < 200; ++i) {
    fleet.release(holders[i]->lease.token(), {"holder" + std::to_string(i % 97), 0, ""});
    fleet.serve_waiting();
  }
  rpc::DevicesReply reply;
  fleet.list(&reply);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  for (const auto& one : waiting) EXPECT_TRUE(one->answered && one->status.ok());
  EXPECT_EQ(reply.devices_size(), 1000);
  EXPECT_LT(took.count(), 20) << "a third of a second on a machine at rest";
  fleet.close();
}

}  // namespace
}  // namespace tc::tracker
