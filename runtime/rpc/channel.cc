#include "runtime/rpc/channel.h"

#include <chrono>
#include <stdexcept>
#include <vector>

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/server_interceptor.h>

#include "runtime/rpc/fields.h"
#include "runtime/rpc/probe.h"

namespace tc::rpc {

std::shared_ptr<grpc::Channel> make_channel(const Address& address, const Credentials& credentials, Role peer,
                                            const std::string& name) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  // Pings distinguish a long Measure call from a dead board; our servers allow this many.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  // gRPC must not repeat calls by itself, and no proxy of the user's environment may redirect them.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Each client has its own connection, so that tests and several trackers do not share a failure.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!credentials.insecure && peer == Role::Agent) arguments.SetSslTargetNameOverride(name + kAgentDomain);
  return grpc::CreateCustomChannel(address.text(), channel_credentials(credentials), arguments);
}

void limit_server(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCallsPerConnection);
}

// A host name may have several addresses; in plain text the server listens at loopback only.
Address bound_address(const Address& address, const Keyring& keyring) {
  return keyring.insecure() && address.host == "localhost" ? Address{"127.0.0.1", address.port} : address;
}

void configure_server(grpc::ServerBuilder& builder, const Address& address, Keyring& keyring, int* port) {
  limit_server(builder);
  builder.AddListeningPort(bound_address(address, keyring).text(), keyring.server_credentials(), port);
}

namespace {

// Gives calls whose message cannot be parsed a clear error. By itself, gRPC answers them with a text of
// protobuf, as if the server had failed, or, in a server with callbacks, as if the server did not know the
// call. A call that the server really does not know never arrives here as a unary one.
class UnreadableMessages : public grpc::experimental::Interceptor {
 public:
  explicit UnreadableMessages(bool unary) : unary_(unary) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      const bool failed = status.error_code() == grpc::StatusCode::INTERNAL &&
                          status.error_message().rfind("(cannot determine missing fields", 0) == 0;
      if (failed || (unary_ && status.error_code() == grpc::StatusCode::UNIMPLEMENTED &&
                     status.error_message().empty()))
        methods->ModifySendStatus(
            {grpc::StatusCode::INVALID_ARGUMENT,
             "the message is malformed: it cannot be read, or a text in it is not UTF-8; use a program of "
             "the same version of tc"});
    }
    methods->Proceed();
  }

 private:
  const bool unary_;
};

class UnreadableMessagesFactory : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* call) override {
    // gRPC takes ownership.
    return new UnreadableMessages(call->type() == grpc::experimental::ServerRpcInfo::Type::UNARY);
  }
};

}  // namespace

std::unique_ptr<grpc::Server> start_server(grpc::ServerBuilder& builder, grpc::Service& service,
                                           const grpc::ResourceQuota& quota, const std::string& where,
                                           const int& port) {
  builder.SetResourceQuota(quota);
  builder.RegisterService(&service);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<UnreadableMessagesFactory>());
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server || port == 0)
    throw std::runtime_error(
        "cannot listen at " + where +
        ": another program has the port, or the address is not this machine's; choose another "
        "with --listen");
  return server;
}

void set_deadline(grpc::ClientContext& context, double seconds) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
}

std::string explain(const grpc::Status& status, const std::string& peer_name, const Address& address,
                    const Credentials& credentials) {
  const std::string peer = peer_name + " at " + address.text();
  const std::string detail = printable(status.error_message(), 600);
  const auto has = [&](const char* part) { return detail.find(part) != std::string::npos; };
  const std::string own = credentials.insecure ? "" : " (credentials of " + credentials.folder + ")";
  switch (status.error_code()) {
    case grpc::StatusCode::OK: return "";
    case grpc::StatusCode::UNIMPLEMENTED:
      return peer +
             " does not know this call: it is older than this program or something else; "
             "update it, or correct the address";
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED: {
      if (has("-agent is not in peer certificate"))
        return peer +
               " is not the device that was leased: its certificate has another name; see that "
               "each board has the certificate that `python -m tc certs add` made for it";
      if (has("is not in peer certificate"))
        return peer +
               " has a certificate for other hosts; add this one on its machine with "
               "`python -m tc certs init --hosts " +
               address.host + "`";
      if (has("CERTIFICATE_VERIFY_FAILED") || has("certificate verify failed"))
        return peer + " has a certificate of another authority than this program's" + own +
               ", or one that is out of date by this machine's clock; copy ca.pem and this "
               "program's certificate and key from where `python -m tc certs init` made them";
      const Answer answer = probe(address, 2.0);
      switch (answer) {
        case Answer::NoHost:
          return peer + " cannot be found: the host's name is unknown; correct the address";
        case Answer::Refused:
          return "nothing listens at " + address.text() + ": " + peer_name +
                 " is not running or has another port; start it (`python -m tc tracker`, "
                 "`python -m tc agent`) or correct the address";
        case Answer::Silent:
          return peer +
                 " does not answer; see that the machine is on and that no firewall is in "
                 "between";
        case Answer::PlainText:
          if (!credentials.insecure)
            return peer +
                   " talks plain text, this program TLS; start it without --insecure, or "
                   "use the address insecure://" +
                   address.text() +
                   " where both are on this "
                   "machine";
          break;
        case Answer::Tls:
          if (credentials.insecure)
            return peer +
                   " talks TLS, this program plain text; leave insecure:// (--insecure) out "
                   "and use credentials";
          if (status.error_code() == grpc::StatusCode::UNAVAILABLE)
            return peer + " refused this program's certificate" + own +
                   ": it is of another authority, or out of date; copy the credentials that "
                   "`python -m tc certs init` made for it";
          break;
        case Answer::Other:
          return "what listens at " + address.text() + " is not " + peer_name + "; correct the address";
      }
      if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return peer + " did not answer in time";
      return peer + " cannot be reached: " + detail;
    }
    default: return peer + " refused: " + detail;
  }
}

}  // namespace tc::rpc
