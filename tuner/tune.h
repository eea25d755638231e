// Tuning a model: the budget goes to the kernels that take most of its time, and every result goes to the
// log.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tuner/cost_model.h"
#include "tuner/measure.h"
#include "tuner/record.h"
#include "tuner/record_store.h"
#include "tuner/whole_model.h"

namespace tc {

struct TuneOptions {
  int trials = 0;  // candidates in all, including those that the log has; 0: no bound
  // Seconds in all, including earlier runs of this session; 0: no bound. It is kept to one candidate: batches
  // shrink, kernels that take little stay unmeasured, and what comparing whole models takes is set aside.
  double time_limit = 0;
  double seconds_before = 0;  // that passed before the call, and count
  // A clock in seconds, for tests; else the machine's.
  std::function<double()> clock;
  uint64_t seed = 0;
  std::string build;         // of the compiler
  bool from_random = false;  // start at random legal schedules instead of the default
  // Is trained on the log's records of other kernels, and then says which schedules to try. Null: only those
  // of the kernel itself teach the search.
  std::shared_ptr<CostModel> model;
};

struct KernelProgress {
  std::string label;
  int calls = 1;
  double untuned = 0, best = 0;  // of one call, in the device's unit; 0 while unknown
  double roof_seconds = 0;       // time of its multiply-adds at the target's peak rate
  int trials = 0;
  std::map<Outcome, int> failures;
  std::string example;  // of a failure
};

struct TuneProgress {
  std::string unit;
  std::vector<KernelProgress> kernels;
  int trials = 0, measured = 0;           // with and without those that the log has
  double seconds = 0, seconds_left = -1;  // -1: no bound
  std::string doing;                      // "measuring /conv1", "whole model"
  // Where `doing` is what a user should be told at once: of which kind, "waiting", "silent" or "back".
  std::string notice;
};

struct TuneResult {
  TuneProgress last;
  Choices choices;  // of kernels where another trace than the untuned one won
  // Time of the whole model, tuned divided by untuned, in interleaved runs; 0 where it was not measured.
  double model_ratio = 0;
  std::string stopped;             // "budget", "exhausted", "interrupted"
  std::vector<std::string> notes;  // in sentences
};

// One of the models that a session tunes.
struct SessionModel {
  std::string name;
  struct Use {
    std::string label;  // the nodes that the kernel computes in this model
    int calls = 1;      // in one run of the model
  };
  std::map<std::string, Use> uses;  // of the session's kernels, by workload
  MeasureModel measure;             // may be empty
  double build_seconds = 0;         // that one build of the whole model takes, roughly; 0: unknown
};

struct SessionResult {
  TuneResult all;                  // of all models together; without choices and ratio
  std::vector<TuneResult> models;  // in their order; each with its own kernels and notes
};

// Tunes the kernels (each workload once) until the budget ends, `progress` returns false, or nothing is left
// to try. The budget goes where it is expected to save most of a model's own time, summed over the models.
// Each batch's results are in the log before the next batch begins, so that a tuner that dies can resume: the
// same seed makes the same proposals, and what the log has is not measured again. Without any new
// measurement, the choices in the log stay as they are. At the end the most promising kernels are judged one
// by one inside each whole model, and the log keeps what was chosen; a kernel that models share takes the
// schedule of the first that chose one.
SessionResult tune_models(const std::vector<KernelTask>& tasks, const std::vector<SessionModel>& models,
                          Measurer& measurer, RecordStore& log, const TuneOptions& options,
                          const std::function<bool(const TuneProgress&)>& progress);

// The same for one model, which calls the kernels as the tasks say.
TuneResult tune(const std::vector<KernelTask>& tasks, Measurer& measurer, RecordStore& log,
                const TuneOptions& options, const MeasureModel& measure_model,
                const std::function<bool(const TuneProgress&)>& progress);

}  // namespace tc
