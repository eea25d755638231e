// What this machine can do at most, measured.
#include "frontend/profile/limits.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "codegen/llvm/artefact/link.h"
#include "codegen/llvm/probe/roofline_probes.h"
#include "ir/error.h"
#include "ir/temporary_folder.h"
#include "runtime/machine.h"
#include "runtime/tc_runtime.h"

namespace tc {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The probes' code in this process.
class Library {
 public:
  Library(const Probes& probes, const Target& target) {
    std::string pattern = temporary_folder() + "/tc-probes-XXXXXX";
    const int file = mkstemp(pattern.data());
    if (file < 0) fail(ErrorKind::Internal, "cannot make a temporary file ", pattern, "; is the disk full?");
    close(file);
    try {
      link_shared({probes.objects}, target, pattern);
      handle_ = dlopen(pattern.c_str(), RTLD_NOW | RTLD_LOCAL);
    } catch (...) {
      unlink(pattern.c_str());
      throw;
    }
    const char* why = handle_ == nullptr ? dlerror() : nullptr;
    unlink(pattern.c_str());
    if (handle_ == nullptr) fail(ErrorKind::Internal, "cannot load the probes: ", why);
  }
  ~Library() { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class Function>
  Function find(const std::string& symbol) const {
    void* address = dlsym(handle_, symbol.c_str());
    TC_CHECK(address != nullptr, "for the probe ", symbol);
    return reinterpret_cast<Function>(address);
  }

 private:
  void* handle_ = nullptr;
};

// In each round calls work(thread, round) in all threads at the same time. Returns how many seconds the
// slowest thread of each round took, shortest round first.
std::vector<double> round_times(int threads, int rounds, const std::function<void(int, int)>& work) {
  std::vector<double> times(static_cast<size_t>(threads) * static_cast<size_t>(rounds));
  std::barrier together(threads);
  const auto body = [&](int thread) {
    for (int round = 0; round < rounds; ++round) {
      together.arrive_and_wait();
      const Clock::time_point begin = Clock::now();
      work(thread, round);
      times[static_cast<size_t>(round * threads + thread)] = seconds_since(begin);
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(body, thread);
  body(0);
  for (std::thread& other : others) other.join();
  std::vector<double> slowest;
  for (auto at = times.begin(); at != times.end(); at += threads)
    slowest.push_back(*std::max_element(at, at + threads));
  std::sort(slowest.begin(), slowest.end());
  return slowest;
}

constexpr double kRoundSeconds = 1e-3;
constexpr int kRounds = 16;
constexpr int64_t kSegment = 4 << 20;

// The number of repeats with which `work(repeats)` takes about as long as a round should.
int64_t calibrated(const std::function<void(int64_t)>& work) {
  int64_t repeats = 1;
  while (true) {
    const Clock::time_point begin = Clock::now();
    work(repeats);
    const double seconds = seconds_since(begin);
    if (seconds >= kRoundSeconds / 2) return repeats;
    const double factor = std::min(8.0, 0.8 * kRoundSeconds / std::max(seconds, 1e-9));
    repeats = std::max(repeats + 1, static_cast<int64_t>(static_cast<double>(repeats) * factor));
  }
}

// {level: bytes} of this machine's data caches as the system tells, else as the target's table has it.
std::map<int, int64_t> cache_sizes(const Target& target) {
  std::map<int, int64_t> sizes;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = text("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    std::string type;
    int level = 0;
    int64_t size = 0;
    char unit = 0;
    if (!(std::ifstream(folder + "type") >> type) || type == "Instruction" ||
        !(std::ifstream(folder + "level") >> level) || !(std::ifstream(folder + "size") >> size >> unit))
      continue;
    size *= unit == 'K' ? 1 << 10 : unit == 'M' ? 1 << 20 : 1;
    if (level >= 1 && level <= 4 && size >= 4 << 10 && size <= int64_t{4} << 30) sizes[level] = size;
  }
  if (!sizes.count(1)) sizes[1] = target.l1_bytes;
  if (!sizes.count(2)) sizes[2] = std::max(target.l2_bytes, 2 * sizes[1]);
  return sizes;
}

struct StreamSize {
  std::string level;
  int64_t bytes;  // of all threads together
};

int64_t available_memory() {
  const int64_t pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : int64_t{1} << 30;
}

// Cache levels 1 and 2 belong to one core, higher levels are shared by all. A large shared cache is measured
// at several sizes, because a virtual machine may have only a part of it and does not say how much.
std::vector<StreamSize> stream_sizes(const Target& target, int threads) {
  const std::map<int, int64_t> caches = cache_sizes(target);
  const int64_t largest_memory = std::max<int64_t>(available_memory() / 4, 16 << 20);
  std::vector<StreamSize> sizes;
  int64_t below = 0;
  for (const auto& [level, bytes] : caches) {
    const std::string name = text("L", level);
    if (level <= 2) {
      sizes.push_back({name, bytes / 2 * threads});
      below = bytes * threads;
      continue;
    }
    for (int64_t size = std::min(4 * below, bytes / 2); size <= bytes / 2 && size <= largest_memory;
         size *= 4) {
      if (size > sizes.back().bytes) sizes.push_back({name, size});
    }
    below = std::max(below, bytes);
  }
  sizes.push_back(
      {"memory", std::min({std::max<int64_t>(2 * below, 64 << 20), int64_t{1} << 30, largest_memory})});
  const int64_t unit = kProbeUnit * threads;
  for (StreamSize& size : sizes) size.bytes = std::max(unit, size.bytes / unit * unit);
  return sizes;
}

// Anonymous memory, in large pages where the system has them.
class Memory {
 public:
  explicit Memory(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    void* address = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
      fail(ErrorKind::Internal, "no memory for measuring bandwidths: ", bytes, " bytes are needed");
    data_ = static_cast<uint8_t*>(address);
    madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  ~Memory() { munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  uint8_t* data() { return data_; }

 private:
  uint8_t* data_;
  size_t bytes_;
};

void measure_peaks(const Library& library, const Probes& probes, MachineLimits& limits) {
  for (const PeakProbe& probe : probes.peaks) {
    const auto run = library.find<void (*)(int64_t)>(probe.symbol);
    const int64_t trips = calibrated(run);
    const double seconds = round_times(limits.threads, kRounds, [&](int, int) { run(trips); }).front();
    limits.peaks.push_back(
        {probe.instructions, probe.types, probe.vector_bits,
         static_cast<double>(probe.multiply_adds) * static_cast<double>(trips) * limits.threads / seconds});
  }
}

void measure_streams(const Library& library, const Target& target, MachineLimits& limits) {
  using Stream = void (*)(uint8_t*, int64_t, int64_t);
  const auto read = library.find<Stream>(kReadProbe), write = library.find<Stream>(kWriteProbe);
  const std::vector<StreamSize> sizes = stream_sizes(target, limits.threads);
  Memory memory(sizes.back().bytes);
  for (const StreamSize& size : sizes) {
    // Large data are read in segments, one per round, so that some rounds are short enough not to be
    // interrupted by other work of the machine. All other segments are read before one is read again.
    const int64_t part = size.bytes / limits.threads;
    const int64_t segment = std::min(part, kSegment), segments = part / segment;
    MachineLimits::Bandwidth found{size.level, size.bytes, 0, 0};
    // Writes come first, because they make the system allocate the pages.
    for (const auto& [run, rate] : {std::pair{write, &found.write}, std::pair{read, &found.read}}) {
      const auto stream = [&](int thread, int64_t round, int64_t repeats) {
        run(memory.data() + part * thread + round % segments * segment, segment, repeats);
      };
      round_times(limits.threads, static_cast<int>(segments),
                  [&](int thread, int round) { stream(thread, round, 1); });
      const int64_t repeats = segments > 1 ? 1 : calibrated([&](int64_t count) { stream(0, 0, count); });
      const int rounds = std::max(kRounds, static_cast<int>(segments));
      const std::vector<double> times =
          round_times(limits.threads, rounds, [&](int thread, int round) { stream(thread, round, repeats); });
      // With many segments a few may still be in a cache: the very fastest rounds do not count.
      const double seconds = times[segments > 1 ? times.size() / 10 : 0];
      *rate = static_cast<double>(segment) * limits.threads * static_cast<double>(repeats) / seconds;
    }
    limits.bandwidths.push_back(found);
  }
}

// A model without steps: what remains is the call, the wake-up and the end of the run.
const tc_descriptor& empty_model() {
  static const tc_descriptor descriptor = [] {
    tc_descriptor made = {};
    made.magic = TC_ABI_MAGIC;
    made.abi_version = TC_ABI_VERSION;
    made.struct_size = sizeof made;
    made.model = made.target = "empty";
    made.features = made.provenance = "";
    made.bind = [](const int64_t*, int64_t*) { return int64_t{0}; };
    made.run = [](const tc_frame* frame) { frame->barrier(frame); };
    return made;
  }();
  return descriptor;
}

double median_call(int threads, int calls, std::chrono::microseconds pause) {
  tc_model* model = nullptr;
  tc_context* context = nullptr;
  const bool made = tc_model_open_linked(&empty_model(), &model) == TC_OK &&
                    tc_context_create(model, threads, &context) == TC_OK;
  const std::string why = made ? "" : tc_last_error();
  std::vector<double> times;
  for (int i = 0; made && i <= calls; ++i) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const Clock::time_point begin = Clock::now();
    tc_context_run(context, nullptr, 0, nullptr, 0);
    if (i > 0) times.push_back(seconds_since(begin));
  }
  tc_context_destroy(context);
  tc_model_close(model);
  if (!made) fail(ErrorKind::Internal, "internal error: the empty model: ", why);
  std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
  return times[static_cast<size_t>(calls / 2)];
}

}  // namespace

MachineLimits measure_limits(const Target& target, int threads) {
  std::string why;
  if (!runs_here(target, &why))
    fail(ErrorKind::Target, "the limits of ", target.name, " cannot be measured here: ", why);
  TC_CHECK(threads >= 1 && threads <= TC_MAX_THREADS, "as the threads to measure with");
  Target measured = target;
  // Where the system refuses matrix registers, their instructions would end the process.
  if (target.arch == Arch::X86_64 && !runtime::enable_features("amx-tile"))
    measured.features += std::string(measured.features.empty() ? "" : ",") + "-amx-tile,-amx-bf16,-amx-int8";
  const Probes probes = make_probes(measured);
  const Library library(probes, measured);
  MachineLimits limits;
  limits.threads = threads;
  measure_peaks(library, probes, limits);
  measure_streams(library, target, limits);
  limits.call = median_call(1, 200, {});
  limits.awake = threads > 1 ? median_call(threads, 200, {}) : limits.call;
  // The pause is longer than workers poll (tc_set_spin_time), so that they are asleep.
  limits.asleep = threads > 1 ? median_call(threads, 30, std::chrono::microseconds(1000)) : limits.call;
  return limits;
}

}  // namespace tc
