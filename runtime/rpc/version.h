// The version handshake: who understands whom, and which side is to be updated.
#pragma once

#include <string>

#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::rpc {

// Version of the wire (tc_rpc.proto). A major changes when the other side would misunderstand.
constexpr int kWireMajor = 1;
constexpr int kWireMinor = 1;
constexpr const char* kBuild = "0.1.0";

// This program's.
Version own_version();

// Empty where the two understand each other; else a sentence that names both versions and says
// which side to update. `us` and `them` are for people: "this tuner", "the tracker at 10.0.0.1:9190".
std::string version_problem(const Version& theirs, const std::string& us, const std::string& them);

}  // namespace tc::rpc
