// Tuning a model on devices: each kernel is a task, and whole models are measured for the final ranking.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontend/pipeline/compile.h"
#include "tuner/candidate_builder.h"
#include "tuner/record_store.h"
#include "tuner/tune.h"

namespace tc {

// A model to tune.
struct TunedSource {
  const Source* source = nullptr;
  CompileOptions options;  // target, threads and tolerance are the same for all models of a session
};

struct TuneRequest {
  TuneOptions tune;
  // "host:port" of a tracker (see TrackerClient); empty tunes on this machine, by an agent of our own.
  std::string tracker;
  int priority = 0;         // among clients that wait for devices, -10 to 10
  std::string credentials;  // folder
  std::string programs;     // folder of tc-agent
  std::string libraries;    // library_folder of export_model
  std::string work_folder;  // for candidates; the caller removes it
  double sample_seconds = 0.01;
};

// The kernels of a plan that can be tuned within the tolerance: each workload once, with the number of its
// calls in a run. `notes` gets a sentence about kernels that cannot be tuned.
std::vector<KernelTask> kernel_tasks(const CompiledModel& model, int threads, double tolerance,
                                     std::vector<std::string>* notes);

// Tunes the models, one or more, under one budget; a kernel that several have is tuned once. Writes to the
// log, which is open for writing, the times that the builder's candidates took. A later compilation with that
// log uses the best. Errors: those of compiling, of the log, and Device errors where no device of the target
// answers.
SessionResult tune_sources(const std::vector<TunedSource>& sources, const TuneRequest& request,
                           RecordStore& log, CandidateBuilder& builder,
                           const std::function<bool(const TuneProgress&)>& progress);

}  // namespace tc
