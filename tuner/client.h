// The tuner's side of the protocol: leases devices from a tracker and talks to their agents.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/error.h"
#include "runtime/rpc/tc_rpc.pb.h"

namespace tc {

// The device went away or its lease ended. Another device can repeat its work.
class DeviceLost : public Error {
 public:
  explicit DeviceLost(const std::string& text) : Error(ErrorKind::Device, text) {}
};

// Which device is wanted. Features have the names that artefacts use for what they need.
struct DeviceRequest {
  std::string target;                 // for messages only
  std::string architecture;           // "x86-64", "riscv64", "aarch64"
  std::vector<std::string> features;  // all needed
  std::string runner;                 // empty: any
  std::string device_key;             // empty: any
  double wait_seconds = 0;            // for one to become free; at most 600
  int priority = 0;                   // -10 to 10: of waiting clients, those of a higher one come first
};

// A file that a device is to have, named by its content.
struct RemoteFile {
  std::string sha256;  // of its bytes (runtime/rpc/sha256.h)
  std::string path;    // on this machine; empty: `bytes` has the content
  std::string bytes;
};
// A RemoteFile from a file of this machine (throws a Device error where it cannot be read), or from bytes.
RemoteFile remote_file(const std::string& path);
RemoteFile remote_bytes(const void* data, size_t size);
// How many bytes it has; throws a Device error where it cannot be read.
int64_t size_of(const RemoteFile& file);
// Why the device cannot have all of the files at the same time, with their size and its bound; empty where it
// can.
std::string room_problem(const rpc::DeviceInfo& device, const std::vector<RemoteFile>& files);

// A device that this process has for itself until the object is destroyed; the lease is renewed meanwhile.
// All functions except cancel() and lost() are to be called from one thread.
class LeasedDevice {
 public:
  virtual ~LeasedDevice() = default;

  virtual const rpc::DeviceInfo& info() const = 0;
  // Whether the lease is known to have ended.
  virtual bool lost() const = 0;
  // Sends those of the files that the device lacks; throws DeviceLost, or a Device error for a file
  // that cannot be read or that the agent refuses. Where there is a room_problem(), nothing is sent.
  virtual void upload(const std::vector<RemoteFile>& files) = 0;
  // Measures the candidates of the request, whose token is filled in here. Calls `on_result` as soon as a
  // candidate's result arrives; results that arrived before a DeviceLost are valid. A cancelled call throws
  // DeviceLost.
  virtual void measure(rpc::MeasureRequest request,
                       const std::function<void(const rpc::MeasureResult&)>& on_result) = 0;
  // Ends the call that is under way, from another thread; later calls end at once.
  virtual void cancel() = 0;
  // Tells the tracker that the device failed; three times in a row put it in quarantine, and once where it is
  // unfit for more. Never throws.
  virtual void report_failure(const std::string& reason, bool unfit = false) = 0;
};

// A tracker. All functions may be called from several threads; each throws a Device error that says what to
// do. Once the tracker has been reached, calls wait up to `patience_seconds` where it goes away, since
// somebody may be restarting it; acquire() only where it waits for a device.
class TrackerClient {
 public:
  // `address` is HOST:PORT, with insecure:// in front for plain text on loopback. `credentials` is a
  // folder; empty: $TC_CREDENTIALS or ~/.config/tc.
  explicit TrackerClient(const std::string& address, const std::string& credentials = "",
                         double patience_seconds = 30);
  ~TrackerClient();

  // The devices, and what has happened since the tracker was started.
  rpc::DevicesReply state();
  std::vector<rpc::DeviceState> devices();
  // The same as state(), but nothing where the tracker does not answer within a second.
  std::optional<rpc::DevicesReply> look();
  // Seconds for which the tracker, which renews the leases of this program's devices, has not answered; 0
  // where it answers. It is known two and a half seconds after the tracker was lost.
  double silence() const;
  std::string address() const;
  double patience() const;  // seconds
  // What to do about this program's own certificate where it expires within a month; else empty.
  std::string warning() const;
  // Throws DeviceLost where a device was leased but its agent does not answer: acquire again.
  std::unique_ptr<LeasedDevice> acquire(const DeviceRequest& request);

 private:
  struct Connection;
  class Device;
  std::shared_ptr<Connection> connection_;
};

// Connects to an agent of this machine that serves without a tracker, at unix:/PATH. Nobody else can use it,
// since only this process has its token. Throws a Device error, or DeviceLost where nothing answers.
std::unique_ptr<LeasedDevice> connect_agent(const std::string& address, const std::string& token);

}  // namespace tc
