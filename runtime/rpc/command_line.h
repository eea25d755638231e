// Parses the options of the programs that use the network.
#pragma once

#include <cstdio>
#include <optional>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>

#include "runtime/rpc/log.h"

namespace tc::rpc {

// Reads the options. Where they are wrong or ask for help, prints the error or the help, and returns the exit
// code with which the program has to end.
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
