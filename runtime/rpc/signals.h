// How a server's program ends: by SIGINT or SIGTERM.
#pragma once

#include <signal.h>

namespace tc::rpc {

// Blocks SIGINT and SIGTERM for wait_for_end(), and ignores SIGPIPE. To be called before any thread
// starts, so that all of them leave the signals to that.
sigset_t block_end_signals();
void wait_for_end(const sigset_t& signals);

}  // namespace tc::rpc
