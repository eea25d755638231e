// The version handshake: whether two programs understand each other, and which one has to be updated if not.
#pragma once

#include <string>

#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::rpc {

// Version of the protocol (tc_rpc.proto). The major number changes when the other side would misunderstand
// messages.
constexpr int kWireMajor = 1;
constexpr int kWireMinor = 2;
constexpr const char* kBuild = "0.1.0";

// The version of this program.
Version own_version();

// Empty where the two programs understand each other; else a sentence that names both versions and says which
// program to update. `us` and `them` are how the sentence calls them: "this tuner", "the tracker at
// 10.0.0.1:9190".
std::string version_problem(const Version& theirs, const std::string& us, const std::string& them);

}  // namespace tc::rpc
