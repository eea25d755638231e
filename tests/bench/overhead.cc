// What a run costs beyond its kernels: the call itself, the wake-up of a parallel region, a context.
#include <chrono>
#include <thread>

#include "tests/bench/support.h"

namespace tc::bench {
namespace {

using Clock = std::chrono::steady_clock;

CompiledModel tiny_model() {
  CompileOptions options;
  options.build_threads = 1;
  return compile_graph(small_graph("graph tiny {\n  input x f32[16]\n  y f32[?] = Relu(x)\n  output y\n}\n"),
                       options);
}

// Sixteen numbers: nothing but the call.
void run_tiny_model(benchmark::State& state) {
  LoadedModel model(tiny_model(), static_cast<int>(state.range(0)));
  for (auto _ : state) model.run();
  state.counters["threads_used"] = model.threads_used();
}
BENCHMARK(run_tiny_model)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

// The same after a pause in which the workers have gone to sleep (they poll for 100 microseconds).
void run_after_sleep(benchmark::State& state) {
  LoadedModel model(tiny_model(), static_cast<int>(state.range(0)));
  model.run();
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    const auto begin = Clock::now();
    model.run();
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  state.counters["threads_used"] = model.threads_used();
}
BENCHMARK(run_after_sleep)->ArgName("threads")->Arg(1)->Arg(2)->UseManualTime();

void create_context(benchmark::State& state) {
  LoadedModel model(tiny_model(), 1);
  for (auto _ : state) {
    tc_context* context = nullptr;
    if (tc_context_create(model.model(), static_cast<int32_t>(state.range(0)), &context) != TC_OK)
      return state.SkipWithError(tc_last_error());
    tc_context_destroy(context);
  }
}
BENCHMARK(create_context)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

// From the compiled objects to a model that can run: linking and loading.
void link_and_open(benchmark::State& state) {
  const CompiledModel compiled = tiny_model();
  for (auto _ : state) LoadedModel model(compiled, 1);
}
BENCHMARK(link_and_open)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tc::bench
