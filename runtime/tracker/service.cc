#include "runtime/tracker/service.h"

#include <chrono>
#include <stdexcept>

#include <grpcpp/resource_quota.h>

#include "runtime/rpc/channel.h"
#include "runtime/rpc/fields.h"
#include "runtime/rpc/version.h"

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
  Service(Fleet& fleet, const rpc::Credentials& credentials, const FleetOptions& options)
      : fleet_(fleet), credentials_(credentials), heartbeat_ms_(options.heartbeat_ms) {}

  Status Announce(ServerContext* context, const rpc::AnnounceRequest* request,
                  rpc::AnnounceReply* reply) override {
    *reply->mutable_version() = rpc::own_version();
    reply->set_heartbeat_ms(heartbeat_ms_);
    if (Status status = check_role(*context, rpc::Role::Agent); !status.ok()) return status;
    if (Status status = check_version(request->device().version(),
                                      "the agent '" +
                                          rpc::printable(request->device().name(), 64) + "'");
        !status.ok())
      return status;
    if (const std::string problem = rpc::device_problem(request->device()); !problem.empty())
      return malformed(problem);
    if (!rpc::is_word(request->session(), 128)) return malformed("the session is no plain text");
    if (request->measured() < 0) return malformed("the field 'measured' is negative");
    return fleet_.announce(*request);
  }

  Status Acquire(ServerContext* context, const rpc::AcquireRequest* request,
                 rpc::Lease* lease) override {
    if (Status status = check_role(*context, rpc::Role::Client); !status.ok()) return status;
    if (Status status = check_version(request->version(), "this program"); !status.ok())
      return status;
    if (const std::string problem = rpc::acquire_problem(*request); !problem.empty())
      return malformed(problem);
    return fleet_.acquire(*request, [context] { return context->IsCancelled(); }, lease);
  }

  Status Renew(ServerContext* context, const rpc::LeaseName* name, rpc::Lease* lease) override {
    if (Status status = check_holder(*context, name->token()); !status.ok()) return status;
    return fleet_.renew(name->token(), lease);
  }

  Status Release(ServerContext* context, const rpc::LeaseName* name, rpc::Empty*) override {
    if (Status status = check_holder(*context, name->token()); !status.ok()) return status;
    return fleet_.release(name->token());
  }

  Status CheckLease(ServerContext* context, const rpc::CheckLeaseRequest* request,
                    rpc::CheckLeaseReply* reply) override {
    if (Status status = check_role(*context, rpc::Role::Agent); !status.ok()) return status;
    if (Status status = check_token(request->token()); !status.ok()) return status;
    if (!rpc::is_word(request->device(), 64)) return malformed("the device is no plain text");
    const int left = fleet_.lease_left_ms(request->device(), request->token());
    reply->set_valid(left > 0);
    reply->set_ttl_ms(left);
    return Status::OK;
  }

  Status Devices(ServerContext* context, const rpc::DevicesRequest* request,
                 rpc::DevicesReply* reply) override {
    *reply->mutable_version() = rpc::own_version();
    if (Status status = check_role(*context, rpc::Role::Client); !status.ok()) return status;
    if (Status status = check_version(request->version(), "this program"); !status.ok())
      return status;
    fleet_.list(reply);
    return Status::OK;
  }

  Status ReportFailure(ServerContext* context, const rpc::FailureReport* report,
                       rpc::Empty*) override {
    if (Status status = check_holder(*context, report->token()); !status.ok()) return status;
    return fleet_.report_failure(report->token(), report->reason());
  }

 private:
  Status check_role(const ServerContext& context, rpc::Role role) const {
    if (rpc::caller_is(context, credentials_, role)) return Status::OK;
    const std::string name = rpc::name_of(role);
    return Status(StatusCode::PERMISSION_DENIED,
                  "this call needs the certificate of " + (name == "agent" ? "an " : "a " + std::string()) +
                      name + "; use the files " + name + ".pem and " + name +
                      ".key of `python -m tc certs init`");
  }

  Status check_holder(const ServerContext& context, const std::string& token) const {
    if (Status status = check_role(context, rpc::Role::Client); !status.ok()) return status;
    return check_token(token);
  }

  Fleet& fleet_;
  const rpc::Credentials credentials_;
  const int heartbeat_ms_;
};

}  // namespace

Server::Server(const rpc::Address& address, const rpc::Credentials& credentials,
               FleetOptions options)
    : address_(address),
      fleet_(options),
      service_(std::make_unique<Service>(fleet_, credentials, options)) {
  grpc::ServerBuilder builder;
  int port = 0;
  rpc::configure_server(builder, address, credentials, &port);
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
