// What the benchmarks share.
#include "tests/bench/support.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "codegen/llvm/artefact/link.h"
#include "codegen/llvm/kernel_code.h"
#include "frontend/pipeline/kernel_module.h"
#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/pass.h"
#include "ir/temporary_folder.h"
#include "scheduler/scheduler.h"

namespace tc::bench {
namespace {

constexpr uint64_t kAlignment = 64;

// Numbers between -1 and 1 that a few cycles make: benchmarks fill hundreds of megabytes.
class Numbers {
 public:
  float next() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int32_t>(state_)) / 2147483648.0f;
  }

 private:
  uint32_t state_ = 1;
};

void check(tc_status status) {
  if (status != TC_OK) fail(ErrorKind::Internal, tc_last_error());
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Graph small_graph(const std::string& text) {
  Graph graph = parse_graph(text);
  Numbers numbers;
  for (Value& value : graph.values) {
    if (!value.constant || !is_float(value.dtype) || value.constant->count() < 2) continue;
    auto filled = std::make_shared<Tensor>(value.dtype, value.constant->shape);
    const double terms = static_cast<double>(filled->count()) / static_cast<double>(filled->shape[0]);
    for (int64_t i = 0; i < filled->count(); ++i) filled->set(i, numbers.next() / std::sqrt(terms));
    value.constant = filled;
  }
  infer_shapes(graph);
  run_passes(graph, {});
  return graph;
}

LoadedModel::Buffer LoadedModel::buffer(const tc_port_info& port) {
  Buffer made;
  made.dtype = port.dtype;
  made.bytes = static_cast<uint64_t>(tc_dtype_size(port.dtype));
  for (int32_t i = 0; i < port.rank; ++i) made.bytes *= static_cast<uint64_t>(port.dims[i]);
  made.storage = std::make_unique<uint8_t[]>(made.bytes + kAlignment);
  const auto address = reinterpret_cast<uintptr_t>(made.storage.get());
  made.data = made.storage.get() + (kAlignment - address % kAlignment) % kAlignment;
  if (port.dtype != TC_F32) return made;
  Numbers numbers;
  auto* values = reinterpret_cast<float*>(made.data);
  for (uint64_t i = 0; i < made.bytes / sizeof(float); ++i) values[i] = numbers.next();
  return made;
}

LoadedModel::LoadedModel(const CompiledModel& model, int threads) {
  std::string pattern = temporary_folder() + "/tc-bench-XXXXXX";
  const int file = mkstemp(pattern.data());
  if (file < 0) fail(ErrorKind::Internal, "cannot make a temporary file ", pattern);
  close(file);
  link_shared(model.objects, model.target, pattern);
  const tc_status opened = tc_model_open(pattern.c_str(), &model_);
  unlink(pattern.c_str());
  check(opened);
  check(tc_context_create(model_, threads, &context_));
  for (int32_t i = 0; i < tc_model_input_count(model_) + tc_model_output_count(model_); ++i) {
    tc_port_info port = {};
    port.struct_size = sizeof port;
    const bool input = i < tc_model_input_count(model_);
    check(input ? tc_model_input_info(model_, i, &port)
                : tc_model_output_info(model_, i - tc_model_input_count(model_), &port));
    (input ? inputs_ : outputs_).push_back(buffer(port));
  }
  for (const Buffer& input : inputs_) given_.push_back({input.data, input.bytes});
  for (const Buffer& output : outputs_) taken_.push_back({output.data, output.bytes});
}

LoadedModel::~LoadedModel() {
  tc_context_destroy(context_);
  tc_model_close(model_);
}

void LoadedModel::run() {
  check(tc_context_run(context_, given_.data(), static_cast<int32_t>(given_.size()), taken_.data(),
                       static_cast<int32_t>(taken_.size())));
}

bool LoadedModel::finite() const {
  for (const Buffer& output : outputs_) {
    if (output.dtype != TC_F32) continue;
    const auto* values = reinterpret_cast<const float*>(output.data);
    if (!std::all_of(values, values + output.bytes / sizeof(float),
                     [](float value) { return std::isfinite(value); }))
      return false;
  }
  return true;
}

LoadedKernel::LoadedKernel(const std::string& graph_text, int threads) {
  BuildOptions options;
  options.target = parse_target("native");
  options.threads = threads;
  const BuiltPlan built = build_plan(small_graph(graph_text), options);
  const auto most =
      std::max_element(built.reports.begin(), built.reports.end(),
                       [](const KernelReport& a, const KernelReport& b) { return a.flops < b.flops; });
  TC_CHECK(most != built.reports.end(), "in a benchmark's graph: a kernel");
  const Kernel kernel = parse_kernel(most->statements);
  flops = most->flops;
  traffic = traffic_of(kernel, {});
  predicted_seconds = most->predicted_seconds;
  Schedule schedule(kernel, options.target);
  if (auto refused = schedule.replay(most->trace)) fail(ErrorKind::Internal, "replay: ", *refused);
  const CompiledModel compiled = compile_kernel(schedule.finish(), options.target, 0);
  model = std::make_unique<LoadedModel>(compiled, threads);
}

void register_kernel(const std::string& name, const std::string& graph_text, int threads) {
  // Made by the first call and kept: the framework calls again until a case takes long enough.
  auto kept = std::make_shared<std::unique_ptr<LoadedKernel>>();
  const auto body = [=](benchmark::State& state) {
    if (!*kept) *kept = std::make_unique<LoadedKernel>(graph_text, threads);
    LoadedKernel& kernel = **kept;
    kernel.model->run();
    if (!kernel.model->finite()) return state.SkipWithError("an output is not finite");
    double fastest = INFINITY;
    for (auto _ : state) {
      const auto begin = std::chrono::steady_clock::now();
      kernel.model->run();
      fastest = std::min(fastest, seconds_since(begin));
    }
    using benchmark::Counter;
    constexpr auto kRate = Counter::kIsIterationInvariantRate;
    const double bytes = kernel.traffic.read + kernel.traffic.constants + kernel.traffic.written;
    if (kernel.flops > 0) state.counters["FLOP/s"] = Counter(kernel.flops, kRate);
    state.counters["B/s"] = Counter(bytes, kRate);
    if (kernel.flops > 0) state.counters["best_FLOP/s"] = Counter(kernel.flops / fastest);
    state.counters["best_B/s"] = Counter(bytes / fastest);
    // The analytic cost model has no time for kernels that compute nothing.
    if (kernel.predicted_seconds > 0) state.counters["predicted/best"] = kernel.predicted_seconds / fastest;
  };
  benchmark::RegisterBenchmark(name.c_str(), body)->UseRealTime()->Unit(benchmark::kMicrosecond);
}

}  // namespace tc::bench
