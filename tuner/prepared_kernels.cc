// Kernels that are ready to be measured.
#include "tuner/prepared_kernels.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "runtime/new_file.h"

namespace tc {
namespace {

constexpr size_t kMaxBuilt = 64;  // candidates of one kernel whose executables are kept

// Writes the bytes to that file. Each executable of a kernel contains the kernel's constants, so that
// together they would take much memory.
RemoteFile kept_in(const std::string& path, const std::string& sha256, const std::string& bytes) {
  runtime::NewFile file;
  if (!file.open(path.c_str()) || !file.write(bytes.data(), bytes.size()) || !file.finish())
    fail(ErrorKind::Device, "a candidate cannot be kept at '", path, "': ", file.why(),
         "; free some disk space");
  return {sha256, path, ""};
}

void forget_built(PreparedKernel& kernel) {
  for (const auto& [trace, made] : kernel.built) {
    if (!made.file.path.empty()) unlink(made.file.path.c_str());
  }
  kernel.built.clear();
}

int64_t bytes_of(const PreparedKernel& kernel) {
  int64_t bytes = 0;
  for (const auto& [trace, made] : kernel.built) bytes += made.bytes;
  for (const auto& [seed, outputs] : kernel.reference)
    for (const RemoteFile& file : outputs) bytes += static_cast<int64_t>(file.bytes.size());
  return bytes;
}

}  // namespace

PreparedKernels::PreparedKernels(CandidateBuilder& builder, std::string folder, std::vector<uint64_t> seeds,
                                 int64_t most_bytes)
    : builder_(builder), folder_(std::move(folder)), seeds_(std::move(seeds)), most_bytes_(most_bytes) {}

PreparedKernels::~PreparedKernels() {
  stop();
  for (PreparedKernel& kernel : kernels_) forget_built(kernel);
}

PreparedKernel& PreparedKernels::get(const KernelRequest& request, const std::vector<Trace>& traces) {
  wait();
  prepare(request, traces);
  make_room();
  return kernels_.front();
}

void PreparedKernels::begin(const KernelRequest& request, const Trace& incumbent) {
  stop();
  stop_ = false;
  ahead_ = std::async(std::launch::async, [this, request, incumbent] {
    const Helping helping(stop_);
    try {
      prepare(request, {incumbent});
    } catch (...) {
      // Whoever asks for the kernel finds that it is not ready, and meets the same error.
    }
  });
}

void PreparedKernels::stop() {
  stop_ = true;
  if (ahead_.valid()) ahead_.get();
}

void PreparedKernels::wait() {
  try {
    while (ahead_.valid() && ahead_.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready)
      interruption_point();
  } catch (...) {
    stop();
    throw;
  }
  if (ahead_.valid()) ahead_.get();
}

// Brings the kernel to the front, with all that it needs.
void PreparedKernels::prepare(const KernelRequest& request, const std::vector<Trace>& traces) {
  const auto found = std::find_if(kernels_.begin(), kernels_.end(), [&](const PreparedKernel& kernel) {
    return kernel.workload == request.task->workload;
  });
  if (found != kernels_.end()) {
    kernels_.splice(kernels_.begin(), kernels_, found);
  } else {
    PreparedKernel kernel;
    kernel.workload = request.task->workload;
    kernel.ports = program_ports(request.program, request.task->target);
    const std::vector<std::vector<Bytes>> outputs =
        builder_.reference(request.program, request.task->target.name, seeds_);
    for (size_t i = 0; i < seeds_.size(); ++i) {
      auto& files = kernel.reference.emplace_back(seeds_[i], std::vector<RemoteFile>()).second;
      for (const Bytes& bytes : outputs[i]) files.push_back(remote_bytes(bytes.data(), bytes.size()));
    }
    kernels_.push_front(std::move(kernel));
  }
  build(kernels_.front(), request, traces);
}

void PreparedKernels::build(PreparedKernel& kernel, const KernelRequest& request,
                            const std::vector<Trace>& traces) {
  std::vector<Trace> fresh;
  for (const Trace& trace : traces) {
    if (!kernel.built.count(trace)) fresh.push_back(trace);
  }
  if (kernel.built.size() + fresh.size() > kMaxBuilt) {
    forget_built(kernel);
    fresh = traces;
  }
  if (fresh.empty()) return;
  builder_.build(request.program, request.task->target.name, fresh, [&](size_t i, BuiltCandidate candidate) {
    BuiltFile& made = kernel.built[fresh[i]];
    if (candidate.outcome == Outcome::Ok) {
      made.bytes = static_cast<int64_t>(candidate.executable.size());
      const std::string path = text(folder_, "/", ++files_);
      made.file = kept_in(path, candidate.sha256, std::exchange(candidate.executable, {}));
    }
    made.candidate = std::move(candidate);
  });
}

// Forgets the kernels that were not asked for for the longest time.
void PreparedKernels::make_room() {
  int64_t bytes = 0;
  for (auto it = std::next(kernels_.begin()); it != kernels_.end();) {
    const int64_t own = bytes_of(*it);
    if (bytes + own > most_bytes_) {
      forget_built(*it);
      it = kernels_.erase(it);
    } else {
      bytes += own;
      ++it;
    }
  }
}

}  // namespace tc
