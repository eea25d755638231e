#include "runtime/tracker/service.h"

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

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

constexpr int kMostThreads = 256;
constexpr size_t kMostMemory = 256 << 20;

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

class Service final : public rpc::Tracker::Service {
 public:
  Service(Fleet& fleet, rpc::Keyring& keyring, const FleetOptions& options, AuditLog* audit)
      : fleet_(fleet), keyring_(keyring), heartbeat_ms_(options.heartbeat_ms), audit_(audit) {}

  Status Announce(ServerContext* context, const rpc::AnnounceRequest* request,
                  rpc::AnnounceReply* reply) override {
    *reply->mutable_version() = rpc::own_version();
    reply->set_heartbeat_ms(heartbeat_ms_);
    return serve("Announce", *context, rpc::Role::Agent, [&](const rpc::Caller& caller) {
      if (Status status = check_version(request->device().version(),
                                        "the agent '" +
                                            rpc::printable(request->device().name(), 64) + "'");
          !status.ok())
        return status;
      if (const std::string problem = rpc::device_problem(request->device()); !problem.empty())
        return malformed(problem);
      if (!rpc::is_word(request->session(), 128)) return malformed("the session is no plain text");
      if (request->measured() < 0) return malformed("the field 'measured' is negative");
      if (Status status = check_device(caller, request->device().name()); !status.ok()) return status;
      return fleet_.announce(*request, caller);
    });
  }

  Status Acquire(ServerContext* context, const rpc::AcquireRequest* request,
                 rpc::Lease* lease) override {
    return serve("Acquire", *context, rpc::Role::Client, [&](const rpc::Caller& caller) {
      if (Status status = check_version(request->version(), "this program"); !status.ok())
        return status;
      if (const std::string problem = rpc::acquire_problem(*request); !problem.empty())
        return malformed(problem);
      return fleet_.acquire(*request, [context] { return context->IsCancelled(); }, lease, caller);
    });
  }

  Status Renew(ServerContext* context, const rpc::LeaseName* name, rpc::Lease* lease) override {
    return serve_holder("Renew", *context, name->token(), [&](const rpc::Caller& caller) {
      return fleet_.renew(name->token(), lease, caller);
    });
  }

  Status Release(ServerContext* context, const rpc::LeaseName* name, rpc::Empty*) override {
    return serve_holder("Release", *context, name->token(), [&](const rpc::Caller& caller) {
      return fleet_.release(name->token(), caller);
    });
  }

  Status CheckLease(ServerContext* context, const rpc::CheckLeaseRequest* request,
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

  Status Devices(ServerContext* context, const rpc::DevicesRequest* request,
                 rpc::DevicesReply* reply) override {
    *reply->mutable_version() = rpc::own_version();
    return serve("Devices", *context, rpc::Role::Client, [&](const rpc::Caller&) {
      Status status = check_version(request->version(), "this program");
      if (status.ok()) fleet_.list(reply);
      return status;
    });
  }

  Status ReportFailure(ServerContext* context, const rpc::FailureReport* report,
                       rpc::Empty*) override {
    return serve_holder("ReportFailure", *context, report->token(), [&](const rpc::Caller& caller) {
      return fleet_.report_failure(report->token(), report->reason(), caller);
    });
  }

 private:
  // Answers callers of that role; who is refused for what he is, or sends nonsense, is written down.
  template <class Answer>
  Status serve(const char* call, const ServerContext& context, rpc::Role role, const Answer& answer) {
    rpc::Caller caller;
    Status status = rpc::check_caller(context, keyring_, role, &caller);
    if (status.ok()) status = answer(caller);
    const bool hostile = status.error_code() == StatusCode::PERMISSION_DENIED ||
                         status.error_code() == StatusCode::INVALID_ARGUMENT ||
                         status.error_code() == StatusCode::ALREADY_EXISTS ||
                         // A token that is none any more: of a lease that ran out, or replayed.
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
  Status serve_holder(const char* call, const ServerContext& context, const std::string& token,
                      const Answer& answer) {
    return serve(call, context, rpc::Role::Client, [&](const rpc::Caller& caller) {
      Status status = check_token(token);
      return status.ok() ? answer(caller) : status;
    });
  }

  // An agent speaks for the device in its certificate alone.
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

Server::Server(const rpc::Address& address, const rpc::Credentials& credentials,
               FleetOptions options, AuditLog* audit)
    : address_(address),
      keyring_(credentials),
      fleet_(options, steady_milliseconds, audit),
      service_(std::make_unique<Service>(fleet_, keyring_, options, audit)) {
  grpc::ServerBuilder builder;
  int port = 0;
  rpc::configure_server(builder, address, keyring_, &port);
  grpc::ResourceQuota quota("tracker");
  quota.SetMaxThreads(kMostThreads).Resize(kMostMemory);
  server_ = rpc::start_server(builder, *service_, quota, address.text(), port);
  address_.port = port;
}

Server::~Server() {
  if (!server_) return;
  fleet_.close();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
}

}  // namespace tc::tracker
