// Waiting for the answer of a remote call so that the user may end it.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <future>

#include "ir/interrupt.h"

namespace tc {

// What `call` returns, which uses the context. Where the thread is interrupted, the call is cancelled first.
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
