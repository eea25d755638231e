// Describes this machine, by what it finds out about it and not by configuration.
#pragma once

#include "runtime/agent/runner.h"
#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::agent {

// Everything about the device except its name and address. Where the runner simulates a device, that one is
// described.
rpc::DeviceInfo describe_device(const Runner& runner);

// Fills in the key: times of devices with the same key are comparable.
void set_key(rpc::DeviceInfo& device);

}  // namespace tc::agent
