#include "runtime/rpc/credentials.h"

#include <sys/stat.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <grpc/grpc_security_constants.h>

namespace tc::rpc {
namespace {

constexpr off_t kMaxPemBytes = 64 << 10;

std::string advice(const std::string& folder) {
  return "; make credentials with `python -m tc certs init --folder " + folder +
         "`, copy them from the machine that has them, or name their folder in TC_CREDENTIALS";
}

std::string anew(const std::string& what) {
  return "; issue " + what +
         " with `python -m tc certs init` where the authority's key is, and copy "
         "the files here";
}

std::string read_pem(const std::string& folder, const std::string& name, bool secret) {
  const std::string path = folder + "/" + name;
  struct stat status;
  std::ifstream file(path, std::ios::binary);
  if (!file || stat(path.c_str(), &status) != 0)
    throw std::runtime_error("the credentials file " + path + " cannot be read" + advice(folder));
  if (!S_ISREG(status.st_mode) || status.st_size > kMaxPemBytes)
    throw std::runtime_error("the credentials file " + path + " is no file of at most 64 KiB" +
                             advice(folder));
  if (secret && (status.st_mode & 077) != 0)
    throw std::runtime_error("the private key " + path +
                             " is open to other users of this machine; close it with `chmod 600 " + path +
                             "`");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.find("-----BEGIN ") == std::string::npos)
    throw std::runtime_error("the credentials file " + path + " is not PEM" + advice(folder));
  return text;
}

Certificate read_from(const std::string& path, const std::string& pem) {
  try {
    return read_certificate(pem);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("the credentials file " + path + " " + error.what() + anew("another"));
  }
}

// Throws where the files that were read are of no use to this program.
void check(const Credentials& credentials, int64_t now) {
  const std::string name = name_of(credentials.role);
  const std::string path = credentials.folder + "/" + name + ".pem";
  const std::string authority = credentials.folder + "/ca.pem";
  const auto fail = [&](const std::string& file, const std::string& problem) {
    throw std::runtime_error("the certificate " + file + " " + problem);
  };
  if (const std::string problem = time_problem(read_from(authority, credentials.authority), now);
      !problem.empty())
    fail(authority, "of the authority " + problem +
                        "; make another authority with `python -m tc certs init --folder NEW`");
  const Certificate& own = credentials.own;
  if (!own.named)
    fail(path,
         "has no name in it, as those of earlier versions; issue new ones with `python -m tc "
         "certs init` where the authority's key is, and copy the files here");
  if (own.role != credentials.role)
    fail(path, "is that of " + own.holder() + ", and this program is " + (name == "agent" ? "an " : "a ") +
                   name + anew("one for it"));
  if (const std::string problem = time_problem(own, now); !problem.empty())
    fail(path, problem + anew("another"));
  if (!is_signed_by(credentials.certificate, credentials.authority))
    fail(path, "is not of the authority " + authority + "; copy both from where they were made");
  if (!fit_together(credentials.certificate, credentials.key))
    fail(path, "and the key " + name + ".key do not fit together; copy both from where they were made");
}

}  // namespace

std::string default_credentials_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string folder = variable("TC_CREDENTIALS"); !folder.empty()) return folder;
  if (const std::string folder = variable("XDG_CONFIG_HOME"); !folder.empty()) return folder + "/tc";
  return variable("HOME") + "/.config/tc";
}

std::string credentials_stamp(const std::string& folder, Role role) {
  std::string stamp;
  const std::string name = name_of(role);
  for (const std::string& file : {std::string("ca.pem"), name + ".pem", name + ".key"}) {
    struct stat status = {};
    stat((folder + "/" + file).c_str(), &status);
    for (const int64_t part : {int64_t(status.st_mtim.tv_sec), int64_t(status.st_mtim.tv_nsec),
                               int64_t(status.st_size), int64_t(status.st_ino)})
      stamp += std::to_string(part) + " ";
  }
  return stamp;
}

Credentials load_credentials(const std::string& folder, Role role) {
  Credentials credentials;
  credentials.role = role;
  credentials.folder = folder.empty() ? default_credentials_folder() : folder;
  const std::string name = name_of(role);
  // Taken before the files are read, so that a file which changes meanwhile is read once more.
  credentials.stamp = credentials_stamp(credentials.folder, role);
  credentials.authority = read_pem(credentials.folder, "ca.pem", false);
  credentials.certificate = read_pem(credentials.folder, name + ".pem", false);
  credentials.key = read_pem(credentials.folder, name + ".key", true);
  credentials.own = read_from(credentials.folder + "/" + name + ".pem", credentials.certificate);
  check(credentials, std::time(nullptr));
  return credentials;
}

Credentials insecure_credentials(const Address& address) {
  if (!address.is_loopback())
    throw std::runtime_error(
        "plain text goes over loopback only, and " + address.text() +
        " is another address; use 127.0.0.1, or leave --insecure out and make credentials with "
        "`python -m tc certs init`");
  Credentials credentials;
  credentials.insecure = true;
  return credentials;
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Credentials& credentials) {
  if (credentials.insecure) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({credentials.authority, credentials.key, credentials.certificate});
}

std::string expiry_warning(const Credentials& credentials) {
  const int64_t left = credentials.own.ends - std::time(nullptr);
  if (credentials.insecure || left > kWarnSeconds) return "";
  return "the certificate " + credentials.folder + "/" + name_of(credentials.role) + ".pem ends on " +
         day_of(credentials.own.ends) + ", in " + std::to_string(left / (24 * 3600)) + " days" +
         anew("another");
}

Certificate peer_certificate(const grpc::AuthContext& context) {
  try {
    for (const grpc::string_ref& pem : context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME))
      return read_certificate({pem.data(), pem.size()});
  } catch (const std::runtime_error&) {
    // A certificate that cannot be parsed counts as none.
  }
  return {};
}

}  // namespace tc::rpc
