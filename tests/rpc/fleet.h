// Devices and credentials for tests of the tracker.
#pragma once

#include <string>

#include "runtime/rpc/credentials.h"
#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::rpc {

// An announcement as an agent makes it.
AnnounceRequest announcement(const std::string& name, const std::string& session,
                             const std::string& architecture = "riscv64",
                             const std::string& features = "v zvl128b");

// A request for a riscv64 device with V.
AcquireRequest wish(int wait_ms = 0, const std::string& client = "ann@desk");

// A folder of credentials of an authority of its own, made by openssl and removed at the end.
class Authority {
 public:
  Authority();
  ~Authority();
  const std::string& folder() const { return folder_; }
  Credentials credentials(Role role) const { return load_credentials(folder_, role); }

 private:
  std::string folder_;
};

}  // namespace tc::rpc
