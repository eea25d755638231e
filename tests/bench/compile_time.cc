// How long the compiler takes for a graph of some layers, in all and by phase.
#include "ir/error.h"
#include "tests/bench/support.h"

namespace tc::bench {
namespace {

// Bottleneck blocks of a residual network, four layers each and all of different shapes.
std::string residual_blocks(int blocks) {
  std::string constants, nodes, last = "x";
  int64_t channels = 32;
  for (int i = 0; i < blocks; ++i) {
    const int64_t inner = 16 * (i + 1), next = 48 + 16 * i;
    constants += text("  constant a", i, " f32[", inner, ", ", channels, ", 1, 1] #0\n  constant b", i,
                      " f32[", inner, ", ", inner, ", 3, 3] #0\n  constant c", i, " f32[", next, ", ", inner,
                      ", 1, 1] #0\n  constant d", i, " f32[", next, ", ", channels, ", 1, 1] #0\n");
    nodes +=
        text("  p", i, " f32[?] = Conv(", last, ", a", i, ")\n  q", i, " f32[?] = Relu(p", i, ")\n  r", i,
             " f32[?] = Conv(q", i, ", b", i, ") {pads = [1, 1, 1, 1]}\n  s", i, " f32[?] = Relu(r", i,
             ")\n  t", i, " f32[?] = Conv(s", i, ", c", i, ")\n  u", i, " f32[?] = Conv(", last, ", d", i,
             ")\n  v", i, " f32[?] = Add(t", i, ", u", i, ")\n  w", i, " f32[?] = Relu(v", i, ")\n");
    last = text("w", i);
    channels = next;
  }
  return text("graph residual_blocks {\n  input x f32[1, 32, 28, 28]\n", constants, nodes,
              "  g f32[?] = GlobalAveragePool(", last, ")\n  output g\n}\n");
}

void compile(benchmark::State& state) {
  const Graph graph = small_graph(residual_blocks(static_cast<int>(state.range(0))));
  CompileOptions options;
  options.threads = 1;
  options.build_threads = static_cast<int>(state.range(1));
  std::map<std::string, double> phases;
  size_t kernels = 0;
  for (auto _ : state) {
    const CompiledModel model = compile_graph(graph, options);
    kernels = model.plan.kernels.size();
    for (const auto& [name, seconds] : model.phases) phases[name] += seconds;
  }
  state.counters["kernels"] = static_cast<double>(kernels);
  for (const auto& [name, seconds] : phases) {
    state.counters[name + "_ms"] = benchmark::Counter(1e3 * seconds, benchmark::Counter::kAvgIterations);
  }
}
BENCHMARK(compile)
    ->ArgNames({"blocks", "build_threads"})
    ->Args({1, 1})
    ->Args({4, 1})
    ->Args({4, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Without code: passes, layouts, schedules and memory.
void plan(benchmark::State& state) {
  const Graph graph = small_graph(residual_blocks(4));
  BuildOptions options;
  options.target = parse_target("native");
  size_t kernels = 0;
  for (auto _ : state) kernels = build_plan(graph, options).plan.kernels.size();
  state.counters["kernels"] = static_cast<double>(kernels);
}
BENCHMARK(plan)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tc::bench
