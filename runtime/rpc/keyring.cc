#include "runtime/rpc/keyring.h"

#include <sys/stat.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <grpc/grpc.h>

#include "runtime/rpc/fields.h"
#include "runtime/rpc/log.h"

namespace tc::rpc {
namespace {

using grpc::Status;
using grpc::StatusCode;

constexpr double kLookSeconds = 1;
constexpr int64_t kDay = 24 * 3600;
constexpr off_t kMaxListBytes = 1 << 20;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string list_path(const std::string& folder) { return folder + "/revoked.txt"; }

std::string stamp_of(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return "none";
  return std::to_string(status.st_mtim.tv_sec) + " " + std::to_string(status.st_mtim.tv_nsec) + " " +
         std::to_string(status.st_size) + " " + std::to_string(status.st_ino);
}

// gRPC's C++ interface cannot replace the certificate of a running server; its C interface can.
class FetchedCredentials final : public grpc::ServerCredentials {
 public:
  FetchedCredentials(grpc_ssl_server_certificate_config_callback fetch, void* from) {
    grpc_init();
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, fetch, from));
  }
  ~FetchedCredentials() override {
    grpc_server_credentials_release(credentials_);
    grpc_shutdown();
  }
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }
  grpc_server_credentials* credentials_ = nullptr;
};

// What is wrong with a certificate, as the rest of a sentence about it; empty where it is in order.
std::string certificate_problem(const Certificate& certificate, bool revoked) {
  if (!certificate.named)
    return "has no name in it, as those of earlier versions; issue new ones with `python -m tc certs "
           "init` where the authority's key is, and copy the files";
  const std::string command =
      certificate.role == Role::Tracker
          ? "init"
          : "add " + certificate.name + (certificate.role == Role::Client ? " --role client" : "");
  const std::string again = "; issue another with `python -m tc certs " + command + "`";
  if (revoked)
    return "of " + certificate.holder() + " is revoked (serial " + certificate.serial + ")" + again;
  const std::string problem = time_problem(certificate, std::time(nullptr));
  return problem.empty() ? "" : "of " + certificate.holder() + " " + problem + again;
}

}  // namespace

std::set<std::string> load_revoked(const std::string& folder) {
  const std::string path = list_path(folder);
  const auto fail = [&](const std::string& problem) {
    throw std::runtime_error("the list of revoked certificates " + path + " " + problem +
                             "; `python -m tc certs revoke NAME` writes it");
  };
  std::set<std::string> serials;
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return serials;
  if (!S_ISREG(status.st_mode) || status.st_size > kMaxListBytes) fail("is no file of at most 1 MiB");
  std::ifstream file(path);
  if (!file) fail("cannot be read");
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line);
    std::string serial;
    if (!(words >> serial) || serial[0] == '#') continue;
    if (serial.size() > 40 || serial.find_first_not_of("0123456789ABCDEF") != std::string::npos)
      fail("has no serial number in line " + std::to_string(number));
    serials.insert(serial);
  }
  return serials;
}

Keyring::Keyring(Credentials credentials)
    : insecure_(credentials.insecure), credentials_(std::move(credentials)) {
  if (insecure_) return;
  seen_ = credentials_.stamp;
  revoked_stamp_ = stamp_of(list_path(credentials_.folder));
  revoked_ = load_revoked(credentials_.folder);
  looked_ = seconds_now();
}

Credentials Keyring::now() {
  const std::lock_guard lock(mutex_);
  look();
  return credentials_;
}

int64_t Keyring::generation() {
  const std::lock_guard lock(mutex_);
  look();
  return generation_;
}

bool Keyring::is_revoked(const Certificate& certificate) {
  const std::lock_guard lock(mutex_);
  look();
  return revoked_.count(certificate.serial) != 0;
}

std::shared_ptr<grpc::ServerCredentials> Keyring::server_credentials() {
  if (insecure_) return grpc::InsecureServerCredentials();
  return std::make_shared<FetchedCredentials>(fetch, this);
}

