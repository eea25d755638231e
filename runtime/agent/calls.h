// The calls of an agent that take long, uploads and measurements: how many there may be, and what ends
// them. One whose client stalls, or whose lease is over, must not stand in the next one's way.
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
  // Whether a token is that of the present lease of this client; asked about once a second.
  using Check = std::function<grpc::Status(const std::string& token, const std::string& client)>;

  explicit Calls(Check check);
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  class Call {
   public:
    ~Call();
    // The token that it showed and that was found good. Calls under others are over from now on. Not OK
    // where its lease has too many of the kind.
    grpc::Status hold(const std::string& token);
    // It has to be at its end, or say so again, within this time.
    void expect_within(double seconds);
    // Whether it is to end now, and then why, as the status for its client.
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
    double end_ = 0;  // of its time; 0: none
    bool over_ = false, cut_ = false;
    double over_since_ = 0;
    grpc::Status why_;
  };

  // `client` is the name in its certificate, or its address. Where many calls have shown no token yet, the
  // first of them is ended.
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
  std::list<Call*> calls_;  // in order of their beginning
  std::thread thread_;
};

}  // namespace tc::agent
