// What all runners share: verifying a batch's candidates and taking samples of them in turn.
#pragma once

#include <string>

#include "runtime/agent/process.h"

namespace tc::agent {

// What differs between runners.
class Bench {
 public:
  virtual ~Bench() = default;
  // Fills in how to start that executable: program, arguments, report, extra_bytes, processors.
  virtual void prepare(Launch& launch, const Batch& batch, const File& executable) = 0;
  // Equal runs measure equal: one sample of one run, on the last data set, says it all.
  virtual bool is_exact() const = 0;
  // What an exact bench measured of the command that was just answered. Throws Misbehaviour where
  // there is no measurement.
  virtual double last_measurement() { return 0; }
};

void measure_batch(Bench& bench, const Batch& batch, const std::function<void(const Result&)>& done,
                   const std::function<bool()>& cancelled);

}  // namespace tc::agent
