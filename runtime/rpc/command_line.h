// The options of the programs around the network.
#pragma once

#include <cstdio>
#include <optional>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>

#include "runtime/rpc/log.h"

namespace tc::rpc {

// Reads the options. What is wrong with them, or the help that they ask for, is printed, and the program ends
// with the code returned.
inline std::optional<int> parse_options(CLI::App& app, int count, char** arguments) {
  try {
    app.parse(count, arguments);
    return std::nullopt;
  } catch (const CLI::ParseError& ended) {
    std::ostringstream out, errors;
    const int code = app.exit(ended, out, errors);
    std::string said = errors.str();
    const std::string what = ended.what();
    if (const size_t at = said.find(what); at != std::string::npos)
      said.replace(at, what.size(), one_line(what));
    std::fputs(out.str().c_str(), stdout);
    std::fputs(said.c_str(), stderr);
    return code;
  }
}

}  // namespace tc::rpc
