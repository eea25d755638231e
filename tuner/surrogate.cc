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

double Surrogate::analytic(const Place& place) const {
  return std::clamp(std::log(space_.cycles(place.point)) - default_cycles_, -3.0, 3.0);
}

double Surrogate::prior(const Place& place) const {
  return base_ + slope_ * analytic(place) + trained_slope_ * place.predicted;
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
    double sum = samples_[i].value - prior(samples_[i].place);
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

// Least squares of the samples over both models' predictions. The slopes are at least 0, and at most 1, those
// of the models themselves.
void Surrogate::fit_prior() {
  double x_mean = 0, z_mean = 0, y_mean = 0;
  for (const Sample& sample : samples_) {
    x_mean += analytic(sample.place);
    z_mean += sample.place.predicted;
    y_mean += sample.value;
  }
  const auto count = static_cast<double>(std::max<size_t>(1, samples_.size()));
  x_mean /= count;
  z_mean /= count;
  y_mean /= count;
  double xx = 0, xy = 0, zz = 0, zy = 0, xz = 0;
  for (const Sample& sample : samples_) {
    const double x = analytic(sample.place) - x_mean, z = sample.place.predicted - z_mean;
    const double y = sample.value - y_mean;
    xx += x * x;
    xy += x * y;
    zz += z * z;
    zy += z * y;
    xz += x * z;
  }
  // Weight of the initial slopes, as if that much had been sampled of them.
  constexpr double kSteadiness = 0.5, kFirstSlope = 0.7;
  if (zz == 0) {  // there is no trained model
    trained_slope_ = 0;
    slope_ = std::clamp((xy + kSteadiness * kFirstSlope) / (xx + kSteadiness), 0.0, 1.0);
  } else {
    // The trained model has seen measurements, so that at first it is believed and the analytic one is not.
    xx += kSteadiness;
    zz += kSteadiness;
    zy += kSteadiness * kFirstSlope;
    const double determinant = xx * zz - xz * xz;
    trained_slope_ = std::clamp((zy * xx - xy * xz) / determinant, 0.0, 1.0);
    slope_ = std::clamp((xy - trained_slope_ * xz) / xx, 0.0, 1.0);
  }
  base_ = y_mean - slope_ * x_mean - trained_slope_ * z_mean;
}

void Surrogate::fit(const std::vector<Measured>& samples) {
  std::vector<Measured> kept = samples;
  if (kept.size() > kMaxSamples) {
    // Keeps the latest samples, and the best of the others.
    const auto latest = static_cast<std::ptrdiff_t>(kMaxSamples / 3);
    std::stable_sort(kept.begin(), kept.end() - latest,
                     [](const Measured& a, const Measured& b) { return a.value < b.value; });
    std::rotate(kept.begin(), kept.end() - latest, kept.end());
    kept.resize(kMaxSamples);
  }
  samples_.clear();
  for (const Measured& each : kept) samples_.push_back({*each.place, each.value});
  fit_prior();
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
  double sum = prior(place);
  for (size_t i = 0; i < samples_.size(); ++i) {
    sum += similarity(samples_[i].place, place) * solved_[i];
  }
  return sum;
}

Surrogate::Prediction Surrogate::predict(const Place& place) const {
  const size_t count = samples_.size();
  std::vector<double> left = against(place);
  Prediction result;
  result.mean = prior(place);
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
