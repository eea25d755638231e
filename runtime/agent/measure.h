// The part that all runners share: verifies a batch's candidates, and takes samples of them in turn.
#pragma once

#include <string>

#include "runtime/agent/process.h"

namespace tc::agent {

// The part that differs between runners.
class Bench {
 public:
  virtual ~Bench() = default;
  // Fills in how to start the executable: program, arguments, report, extra_bytes, processors.
  virtual void prepare(Launch& launch, const Batch& batch, const File& executable) = 0;
  // Whether equal runs always give equal measurements. Then one sample of one run, on the last data set, is
  // enough: the run that comes after one on another data set, in the caches that this one leaves.
  virtual bool is_deterministic() const = 0;
  // The measurement of the last command, for an exact bench. Throws Misbehaviour where there is none.
  virtual double last_measurement() { return 0; }
  // Whether an exact bench measures a candidate by two commands, of no run and of one; otherwise by a run on
  // each data set. Where it finds after these two that it needs another command of one run,
  // has_to_run_again() says so, and the measurement is that of this run.
  virtual bool runs_once() const { return false; }
  virtual bool has_to_run_again() { return false; }
};

void measure_batch(Bench& bench, const Batch& batch, const std::function<void(const Result&)>& done,
                   const std::function<bool()>& cancelled);

}  // namespace tc::agent
