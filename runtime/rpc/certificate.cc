#include "runtime/rpc/certificate.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <memory>
#include <optional>
#include <stdexcept>

namespace tc::rpc {
namespace {

// OpenSSL's objects, freed by their own functions.
template <auto free_function>
struct Free {
  template <class T>
  void operator()(T* object) const {
    free_function(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using X509Pointer = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Free<GENERAL_NAMES_free>>;

constexpr const char* kScheme = "tc://";

Bio bytes_of(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Refuses a private key with a pass phrase: by default, the library would ask for the pass phrase at the
// terminal.
int no_pass_phrase(char*, int, int, void*) { return 0; }

X509Pointer next_certificate(BIO* text) {
  return X509Pointer(PEM_read_bio_X509(text, nullptr, no_pass_phrase, nullptr));
}

int64_t seconds_of(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) throw std::runtime_error("holds a certificate without times");
  return timegm(&parts);
}

std::string serial_of(const X509* certificate) {
  const std::unique_ptr<BIGNUM, Free<BN_free>> number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  char* digits = number ? BN_bn2hex(number.get()) : nullptr;
  const std::string text = digits != nullptr ? digits : "";
  OPENSSL_free(digits);
  return text;
}

std::optional<Role> role_of(const std::string& text) {
  for (const Role role : {Role::Tracker, Role::Agent, Role::Client})
    if (text == name_of(role)) return role;
  return std::nullopt;
}

// Fills in role and name from a URI that starts with kScheme; ignores other URIs.
void read_uri(const std::string& uri, Certificate& certificate) {
  const std::string scheme = kScheme;
  if (uri.compare(0, scheme.size(), scheme) != 0) return;
  const size_t slash = uri.find('/', scheme.size());
  if (slash == std::string::npos) return;
  const std::optional<Role> role = role_of(uri.substr(scheme.size(), slash - scheme.size()));
  const std::string name = uri.substr(slash + 1);
  if (!role || !is_holder_name(name)) return;
  // A certificate that names two holders is refused.
  if (certificate.named) throw std::runtime_error("holds a certificate of two holders");
  certificate.named = true;
  certificate.role = *role;
  certificate.name = name;
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

std::string Certificate::holder() const { return std::string("the ") + name_of(role) + " '" + name + "'"; }

Certificate read_certificate(const std::string& pem) {
  const Bio text = bytes_of(pem);
  const X509Pointer x509 = next_certificate(text.get());
  if (!x509) throw std::runtime_error("holds no certificate");
  Certificate certificate;
  certificate.serial = serial_of(x509.get());
  certificate.begins = seconds_of(X509_get0_notBefore(x509.get()));
  certificate.ends = seconds_of(X509_get0_notAfter(x509.get()));
  const Names names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(x509.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < (names ? sk_GENERAL_NAME_num(names.get()) : 0); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    read_uri({reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
              static_cast<size_t>(ASN1_STRING_length(uri))},
             certificate);
  }
  return certificate;
}

bool fit_together(const std::string& certificate, const std::string& key) {
  const Bio certificate_text = bytes_of(certificate), key_text = bytes_of(key);
  const X509Pointer x509 = next_certificate(certificate_text.get());
  const Key secret(PEM_read_bio_PrivateKey(key_text.get(), nullptr, no_pass_phrase, nullptr));
  return x509 && secret && X509_check_private_key(x509.get(), secret.get()) == 1;
}

bool is_signed_by(const std::string& certificate, const std::string& authority) {
  const Bio certificate_text = bytes_of(certificate), authority_text = bytes_of(authority);
  const X509Pointer x509 = next_certificate(certificate_text.get());
  while (x509) {
    const X509Pointer signer = next_certificate(authority_text.get());
    if (!signer) break;
    if (X509_verify(x509.get(), X509_get0_pubkey(signer.get())) == 1) return true;
  }
  return false;
}

bool is_holder_name(const std::string& text) {
  const char* const inner = "abcdefghijklmnopqrstuvwxyz0123456789._-";
  return !text.empty() && text.size() <= 63 && text.find_first_not_of(inner) == std::string::npos &&
         std::string("._-").find(text[0]) == std::string::npos;
}

std::string day_of(int64_t seconds) {
  const time_t time = seconds;
  std::tm parts = {};
  char text[32] = "";
  if (gmtime_r(&time, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

std::string time_problem(const Certificate& certificate, int64_t now) {
  if (now > certificate.ends) return "ended on " + day_of(certificate.ends);
  if (now < certificate.begins) return "begins on " + day_of(certificate.begins) + " by this machine's clock";
  return "";
}

}  // namespace tc::rpc
