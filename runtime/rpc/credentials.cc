#include "runtime/rpc/credentials.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <grpc/grpc_security_constants.h>

namespace tc::rpc {
namespace {

constexpr off_t kMostPemBytes = 64 << 10;

std::string advice(const std::string& folder) {
  return "; make credentials with `python -m tc certs init --folder " + folder +
         "`, copy them from the machine that has them, or name their folder in TC_CREDENTIALS";
}

std::string read_pem(const std::string& folder, const std::string& name, bool secret) {
  const std::string path = folder + "/" + name;
  struct stat status;
  std::ifstream file(path, std::ios::binary);
  if (!file || stat(path.c_str(), &status) != 0)
    throw std::runtime_error("the credentials file " + path + " cannot be read" + advice(folder));
  if (!S_ISREG(status.st_mode) || status.st_size > kMostPemBytes)
    throw std::runtime_error("the credentials file " + path + " is no file of at most 64 KiB" +
                             advice(folder));
  if (secret && (status.st_mode & 077) != 0)
    throw std::runtime_error("the private key " + path +
                             " is open to other users of this machine; close it with `chmod 600 " +
                             path + "`");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.find("-----BEGIN ") == std::string::npos)
    throw std::runtime_error("the credentials file " + path + " is not PEM" + advice(folder));
  return text;
}

}  // namespace

const char* name_of(Role role) {
  switch (role) {
    case Role::Tracker: return "tracker";
    case Role::Agent: return "agent";
    case Role::Client: return "client";
  }
  return "";
}

std::string default_credentials_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string folder = variable("TC_CREDENTIALS"); !folder.empty()) return folder;
  if (const std::string folder = variable("XDG_CONFIG_HOME"); !folder.empty()) return folder + "/tc";
  return variable("HOME") + "/.config/tc";
}

Credentials load_credentials(const std::string& folder, Role role) {
  Credentials credentials;
  credentials.folder = folder.empty() ? default_credentials_folder() : folder;
  const std::string name = name_of(role);
  credentials.authority = read_pem(credentials.folder, "ca.pem", false);
  credentials.certificate = read_pem(credentials.folder, name + ".pem", false);
  credentials.key = read_pem(credentials.folder, name + ".key", true);
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

std::shared_ptr<grpc::ServerCredentials> server_credentials(const Credentials& credentials) {
  if (credentials.insecure) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = credentials.authority;
  options.pem_key_cert_pairs = {{credentials.key, credentials.certificate}};
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Credentials& credentials) {
  if (credentials.insecure) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials(
      {credentials.authority, credentials.key, credentials.certificate});
}

bool caller_is(const grpc::ServerContextBase& context, const Credentials& server, Role role) {
  if (server.insecure) return true;
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  const std::string wanted = std::string("tc-") + name_of(role);
  for (const grpc::string_ref& name : auth->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME))
    if (name == grpc::string_ref(wanted)) return true;
  return false;
}

}  // namespace tc::rpc
