// Random schedules of every class of kernel as machine code, against the plain interpreter: natively
// and for rv64gcv under qemu. Buffers stand between poisoned bytes and unreadable pages, outputs
// start as NaN. TC_SEED=N replays one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "ir/error.h"
#include "tests/codegen_harness.h"
#include "tests/random_schedule.h"

namespace tc::testing {
namespace {

constexpr int64_t kMaxCopies = 120;
constexpr size_t kBatch = 24;
// Rounding in float32 of sums of up to some hundred terms, relative to the largest element.
constexpr double kTolerance = 3e-5;

// What is being compiled or run, for the case that it crashes.
char at_work[64] = "";
void tell_and_die(int signal) {
  [[maybe_unused]] auto written = write(STDERR_FILENO, at_work, std::strlen(at_work));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}
void set_at_work(const char* what, uint32_t seed) {
  std::snprintf(at_work, sizeof at_work, "crashed: %s TC_SEED=%u\n", what, seed);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, tell_and_die);
}

// Draws schedules from `first` on, compiles them in batches, runs and compares.
class NativeRun {
 public:
  NativeRun(const Target& target, int64_t most_copies) : target_(target), most_copies_(most_copies) {}

  using Draw = RandomSchedule (*)(uint32_t, const Target&, int64_t, PrimitiveCounts&);

  void add(uint32_t seed, Draw draw = random_schedule) {
    SCOPED_TRACE(::testing::Message() << "TC_SEED=" << seed);
    try {
      RandomSchedule random = draw(seed, target_, most_copies_, counts);
      products += products_of(random) > 0;
      if (std::getenv("TC_SEED") != nullptr) std::printf("%s\n", describe(seed, random).c_str());
      batch_.push_back({seed, std::move(random)});
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
    if (batch_.size() >= kBatch) flush();
  }

  void flush() {
    std::vector<ScheduledKernel> kernels;
    for (const auto& [seed, random] : batch_) kernels.push_back(random.schedule.finish());
    std::unique_ptr<CompiledKernels> compiled;
    try {
      set_at_work("compiling a batch that begins with", batch_.empty() ? 0 : batch_.front().first);
      compiled = std::make_unique<CompiledKernels>(kernels, target_);
    } catch (const Error&) {
      // Which one it is: each by itself.
      for (size_t i = 0; i < batch_.size(); ++i) {
        try {
          CompiledKernels({kernels[i]}, target_);
        } catch (const Error& error) {
          ADD_FAILURE() << error.what() << "\n" << describe(batch_[i].first, batch_[i].second);
        }
      }
      batch_.clear();
      return;
    }
    for (size_t i = 0; i < batch_.size(); ++i) {
      const auto& [seed, random] = batch_[i];
      const int threads = static_cast<int>(seed % 3) + 1;
      const auto parameters = parameter_values(random.kernel, seed);
      auto run = [&](const ScheduledKernel&, Tensors& tensors) {
        set_at_work("running", random.data_seed);
        compiled->run(i, parameters, tensors, threads);
      };
      std::string problem;
      {
        SCOPED_TRACE(::testing::Message() << "TC_SEED=" << seed << ", " << threads << " threads");
        try {
          problem = difference(random.kernel, random.schedule, seed, parameters, run, kTolerance);
        } catch (const Error& error) {
          problem = error.what();
        }
      }
      EXPECT_EQ(problem, "") << describe(seed, random) << threads << " threads";
      ++compared;
    }
    batch_.clear();
  }

  PrimitiveCounts counts;
  uint32_t compared = 0, products = 0;

 private:
  Target target_;
  int64_t most_copies_;
  std::vector<std::pair<uint32_t, RandomSchedule>> batch_;
};

uint32_t pairs() { return static_cast<uint32_t>(small_kernels().size() * drawn_primitives().size()); }

std::optional<uint32_t> only_seed() {
  const char* only = std::getenv("TC_SEED");
  if (only == nullptr) return std::nullopt;
  return static_cast<uint32_t>(std::atoll(only));
}

TEST(RandomSchedulesNative, ComputeTheSame) {
  if (const auto seed = only_seed()) {
    for (const Target& target : host_targets()) {
      NativeRun run(target, kMaxCopies);
      run.add(*seed);
      run.flush();
    }
    return;
  }
  // All pairs of kernel and primitive once and a quarter of them again, alternately for both instruction
  // sets.
  NativeRun wide(host_target(), kMaxCopies), narrow(avx2_target(), kMaxCopies);
  for (uint32_t i = 0; i < pairs() + pairs() / 4; ++i) {
    ((i + i / small_kernels().size()) % 3 == 0 ? narrow : wide).add(100 * pairs() + i);
  }
  wide.flush();
  narrow.flush();
  PrimitiveCounts counts = wide.counts;
  for (const auto& [where, count] : narrow.counts.counts) {
    counts.counts[where].first += count.first;
    counts.counts[where].second += count.second;
  }
  std::printf("%u random schedules as machine code for %s, %u for %s\n%s", wide.compared,
              host_target().name.c_str(), narrow.compared, avx2_target().name.c_str(), counts.str().c_str());
  EXPECT_GE(wide.compared + narrow.compared, 400u);
  for (const std::string& name : drawn_primitives()) {
    EXPECT_GE(counts.applied(name), name == "winograd" ? 1 : 20) << name;
  }
}

TEST(RandomSchedulesNative, ProductsOfOpenSizes) {
  const uint32_t first = only_seed().value_or(10000), end = only_seed() ? first + 1 : first + 120;
  uint32_t products = 0;
  for (const Target& target : host_targets()) {
    NativeRun run(target, kMaxCopies);
    for (uint32_t seed = first; seed < end; ++seed) run.add(seed, random_schedule_of_products);
    run.flush();
    std::printf("%u random schedules as machine code for %s, %u with a product of open sizes\n", run.compared,
                target.name.c_str(), run.products);
    products += run.products;
  }
  EXPECT_GE(products, only_seed() ? 0u : 80u);
}

TEST(RandomSchedulesNative, ComputeTheSameUnderQemu) {
  uint32_t compared = 0;
  // The next kernel, and another primitive.
  const auto step = static_cast<uint32_t>(5 * small_kernels().size() + 1);
  uint32_t seed = 200 * pairs();
  for (const int bits : {128, 256, 512}) {
    // Each runs at its own vector length and at twice that.
    NativeRun run(riscv_target(bits), 60);
    for (int i = 0; i < 16 && !only_seed(); seed += step) {
      if (small_kernels()[seed % small_kernels().size()].name == "in_place") continue;
      run.add(seed);
      ++i;
    }
    if (only_seed()) run.add(*only_seed());
    run.flush();
    std::printf("%u random schedules under qemu-riscv64 at %d and %d bits\n", run.compared, bits, 2 * bits);
    compared += run.compared;
  }
  EXPECT_GE(compared, only_seed() ? 1u : 40u);
}

}  // namespace
}  // namespace tc::testing
