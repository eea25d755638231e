#include "runtime/tracker/service.h"

#include <malloc.h>

#include <chrono>
#include <cstring>
#include <stdexcept>

#include <grpcpp/resource_quota.h>

#include "runtime/rpc/channel.h"
#include "runtime/rpc/fields.h"
#include "runtime/rpc/log.h"
#include "runtime/rpc/version.h"
#include "runtime/tracker/audit.h"

namespace tc::tracker {
namespace {

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;
using grpc::Status;
using grpc::StatusCode;

constexpr int kMaxThreads = 32;  // in addition to those that gRPC always has
constexpr size_t kMaxMemory = 256 << 20;
// A client that waits more often needs several connections.
constexpr int kMaxCallsPerConnection = 40;
constexpr int kTrimMilliseconds = 2000;

Status malformed(const std::string& problem) {
  return Status(StatusCode::INVALID_ARGUMENT, "the message is malformed: " + problem);
}

Status check_version(const rpc::Version& version, const std::string& them) {
  const std::string problem = rpc::version_problem(version, "the tracker", them);
  return problem.empty() ? Status::OK : Status(StatusCode::FAILED_PRECONDITION, problem);
}

Status check_token(const std::string& token) {
  return rpc::is_token(token) ? Status::OK : malformed("the token is not 64 digits of hex");
}

// A call that waits for a device.
class WaitForDevice final : public Reactor {
 public:
  WaitForDevice(Fleet& fleet, rpc::Lease* lease) : fleet_(fleet), lease_(lease) {}

  void begin(const rpc::AcquireRequest& request, const rpc::Caller& caller) {
    // gRPC calls the functions below only after this function has returned.
    place_ = fleet_.acquire_later(request, caller, [this](const Status& status, const rpc::Lease& lease) {
      *lease_ = lease;
      Finish(status);
    });
  }

 private:
  void OnCancel() override { fleet_.give_up(place_); }
  void OnDone() override { delete this; }

  Fleet& fleet_;
  rpc::Lease* const lease_;
  Place place_ = 0;
};

// No call blocks a thread: a client that waits for a device has a place in the fleet's queue.
class Service final : public rpc::Tracker::CallbackService {
 public:
  Service(Fleet& fleet, rpc::Keyring& keyring, const FleetOptions& options, AuditLog* audit)
      : fleet_(fleet), keyring_(keyring), heartbeat_ms_(options.heartbeat_ms), audit_(audit) {}

  Reactor* Announce(Context* context, const rpc::AnnounceRequest* request,
                    rpc::AnnounceReply* reply) override {
    *reply->mutable_version() = rpc::own_version();
    reply->set_heartbeat_ms(heartbeat_ms_);
    return serve("Announce", *context, rpc::Role::Agent, [&](const rpc::Caller& caller) {
      if (Status status = check_version(request->device().version(),
                                        "the agent '" + rpc::printable(request->device().name(), 64) + "'");
          !status.ok())
        return status;
      if (const std::string problem = rpc::device_problem(request->device()); !problem.empty())
        return malformed(problem);
      if (!rpc::is_word(request->session(), 128)) return malformed("the session is no plain text");
      if (request->measured() < 0) return malformed("the field 'measured' is negative");
      if (const std::string problem = rpc::condition_problem(request->condition()); !problem.empty())
        return malformed(problem);
      if (Status status = check_device(caller, request->device().name()); !status.ok()) return status;
      return fleet_.announce(*request, caller);
    });
  }

  Reactor* Acquire(Context* context, const rpc::AcquireRequest* request, rpc::Lease* lease) override {
    rpc::Caller caller;
    const Status status = check("Acquire", *context, rpc::Role::Client, [&](const rpc::Caller& found) {
      caller = found;
      if (Status status = check_version(request->version(), "this program"); !status.ok()) return status;
      if (const std::string problem = rpc::acquire_problem(*request); !problem.empty())
        return malformed(problem);
      return Status::OK;
    });
    if (!status.ok()) return finish(*context, status);
    auto* wait = new WaitForDevice(fleet_, lease);  // deletes itself at its end
    wait->begin(*request, caller);
    return wait;
  }

  Reactor* Renew(Context* context, const rpc::LeaseName* name, rpc::Lease* lease) override {
    return serve_holder("Renew", *context, name->token(), [&](const rpc::Caller& caller) {
      return fleet_.renew(name->token(), lease, caller);
    });
  }

  Reactor* Release(Context* context, const rpc::LeaseName* name, rpc::Empty*) override {
    return serve_holder("Release", *context, name->token(),
                        [&](const rpc::Caller& caller) { return fleet_.release(name->token(), caller); });
  }

  Reactor* CheckLease(Context* context, const rpc::CheckLeaseRequest* request,
                      rpc::CheckLeaseReply* reply) override {
    return serve("CheckLease", *context, rpc::Role::Agent, [&](const rpc::Caller& caller) {
      if (Status status = check_token(request->token()); !status.ok()) return status;
      if (!rpc::is_word(request->device(), 64)) return malformed("the device is no plain text");
      if (Status status = check_device(caller, request->device()); !status.ok()) return status;
      const int left = fleet_.lease_left_ms(request->device(), request->token(), request->client());
      reply->set_valid(left > 0);
      reply->set_ttl_ms(left);
      return Status::OK;
    });
  }

