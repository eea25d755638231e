// The long calls of an agent, uploads and measurements: limits their number, and ends them. A call whose
// client stalls, or whose lease is over, must not block the next one.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <grpcpp/server_context.h>

namespace tc::agent {

class Calls {
 public:
  enum class Kind { Upload, Measure };
  // Checks whether a token belongs to the present lease of this client; called about once a second.
  using Check = std::function<grpc::Status(const std::string& token, const std::string& client)>;

  explicit Calls(Check check);
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  class Call {
   public:
    ~Call();
    // Sets the call's token, which has been checked. Calls with other tokens are over from now on. Not OK
    // where the lease has too many calls of this kind already.
    grpc::Status hold(const std::string& token);
    // The call has to end, or call this again, within this time.
    void expect_within(double seconds);
    // Whether the call has to end now, and why, as the status for its client.
    bool is_over() const;
    grpc::Status why() const;

   private:
    friend class Calls;
    Call(Calls& calls, Kind kind, std::string client, grpc::ServerContext& context)
        : calls_(calls), kind_(kind), client_(std::move(client)), context_(context) {}

    Calls& calls_;
    const Kind kind_;
    const std::string client_;
    grpc::ServerContext& context_;
    std::string token_;
    double end_ = 0;  // when its time ends; 0: no limit
    bool over_ = false, cut_ = false;
    double over_since_ = 0;
    grpc::Status why_;
  };

  // `client` is the name in the caller's certificate, or its address. Where too many calls have shown no
  // token yet, the oldest of them is ended.
  std::unique_ptr<Call> begin(Kind kind, const std::string& client, grpc::ServerContext& context);

 private:
  void watch();
  void end(Call& call, const grpc::Status& why);
  void end_late(double now);
  void end_without_lease();

  const Check check_;
  mutable std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::list<Call*> calls_;  // oldest first
  std::thread thread_;
};

}  // namespace tc::agent
