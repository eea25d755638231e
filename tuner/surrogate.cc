// Predicts the time of points from the points that were measured.
#include "tuner/surrogate.h"

#include <algorithm>
#include <cmath>

#include "scheduler/search/sketch.h"

namespace tc {
namespace {

constexpr size_t kMaxSamples = 120;
constexpr size_t kMaxToLearn = 80;  // samples from which weights are learned
constexpr double kNoise = 0.01;     // as a share of the variance
constexpr double kFirstWeight = 0.1, kFirstFeatureWeight = 0.1;

}  // namespace

Surrogate::Surrogate(const ScheduleSpace& space)
    : space_(space), weights_(space.dimensions().size(), kFirstWeight) {
  weights_.resize(weights_.size() + kLoopFeatures, kFirstFeatureWeight);
  default_cycles_ = std::log(space.cycles(space.default_point()));
}

double Surrogate::distance(size_t axis, int a, int b) const {
  if (a == b) return 0;
  const auto from = static_cast<int>(space_.dimensions()[axis].ordered_from);
  if (a < from || b < from) return 1;
  return 0.4 * std::abs(a - b);
}

double Surrogate::similarity(const Place& a, const Place& b) const {
  double sum = 0;
  const size_t axes = a.point.size();
  for (size_t axis = 0; axis < axes; ++axis) {
    if (a.point[axis] != b.point[axis]) sum += weights_[axis] * distance(axis, a.point[axis], b.point[axis]);
  }
  for (size_t i = 0; i < a.features.size(); ++i) {
    const double difference = a.features[i] - b.features[i];
    sum += weights_[axes + i] * difference * difference;
  }
  return std::exp(-sum);
}

double Surrogate::prior(const ScheduleSpace::Point& point) const {
  const double cycles = space_.cycles(point);
  return base_ + slope_ * std::clamp(std::log(cycles) - default_cycles_, -3.0, 3.0);
}

double Surrogate::solve() {
  const size_t count = samples_.size();
  factor_.assign(count * count, 0);
  double log_determinant = 0;
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = similarity(samples_[i].place, samples_[j].place) + (i == j ? kNoise : 0);
      for (size_t k = 0; k < j; ++k) sum -= factor_[i * count + k] * factor_[j * count + k];
      if (i == j) {
        factor_[i * count + i] = std::sqrt(std::max(sum, 1e-9));
        log_determinant += std::log(factor_[i * count + i]);
      } else {
        factor_[i * count + j] = sum / factor_[j * count + j];
      }
    }
  }
  std::vector<double> left(count);
  double fit = 0;
  for (size_t i = 0; i < count; ++i) {
    double sum = samples_[i].value - prior(samples_[i].place.point);
    for (size_t k = 0; k < i; ++k) sum -= factor_[i * count + k] * left[k];
    left[i] = sum / factor_[i * count + i];
    fit += left[i] * left[i];
  }
  solved_ = left;
  for (size_t i = count; i-- > 0;) {
    double sum = solved_[i];
    for (size_t k = i + 1; k < count; ++k) sum -= factor_[k * count + i] * solved_[k];
    solved_[i] = sum / factor_[i * count + i];
  }
  // The variance under which the samples are most likely.
  variance_ = std::max(1e-6, fit / static_cast<double>(std::max<size_t>(1, count)));
  return -0.5 * static_cast<double>(count) * std::log(variance_) - log_determinant;
}

bool Surrogate::varies(size_t axis) const {
  const size_t axes = space_.dimensions().size();
  return std::any_of(samples_.begin(), samples_.end(), [&](const Sample& sample) {
    const Place &here = sample.place, &first = samples_[0].place;
    if (axis < axes) return here.point[axis] != first.point[axis];
    return here.features[axis - axes] != first.features[axis - axes];
  });
}

void Surrogate::learn_weights() {
  std::vector<Sample> all = samples_;
  if (samples_.size() > kMaxToLearn) samples_.resize(kMaxToLearn);
  double best = solve();
  for (size_t axis = 0; axis < weights_.size(); ++axis) {
    // A dimension in which all samples agree says nothing about its weight.
    if (!varies(axis)) {
      weights_[axis] = axis < space_.dimensions().size() ? kFirstWeight : kFirstFeatureWeight;
      continue;
    }
    const double before = weights_[axis];
    double kept = before;
    for (double factor : {0.4, 2.5}) {
      weights_[axis] = std::clamp(before * factor, 0.01, 2.0);
      const double likely = solve();
      if (likely > best) {
        best = likely;
        kept = weights_[axis];
      }
    }
    weights_[axis] = kept;
  }
  samples_ = std::move(all);
}

void Surrogate::fit(const std::vector<Sample>& samples) {
  samples_ = samples;
  if (samples_.size() > kMaxSamples) {
    // Keeps the latest samples, and the best of the others.
    const auto latest = static_cast<std::ptrdiff_t>(kMaxSamples / 3);
    std::stable_sort(samples_.begin(), samples_.end() - latest,
                     [](const Sample& a, const Sample& b) { return a.value < b.value; });
    std::rotate(samples_.begin(), samples_.end() - latest, samples_.end());
    samples_.resize(kMaxSamples);
  }
  // The prior is a straight line over the analytic cost model's prediction, fitted to the samples; its slope
  // is at most 1, that of the model itself.
  double x_mean = 0, y_mean = 0, xx = 0, xy = 0;
  std::vector<double> x;
  for (const Sample& sample : samples_) {
    x.push_back(std::clamp(std::log(space_.cycles(sample.place.point)) - default_cycles_, -3.0, 3.0));
    x_mean += x.back();
    y_mean += sample.value;
  }
  const auto count = static_cast<double>(std::max<size_t>(1, samples_.size()));
  x_mean /= count;
  y_mean /= count;
  for (size_t i = 0; i < samples_.size(); ++i) {
    xx += (x[i] - x_mean) * (x[i] - x_mean);
    xy += (x[i] - x_mean) * (samples_[i].value - y_mean);
  }
  constexpr double kSteadiness = 0.5;  // weight of the initial slope, as if that much had been sampled of it
  slope_ = std::clamp((xy + kSteadiness * 0.7) / (xx + kSteadiness), 0.0, 1.0);
  base_ = y_mean - slope_ * x_mean;
  if (samples.size() >= 8 && 4 * samples.size() >= 5 * learned_from_) {
    learned_from_ = samples.size();
    learn_weights();
  }
  solve();
}

std::vector<double> Surrogate::against(const Place& place) const {
  std::vector<double> result;
  result.reserve(samples_.size());
  for (const Sample& sample : samples_) result.push_back(similarity(sample.place, place));
  return result;
}

double Surrogate::mean(const Place& place) const {
  double sum = prior(place.point);
  for (size_t i = 0; i < samples_.size(); ++i) {
    sum += similarity(samples_[i].place, place) * solved_[i];
  }
  return sum;
}

Surrogate::Prediction Surrogate::predict(const Place& place) const {
  const size_t count = samples_.size();
  std::vector<double> left = against(place);
  Prediction result;
  result.mean = prior(place.point);
  for (size_t i = 0; i < count; ++i) result.mean += left[i] * solved_[i];
  double known = 0;
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < i; ++k) left[i] -= factor_[i * count + k] * left[k];
    left[i] /= factor_[i * count + i];
    known += left[i] * left[i];
  }
  result.deviation = std::sqrt(variance_ * std::max(1e-9, 1 + kNoise - known));
  return result;
}

}  // namespace tc