grpc_ssl_certificate_config_reload_status Keyring::fetch(void* keyring,
                                                         grpc_ssl_server_certificate_config** config) {
  Keyring& self = *static_cast<Keyring*>(keyring);
  const std::lock_guard lock(self.mutex_);
  self.look();
  if (self.fetched_ == self.generation_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const Credentials& now = self.credentials_;
  const grpc_ssl_pem_key_cert_pair pair = {now.key.c_str(), now.certificate.c_str()};
  *config = grpc_ssl_server_certificate_config_create(now.authority.c_str(), &pair, 1);
  self.fetched_ = self.generation_;
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

void Keyring::look() {
  if (insecure_ || seconds_now() - looked_ < kLookSeconds) return;
  looked_ = seconds_now();
  look_at_credentials();
  look_at_revoked();
  const int64_t now = std::time(nullptr);
  const std::string warning = expiry_warning(credentials_);
  if (warning.empty() || now - warned_ < kDay) return;
  if (warned_ != 0) log_line("warning: " + warning);  // the first day's warning is printed at the start
  warned_ = now;
}

void Keyring::look_at_credentials() {
  const std::string stamp = credentials_stamp(credentials_.folder, credentials_.role);
  if (stamp == seen_) return;
  seen_ = stamp;
  try {
    Credentials fresh = load_credentials(credentials_.folder, credentials_.role);
    if (fresh.own.name != credentials_.own.name)
      throw std::runtime_error("the certificate " + fresh.folder + "/" + name_of(fresh.role) +
                               ".pem is that of " + fresh.own.holder() + "; this program goes by the name '" +
                               credentials_.own.name + "' until it is started anew");
    seen_ = fresh.stamp;
    credentials_ = std::move(fresh);
    ++generation_;
    log_line("took new credentials from " + credentials_.folder + ", valid until " +
             day_of(credentials_.own.ends));
  } catch (const std::runtime_error& error) {
    log_line(std::string("changed credentials are not taken, those from before stay in use: ") +
             error.what());
  }
}

void Keyring::look_at_revoked() {
  const std::string stamp = stamp_of(list_path(credentials_.folder));
  if (stamp == revoked_stamp_) return;
  revoked_stamp_ = stamp;
  try {
    revoked_ = load_revoked(credentials_.folder);
    log_line("read the list of revoked certificates: " + std::to_string(revoked_.size()) + " entries");
  } catch (const std::runtime_error& error) {
    log_line(std::string("the list from before stays in use: ") + error.what());
  }
}

Status check_caller(const grpc::ServerContextBase& context, Keyring& keyring, Role role, Caller* caller) {
  caller->peer = context.peer();
  if (keyring.insecure()) return Status::OK;
  const Certificate certificate = peer_certificate(*context.auth_context());
  const std::string problem = certificate_problem(certificate, keyring.is_revoked(certificate));
  if (!problem.empty()) return Status(StatusCode::PERMISSION_DENIED, "the caller's certificate " + problem);
  caller->name = certificate.name;
  caller->certificate_ends = certificate.ends;
  if (certificate.role == role) return Status::OK;
  const std::string name = name_of(role);
  return Status(StatusCode::PERMISSION_DENIED,
                "this call needs the certificate of " + std::string(name == "agent" ? "an " : "a ") + name +
                    ", and the caller's is that of " + certificate.holder() + "; use the files " + name +
                    ".pem and " + name + ".key of `python -m tc certs init`");
}

std::string server_problem(const grpc::AuthContext& context, const Credentials& credentials, Role role,
                           const std::string& name) {
  if (credentials.insecure) return "";
  const Certificate certificate = peer_certificate(context);
  const bool revoked = load_revoked(credentials.folder).count(certificate.serial) != 0;
  const std::string problem = certificate_problem(certificate, revoked);
  if (!problem.empty()) return "its certificate " + problem;
  if (certificate.role != role || (!name.empty() && certificate.name != name))
    return "its certificate is that of " + certificate.holder();
  return "";
}

Status log_refusal(const char* call, const Caller& caller, const Status& status) {
  const std::string who = caller.name.empty() ? "" : " of '" + caller.name + "'";
  static LineLimit limit;
  log_line(std::string("refused ") + call + who + " from " + caller.peer + ": " +
               printable(status.error_message(), 400),
           limit);
  return status;
}

}  // namespace tc::rpc
