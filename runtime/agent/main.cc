// tc-agent: offers this machine to tuners, through a tracker or directly.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "ir/target/riscv_cores.h"
#include "runtime/agent/device.h"
#include "runtime/agent/leases.h"
#include "runtime/agent/service.h"
#include "runtime/rpc/command_line.h"
#include "runtime/rpc/fields.h"
#include "runtime/rpc/log.h"
#include "runtime/rpc/signals.h"
#include "runtime/rpc/version.h"

namespace {

using namespace tc;

struct Options {
  std::string tracker, standalone, token_file;
  std::string listen, advertise, name, credentials;
  bool insecure = false, while_input = false;
  std::string runner = "native", launcher;
  agent::QemuOptions qemu;
  bool no_cache = false, require_isolation = false;
  int64_t store_mib = agent::default_store_bytes() >> 20;
  int memory_mib = 8192;
};

std::unique_ptr<agent::Runner> make_runner(const Options& options) {
  if (options.runner == "qemu") {
    agent::QemuOptions qemu = options.qemu;
    qemu.cache = !options.no_cache;
    return agent::make_qemu_runner(qemu);
  }
  std::vector<std::string> launcher;
  for (size_t begin = 0; begin < options.launcher.size();) {
    const size_t end = std::min(options.launcher.find(' ', begin), options.launcher.size());
    if (end > begin) launcher.push_back(options.launcher.substr(begin, end - begin));
    begin = end + 1;
  }
  if (!launcher.empty() && launcher.front().front() != '/')
    throw std::runtime_error("--launcher needs the full path of its program, not '" + launcher.front() + "'");
  return agent::make_native_runner(std::move(launcher));
}

// This machine's address as the tracker's machine sees it; empty where there is no route.
std::string own_address(const rpc::Address& tracker) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(tracker.host.c_str(), std::to_string(tracker.port).c_str(), &hints, &found) != 0) return "";
  std::string text;
  for (const addrinfo* entry = found; entry != nullptr && text.empty(); entry = entry->ai_next) {
    const int probe = socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) continue;
    sockaddr_storage own = {};
    socklen_t size = sizeof own;
    char host[NI_MAXHOST];
    // Connecting a datagram socket sends no packet; it only chooses a route.
    if (connect(probe, entry->ai_addr, entry->ai_addrlen) == 0 &&
        getsockname(probe, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) ==
            0)
      text = host;
    close(probe);
  }
  freeaddrinfo(found);
  return text;
}

std::string host_name() {
  char name[65] = "";
  gethostname(name, sizeof name - 1);
  std::string text = name;
  for (char& c : text)
    if (!rpc::is_word(std::string(1, c), 1)) c = '-';
  return text.empty() ? "agent" : text;
}

std::string read_token(const std::string& path) {
  std::ifstream file(path);
  std::string token;
  std::getline(file, token);
  if (!file && token.empty()) throw std::runtime_error("the token cannot be read from " + path);
  if (!rpc::is_token(token))
    throw std::runtime_error("the first line of " + path + " is no token: 64 digits of lower-case hex");
  return token;
}

void describe(const rpc::DeviceInfo& device, const Options& options) {
  std::string isolation;
  for (const std::string& name : device.isolation()) isolation += (isolation.empty() ? "" : ", ") + name;
  std::printf("tc-agent %s listens at %s (%s)\n", rpc::kBuild, device.address().c_str(),
              !options.standalone.empty() ? "this user only"
              : options.insecure          ? "plain text, this machine only"
                                          : "mutual TLS");
  std::printf("tc-agent: '%s' is %s, %d core%s, vectors of %d bits; it measures %s (%s)\n",
              device.name().c_str(), device.processor().c_str(), device.cores(),
              device.cores() == 1 ? "" : "s", device.vector_bits(), device.unit().c_str(),
              device.runner().c_str());
  std::printf("tc-agent: candidates are held by: %s\n", isolation.c_str());
  std::printf("tc-agent: it keeps up to %lld MiB of programs and tensors (--store-mib)\n",
              static_cast<long long>(device.store_bytes() >> 20));
  for (const std::string& name : device.lacks())
    std::printf("tc-agent: this system has no %s\n", name.c_str());
  std::fflush(stdout);
}

