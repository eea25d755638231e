// Predicts the time of points from the points that were measured: a Gaussian process over the structured
// space.
#pragma once

#include <vector>

#include "scheduler/search/space.h"

namespace tc {

// Predicts the logarithm of a point's time, and how certain that is. Points have similar times where they
// agree in a dimension or are near in an ordered one, and where their loops have similar features; how much
// each dimension and feature matters is learned. Far from all samples the mean follows the analytic cost
// model, and a cost model that other kernels have trained, to the degree to which the samples follow each.
class Surrogate {
 public:
  // A point, the features of its loops, and the logarithm of its time by a trained cost model: 0 where there
  // is none.
  struct Place {
    ScheduleSpace::Point point;
    std::vector<double> features;
    double predicted = 0;
  };
  struct Sample {
    Place place;
    double value = 0;  // logarithm of the time
  };
  // The same of a place that outlives the call.
  struct Measured {
    const Place* place = nullptr;
    double value = 0;
  };
  struct Prediction {
    double mean = 0, deviation = 0;
  };

  explicit Surrogate(const ScheduleSpace& space);
  // Fits the process to the samples. Where there are too many for its cubic time, only the best and the
  // latest are kept.
  void fit(const std::vector<Measured>& samples);
  double mean(const Place& place) const;
  Prediction predict(const Place& place) const;
  // 1 for the same point, near 0 for points that say nothing about each other.
  double similarity(const Place& a, const Place& b) const;

 private:
  double distance(size_t axis, int a, int b) const;
  double analytic(const Place& place) const;
  double prior(const Place& place) const;
  void fit_prior();
  // Fits the process to `samples_`; returns the logarithm of their likelihood.
  double solve();
  void learn_weights();
  std::vector<double> against(const Place& place) const;
  bool varies(size_t axis) const;

  const ScheduleSpace& space_;
  std::vector<double> weights_;  // by dimension, then by feature
  double default_cycles_ = 0;    // logarithm
  // The prior is linear in the logarithm of the analytic cost model's cycles and in the trained model's
  // values.
  double base_ = 0, slope_ = 0.7, trained_slope_ = 0;
  double variance_ = 1;
  std::vector<Sample> samples_;
  std::vector<double> factor_;  // Cholesky factor, row by row
  std::vector<double> solved_;  // inverse of the covariance times (values - prior)
  size_t learned_from_ = 0;     // number of samples when the weights were last learned
};

}  // namespace tc
