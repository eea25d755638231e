// Who may use this agent: the holder of the tracker's lease, or of a token given at the start.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include <grpcpp/support/status.h>

#include "runtime/rpc/address.h"
#include "runtime/rpc/credentials.h"
#include "runtime/rpc/tc_rpc.grpc.pb.h"

namespace tc::agent {

class Leases {
 public:
  virtual ~Leases() = default;
  // OK, or why a call with this token is refused.
  virtual grpc::Status check(const std::string& token) = 0;
  virtual void count_measured(int64_t) {}
};

class FixedToken final : public Leases {
 public:
  explicit FixedToken(std::string token) : token_(std::move(token)) {}
  grpc::Status check(const std::string& token) override;

 private:
  const std::string token_;
};

// Announces the device from construction on, for ever, and asks the tracker about tokens. A tracker
// that is away for a while (restarted, unreachable) finds the agent again; meanwhile the last lease
// goes on for as long as it was known to.
class Membership final : public Leases {
 public:
  Membership(rpc::DeviceInfo device, const rpc::Address& tracker,
             const rpc::Credentials& credentials);
  ~Membership() override;      // tells the tracker
  grpc::Status check(const std::string& token) override;
  void count_measured(int64_t count) override { measured_ += count; }

 private:
  void announce_for_ever();
  grpc::Status announce(bool leaving, int* heartbeat_ms);

  const rpc::DeviceInfo device_;
  const rpc::Address address_;
  const rpc::Credentials credentials_;
  std::string session_;
  std::unique_ptr<rpc::Tracker::Stub> tracker_;
  std::atomic<int64_t> measured_ = 0;
  std::mutex mutex_;                  // guards what follows
  std::condition_variable stopping_;
  bool stop_ = false;
  std::string token_;                 // the last that was valid
  double checked_ = 0, valid_until_ = 0;
  std::thread thread_;
};

}  // namespace tc::agent
