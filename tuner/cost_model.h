// What predicts the times of a kernel's schedules from measurements of other kernels. (The Gaussian process
// of tuner/surrogate.h learns from the kernel's own.)
#pragma once

#include <vector>

namespace tc {

using FeatureRows = std::vector<std::vector<double>>;

class CostModel {
 public:
  virtual ~CostModel() = default;
  // Learns anew. Each row is that of a schedule (candidate_features), all of the same length; its value is
  // the logarithm of its time relative to the fastest known schedule of the same kernel on the same device.
  virtual void fit(const FeatureRows& rows, const std::vector<double>& values) = 0;
  // What such values are predicted to be. The same rows after the same fit give the same values.
  virtual std::vector<double> predict(const FeatureRows& rows) const = 0;
};

}  // namespace tc
