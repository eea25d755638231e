// What this machine is: found out, not configured.
#pragma once

#include "runtime/agent/runner.h"
#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::agent {

// Everything but the name and the address. A runner that simulates a device describes that one.
rpc::DeviceInfo describe_device(const Runner& runner);

// Fills in the part of a description that says with which devices this one's times compare.
void set_key(rpc::DeviceInfo& device);

}  // namespace tc::agent
