// What a certificate of a fleet says: its holder's role and name, and how long it is good for.
#pragma once

#include <cstdint>
#include <string>

namespace tc::rpc {

// What a program is to the others.
enum class Role { Tracker, Agent, Client };
const char* name_of(Role role);

// The holder stands in the certificate as the URI "tc://ROLE/NAME", for instance tc://agent/board7.
// An agent's certificate also has the host name "NAME.tc-agent", which TLS compares.
struct Certificate {
  bool named = false;  // false: without such a URI, as earlier versions made them
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

// Whether the private key is that of the text's first certificate.
bool fit_together(const std::string& certificate, const std::string& key);

// Whether one of the authority's certificates signed the text's first one.
bool is_signed_by(const std::string& certificate, const std::string& authority);

// 1 to 63 lower-case letters, digits and the characters "._-", with a letter or digit in front.
bool is_holder_name(const std::string& text);

// "2027-11-24".
std::string day_of(int64_t seconds);

// What is wrong with the certificate's times at `now`, as the rest of a sentence: "ended on ...".
// Empty where it is valid then.
std::string time_problem(const Certificate& certificate, int64_t now);

}  // namespace tc::rpc
