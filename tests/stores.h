// Stores and records for tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "ir/error.h"
#include "tests/postgres_server.h"
#include "tuner/stores.h"

namespace tc::testing {

// The schemes of all kinds of stores: what a test of any store is run with.
inline std::vector<std::string> store_schemes() {
  std::vector<std::string> schemes;
  for (const StoreKind& kind : store_kinds()) schemes.emplace_back(kind.scheme);
  return schemes;
}

// Why stores of the kind cannot be tested on this machine; empty where they can.
inline std::string missing_store(const std::string& scheme) {
  return scheme == "postgresql" ? PostgresServer::missing() : "";
}

// The URL of a store of the kind that is not there yet; empty where the kind cannot be tested.
inline std::string absent_store(const std::string& scheme, const std::string& name) {
  static int number = 0;
  const std::string unique = text(name, "-", ++number);
  if (!missing_store(scheme).empty()) return "";
  if (scheme == "memory") return "memory:" + unique;
  if (scheme == "sqlite" || scheme == "jsonl") {
    const std::string path = ::testing::TempDir() + unique + "." + scheme;
    std::filesystem::remove(path);
    return scheme + ":" + path;
  }
  if (scheme == "postgresql") {
    PostgresServer* server = PostgresServer::get();
    return server->url(server->fresh_database(name));
  }
  ADD_FAILURE() << "tests/stores.h does not know how to make a store of kind '" << scheme << "'";
  return "";
}

// The same, of a store that opening for writing finds or makes: where only its owner may do so, it is made.
inline std::string fresh_store(const std::string& scheme, const std::string& name) {
  const std::string url = absent_store(scheme, name);
  if (scheme == "postgresql" && !url.empty()) make_store(url);
  return url;
}

// What test suites over store_schemes() call their tests.
inline std::string scheme_name(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

inline Record some_record(const std::string& workload, double median, const std::string& line = "unroll a") {
  Record record;
  record.workload = workload;
  record.target = "x86-64-v4";
  record.device = "x86-64 here";
  record.unit = "seconds";
  record.trace = {"layout in0 1 16", line};
  record.measurement.time = {5, median * 0.9, median, 0.01};
  record.measurement.ratio = 0.8;
  record.measurement.worst_error = 1e-6;
  record.build = "1.0";
  record.created = 100;
  return record;
}

inline Record failed_record(const std::string& workload, Outcome outcome) {
  Record failed = some_record(workload, 1, "unroll b");
  failed.measurement = {};
  failed.measurement.outcome = outcome;
  failed.measurement.detail = "signal 11";
  return failed;
}

// The text of the Log error that the action throws.
template <class Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Log);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace tc::testing
