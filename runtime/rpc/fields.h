// Checks of data that came over the network. The functions that return a text return a sentence about the
// first problem; empty where there is none.
#pragma once

#include <string>

#include "runtime/rpc/tc_rpc.pb.h"

namespace tc::rpc {

// `text`, cut off at `limit` bytes, with everything but printable ASCII replaced by '?', for use in a
// message.
std::string printable(const std::string& text, size_t limit);

// Whether the text is a word: at most `limit` letters, digits and characters of "._-+/ ()@:,", and not empty.
bool is_word(const std::string& text, size_t limit);

// Whether the text is 64 digits of lower-case hex.
bool is_sha256(const std::string& text);

// Whether the text has the form of the tracker's tokens: 64 digits of lower-case hex.
bool is_token(const std::string& text);

// What is wrong with an agent's description of its device.
std::string device_problem(const DeviceInfo& device);

// What is wrong with what an agent says of its machine's condition.
std::string condition_problem(const Condition& condition);

// What is wrong with a request for a device.
std::string acquire_problem(const AcquireRequest& request);

}  // namespace tc::rpc
