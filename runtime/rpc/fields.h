// Checks of what came over the network. Each returns a sentence, empty where all is well.
#pragma once

#include <string>

#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::rpc {

// `text` cut to `limit` bytes, with everything but printable ASCII as '?': fit for a message.
std::string printable(const std::string& text, size_t limit);

// A word of at most `limit` letters, digits and the characters "._-+/ ()@:,", not empty.
bool is_word(const std::string& text, size_t limit);

// 64 digits of lower-case hex.
bool is_sha256(const std::string& text);

// A token as the tracker makes them: 64 digits of lower-case hex.
bool is_token(const std::string& text);

// What is wrong with an agent's description of its device.
std::string device_problem(const DeviceInfo& device);

// What is wrong with a request for a device.
std::string acquire_problem(const AcquireRequest& request);

}  // namespace tc::rpc
