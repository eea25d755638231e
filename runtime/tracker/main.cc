// tc-tracker: keeps the list of devices and leases them to tuners.
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>

#include <CLI/CLI.hpp>

#include "runtime/rpc/address.h"
#include "runtime/rpc/command_line.h"
#include "runtime/rpc/credentials.h"
#include "runtime/rpc/log.h"
#include "runtime/rpc/signals.h"
#include "runtime/rpc/version.h"
#include "runtime/tracker/audit.h"
#include "runtime/tracker/service.h"

namespace {

struct Options {
  std::string listen, folder, audit_log;
  bool insecure = false;
  tc::tracker::FleetOptions fleet;
};

int serve(const Options& options) {
  using namespace tc::rpc;
  const bool insecure = options.insecure;
  const std::string where = !options.listen.empty() ? options.listen : insecure ? "127.0.0.1" : "0.0.0.0";
  const Address address = parse_address(where, kTrackerPort);
  const Credentials credentials =
      insecure ? insecure_credentials(address) : load_credentials(options.folder, Role::Tracker);
  std::optional<tc::tracker::AuditLog> audit;
  if (!options.audit_log.empty()) audit.emplace(options.audit_log);
  const sigset_t signals = block_end_signals();
  const tc::tracker::Server server(address, credentials, options.fleet, audit ? &*audit : nullptr);
  std::printf("tc-tracker %s listens at %s (%s)\n", kBuild, server.address().text().c_str(),
              insecure ? "plain text, this machine only"
                       : ("mutual TLS, credentials of " + credentials.folder).c_str());
  std::fflush(stdout);
  if (const std::string warning = expiry_warning(credentials); !warning.empty())
    log_line("warning: " + warning);
  wait_for_end(signals);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app{"Knows the devices and lends them to tuners."};
  app.set_version_flag("--version", std::string("tc-tracker ") + tc::rpc::kBuild);
  Options options;
  app.add_option("--listen", options.listen,
                 "HOST:PORT to listen at (default 0.0.0.0:9190; with --insecure 127.0.0.1:9190; "
                 "port 0: any)");
  app.add_option("--credentials", options.folder,
                 "folder of ca.pem, tracker.pem and tracker.key (default $TC_CREDENTIALS, "
                 "~/.config/tc)");
  app.add_flag("--insecure", options.insecure, "plain text without certificates, on loopback only");
  app.add_option("--audit-log", options.audit_log,
                 "file to which who announced, leased and measured what is appended, as JSON lines");
  const CLI::Range times(10, 3600000);
  app.add_option("--heartbeat-ms", options.fleet.heartbeat_ms, "between two signs of life of an agent")
      ->check(times);
  app.add_option("--lease-ms", options.fleet.lease_ms, "a lease ends when not renewed for so long")
      ->check(times);
  app.add_option("--quarantine-ms", options.fleet.quarantine_ms, "of a device that failed three times")
      ->check(times);
  int64_t longest_lease = options.fleet.longest_lease_ms / 1000;
  app.add_option("--longest-lease", longest_lease,
                 "seconds after which a lease ends where another client waits for the device (default 3600)")
      ->check(CLI::Range(1, 10000000));
  if (const auto code = tc::rpc::parse_options(app, count, arguments)) return *code;
  options.fleet.longest_lease_ms = longest_lease * 1000;
  tc::rpc::log_refusals("tc-tracker");
  try {
    return serve(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tc-tracker: %s\n", tc::rpc::one_line(error.what()).c_str());
    return 1;
  }
}