  Reactor* Devices(Context* context, const rpc::DevicesRequest* request, rpc::DevicesReply* reply) override {
    *reply->mutable_version() = rpc::own_version();
    return serve("Devices", *context, rpc::Role::Client, [&](const rpc::Caller&) {
      Status status = check_version(request->version(), "this program");
      if (status.ok()) fleet_.list(reply);
      return status;
    });
  }

  Reactor* ReportFailure(Context* context, const rpc::FailureReport* report, rpc::Empty*) override {
    return serve_holder("ReportFailure", *context, report->token(), [&](const rpc::Caller& caller) {
      return fleet_.report_failure(report->token(), report->reason(), caller, report->unfit());
    });
  }

 private:
  static Reactor* finish(Context& context, const Status& status) {
    Reactor* reactor = context.DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }

  template <class Answer>
  Reactor* serve(const char* call, Context& context, rpc::Role role, const Answer& answer) {
    return finish(context, check(call, context, role, answer));
  }

  // Checks that the caller has that role and answers its call. Logs callers that are refused for their
  // identity, or that send invalid requests.
  template <class Answer>
  Status check(const char* call, const Context& context, rpc::Role role, const Answer& answer) {
    rpc::Caller caller;
    Status status = rpc::check_caller(context, keyring_, role, &caller);
    if (status.ok()) status = answer(caller);
    const bool hostile = status.error_code() == StatusCode::PERMISSION_DENIED ||
                         status.error_code() == StatusCode::INVALID_ARGUMENT ||
                         status.error_code() == StatusCode::ALREADY_EXISTS ||
                         // A token that is not valid any more: its lease has run out, or it was replayed.
                         (status.error_code() == StatusCode::NOT_FOUND && std::strcmp(call, "Acquire") != 0);
    if (!hostile) return status;
    int64_t left_out = 0;
    if (audit_ != nullptr && audit_limit_.pass(steady_milliseconds(), &left_out))
      audit_->write("refused", {{"call", call},
                                {"caller", caller.name},
                                {"peer", caller.peer},
                                {"detail", status.error_message()},
                                {"left out", left_out > 0 ? std::to_string(left_out) : ""}});
    return rpc::log_refusal(call, caller, status);
  }

  template <class Answer>
  Reactor* serve_holder(const char* call, Context& context, const std::string& token, const Answer& answer) {
    return serve(call, context, rpc::Role::Client, [&](const rpc::Caller& caller) {
      Status status = check_token(token);
      return status.ok() ? answer(caller) : status;
    });
  }

  // An agent may only speak for the device that its certificate names.
  Status check_device(const rpc::Caller& caller, const std::string& device) const {
    if (keyring_.insecure() || caller.name == device) return Status::OK;
    return Status(StatusCode::PERMISSION_DENIED,
                  "the caller's certificate is that of the agent '" + caller.name +
                      "', which does not speak for the device '" + rpc::printable(device, 64) +
                      "'; leave --name out, or make a certificate with `python -m tc certs add " +
                      rpc::printable(device, 64) + "`");
  }

  Fleet& fleet_;
  rpc::Keyring& keyring_;
  const int heartbeat_ms_;
  AuditLog* const audit_;
  rpc::LineLimit audit_limit_;
};

}  // namespace

Server::Server(const rpc::Address& address, const rpc::Credentials& credentials, FleetOptions options,
               AuditLog* audit)
    : address_(address),
      keyring_(credentials),
      fleet_(options, steady_milliseconds, audit),
      service_(std::make_unique<Service>(fleet_, keyring_, options, audit)),
      listener_(rpc::bound_address(address, keyring_)) {
  address_.port = listener_.port();
  grpc::ServerBuilder builder;
  rpc::limit_server(builder);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCallsPerConnection);
  auto acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, keyring_.server_credentials());
  grpc::ResourceQuota quota("tracker");
  quota.SetMaxThreads(kMaxThreads).Resize(kMaxMemory);
  server_ = rpc::start_server(builder, *service_, quota, address_.text(), address_.port);
  listener_.start(std::move(acceptor));
  queue_ = std::thread([this] { serve_queue(); });
}

// Answers waiting clients, and returns the memory of earlier calls to the system.
void Server::serve_queue() {
  for (int64_t trimmed = steady_milliseconds(); !ending_;) {
    fleet_.serve_waiting();
    if (steady_milliseconds() - trimmed < kTrimMilliseconds) continue;
    malloc_trim(0);
    trimmed = steady_milliseconds();
  }
}

Server::~Server() {
  listener_.stop();
  fleet_.close();
  ending_ = true;
  if (queue_.joinable()) queue_.join();
  if (server_) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
}

}  // namespace tc::tracker
