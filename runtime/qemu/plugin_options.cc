#include "runtime/qemu/plugin_options.h"

#include <bit>
#include <cstdlib>
#include <string_view>

namespace tc::qemu {
namespace {

// "START-END" in hexadecimal, with or without 0x; nothing if it is not that or is empty.
std::optional<Range> parse_range(std::string_view value) {
  const std::string text(value);
  char* rest = nullptr;
  Range range;
  range.start = std::strtoull(text.c_str(), &rest, 16);
  if (rest == text.c_str() || *rest != '-') return std::nullopt;
  const char* second = rest + 1;
  range.end = std::strtoull(second, &rest, 16);
  if (rest == second || *rest != '\0' || range.end <= range.start) return std::nullopt;
  return range;
}

// A power of two from 64 to 65,536, the lengths that the vector extension allows.
std::optional<int> parse_bits(std::string_view value) {
  const std::string text(value);
  char* rest = nullptr;
  const unsigned long bits = std::strtoul(text.c_str(), &rest, 10);
  if (rest == text.c_str() || *rest != '\0' || !std::has_single_bit(bits) || bits < 64 || bits > 65536) {
    return std::nullopt;
  }
  return static_cast<int>(bits);
}

std::string core_names() {
  std::string names;
  for (const CoreRow& core : kRiscvCores) names += (names.empty() ? "" : ", ") + std::string(core.name);
  return names;
}

}  // namespace

std::optional<std::string> parse_options(int count, char** arguments, Options& options) {
  for (int i = 0; i < count; ++i) {
    const std::string_view argument = arguments[i];
    const size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : argument.substr(equals + 1);
    if (name == "out" && !value.empty()) {
      options.output = value;
    } else if (name == "profile" && !value.empty()) {
      options.profile = value;
    } else if (name == "range") {
      const std::optional<Range> range = parse_range(value);
      if (!range) {
        return "range '" + std::string(value) + "' is not START-END in hexadecimal with START below END";
      }
      options.ranges.push_back(*range);
    } else if (name == "replies" && (value == "on" || value == "off" || value == "twice")) {
      options.has_replies = value != "off";
      options.times_twice = value == "twice";
    } else if ((name == "cycles" || name == "cache") && (value == "on" || value == "off")) {
      (name == "cycles" ? options.has_cycles : options.model.has_cache) = value == "on";
    } else if (name == "guest") {
      char* rest = nullptr;
      const std::string text(value);
      options.guest_bytes = std::strtoull(text.c_str(), &rest, 10);
      if (options.guest_bytes == 0 || *rest != '\0') return "guest '" + text + "' is not a number of bytes";
    } else if (name == "longest") {
      char* rest = nullptr;
      const std::string text(value);
      options.longest_cycles = std::strtoull(text.c_str(), &rest, 10);
      if (options.longest_cycles == 0 || *rest != '\0')
        return "longest '" + text + "' is not a number of cycles";
    } else if (name == "core") {
      options.model.core = riscv_core(value);
      if (options.model.core == nullptr)
        return "core '" + std::string(value) + "' is not one of " + core_names();
    } else if (name == "vlen" || name == "dlen") {
      const std::optional<int> bits = parse_bits(value);
      if (!bits) {
        return std::string(name) + " '" + std::string(value) + "' is not a power of two from 64 to 65536";
      }
      (name == "vlen" ? options.model.vector_bits : options.model.datapath_bits) = *bits;
    } else {
      return "argument '" + std::string(argument) +
             "' is not one of out=PATH, range=START-END, profile=PATH, cycles=on|off, cache=on|off, "
             "replies=on|off|twice, longest=CYCLES, guest=BYTES, core=NAME, vlen=BITS, dlen=BITS";
    }
  }
  options.has_cycles |= options.model.has_cache;
  if (options.model.vector_bits == 0) options.model.vector_bits = options.model.core->vector_bits;
  if (options.model.datapath_bits == 0) options.model.datapath_bits = options.model.core->datapath_bits;
  if (options.output.empty()) return "the argument out=PATH is missing";
  if (options.has_replies != (options.output.rfind("map:", 0) == 0) ||
      (options.has_replies && !options.has_cycles))
    return "replies=on needs out=map:NUMBER and cycles=on, and out=map:NUMBER needs replies=on";
  if (options.longest_cycles != 0 && !options.has_replies) return "longest=CYCLES needs replies=on";
  if (!options.profile.empty() && (!options.has_cycles || options.has_replies))
    return "profile=PATH needs cycles=on, and counts of a whole process (no replies=on)";
  return std::nullopt;
}

}  // namespace tc::qemu
