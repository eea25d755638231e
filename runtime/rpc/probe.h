// Finds out what kind of server listens at an address, for a clear error text after a failure.
#pragma once

#include "runtime/rpc/address.h"

namespace tc::rpc {

enum class Answer {
  NoHost,     // the name is unknown
  Refused,    // nothing listens there
  Silent,     // no connection, or no byte, in time
  Tls,        // a TLS server
  PlainText,  // HTTP/2 in plain text
  Other,      // a server that speaks neither
};

// Connects once or twice, for at most `seconds` in all.
Answer probe(const Address& address, double seconds);

}  // namespace tc::rpc
