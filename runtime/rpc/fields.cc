#include "runtime/rpc/fields.h"

#include <cctype>
#include <cmath>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "runtime/rpc/address.h"

namespace tc::rpc {
namespace {

constexpr size_t kWord = 128;
constexpr int kMaxFeatures = 512;
constexpr int kMostPriority = 10;

bool is_hex(const std::string& text, size_t size) {
  return text.size() == size && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// What is wrong with a field that has to be a word (is_word); empty where it is one.
std::string word_problem(const char* name, const std::string& value, size_t limit = kWord) {
  if (is_word(value, limit)) return "";
  return std::string("the field '") + name + "' is " +
         (value.empty() ? "empty"
                        : "'" + printable(value, 60) + "', which is no plain text of at most " +
                              std::to_string(limit) + " characters");
}

template <class Words>
std::string words_problem(const char* name, const Words& words) {
  if (words.size() > kMaxFeatures)
    return std::string("the field '") + name + "' has " + std::to_string(words.size()) +
           " entries, more than " + std::to_string(kMaxFeatures);
  for (const std::string& word : words)
    if (std::string problem = word_problem(name, word); !problem.empty()) return problem;
  return "";
}

std::string range_problem(const char* name, double value, double limit) {
  if (std::isfinite(value) && value >= 0 && value <= limit) return "";
  std::ostringstream text;
  text << "the field '" << name << "' is " << value << ", outside 0 to " << limit;
  return text.str();
}

std::string first_of(std::initializer_list<std::string> problems) {
  for (const std::string& problem : problems)
    if (!problem.empty()) return problem;
  return "";
}

std::string address_problem(const std::string& text) {
  try {
    parse_address(text);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace

std::string printable(const std::string& text, size_t limit) {
  std::string out = text.substr(0, limit);
  for (char& c : out)
    if (c < 0x20 || c > 0x7e) c = '?';
  return text.size() > limit ? out + "..." : out;
}

bool is_word(const std::string& text, size_t limit) {
  if (text.empty() || text.size() > limit) return false;
  for (const char c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("._-+/ ()@:,", c)) return false;
  return text.find('\0') == std::string::npos;
}

bool is_sha256(const std::string& text) { return is_hex(text, 64); }
bool is_token(const std::string& text) { return is_hex(text, 64); }

std::string device_problem(const DeviceInfo& device) {
  const bool known_unit = device.unit() == "seconds" || device.unit() == "simulated cycles";
  return first_of({
      word_problem("device.name", device.name(), 64),
      address_problem(device.address()),
      word_problem("device.runner", device.runner(), 32),
      known_unit ? ""
                 : "the field 'device.unit' is '" + printable(device.unit(), 60) +
                       "', neither 'seconds' nor 'simulated cycles'",
      word_problem("device.architecture", device.architecture(), 32),
      words_problem("device.features", device.features()),
      words_problem("device.isolation", device.isolation()),
      word_problem("device.key", device.key(), 512),
      device.processor().size() <= 256 ? "" : "the field 'device.processor' is too long",
      range_problem("device.cores", device.cores(), 1 << 16),
      range_problem("device.vector_bits", device.vector_bits(), 1 << 16),
      range_problem("device.l1_bytes", static_cast<double>(device.l1_bytes()), 0x1p50),
      range_problem("device.l2_bytes", static_cast<double>(device.l2_bytes()), 0x1p50),
      range_problem("device.l3_bytes", static_cast<double>(device.l3_bytes()), 0x1p50),
      range_problem("device.memory_bytes", static_cast<double>(device.memory_bytes()), 0x1p60),
      range_problem("device.store_bytes", static_cast<double>(device.store_bytes()), 0x1p60),
      range_problem("device.clock_ghz", device.clock_ghz(), 1000),
  });
}

std::string condition_problem(const Condition& condition) {
  return first_of({
      range_problem("condition.load", condition.load(), 1e6),
      range_problem("condition.celsius", condition.celsius(), 1000),
      range_problem("condition.gigahertz", condition.gigahertz(), 1000),
  });
}

std::string acquire_problem(const AcquireRequest& request) {
  return first_of({
      word_problem("target", request.target(), 512),
      word_problem("architecture", request.architecture(), 32),
      words_problem("features", request.features()),
      request.runner().empty() ? "" : word_problem("runner", request.runner(), 32),
      request.device_key().empty() ? "" : word_problem("device_key", request.device_key(), 512),
      range_problem("wait_ms", request.wait_ms(), 600e3),
      request.priority() >= -kMostPriority && request.priority() <= kMostPriority
          ? ""
          : "the field 'priority' is " + std::to_string(request.priority()) + ", not -" +
                std::to_string(kMostPriority) + " to " + std::to_string(kMostPriority),
      request.client().size() <= 256 ? "" : "the field 'client' is too long",
  });
}

}  // namespace tc::rpc
