#include "runtime/rpc/signals.h"

namespace tc::rpc {

sigset_t block_end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

void wait_for_end(const sigset_t& signals) {
  int number = 0;
  sigwait(&signals, &number);
}

}  // namespace tc::rpc
