#include "runtime/rpc/log.h"

#include <cstdlib>

#include <grpc/support/log.h>

namespace tc::rpc {

void silence_grpc() {
  if (!std::getenv("GRPC_VERBOSITY")) gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace tc::rpc
