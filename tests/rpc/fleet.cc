#include "tests/rpc/fleet.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "runtime/rpc/version.h"

namespace tc::rpc {

AnnounceRequest announcement(const std::string& name, const std::string& session,
                             const std::string& architecture, const std::string& features) {
  AnnounceRequest request;
  request.set_session(session);
  DeviceInfo& device = *request.mutable_device();
  device.set_name(name);
  device.set_address("127.0.0.1:9191");
  device.set_runner("native");
  device.set_unit("seconds");
  device.set_architecture(architecture);
  std::istringstream words(features);
  for (std::string word; words >> word;) device.add_features(word);
  device.set_processor("a processor");
  device.set_cores(4);
  device.set_vector_bits(128);
  device.set_key(architecture + ", a processor, 128 bit, 4 cores, seconds");
  *device.mutable_version() = own_version();
  return request;
}

AcquireRequest wish(int wait_ms, const std::string& client) {
  AcquireRequest request;
  *request.mutable_version() = own_version();
  request.set_target("rv64gcv");
  request.set_architecture("riscv64");
  request.add_features(std::string("v"));
  request.set_wait_ms(wait_ms);
  request.set_client(client);
  return request;
}

namespace {

void run_shell(const std::string& folder, const std::string& script) {
  const std::string line = "cd " + folder + " && umask 077 && { " + script + "; } >log 2>&1";
  if (std::system(("bash -c '" + line + "'").c_str()) != 0)
    throw std::runtime_error("openssl failed; see " + folder + "/log");
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr const char* kNewKey = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

}  // namespace

Authority::Authority() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tc-authority-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
  folder_ = pattern;
  run_shell(folder_, std::string("openssl req -x509 ") + kNewKey +
                         " -keyout ca.key -out ca.pem -subj /CN=authority -days 100");
  make(folder_, {Role::Tracker, "tracker"});
  make(folder_, {Role::Agent, "a"});
  make(folder_, {Role::Client, "ann"});
}

std::string Authority::issue(const Issue& issue) const {
  const std::string folder = folder_ + "/" + std::to_string(++issued_);
  std::filesystem::create_directory(folder);
  std::filesystem::copy(folder_ + "/ca.pem", folder + "/ca.pem");
  make(folder, issue);
  return folder;
}

void Authority::make(const std::string& folder, const Issue& issue) const {
  const std::string role = name_of(issue.role), ca = folder_ + "/ca";
  std::string names = issue.hosts;
  if (issue.role == Role::Agent) names += ",DNS:" + issue.name + kAgentDomain;
  if (!issue.name.empty()) names += ",URI:tc://" + role + "/" + issue.name;
  const auto date = [](const std::string& when) { return "$(date -u -d \"" + when + "\" +%Y%m%d%H%M%SZ)"; };
  // `openssl x509` of this version has no dates of its own; `openssl ca` has, and wants a small world.
  run_shell(
      folder,
      std::string("openssl req -new ") + kNewKey + " -keyout " + role + ".key -out new.csr -subj /CN=tc-" +
          role + " && echo subjectAltName=" + names + " >names && : >index.txt && printf " +
          "\"[ca]\\ndefault_ca=a\\n[a]\\ndatabase=index.txt\\nnew_certs_dir=.\\nrand_serial=yes\\n"
          "default_md=sha256\\npolicy=p\\nunique_subject=no\\n[p]\\ncommonName=supplied\\n\" >ca.cnf && "
          "openssl ca -batch -notext -config ca.cnf -in new.csr -out " +
          role + ".pem -cert " + ca + ".pem -keyfile " + ca + ".key -extfile names -startdate " +
          date(issue.begins) + " -enddate " + date(issue.ends));
}

Credentials unchecked_credentials(const std::string& folder, Role role) {
  const std::string name = name_of(role);
  Credentials credentials;
  credentials.role = role;
  credentials.folder = folder;
  credentials.authority = text_of(folder + "/ca.pem");
  credentials.certificate = text_of(folder + "/" + name + ".pem");
  credentials.key = text_of(folder + "/" + name + ".key");
  credentials.own = read_certificate(credentials.certificate);
  credentials.stamp = credentials_stamp(folder, role);
  return credentials;
}

void revoke(const std::string& list_folder, const std::string& folder, Role role) {
  std::ofstream(list_folder + "/revoked.txt", std::ios::app)
      << unchecked_credentials(folder, role).own.serial << " of a test\n";
}

Authority::~Authority() { std::filesystem::remove_all(folder_); }

const Authority& authority() {
  static const Authority one;
  return one;
}

std::unique_ptr<Tracker::Stub> stub_for(const Address& tracker, const Credentials& credentials) {
  return Tracker::NewStub(make_channel(tracker, credentials, Role::Tracker));
}

}  // namespace tc::rpc
