// The contents of a certificate of a fleet: its holder's role and name, and how long it is valid.
#pragma once

#include <cstdint>
#include <string>

namespace tc::rpc {

// The role of a program in the fleet.
enum class Role { Tracker, Agent, Client };
const char* name_of(Role role);

// A certificate names its holder by the URI "tc://ROLE/NAME", for instance tc://agent/board7. An agent's
// certificate also has the host name "NAME.tc-agent", which TLS compares.
struct Certificate {
  bool named = false;  // false: has no such URI, like the certificates of earlier versions
  Role role = Role::Client;
  std::string name;
  std::string serial;            // upper-case hex, as `openssl x509 -serial` writes it
  int64_t begins = 0, ends = 0;  // seconds since 1970
  // "the agent 'board7'".
  std::string holder() const;
};
constexpr const char* kAgentDomain = ".tc-agent";

// The first certificate of a PEM text. Throws std::runtime_error where there is none.
Certificate read_certificate(const std::string& pem);

// Whether the private key belongs to the first certificate of the text.
bool fit_together(const std::string& certificate, const std::string& key);

// Whether one of the authority's certificates has signed the first certificate of the text.
bool is_signed_by(const std::string& certificate, const std::string& authority);

// 1 to 63 lower-case letters, digits and the characters "._-", starting with a letter or digit.
bool is_holder_name(const std::string& text);

// "2027-11-24".
std::string day_of(int64_t seconds);

// What is wrong with the certificate's period of validity at the time `now`, as the rest of a sentence:
// "ended on ...". Empty where it is valid at that time.
std::string time_problem(const Certificate& certificate, int64_t now);

}  // namespace tc::rpc
