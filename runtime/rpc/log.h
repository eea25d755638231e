// gRPC's own log lines.
#pragma once

namespace tc::rpc {

// Drops gRPC's log lines, unless GRPC_VERBOSITY asks for them: what matters is in the errors.
void silence_grpc();

}  // namespace tc::rpc