void require_isolation(const rpc::DeviceInfo& device) {
  if (device.lacks_size() == 0) return;
  std::string lacks;
  for (const std::string& name : device.lacks()) lacks += (lacks.empty() ? "" : "; no ") + name;
  throw std::runtime_error(
      "--require-isolation: this system has no " + lacks +
      ". Run the agent as root or where user namespaces are allowed, or without that option "
      "for candidates that you trust");
}

// Ends this process, as SIGTERM does, when its standard input ends, which happens when the process at the
// other end of the pipe ends in any way.
void end_with_input() {
  std::thread([] {
    char byte;
    ssize_t got;
    do got = read(STDIN_FILENO, &byte, 1);
    while (got > 0 || (got < 0 && errno == EINTR));
    kill(getpid(), SIGTERM);
  }).detach();
}

agent::ServerOptions server_options(const Options& options, const std::string& listen) {
  agent::ServerOptions result;
  result.listen = listen;
  result.store_bytes = options.store_mib << 20;
  result.memory_bytes = int64_t{options.memory_mib} << 20;
  return result;
}

int serve_alone(const Options& options, agent::Runner& runner, rpc::DeviceInfo device,
                const sigset_t& signals) {
  if (options.standalone.rfind("unix:/", 0) != 0)
    throw std::runtime_error("--standalone takes unix:/PATH, not '" + options.standalone + "'");
  if (options.standalone.size() > 5 + 107)
    throw std::runtime_error(
        "the path of a socket has up to 107 characters; that of --standalone is "
        "too long");
  agent::FixedToken leases(read_token(options.token_file));
  rpc::Credentials plain;
  plain.insecure = true;
  rpc::Keyring keyring(plain);
  umask(0077);  // only this user may connect to the socket
  agent::Server server(runner, keyring, server_options(options, options.standalone));
  device.set_address(options.standalone);
  server.open(device, leases);
  describe(device, options);
  if (options.while_input) end_with_input();
  rpc::wait_for_end(signals);
  return 0;
}

// With certificates, the device's name is the one in its certificate.
std::string device_name(const Options& options, const rpc::Credentials& credentials) {
  if (credentials.insecure) return options.name.empty() ? host_name() : options.name;
  const std::string& name = credentials.own.name;
  if (!options.name.empty() && options.name != name)
    throw std::runtime_error("the certificate " + credentials.folder + "/agent.pem is that of " +
                             credentials.own.holder() +
                             "; leave --name out, or make one with `python -m "
                             "tc certs add " +
                             options.name + "` and copy it here");
  return name;
}

