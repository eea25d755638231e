// What the benchmarks share: small graphs through the compiler, loaded and run on seeded data.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "frontend/pipeline/compile.h"
#include "ir/traffic.h"
#include "ir/graph.h"
#include "runtime/tc_runtime.h"

namespace tc::bench {

// A graph by its text, with seeded weights in place of those that the text leaves out, simplified.
Graph small_graph(const std::string& text);

// A compiled model in this process, with inputs of seeded data. The file that it was loaded from is
// gone already.
class LoadedModel {
 public:
  LoadedModel(const CompiledModel& model, int threads);
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  void run();
  // Whether every output of the last run is a finite number.
  bool finite() const;
  tc_model* model() const { return model_; }
  int32_t threads_used() const { return tc_context_threads_used(context_); }

 private:
  struct Buffer {
    std::unique_ptr<uint8_t[]> storage;
    uint8_t* data = nullptr;  // 64-byte aligned
    uint64_t bytes = 0;
    int32_t dtype = TC_F32;
  };
  Buffer buffer(const tc_port_info& port);

  tc_model* model_ = nullptr;
  tc_context* context_ = nullptr;
  std::vector<Buffer> inputs_, outputs_;
  std::vector<tc_input_buffer> given_;
  std::vector<tc_output_buffer> taken_;
};

// The kernel of a graph that has the most work, alone, in the layouts and with the schedule that the
// compiler chooses for it in the graph.
struct LoadedKernel {
  LoadedKernel(const std::string& graph_text, int threads);

  double flops = 0;  // of a run; a multiply-add counts twice
  Traffic traffic;
  double predicted_seconds = 0;
  std::unique_ptr<LoadedModel> model;
};

// Registers the benchmark `name`: runs of that kernel, with the counters FLOP/s, B/s and the time
// that the analytic model predicts over the measured one.
void register_kernel(const std::string& name, const std::string& graph_text, int threads = 1);

}  // namespace tc::bench
