// A device as seen through its agent: the agent's calls, for as long as the lease lasts.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "runtime/rpc/credentials.h"
#include "runtime/rpc/tc_rpc.grpc.pb.h"
#include "tuner/client.h"
#include "tuner/shared_blocks.h"

namespace tc {

// Calls the function; rethrows the exceptions of the RPC library as Device errors.
template <class Function>
auto as_device_error(const Function& function) -> decltype(function()) {
  try {
    return function();
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    fail(ErrorKind::Device, error.what());
  }
}

// A LeasedDevice without a tracker: it has no lease to renew, and nobody to whom it reports failures.
class AgentDevice : public LeasedDevice {
 public:
  AgentDevice(rpc::Address address, rpc::Credentials credentials, std::string token);

  // Connects to the agent, and checks that its version fits ours and, where `expected` has a name, that it is
  // that device. Call it before all other functions. Throws the same errors as LeasedDevice's functions.
  void greet(const rpc::DeviceInfo& expected);

  const rpc::DeviceInfo& info() const override { return info_; }
  bool lost() const override { return lost_; }
  void upload(const std::vector<RemoteFile>& files) override;
  void measure(rpc::MeasureRequest request,
               const std::function<void(const rpc::MeasureResult&)>& on_result) override;
  void cancel() override;
  void report_failure(const std::string&, bool) override {}

 protected:
  // Records that the lease is over. `why` is the tracker's reason, empty where it gave none.
  void lose(const std::string& why);

  const std::string token_;
  std::atomic<bool> lost_{false};

 private:
  std::string name() const;
  template <class Call>
  void call(double seconds, const Call& one_call);
  void send(const RemoteFile& file);
  bool send_pieces(const RemoteFile& file, bool with_copies);

  const rpc::Address address_;
  const rpc::Credentials credentials_;
  rpc::DeviceInfo info_;
  bool takes_copies_ = false;
  SharedBlocks blocks_;  // of the files that were sent
  std::unique_ptr<rpc::Agent::Stub> stub_;
  std::mutex mutex_;
  bool cancelled_ = false;
  std::string why_lost_;
  grpc::ClientContext* running_ = nullptr;
};

}  // namespace tc
