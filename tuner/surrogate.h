// What measured points tell of others: a Gaussian process over the structured space.
#pragma once

#include <vector>

#include "scheduler/search/space.h"

namespace tc {

// Predicts the logarithm of the time of points, with how sure it is. Points that agree in a dimension, or are
// near in an ordered one, and whose loops have alike features, have alike times; how much each dimension and
// feature matters is learned. The mean far from all samples follows the analytic cost model as far as the
// samples do.
class Surrogate {
 public:
  // A point and the features of its loops.
  struct Place {
    ScheduleSpace::Point point;
    std::vector<double> features;
  };
  struct Sample {
    Place place;
    double value = 0;  // logarithm of the time
  };
  struct Prediction {
    double mean = 0, deviation = 0;
  };

  explicit Surrogate(const ScheduleSpace& space);
  // Takes the samples in; those that are too many for the time that is left are thinned out, the best
  // and the latest kept.
  void fit(const std::vector<Sample>& samples);
  double mean(const Place& place) const;
  Prediction predict(const Place& place) const;
  // 1 for the same point, near 0 for those that tell nothing of each other.
  double similarity(const Place& a, const Place& b) const;

 private:
  double distance(size_t axis, int a, int b) const;
  double prior(const ScheduleSpace::Point& point) const;
  // Fits the process to the chosen samples; the logarithm of how likely they are.
  double solve();
  void learn_weights();
  std::vector<double> against(const Place& place) const;
  bool varies(size_t axis) const;

  const ScheduleSpace& space_;
  std::vector<double> weights_;    // by dimension, then by feature
  double default_cycles_ = 0;      // logarithm
  double base_ = 0, slope_ = 0.7;  // of the prior over the logarithm of the analytic cost model's cycles
  double variance_ = 1;
  std::vector<Sample> samples_;
  std::vector<double> factor_;  // Cholesky factor, row by row
  std::vector<double> solved_;  // inverse of the covariance times what the prior leaves
  size_t learned_from_ = 0;     // samples when the weights were last learned
};

}  // namespace tc
