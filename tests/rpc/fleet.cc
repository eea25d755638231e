#include "tests/rpc/fleet.h"

#include <cstdlib>
#include <filesystem>
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

Authority::Authority() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "tc-authority-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
  folder_ = pattern;
  const std::string script = "cd " + folder_ + R"( && umask 077 && {
key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
openssl req -x509 $key -keyout ca.key -out ca.pem -subj /CN=authority -days 100 &&
for role in tracker agent client; do
  openssl req -new $key -keyout $role.key -out $role.csr -subj /CN=tc-$role &&
  echo "subjectAltName=DNS:tc-$role,DNS:localhost,IP:127.0.0.1" >names &&
  openssl x509 -req -in $role.csr -CA ca.pem -CAkey ca.key -set_serial $RANDOM -days 100 \
    -extfile names -out $role.pem || exit 1
done; } >log 2>&1)";
  if (std::system(("bash -c '" + script + "'").c_str()) != 0)
    throw std::runtime_error("openssl failed; see " + folder_ + "/log");
}

Authority::~Authority() { std::filesystem::remove_all(folder_); }

}  // namespace tc::rpc
