// Decides who may use this agent: the holder of the tracker's lease, or of a token that is given at the
// start.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include <grpcpp/support/status.h>

#include "runtime/rpc/address.h"
#include "runtime/rpc/keyring.h"
#include "runtime/rpc/tc_rpc.grpc.pb.h"

namespace tc::agent {

class Leases {
 public:
  virtual ~Leases() = default;
  // OK, or why a call with this token is refused. `client` is the name in the caller's certificate,
  // empty in plain text.
  virtual grpc::Status check(const std::string& token, const std::string& client) = 0;
  virtual void count_measured(int64_t) {}
};

class FixedToken final : public Leases {
 public:
  explicit FixedToken(std::string token) : token_(std::move(token)) {}
  grpc::Status check(const std::string& token, const std::string& client) override;

 private:
  const std::string token_;
};

// Announces the device to the tracker again and again, from construction on, and asks the tracker about
// tokens. When a tracker was away for a while (restarted, unreachable), the agent joins it again; meanwhile
// the last lease stays valid until the end that is known of it. New credentials are used as soon as their
// files change.
class Membership final : public Leases {
 public:
  // The keyring outlives this.
  Membership(rpc::DeviceInfo device, const rpc::Address& tracker, rpc::Keyring& keyring);
  ~Membership() override;  // tells the tracker that the device leaves
  grpc::Status check(const std::string& token, const std::string& client) override;
  void count_measured(int64_t count) override { measured_ += count; }

 private:
  void announce_for_ever();
  grpc::Status announce(bool leaving, int* heartbeat_ms);
  // The tracker's stub, with the present credentials.
  std::shared_ptr<rpc::Tracker::Stub> tracker();

  const rpc::DeviceInfo device_;
  const rpc::Address address_;
  rpc::Keyring& keyring_;
  std::string session_;
  std::atomic<int64_t> measured_ = 0;
  std::mutex mutex_;  // guards the members below
  std::condition_variable stopping_;
  bool stop_ = false;
  std::shared_ptr<rpc::Tracker::Stub> tracker_;
  int64_t generation_ = 0;      // of the stub's credentials
  std::string token_, client_;  // the last valid token, and the client that sent it
  double checked_ = 0, valid_until_ = 0;
  std::thread thread_;
};

}  // namespace tc::agent
