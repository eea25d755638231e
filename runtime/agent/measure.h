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
  // enough.
  virtual bool is_deterministic() const = 0;
  // The measurement of the last command, for an exact bench. Throws Misbehaviour where there is none.
  virtual double last_measurement() { return 0; }
};

void measure_batch(Bench& bench, const Batch& batch, const std::function<void(const Result&)>& done,
                   const std::function<bool()>& cancelled);

}  // namespace tc::agent
