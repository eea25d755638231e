// Ends a server's program on SIGINT or SIGTERM.
#pragma once

#include <signal.h>

namespace tc::rpc {

// Blocks SIGINT and SIGTERM, for which wait_for_end() waits, and ignores SIGPIPE. To be called before any
// thread starts, so that all threads have them blocked.
sigset_t block_end_signals();
void wait_for_end(const sigset_t& signals);

}  // namespace tc::rpc