int serve(const Options& options) {
  const sigset_t signals = rpc::block_end_signals();
  const std::unique_ptr<agent::Runner> runner = make_runner(options);
  rpc::DeviceInfo device = agent::describe_device(*runner);
  if (options.require_isolation) require_isolation(device);
  device.set_store_bytes(options.store_mib << 20);
  device.set_name(options.name.empty() ? host_name() : options.name);
  if (!options.standalone.empty()) return serve_alone(options, *runner, device, signals);

  const rpc::Address tracker = rpc::parse_address(options.tracker, rpc::kTrackerPort);
  if (options.insecure) rpc::insecure_credentials(tracker);
  const std::string where = !options.listen.empty() ? options.listen
                            : options.insecure      ? "127.0.0.1:0"
                                                    : "0.0.0.0:0";
  const rpc::Address listen = rpc::parse_address(where);
  const rpc::Credentials credentials = options.insecure
                                           ? rpc::insecure_credentials(listen)
                                           : rpc::load_credentials(options.credentials, rpc::Role::Agent);
  device.set_name(device_name(options, credentials));
  rpc::Keyring keyring(credentials);
  auto server = std::make_unique<agent::Server>(*runner, keyring, server_options(options, listen.text()));
  rpc::Address reached = listen;
  reached.port = server->port();
  if (!options.advertise.empty()) {
    reached.host = options.advertise;
  } else if (reached.host == "0.0.0.0" || reached.host == "::") {
    reached.host = own_address(tracker);
    if (reached.host.empty()) reached.host = host_name();
  }
  device.set_address(reached.text());
  describe(device, options);
  if (const std::string warning = rpc::expiry_warning(credentials); !warning.empty())
    rpc::log_line("warning: " + warning);
  agent::Membership leases(device, tracker, keyring);
  server->open(device, leases);
  rpc::wait_for_end(signals);
  server.reset();  // before the leases, which its calls use
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app{
      "Offers this machine to tuners: runs the candidates they send, held by limits, and "
      "says how long they take."};
  app.set_version_flag("--version", std::string("tc-agent ") + rpc::kBuild);
  Options options;
  auto* tracker =
      app.add_option("--tracker", options.tracker, "HOST:PORT of the tracker to join (port 9190)");
  auto* standalone =
      app.add_option("--standalone", options.standalone, "unix:/PATH to serve at, without a tracker");
  app.add_option("--token-file", options.token_file,
                 "file with the token that callers need (64 digits of hex)")
      ->needs(standalone);
  app.add_flag("--while-input", options.while_input, "end when standard input ends")->needs(standalone);
  standalone->excludes(tracker);
  app.add_option("--listen", options.listen,
                 "HOST:PORT to listen at (default 0.0.0.0, any port; with --insecure 127.0.0.1)");
  app.add_option("--advertise", options.advertise,
                 "host under which tuners reach this machine (default: found out)");
  app.add_option(
         "--name", options.name,
         "of this device at its tracker (default: that in its certificate; with --insecure the host's)")
      ->check([](const std::string& text) {
        return rpc::is_word(text, 64) ? std::string() : "a name has up to 64 letters and digits";
      });
  app.add_option("--credentials", options.credentials,
                 "folder of ca.pem, agent.pem and agent.key (default $TC_CREDENTIALS, ~/.config/tc)");
  app.add_flag("--insecure", options.insecure, "plain text without certificates, on loopback only");
  app.add_option("--runner", options.runner,
                 "native: this machine's processor; qemu: a simulated riscv64 board")
      ->check(CLI::IsMember({"native", "qemu"}));
  std::vector<std::string> cores;
  for (const CoreRow& core : kRiscvCores) cores.push_back(core.name);
  app.add_option("--cpu", options.qemu.core, "the core that the simulated board models (generic)")
      ->check(CLI::IsMember(cores));
  app.add_option("--vector-bits", options.qemu.vector_bits, "of the simulated board (those of its core)")
      ->check(CLI::IsMember({128, 256, 512, 1024}));
  app.add_flag("--no-cache-model", options.no_cache, "of the simulated board: every access hits");
  app.add_option("--qemu", options.qemu.qemu, "the qemu-riscv64 to use (default: on PATH)");
  app.add_option("--plugin", options.qemu.plugin, "libcount_plugin.so (default: next to this program)");
  app.add_option("--launcher", options.launcher,
                 "program, with its full path, and arguments that start native candidates");
  app.add_flag("--require-isolation", options.require_isolation,
               "refuse to start where this system cannot hold candidates in every way");
  app.add_option(
         "--store-mib", options.store_mib,
         "most memory for files that tuners send, and the largest of them (a quarter of this machine's memory, 64 to 4096)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--memory-mib", options.memory_mib, "most memory of one candidate (8192)")
      ->check(CLI::Range(1, 1 << 20));
  if (const auto code = rpc::parse_options(app, count, arguments)) return *code;
  rpc::log_refusals("tc-agent");
  try {
    if (options.standalone.empty() && options.tracker.empty())
      throw std::runtime_error("say where to serve: --tracker HOST:PORT, or --standalone unix:/PATH");
    if (!options.standalone.empty() && options.token_file.empty())
      throw std::runtime_error("--standalone needs --token-file");
    return serve(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tc-agent: %s\n", rpc::one_line(error.what()).c_str());
    return 1;
  }
}
