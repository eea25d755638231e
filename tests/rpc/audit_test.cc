// What a tracker writes into its audit log.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "runtime/tracker/audit.h"
#include "runtime/tracker/fleet.h"
#include "tests/rpc/fleet.h"

namespace tc::tracker {
namespace {

using rpc::announcement;
using rpc::wish;

TEST(AuditedFleet, WritesDownWhoDidWhat) {
  const std::string path = testing::TempDir() + "/fleet-audit";
  unlink(path.c_str());
  AuditLog audit(path);
  int64_t now = 100000;
  Fleet fleet({}, [&] { return now; }, &audit);
  const rpc::Caller board{"board", 0, "ipv4:10.0.0.7:1"}, ann{"ann", 0, "ipv4:10.0.0.9:2"};
  rpc::AnnounceRequest beat = announcement("board", "one");
  ASSERT_TRUE(fleet.announce(beat, board).ok());
  rpc::Lease lease;
  ASSERT_TRUE(fleet.acquire(wish(), [] { return false; }, &lease, ann).ok());
  beat.set_measured(12);
  ASSERT_TRUE(fleet.announce(beat, board).ok());
  ASSERT_TRUE(fleet.announce(beat, board).ok());
  ASSERT_TRUE(fleet.report_failure(lease.token(), "it \"stopped\"", ann).ok());
  ASSERT_TRUE(fleet.release(lease.token(), ann).ok());
  now += 60000;
  rpc::DevicesReply reply;
  fleet.list(&reply);
  std::ifstream file(path);
  std::string line, events;
  std::vector<std::string> lines;
  while (std::getline(file, line)) {
    const size_t at = line.find("\"event\": \"") + 10;
    events += line.substr(at, line.find('"', at) - at) + ";";
    lines.push_back(line);
  }
  EXPECT_EQ(events, "announced;leased;measured;failure reported;released;went silent;");
  EXPECT_NE(lines[1].find("\"device\": \"board\", \"lease\": \""), std::string::npos) << lines[1];
  EXPECT_NE(
      lines[1].find("\"holder\": \"ann\", \"client\": \"ann (ann@desk)\", \"address\": \"127.0.0.1:9191\", "
                    "\"peer\": \"ipv4:10.0.0.9:2\", \"detail\": \"rv64gcv\"}"),
      std::string::npos)
      << lines[1];
  EXPECT_EQ(lines[1].find(lease.token().substr(0, 12)), std::string::npos) << "the token is a secret";
  EXPECT_NE(lines[2].find("\"detail\": \"12 candidates\"}"), std::string::npos) << lines[2];
  EXPECT_NE(lines[3].find("it \\u0022stopped\\u0022"), std::string::npos) << lines[3];
}

}  // namespace
}  // namespace tc::tracker
