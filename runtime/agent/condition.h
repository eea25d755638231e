// How this machine does: its load, the temperature and the present frequency of its processor.
#pragma once

#include <string>

#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::agent {

// What can be read below `root`, which has the folders proc and sys of Linux; what cannot is left out.
rpc::Condition condition_of_machine(const std::string& root = "/");

}  // namespace tc::agent
