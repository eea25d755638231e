// What measuring a kernel needs besides a device: its expected outputs, and the executables of its schedules.
//
// They are kept for later batches of the kernel, and may be made in another thread while a device measures
// another kernel.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tuner/candidate_builder.h"
#include "tuner/client.h"
#include "tuner/measure.h"

namespace tc {

// A candidate whose executable is in a file.
struct BuiltFile {
  BuiltCandidate candidate;
  int64_t bytes = 0;
  RemoteFile file;  // the path is empty where it could not be built
};

struct PreparedKernel {
  std::string workload;
  ProgramPorts ports;
  std::vector<std::pair<uint64_t, std::vector<RemoteFile>>> reference;  // by seed: the outputs
  std::map<Trace, BuiltFile> built;
  double fastest_call = 0;  // on an exact device, of all schedules measured so far; 0: there is none
};

// What is prepared of a kernel.
struct KernelRequest {
  const KernelTask* task = nullptr;
  KernelProgram program;
};

class PreparedKernels {
 public:
  // The builder outlives the object. Executables are written to the folder, which the caller removes.
  // Kernels other than the one that was asked for last may take so many bytes, on the disk and in memory.
  PreparedKernels(CandidateBuilder& builder, std::string folder, std::vector<uint64_t> seeds,
                  int64_t most_bytes = int64_t{256} << 20);
  ~PreparedKernels();
  PreparedKernels(const PreparedKernels&) = delete;
  PreparedKernels& operator=(const PreparedKernels&) = delete;

  // The kernel with its reference, and with those of the traces built that were not built before; the first
  // one is the incumbent. What it refers to is valid until the next call. Throws Device errors.
  PreparedKernel& get(const KernelRequest& request, const std::vector<Trace>& traces);
  // Begins to do this in another thread, which has the builder until get() or stop() is called.
  void begin(const KernelRequest& request, const Trace& incumbent);
  // Ends what begin() has begun.
  void stop();

 private:
  void prepare(const KernelRequest& request, const std::vector<Trace>& traces);
  void build(PreparedKernel& kernel, const KernelRequest& request, const std::vector<Trace>& traces);
  void wait();
  void make_room();

  CandidateBuilder& builder_;
  const std::string folder_;
  const std::vector<uint64_t> seeds_;
  const int64_t most_bytes_;
  int64_t files_ = 0;                  // written so far
  std::list<PreparedKernel> kernels_;  // the one that was asked for last comes first
  std::future<void> ahead_;
  std::atomic<bool> stop_ = false;
};

}  // namespace tc
