// Waiting for the answer of a remote call in such a way that the user can interrupt it.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <future>

#include "ir/interrupt.h"

namespace tc {

// The status that `call` returns; `call` has to use the context. Where this thread is interrupted, the remote
// call is cancelled before Interrupted is thrown.
template <class Call>
grpc::Status answer_of(grpc::ClientContext& context, const Call& call) {
  std::future<grpc::Status> answer = std::async(std::launch::async, call);
  try {
    while (answer.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) interruption_point();
  } catch (const Interrupted&) {
    context.TryCancel();
    answer.wait();
    throw;
  }
  return answer.get();
}

}  // namespace tc
